//! A model call that the provider client's instrumentation tells in a trace of its own.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod support;

use std::sync::{Arc, Mutex};
use std::time::Duration;

use opentelemetry::trace::{TraceContextExt, Tracer, TracerProvider as _};
use opentelemetry::{Context, KeyValue};
use opentelemetry_failproof::sink::{Sink, SinkError};
use opentelemetry_failproof::span::{Attributes, Resource, Span, TraceId};
use opentelemetry_failproof::trace::{Mapping, explain};
use opentelemetry_failproof::{Config, FailproofSpanExporter};
use opentelemetry_sdk::trace::SdkTracerProvider;
use support::spans::*;

const ANSWER: &str = r#"[{"role":"assistant","parts":[{"type":"text","content":"It is sunny."}]}]"#;

fn answered(span: Span<'static>) -> Span<'static> {
    let tokens = |span: Span<'static>| span.with("gen_ai.usage.input_tokens", 12).with("gen_ai.usage.output_tokens", 7);
    tokens(span).with("gen_ai.output.messages", ANSWER)
}

/// An agent whose one model call lasts from 10 to 100 milliseconds.
fn run() -> [Span<'static>; 2] {
    [agent(1, "bot").between(0, 200), answered(model(2, "m").under(1).between(10, 100))]
}

/// The same call, alone in another trace.
fn alone() -> Span<'static> {
    Span { trace_id: TraceId::from(2), ..answered(model(3, "m").between(20, 90)) }
}

fn starts(spans: &[Span<'static>]) -> usize {
    events_of(spans).iter().filter(|event| event["type"] == "agent_start").count()
}

#[test]
fn the_call_is_told_once_in_any_order() {
    let [bot, call] = run();
    let spans = [bot, call, alone()];
    let told = events_of(&spans);
    assert_eq!(story(&told), story_of(&run()));
    for order in [[2, 1, 0], [1, 2, 0], [2, 0, 1]] {
        let shuffled: Vec<_> = order.into_iter().map(|at| spans[at].clone()).collect();
        assert_eq!(events_of(&shuffled), told);
    }
    assert_eq!(events_of(&[spans.as_slice(), spans.as_slice()].concat()), told, "each span twice");
    let explained = explain(&spans, &Mapping::default());
    let lonely = explained.iter().find(|span| span.trace_id == TraceId::from(2)).unwrap();
    assert!(lonely.events.is_empty() && lonely.why.contains("another trace"), "{}", lonely.why);
}

#[test]
fn a_call_that_is_another_one_is_told() {
    let elsewhere = Resource { attributes: [("service.name", "other")].into_iter().collect::<Attributes<'static>>() };
    for (what, other) in [
        ("later", alone().between(20, 101)),
        ("earlier", alone().between(9, 90)),
        ("another answer", alone().with("gen_ai.output.messages", ANSWER.replace("sunny", "cold"))),
        ("another count of tokens", alone().with("gen_ai.usage.output_tokens", 8)),
        ("another model", alone().with("gen_ai.request.model", "n")),
        ("another process", Span { resource: Arc::new(elsewhere), ..alone() }),
    ] {
        let [bot, call] = run();
        assert_eq!(starts(&[bot, call, other]), 2, "{what}");
    }
    assert_eq!(starts(&[alone()]), 1, "with nothing beside it");
    let silent = [model(2, "m").under(1).between(10, 100), model(3, "m").between(20, 90)];
    let [bot, _] = run();
    let [call, other] = silent;
    let other = Span { trace_id: TraceId::from(2), ..other };
    assert_eq!(starts(&[bot, call, other]), 2, "calls that do not tell their answer");
}

#[test]
fn the_exporter_tells_it_once_too() {
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
    let memory = Memory::default();
    let exporter =
        FailproofSpanExporter::builder().with_config(Config::new()).with_sink(memory.clone()).build().unwrap();
    let provider = SdkTracerProvider::builder().with_batch_exporter(exporter).build();
    let tracer = provider.tracer("test");
    let start = |parent: &Context, attributes: &[(&'static str, &'static str)]| {
        let attributes: Vec<_> = attributes.iter().map(|(key, value)| KeyValue::new(*key, *value)).collect();
        let builder = tracer.span_builder("span").with_attributes(attributes);
        parent.with_span(tracer.build_with_context(builder, parent))
    };
    let bot = start(&Context::new(), &[("gen_ai.operation.name", "invoke_agent"), ("gen_ai.agent.name", "bot")]);
    let chat = [("gen_ai.operation.name", "chat"), ("gen_ai.request.model", "m"), ("gen_ai.output.messages", ANSWER)];
    let call = start(&bot, &chat);
    start(&Context::new(), &chat).span().end();
    call.span().end();
    bot.span().end();
    provider.shutdown_with_timeout(Duration::from_secs(10)).unwrap();
    let lines = String::from_utf8(memory.0.lock().unwrap().clone()).unwrap();
    assert_eq!(
        support::parse_lines(&lines).iter().filter(|event| event["type"] == "agent_start").count(),
        1,
        "{lines}"
    );
}
