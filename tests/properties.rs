//! What holds for any spans whatever: the contract's invariants, and the same bytes for the same set of spans.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

#[path = "support/recordings.rs"]
mod recordings;
mod support;

use opentelemetry_failproof::span::{Span, SpanId, StatusCode, TraceId, Value};
use opentelemetry_failproof::trace::{Mapping, explain};
use opentelemetry_failproof::{Policy, encode, trace};
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::test_runner::{Config as Runs, RngAlgorithm, RngSeed};
use recordings::*;
use support::invariants;
use support::spans::*;

fn lines(spans: &[Span<'_>]) -> String {
    support::lines(spans, &Mapping::default(), Policy::default())
}

/// The same cases in every run.
fn runs(cases: u32) -> Runs {
    Runs {
        cases,
        rng_algorithm: RngAlgorithm::ChaCha,
        rng_seed: RngSeed::Fixed(20_260_102),
        failure_persistence: None,
        max_shrink_iters: 4_000,
        ..Runs::default()
    }
}

fn name() -> impl Strategy<Value = &'static str> {
    prop::sample::select(vec!["a", "b", "", " ", "main", "3f9a1c2b-1111-4222-8333-444455556666"])
}

/// A span of any kind that anybody writes, and of none.
fn kind() -> impl Strategy<Value = Span<'static>> {
    let pydantic = |span: Span<'static>| span.scope("pydantic-ai", "2.68.0");
    prop_oneof![
        name().prop_map(|name| span(1, name)),
        name().prop_map(|name| agent(1, name)),
        name().prop_map(move |name| pydantic(agent(1, name))),
        name().prop_map(move |name| pydantic(agent(1, name).with("final_result", name))),
        Just(model(1, "m")),
        Just(pydantic(model(1, "m"))),
        name().prop_map(|name| tool(1, name)),
        name().prop_map(move |name| pydantic(tool(1, name).with("gen_ai.tool.call.id", "same"))),
        name().prop_map(|name| operation(1, "plan", name)),
        (prop::sample::select(vec!["agent", "model", "tool", "hook", "human", "none", "?"]), name())
            .prop_map(|(kind, name)| span(1, name).with("failproof.kind", kind)),
        name().prop_map(|name| span(1, "job").with("failproof.agent_id", name).with("failproof.goal", name)),
    ]
}

fn exception() -> impl Strategy<Value = Option<(&'static str, &'static str, StatusCode)>> {
    const TYPES: [&str; 8] = [
        "ValueError",
        "pydantic_ai.exceptions.ModelRetry",
        "pydantic_ai.exceptions.CallDeferred",
        "asyncio.exceptions.CancelledError",
        "GeneratorExit",
        "_OTHER",
        "",
        "<class 'shop.Closed'>",
    ];
    let status = prop::sample::select(vec![StatusCode::Unset, StatusCode::Ok, StatusCode::Error]);
    prop::option::weighted(0.4, (prop::sample::select(TYPES.to_vec()), prop::sample::select(vec!["", "no"]), status))
}

/// A value of any type, sensible or not, under a key that means something.
fn odd_attribute() -> impl Strategy<Value = (&'static str, Value<'static>)> {
    const KEYS: [&str; 22] = [
        "gen_ai.agent.name",
        "gen_ai.operation.name",
        "gen_ai.conversation.id",
        "gen_ai.agent.call.id",
        "gen_ai.input.messages",
        "gen_ai.output.messages",
        "gen_ai.tool.definitions",
        "gen_ai.response.finish_reasons",
        "gen_ai.usage.input_tokens",
        "gen_ai.usage.output_tokens",
        "gen_ai.tool.name",
        "gen_ai.tool.call.id",
        "gen_ai.tool.call.arguments",
        "gen_ai.tool.call.result",
        "gen_ai.request.model",
        "final_result",
        "pydantic_ai.all_messages",
        "failproof.agent_id",
        "failproof.session_id",
        "failproof.outcome",
        "failproof.kind",
        "error.type",
    ];
    let text = prop::sample::select(vec![
        "",
        " ",
        "a",
        "b",
        "{}",
        "[]",
        "null",
        "[{}]",
        "[[[[[[[[1]]]]]]]]",
        "{\"role\":7}",
        "[{\"role\":\"user\",\"content\":\"hi\"}]",
        "12",
        "1e999",
        "a\u{0}b\u{2028}",
    ]);
    let value = prop_oneof![
        4 => text.prop_map(Value::from),
        1 => any::<i64>().prop_map(Value::Int),
        1 => any::<f64>().prop_map(Value::Double),
        1 => prop::sample::select(vec![f64::NAN, f64::INFINITY, -0.0, 1e300]).prop_map(Value::Double),
        1 => any::<bool>().prop_map(Value::Bool),
        1 => Just(Value::Bytes(vec![0, 255].into())),
        1 => Just(Value::Array(vec![Value::from("a"), Value::Int(1), Value::Array(vec![])])),
        1 => Just(Value::Map(vec![("a".into(), Value::from("b")), ("a".into(), Value::Double(f64::NAN))])),
    ];
    (prop::sample::select(KEYS.to_vec()), value)
}

/// Times that collide, run backwards and lie at the ends of the scale.
fn time() -> impl Strategy<Value = u64> {
    prop_oneof![8 => (0..6_u64).prop_map(|step| NOW + step * MS), 1 => Just(0), 1 => Just(u64::MAX), 1 => any::<u64>()]
}

fn any_span(ids: u64) -> impl Strategy<Value = Span<'static>> {
    let event = prop::option::weighted(
        0.2,
        prop::sample::select(vec![
            "failproof.human_pause",
            "failproof.tool_use",
            "gen_ai.user.message",
            "gen_ai.choice",
        ]),
    );
    let ids = (1..=ids, prop::option::weighted(0.8, 1..=ids + 2), 1..=2_u128);
    (kind(), ids, time(), time(), exception(), vec(odd_attribute(), 0..3), event, any::<bool>()).prop_map(
        |(span, (id, parent, trace), start, end, exception, attributes, event, elsewhere)| {
            let span = attributes.into_iter().fold(span, |span, (key, value)| span.with(key, value));
            let span = event
                .into_iter()
                .fold(span, |span, name| span.event(name, texts(&[("reason", "lunch"), ("content", "hi")])));
            let span = exception
                .into_iter()
                .fold(span, |span, (kind, message, status)| span.notes(kind, message).status(status, message));
            let span = if elsewhere { span.resource(&[("service.name", "elsewhere")]) } else { span };
            Span {
                trace_id: TraceId::from(trace),
                span_id: SpanId::from(id),
                parent: parent.map(SpanId::from),
                start,
                end: Some(end),
                ..span
            }
        },
    )
}

fn any_spans() -> impl Strategy<Value = Vec<Span<'static>>> {
    prop_oneof![vec(any_span(6), 0..8), vec(any_span(40), 0..40)]
}

proptest! {
    #![proptest_config(runs(800))]

    #[test]
    fn the_events_of_any_spans_keep_the_contract(spans in any_spans()) {
        let lines = lines(&spans);
        prop_assert_eq!(invariants::check(&lines), Ok(()));
    }

    #[test]
    fn every_run_starts_once_and_ends_once(spans in any_spans()) {
        for explained in explain(&spans, &Mapping::default()) {
            let count = |kind: &str| explained.events.iter().filter(|event| **event == kind).count();
            prop_assert!(count("agent_start") <= 2 && count("agent_start") == count("agent_end"), "{:?}", explained);
            let is_twice = explained.why.contains("seen twice");
            prop_assert!(explained.kind != "agent" || is_twice || count("agent_start") >= 1, "{:?}", explained);
        }
    }

    #[test]
    fn any_order_and_any_repetition_of_any_spans_gives_the_same_bytes(spans in any_spans(), seed in any::<u64>()) {
        prop_assert_eq!(lines(&shaken(&spans, seed)), lines(&spans));
    }

    #[test]
    fn spans_that_go_on_harm_nobody_and_depend_on_no_order(spans in any_spans(), open in vec(any::<bool>(), 40), seed in any::<u64>()) {
        let ends = spans.into_iter().zip(open).map(|(span, open)| Span { end: span.end.filter(|_| !open), ..span });
        let spans: Vec<_> = ends.collect();
        prop_assert_eq!(lines(&shaken(&spans, seed)), lines(&spans));
    }
}

#[test]
fn the_events_of_every_recording_keep_the_contract_in_any_order_and_any_repetition() {
    for (name, recording) in recordings() {
        let spans = support::spans_of(recording.as_bytes());
        let expected = lines(&spans);
        assert_eq!(invariants::check(&expected), Ok(()), "{name}");
        assert!(expected.contains("agent_end"), "{name}");
        for seed in 0..20 {
            assert_eq!(lines(&shaken(&spans, seed)), expected, "{name}, seed {seed}");
        }
    }
}

#[test]
fn any_split_of_a_recording_into_requests_of_any_form_gives_the_same_bytes() {
    for (name, recording) in recordings() {
        let expected = lines(&support::spans_of(recording.as_bytes()));
        let request = request_of(&recording);
        for seed in 0..10 {
            assert_eq!(lines(&in_requests(&request, seed)), expected, "{name}, seed {seed}");
        }
    }
}

#[test]
fn several_recordings_in_one_file_are_told_one_after_the_other() {
    let all: Vec<_> = recordings().iter().flat_map(|(_, recording)| support::spans_of(recording.as_bytes())).collect();
    let expected = lines(&all);
    assert_eq!(lines(&shaken(&all, 7)), expected);
    let mut traces: Vec<String> =
        support::parse_lines(&expected).iter().map(|event| event["fw_trace_id"].to_string()).collect();
    traces.dedup();
    let count = traces.len();
    traces.sort();
    traces.dedup();
    assert_eq!(traces.len(), count, "the events of a trace stand together");
}

#[test]
fn a_policy_changes_nothing_of_the_order() {
    for (name, recording) in recordings() {
        let spans = support::spans_of(recording.as_bytes());
        let without = encode(trace::map(&spans, &Mapping::default()), Policy { capture_content: false, redact: false });
        let kinds =
            |lines: &str| support::parse_lines(lines).iter().map(|event| event["type"].to_string()).collect::<Vec<_>>();
        assert_eq!(kinds(&String::from_utf8(without).unwrap()), kinds(&lines(&spans)), "{name}");
    }
}

#[test]
fn the_checker_sees_what_is_broken() {
    let spans = [agent(1, "a").raises("ValueError", "no"), tool(2, "t").under(1), agent(3, "b").under(2)];
    let sound: Vec<String> = lines(&spans).lines().map(str::to_owned).collect();
    assert_eq!(sound.len(), 7);
    assert_eq!(invariants::check(&sound.join("\n")), Ok(()));
    for at in 0..sound.len() {
        let without = [&sound[..at], &sound[at + 1..]].concat();
        // An error or the agent of nobody can be missing; nothing else can.
        assert_eq!(invariants::check(&without.join("\n")).is_ok(), sound[at].contains("\"type\":\"error\""), "{at}");
        for other in at + 1..sound.len() {
            let mut swapped = sound.clone();
            swapped.swap(at, other);
            assert!(invariants::check(&swapped.join("\n")).is_err(), "{at} and {other}");
        }
    }
    for (good, bad) in [
        ("\"a\"", "\" \""),
        ("dev", "a,b"),
        ("\"failed\"", "\"failure\""),
        ("\"duration_ms\":996", "\"duration_ms\":0.5"),
    ] {
        assert!(invariants::check(&sound.join("\n").replace(good, bad)).is_err(), "{bad}");
    }
}
