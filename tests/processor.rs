//! The processor and the exporter in a real `SdkTracerProvider`.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

#[path = "../examples/inventory/mod.rs"]
mod inventory;

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Barrier, Mutex};
use std::time::Duration;

use opentelemetry::trace::{TraceContextExt, Tracer, TracerProvider as _};
use opentelemetry::{Context, KeyValue};
use opentelemetry_failproof::sink::{Sink, SinkError};
use opentelemetry_failproof::{
    Config, FailproofSpanExporter, FailproofSpanProcessor, ScopeSpanProcessor, agent, session,
};
use opentelemetry_sdk::error::OTelSdkError;
use opentelemetry_sdk::trace::{SdkTracer, SdkTracerProvider};
use serde_json::Value;

/// Keeps the lines; fails while it is told to.
#[derive(Clone, Default)]
struct Memory {
    lines: Arc<Mutex<Vec<u8>>>,
    broken: Arc<AtomicBool>,
}

impl Sink for Memory {
    fn write(&mut self, lines: &[u8]) -> Result<(), SinkError> {
        if self.broken.load(Ordering::SeqCst) {
            return Err(SinkError::Stdout { source: std::io::Error::other("told to fail") });
        }
        self.lines.lock().unwrap().extend_from_slice(lines);
        Ok(())
    }

    fn describe(&self) -> String {
        "memory".to_owned()
    }
}

impl Memory {
    fn events(&self) -> Vec<Value> {
        let lines = String::from_utf8(self.lines.lock().unwrap().clone()).unwrap();
        lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }

    /// The events in short: `type agent`.
    fn outline(&self) -> Vec<String> {
        let word = |value: &Value| value.as_str().unwrap().to_owned();
        self.events().iter().map(|event| format!("{} {}", word(&event["type"]), word(&event["agent_id"]))).collect()
    }

    fn sorted_lines(&self) -> Vec<String> {
        let mut lines: Vec<String> = self.events().iter().map(Value::to_string).collect();
        lines.sort();
        lines
    }
}

fn live(memory: &Memory) -> SdkTracerProvider {
    let processor =
        FailproofSpanProcessor::builder().with_config(Config::new()).with_sink(memory.clone()).build().unwrap();
    SdkTracerProvider::builder().with_span_processor(processor).build()
}

fn start(
    tracer: &SdkTracer,
    parent: &Context,
    name: &'static str,
    attributes: &[(&'static str, &'static str)],
) -> Context {
    let attributes: Vec<_> = attributes.iter().map(|(key, value)| KeyValue::new(*key, *value)).collect();
    let builder = tracer.span_builder(name).with_attributes(attributes);
    parent.with_span(tracer.build_with_context(builder, parent))
}

fn start_agent(tracer: &SdkTracer) -> Context {
    let attributes = [("gen_ai.operation.name", "invoke_agent"), ("gen_ai.agent.name", "shop")];
    start(tracer, &Context::new(), "invoke_agent shop", &attributes)
}

#[test]
fn an_agents_start_is_written_while_it_runs() {
    let memory = Memory::default();
    let provider = live(&memory);
    let shop = start_agent(&provider.tracer("test"));
    provider.force_flush().unwrap();
    assert_eq!(memory.outline(), ["agent_start shop"]);
    shop.span().end();
    provider.force_flush().unwrap();
    assert_eq!(memory.outline(), ["agent_start shop", "agent_end shop"]);
}

#[test]
fn a_calls_start_is_written_once_its_name_and_id_are_known() {
    let memory = Memory::default();
    let provider = live(&memory);
    let tracer = provider.tracer("test");
    let shop = start_agent(&tracer);
    let known = [("gen_ai.operation.name", "execute_tool"), ("gen_ai.tool.name", "a"), ("gen_ai.tool.call.id", "1")];
    let early = start(&tracer, &shop, "execute_tool a", &known);
    // Frameworks on `tracing` name a tool only after its span has started.
    let late = start(&tracer, &shop, "execute_tool", &[("gen_ai.operation.name", "execute_tool")]);
    provider.force_flush().unwrap();
    assert_eq!(memory.outline(), ["agent_start shop", "tool_use shop"]);

    late.span().set_attribute(KeyValue::new("gen_ai.tool.name", "b"));
    late.span().set_attribute(KeyValue::new("gen_ai.tool.call.id", "2"));
    late.span().end();
    early.span().end();
    shop.span().end();
    provider.shutdown().unwrap();
    let uses: Vec<Value> = memory.events().into_iter().filter(|event| event["type"] == "tool_use").collect();
    assert_eq!(uses.iter().map(|event| event["tool_name"].as_str().unwrap()).collect::<Vec<_>>(), ["a", "b"]);
    let results: Vec<Value> = memory.events().into_iter().filter(|event| event["type"] == "tool_result").collect();
    assert!(uses[1]["timestamp"].as_str() < results[0]["timestamp"].as_str(), "a start told late has its own time");
}

#[test]
fn the_processor_and_the_exporter_write_the_same_events() {
    let (live, batch) = (Memory::default(), Memory::default());
    let processor =
        FailproofSpanProcessor::builder().with_config(Config::new()).with_sink(live.clone()).build().unwrap();
    let exporter =
        FailproofSpanExporter::builder().with_config(Config::new()).with_sink(batch.clone()).build().unwrap();
    let provider = SdkTracerProvider::builder().with_span_processor(processor).with_batch_exporter(exporter).build();
    for _ in 0..3 {
        inventory::run(&provider.tracer("inventory-bot"));
    }
    provider.shutdown().unwrap();
    assert_eq!(live.events().len(), 45);
    assert_eq!(live.sorted_lines(), batch.sorted_lines());
}

#[test]
fn shutdown_closes_what_is_open() {
    let memory = Memory::default();
    let provider = live(&memory);
    let tracer = provider.tracer("test");
    let shop = start_agent(&tracer);
    let known = [("gen_ai.operation.name", "execute_tool"), ("gen_ai.tool.name", "a"), ("gen_ai.tool.call.id", "1")];
    let _tool = start(&tracer, &shop, "execute_tool a", &known);
    provider.shutdown().unwrap();
    assert_eq!(memory.outline(), ["agent_start shop", "tool_use shop", "tool_result shop", "agent_end shop"]);
    let events = memory.events();
    assert_eq!(events[2]["fw_incomplete"], true);
    assert_eq!((&events[3]["outcome"], &events[3]["fw_incomplete"]), (&Value::from("cancelled"), &Value::from(true)));
    assert!(matches!(provider.shutdown(), Err(OTelSdkError::AlreadyShutdown)));
}

#[test]
fn a_flush_that_could_not_write_says_so_and_loses_nothing() {
    let memory = Memory::default();
    memory.broken.store(true, Ordering::SeqCst);
    let provider = live(&memory);
    start_agent(&provider.tracer("test")).span().end();
    assert!(matches!(provider.force_flush(), Err(OTelSdkError::InternalFailure(why)) if why.contains("told to fail")));
    memory.broken.store(false, Ordering::SeqCst);
    provider.force_flush().unwrap();
    assert_eq!(memory.outline(), ["agent_start shop", "agent_end shop"]);
}

#[test]
fn a_sink_that_hangs_never_blocks_the_program_and_the_loss_is_told() {
    /// Hangs until it is let go.
    struct Hanging(Arc<Barrier>, bool);
    impl Sink for Hanging {
        fn write(&mut self, _lines: &[u8]) -> Result<(), SinkError> {
            if !std::mem::replace(&mut self.1, true) {
                self.0.wait();
            }
            Ok(())
        }
        fn describe(&self) -> String {
            "hanging".to_owned()
        }
    }
    let gate = Arc::new(Barrier::new(2));
    let processor = FailproofSpanProcessor::builder()
        .with_config(Config::new())
        .with_sink(Hanging(gate.clone(), false))
        .build()
        .unwrap();
    let counters = processor.counters();
    let provider = SdkTracerProvider::builder().with_span_processor(processor).build();
    let tracer = provider.tracer("test");
    // Far more than the queue takes: each span would wait for the one before it if anything waited here.
    while counters.spans_lost.load(Ordering::Relaxed) == 0 {
        start_agent(&tracer).span().end();
    }
    gate.wait();
    assert!(matches!(provider.force_flush(), Err(OTelSdkError::InternalFailure(why)) if why.contains("lost")));
    provider.force_flush().unwrap();
}

#[test]
fn what_is_said_by_hand_holds_for_all_below() {
    let memory = Memory::default();
    let provider = live(&memory);
    let tracer = provider.tracer("test");
    {
        let _session = session("chat-42").enter();
        let desk = agent("front-desk").goal("answer").enter_with(&tracer);
        start(&tracer, &Context::current(), "chat m", &[("gen_ai.operation.name", "chat")]).span().end();
        desk.summary("answered");
    }
    provider.shutdown().unwrap();
    let events = memory.events();
    assert_eq!(
        memory.outline(),
        ["agent_start front-desk", "model_request front-desk", "model_response front-desk", "agent_end front-desk"]
    );
    assert!(events.iter().all(|event| event["session_id"] == "chat-42"));
    assert_eq!((&events[0]["goal"], &events[3]["summary"]), (&Value::from("answer"), &Value::from("answered")));
}

#[test]
fn a_panic_through_an_agent_is_its_failure() {
    let memory = Memory::default();
    let provider = live(&memory);
    let tracer = provider.tracer("test");
    let panicked = std::thread::spawn(move || {
        let _agent = agent("clumsy").enter_with(&tracer);
        panic!("on purpose");
    });
    assert!(panicked.join().is_err());
    provider.shutdown().unwrap();
    assert_eq!(memory.outline(), ["agent_start clumsy", "error clumsy", "agent_end clumsy"]);
    assert_eq!(memory.events()[2]["outcome"], "failed");
}

#[test]
fn the_exporter_gets_sessions_by_the_scope_processor() {
    let memory = Memory::default();
    let exporter =
        FailproofSpanExporter::builder().with_config(Config::new()).with_sink(memory.clone()).build().unwrap();
    let provider =
        SdkTracerProvider::builder().with_span_processor(ScopeSpanProcessor).with_batch_exporter(exporter).build();
    {
        let _session = session("chat-7").enter();
        inventory::run(&provider.tracer("inventory-bot"));
    }
    provider.shutdown_with_timeout(Duration::from_secs(10)).unwrap();
    assert!(memory.events().iter().all(|event| event["session_id"] == "chat-7"));
    assert_eq!(memory.events().len(), 15);
}

#[test]
fn an_agent_by_hand_tells_the_exporter_its_session() {
    let memory = Memory::default();
    let exporter =
        FailproofSpanExporter::builder().with_config(Config::new()).with_sink(memory.clone()).build().unwrap();
    let provider = SdkTracerProvider::builder().with_batch_exporter(exporter).build();
    let tracer = provider.tracer("test");
    {
        let _session = session("chat-9").enter();
        let _agent = agent("front-desk").enter_with(&tracer);
    }
    provider.shutdown().unwrap();
    assert_eq!(memory.outline(), ["agent_start front-desk", "agent_end front-desk"]);
    assert!(memory.events().iter().all(|event| event["session_id"] == "chat-9"));
}
