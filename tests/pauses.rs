//! Runs that stop for a person and go on later: both halves in one file or two, in one trace or two.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

#[path = "support/recordings.rs"]
mod recordings;
mod support;

use std::sync::{Arc, Mutex};

use opentelemetry::trace::{TraceContextExt, Tracer, TracerProvider as _};
use opentelemetry::{Context, KeyValue};
use opentelemetry_failproof::otlp::file::read_file;
use opentelemetry_failproof::sink::{Sink, SinkError};
use opentelemetry_failproof::span::{Span, SpanId, TraceId};
use opentelemetry_failproof::trace::Mapping;
use opentelemetry_failproof::{Config, FailproofSpanProcessor, Policy};
use opentelemetry_sdk::trace::SdkTracerProvider;
use recordings::Numbers;
use serde_json::{Value as Json, json};
use support::spans::*;
use support::{contract, fixtures, invariants};

const INTERRUPT: &str = "langgraph.errors.GraphInterrupt";
/// The task that stops in the spans made here, and the id that LangGraph makes of it: recorded with 1.2.24.
const TASK: &str = "tools:bd4523b0-5103-76bd-f282-abcb2fa9368e";
const ID: &str = "2907f3b3ef9e70be0e46f6232bc2153d";

/// The runs of a recorded graph: the one that stopped, then each that went on.
fn runs(name: &str) -> Vec<Vec<Span<'static>>> {
    let packed = std::fs::read(fixtures("pauses").join(format!("{name}.jsonl.zst"))).unwrap();
    let lines = String::from_utf8(zstd::decode_all(packed.as_slice()).unwrap()).unwrap();
    lines.lines().map(|line| support::spans_of(line.as_bytes())).collect()
}

fn lines(spans: &[Span<'_>]) -> String {
    support::lines(spans, &Mapping::default(), Policy::default())
}

/// Types, agents and hooks, outcomes, and questions and answers with the first four digits of their ids.
fn tale(events: &[Json]) -> Vec<String> {
    let line = |event: &Json| {
        let id = ["input_id", "pause_id"].iter().find_map(|key| event[*key].as_str()).map(|id| &id[..4]);
        let told = ["type", "agent_id", "hook_name", "outcome", "prompt", "response"].iter();
        let told = told.filter_map(|key| event[*key].as_str()).chain(id);
        told.collect::<Vec<_>>().join(" ")
    };
    events.iter().map(line).collect()
}

fn sound(lines: &str) {
    contract::check(lines).unwrap();
    invariants::check(lines).unwrap();
}

/// A span of LangGraph through OpenInference, with its place in the graph if it has one.
fn graph_span(id: u64, name: &str, kind: &str, task: Option<(&str, &str)>) -> Span<'static> {
    let mut metadata = json!({"thread_id": "thread", "ls_integration": "langgraph"});
    if let Some((node, namespace)) = task {
        (metadata["langgraph_node"], metadata["langgraph_checkpoint_ns"]) = (node.into(), namespace.into());
    }
    span(id, name)
        .scope("openinference.instrumentation.langchain", "0.1.80")
        .with("openinference.span.kind", kind.to_owned())
        .with("metadata", metadata.to_string())
}

fn graph(id: u64, input: &str) -> Span<'static> {
    graph_span(id, "shop", "CHAIN", None).with("input.value", input.to_owned())
}

fn node(id: u64) -> Span<'static> {
    graph_span(id, "tools", "CHAIN", Some(("tools", TASK)))
}

fn ask(id: u64) -> Span<'static> {
    graph_span(id, "ask", "TOOL", Some(("tools", TASK)))
}

fn interrupt(value: &str) -> String {
    format!("(Interrupt(value={value}, id='{ID}'),)")
}

/// A graph, its node and the tool in that, which stopped.
fn stopped() -> [Span<'static>; 3] {
    let message = interrupt("'sure?'");
    let asked = r#"{"messages":[["user","buy"]]}"#;
    [graph(1, asked), node(2).under(1).notes(INTERRUPT, &message), ask(3).under(2).notes(INTERRUPT, &message)]
}

/// The same task again, in a run that goes on.
fn gone_on(trace: u64) -> [Span<'static>; 3] {
    let command = r#"{"graph":null,"update":null,"resume":"yes","goto":[]}"#;
    let moved = |mut span: Span<'static>| {
        (span.trace_id, span.start) = (TraceId::from(u128::from(trace)), span.start + 10_000 * MS);
        span.span_id = SpanId::from(u64::from_be_bytes(span.span_id.to_bytes()) + 100);
        span.end = span.end.map(|end| end + 10_000 * MS);
        span
    };
    [moved(graph(1, command)), moved(node(2)).under(101), moved(ask(3)).under(102)]
}

const STOPPED: [&str; 7] = [
    "agent_start shop",
    "hook_triggered shop tools",
    "tool_use shop",
    "tool_result shop",
    "human_wait shop sure? 2907",
    "agent_pause shop 2907",
    "hook_completed shop tools paused",
];
const GONE_ON: [&str; 7] = [
    "agent_resume shop 2907",
    "human_input shop yes 2907",
    "hook_triggered shop tools",
    "tool_use shop",
    "tool_result shop",
    "hook_completed shop tools success",
    "agent_end shop success",
];

#[test]
fn a_run_that_stops_is_left_open_and_goes_on_in_another_file() {
    let events = events_of(&stopped());
    assert_eq!(tale(&events), STOPPED);
    let wait = only(&events, "human_wait");
    assert_eq!((&wait["input_id"], &wait["reason"]), (&json!(ID), &json!("langgraph_interrupt")));
    assert_eq!(only(&events, "agent_pause")["pause_id"], ID);
    assert_eq!(only(&events, "tool_result")["error"], Json::Null);
    assert_eq!(tale(&events_of(&gone_on(2))), GONE_ON);
    sound(&lines(&stopped()));
    sound(&lines(&gone_on(2)));
}

#[test]
fn both_halves_in_one_file_tell_what_they_tell_apart() {
    for trace in [1, 2] {
        let both: Vec<Span<'_>> = stopped().into_iter().chain(gone_on(trace)).collect();
        assert_eq!(lines(&both), lines(&stopped()) + &lines(&gone_on(trace)));
        sound(&lines(&both));
    }
}

#[test]
fn graphs_within_graphs_stop_and_go_on_with_all_runs_around() {
    for name in ["subgraph", "called_graph"]
        .iter()
        .flat_map(|name| [format!("{name}.openinference"), format!("{name}.openllmetry")])
    {
        let [first, second] = runs(&name).try_into().unwrap();
        let events = events_of(&first);
        let id = only(&events, "human_wait")["input_id"].as_str().unwrap()[..4].to_owned();
        let with_id = |lines: &[&str]| lines.iter().map(|line| line.replace('#', &id)).collect::<Vec<_>>();
        let stopped = with_id(&[
            "agent_start parent",
            "hook_triggered parent before",
            "hook_completed parent before success",
            "hook_triggered parent inner",
            "agent_start child",
            "hook_triggered child first",
            "hook_completed child first success",
            "hook_triggered child ask",
            "hook_completed child ask paused",
            "human_wait child go? #",
            "agent_pause child #",
            "agent_pause parent #",
            "hook_completed parent inner paused",
        ]);
        assert_eq!(tale(&events), stopped, "{name}");
        let gone_on = with_id(&[
            "agent_resume parent #",
            "hook_triggered parent inner",
            "agent_resume child #",
            "human_input child yes #",
            "hook_triggered child ask",
            "hook_completed child ask success",
            "hook_triggered child last",
            "hook_completed child last success",
            "agent_end child success",
            "hook_completed parent inner success",
            "agent_end parent success",
        ]);
        assert_eq!(tale(&events_of(&second)), gone_on, "{name}");
    }
}

#[test]
fn two_stops_at_once_are_two_pauses_and_each_answer_goes_to_its_own() {
    for name in ["parallel.openinference", "parallel.openllmetry"] {
        let [first, second, third] = runs(name).try_into().unwrap();
        let ids = |spans: &[Span<'_>], kind: &str, field: &str| -> Vec<String> {
            let events = events_of(spans);
            let of_kind = events.iter().filter(|event| event["type"] == kind);
            of_kind.map(|event| event[field].as_str().unwrap().to_owned()).collect()
        };
        let mut asked = ids(&first, "human_wait", "input_id");
        assert_eq!((asked.len(), &ids(&first, "agent_pause", "pause_id")), (2, &asked), "{name}");
        assert_eq!(ids(&first, "agent_end", "agent_id"), [""; 0], "{name}");

        let answered = ids(&second, "human_input", "input_id");
        assert_eq!(ids(&second, "agent_resume", "pause_id"), answered, "{name}");
        // The other one is asked again, and the run stops again.
        asked.retain(|id| *id != answered[0]);
        assert_eq!((ids(&second, "human_wait", "input_id"), answered.len()), (asked.clone(), 1), "{name}");
        assert_eq!(ids(&second, "agent_end", "agent_id"), [""; 0], "{name}");

        assert_eq!(ids(&third, "human_input", "input_id"), asked, "{name}");
        assert_eq!(ids(&third, "agent_start", "agent_id"), [""; 0], "{name}");
        assert_eq!(ids(&third, "agent_end", "agent_id"), ["parallel"], "{name}");
    }
}

#[test]
fn a_task_that_asks_twice_keeps_one_id_for_its_stops() {
    for name in ["twice.openinference", "twice.openllmetry"] {
        let tales = runs(name).iter().map(|run| tale(&events_of(run))).collect::<Vec<_>>();
        let [first, second, third] = tales.try_into().unwrap();
        let id = first[3].rsplit(' ').next().unwrap().to_owned();
        let with_id = |lines: &[&str]| lines.iter().map(|line| line.replace('#', &id)).collect::<Vec<_>>();
        let asks = ["hook_triggered twice ask", "hook_completed twice ask paused"];
        assert_eq!(
            first,
            with_id(&["agent_start twice", asks[0], asks[1], "human_wait twice one? #", "agent_pause twice #"])
        );
        let again = [
            "agent_resume twice #",
            "human_input twice 1 #",
            asks[0],
            asks[1],
            "human_wait twice two? #",
            "agent_pause twice #",
        ];
        assert_eq!(second, with_id(&again));
        let last = [
            "agent_resume twice #",
            "human_input twice 2 #",
            asks[0],
            "hook_completed twice ask success",
            "agent_end twice success",
        ];
        assert_eq!(third, with_id(&last));
        // The framework's own id of the second question.
        let events = events_of(&runs(name)[1]);
        assert!(only(&events, "human_wait")["fw_interrupt_id"].is_string());
    }
}

#[test]
fn order_split_and_repetition_of_the_spans_change_nothing() {
    let mut numbers = Numbers::from_seed(7);
    let names = ["subgraph", "called_graph", "parallel", "twice"];
    for name in names.iter().flat_map(|name| [format!("{name}.openinference"), format!("{name}.openllmetry")]) {
        let apart = runs(&name);
        let expected: String = apart.iter().map(|run| lines(run)).collect();
        sound(&expected);
        let together: Vec<Span<'static>> = apart.into_iter().flatten().collect();
        for _ in 0..20 {
            let mut spans = together.clone();
            spans.extend_from_within(..numbers.below(together.len()));
            numbers.shuffle(&mut spans);
            assert_eq!(lines(&spans), expected, "{name}");
        }
    }
}

#[test]
fn older_versions_give_no_id_and_it_is_made_of_the_task() {
    let message = format!("(Interrupt(value='sure?', resumable=True, ns=['{TASK}'], when='during'),)");
    for message in
        [message.as_str(), "(Interrupt(value='sure?', resum", "(Interrupt(value='sure?', id='placeholder-id'),)"]
    {
        let [run, hook, tool] = stopped();
        let told = |mut span: Span<'static>| {
            span.events.clear();
            span.notes(INTERRUPT, message)
        };
        assert_eq!(only(&events_of(&[run, told(hook), told(tool)]), "human_wait")["input_id"], ID, "{message}");
    }
}

#[test]
fn a_question_is_what_was_handed_out() {
    for (value, prompt, options) in [
        ("'sure?'", json!("sure?"), Json::Null),
        ("{'question': 'go?', 'options': ['yes', 2]}", json!("go?"), json!(["yes", "2"])),
        ("{'message': 'go?'}", json!("go?"), Json::Null),
        ("{'action': 'rm'}", json!(r#"{"action":"rm"}"#), Json::Null),
        ("<Ask object>", Json::Null, Json::Null),
    ] {
        let events = events_of(&[graph(1, "{\"a\":\"b\"}"), node(2).under(1).notes(INTERRUPT, &interrupt(value))]);
        let wait = only(&events, "human_wait");
        assert_eq!((&wait["prompt"], &wait["options"]), (&prompt, &options), "{value}");
    }
}

/// A stop that nobody could recognize the answer to: asked, and the run ends.
fn ends_with(outcome: &str, spans: &[Span<'_>], waits: usize) {
    let events = events_of(spans);
    let count = |kind: &str| events.iter().filter(|event| event["type"] == kind).count();
    assert_eq!((count("human_wait"), count("agent_pause")), (waits, 0), "{:#?}", tale(&events));
    assert_eq!(events.last().unwrap()["outcome"], outcome, "{:#?}", tale(&events));
    assert_eq!(count("agent_start"), count("agent_end"));
    sound(&lines(spans));
}

#[test]
fn a_run_ends_where_the_one_that_goes_on_would_look_like_any_other() {
    // Without the place of the task, without a session, without what the run was given, within a run that goes on.
    let without = |span: Span<'static>, key: &str| {
        let kept = span.attributes.iter().filter(|(known, _)| *known != key);
        let attributes = kept.map(|(key, value)| (key.to_owned(), value.clone())).collect();
        Span { attributes, ..span }
    };
    let [run, hook, tool] = stopped();
    let plain = |span: Span<'static>, metadata: &str| without(span, "metadata").with("metadata", metadata.to_owned());
    let [run_of_nobody, hook_of_nobody] = [run.clone(), hook.clone()].map(|span| {
        let metadata = span.attributes.text("metadata").unwrap().replace("thread_id", "other");
        plain(span, &metadata)
    });
    ends_with("success", &[run_of_nobody, hook_of_nobody], 1);
    ends_with("success", &[without(run.clone(), "input.value"), hook.clone(), tool.clone()], 1);
    let placeless = without(tool.clone(), "metadata");
    ends_with("success", &[run.clone(), placeless.under(1)], 1);
    ends_with("success", &[agent(9, "boss").between(0, 2_000), run.clone().under(9), hook.clone(), tool.clone()], 1);
}

#[test]
fn an_interrupt_that_is_caught_or_lost_is_no_pause() {
    let [run, hook, tool] = stopped();
    let caught = Span { events: Vec::new(), ..hook.clone() };
    ends_with("success", &[run.clone(), caught, tool.clone()], 0);
    ends_with("failed", &[run.clone().raises("ValueError", "no"), hook.clone(), tool.clone()], 0);
    ends_with("cancelled", &[run.raises("asyncio.exceptions.CancelledError", ""), hook, tool], 0);
}

#[test]
fn control_flow_that_stops_for_nobody_is_no_pause() {
    let command = "Command(graph='__parent__', update={}, goto='bob')";
    let spans = [graph(1, "{\"a\":\"b\"}"), node(2).under(1).notes("langgraph.errors.ParentCommand", command)];
    ends_with("success", &spans, 0);
    assert_eq!(only(&events_of(&spans), "hook_completed")["outcome"], "paused");
}

#[test]
fn a_run_that_goes_on_without_any_task_starts_like_any_other() {
    let [run, ..] = gone_on(2);
    assert_eq!(tale(&events_of(&[run])), ["agent_start shop", "agent_end shop success"]);
}

#[test]
fn without_content_a_stop_has_ids_alone() {
    let config = Config::new().with_capture_content(false);
    for (spans, tale_of) in [(stopped(), STOPPED), (gone_on(2), GONE_ON)] {
        let events = events_with(&spans, &config);
        assert_eq!(tale(&events), tale_of.map(|line| line.replace(" sure?", "").replace(" yes", "")));
        assert!(events.iter().all(|event| event["options"].is_null()));
    }
}

#[derive(Clone, Default)]
struct Memory(Arc<Mutex<Vec<u8>>>);

impl Sink for Memory {
    fn write(&mut self, lines: &[u8]) -> Result<(), SinkError> {
        self.0.lock().unwrap().extend_from_slice(lines);
        Ok(())
    }

    fn describe(&self) -> String {
        "memory".to_owned()
    }
}

#[test]
fn a_live_run_that_waits_is_left_open_at_the_end_of_the_process_too() {
    for ends_itself in [true, false] {
        let memory = Memory::default();
        let processor = FailproofSpanProcessor::builder().with_sink(memory.clone()).build().unwrap();
        let provider = SdkTracerProvider::builder().with_span_processor(processor).build();
        let tracer = provider.tracer("openinference.instrumentation.langchain");
        let start = |span: &Span<'static>, parent: &Context| {
            let attributes = span
                .attributes
                .iter()
                .map(|(key, value)| KeyValue::new(key.to_owned(), value.as_str().unwrap().to_owned()));
            let builder = tracer.span_builder(span.name.to_string()).with_attributes(attributes);
            parent.with_span(tracer.build_with_context(builder, parent))
        };
        let [run, hook, tool] = stopped();
        let run = start(&run, &Context::new());
        let hook = start(&hook, &run);
        let tool = start(&tool, &hook);
        let exception = || {
            let message = KeyValue::new("exception.message", interrupt("'sure?'"));
            vec![KeyValue::new("exception.type", INTERRUPT), message]
        };
        for context in [&tool, &hook] {
            context.span().add_event("exception", exception());
            context.span().end();
        }
        provider.force_flush().unwrap();
        if ends_itself {
            run.span().end();
        }
        provider.shutdown().unwrap();
        let lines = String::from_utf8(memory.0.lock().unwrap().clone()).unwrap();
        let mut told = tale(&support::parse_lines(&lines));
        told.sort();
        let mut expected = STOPPED.map(str::to_owned);
        expected.sort();
        assert_eq!(told, expected, "the run ends itself: {ends_itself}");
    }
}

#[test]
fn any_tree_of_stops_keeps_the_contract() {
    let mut numbers = Numbers::from_seed(11);
    for _ in 0..400 {
        let mut spans: Vec<Span<'static>> = Vec::new();
        for id in 1..=2 + numbers.below(9) as u64 {
            let namespace = ["a:1", "a:1|b:2", TASK][numbers.below(3)];
            let message = [interrupt("'x'"), "(Interrupt(value='y'),)".to_owned(), String::new()];
            let span = match numbers.below(6) {
                0 => graph(id, r#"{"resume":"yes","goto":[]}"#),
                1 => graph(id, r#"{"resume":{"2907f3b3ef9e70be0e46f6232bc2153d":1},"goto":[]}"#),
                2 => graph(id, r#"{"a":"b"}"#),
                3 => graph_span(id, "ask", "TOOL", Some(("tools", namespace))),
                _ => graph_span(id, "tools", "CHAIN", Some(("tools", namespace))),
            };
            let span = match numbers.below(4) {
                0 => span,
                1 => span.raises("ValueError", "no"),
                _ => span.notes(INTERRUPT, &message[numbers.below(3)]),
            };
            spans.push(if id > 1 { span.under(1 + numbers.below(id as usize - 1) as u64) } else { span });
        }
        let expected = lines(&spans);
        invariants::check(&expected).unwrap();
        contract::check(&expected).unwrap();
        numbers.shuffle(&mut spans);
        assert_eq!(lines(&spans), expected);
    }
}

/// The spans of every recorded framework, by their file.
fn frameworks() -> Vec<(String, Vec<Span<'static>>)> {
    let files = |folder: &std::path::Path| std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let folders = files(&fixtures("frameworks")).filter(|path| path.is_dir());
    let recordings = folders.flat_map(|folder| files(&folder).collect::<Vec<_>>());
    let spans = recordings.filter(|path| path.to_string_lossy().ends_with(".spans.json.zst")).map(|path| {
        let unpacked = zstd::decode_all(&*std::fs::read(&path).unwrap()).unwrap();
        (path.display().to_string(), read_file(&unpacked).spans)
    });
    spans.collect()
}

#[test]
fn the_events_of_every_recorded_framework_keep_the_contract() {
    for (name, spans) in frameworks() {
        let lines = lines(&spans);
        contract::check(&lines).and(invariants::check(&lines)).unwrap_or_else(|why| panic!("{name}: {why}"));
    }
}

#[test]
fn a_run_that_makes_the_call_again_itself_pauses_in_between() {
    let mut seen = 0;
    for (name, spans) in frameworks().into_iter().filter(|(name, _)| name.contains("human_in_the_loop")) {
        let events = events_of(&spans);
        let about_pauses =
            ["tool_use", "tool_result", "human_wait", "agent_pause", "agent_resume", "human_input", "agent_end"];
        let kinds: Vec<&str> = events.iter().filter_map(|event| event["type"].as_str()).collect();
        let kinds: Vec<&str> = kinds.into_iter().filter(|kind| about_pauses.contains(kind)).collect();
        if !kinds.contains(&"human_wait") {
            continue;
        }
        let expected = [&about_pauses[..6], &about_pauses[..2], &about_pauses[6..]].concat();
        assert_eq!(kinds, expected, "{name}");
        seen += 1;
    }
    assert_eq!(seen, 2);
}
