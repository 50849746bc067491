//! Spans made by hand, and the story that their events tell.

use std::sync::Arc;

use opentelemetry_failproof::span::{
    Attributes, Resource, Scope, Span, SpanEvent, SpanId, Status, StatusCode, TraceId, Value,
};
use opentelemetry_failproof::trace::Mapping;
use opentelemetry_failproof::{Config, Policy};
use serde_json::Value as Json;

/// 2026-01-02T03:04:05.678901Z in nanoseconds since 1970: when the tests' first span starts.
pub const NOW: u64 = 1_767_323_045_678_901_000;
/// A millisecond in nanoseconds.
pub const MS: u64 = 1_000_000;

/// A span of trace 1 that lasts from `id` to `1000 - id` milliseconds after [`NOW`]: later ids lie within earlier ones.
pub fn span(id: u64, name: &str) -> Span<'static> {
    Span {
        trace_id: TraceId::from(1),
        span_id: SpanId::from(id),
        parent: None,
        parent_is_remote: None,
        name: name.to_owned().into(),
        start: NOW + id * MS,
        end: Some(NOW + (1_000 - id) * MS),
        attributes: Attributes::default(),
        dropped_attributes: 0,
        events: Vec::new(),
        status: Status::default(),
        scope: Arc::new(Scope::default()),
        resource: Arc::new(Resource::default()),
    }
}

/// An agent's run by the GenAI semantic conventions.
pub fn agent(id: u64, name: &str) -> Span<'static> {
    operation(id, "invoke_agent", name).with("gen_ai.agent.name", name)
}

/// A model call by the GenAI semantic conventions.
pub fn model(id: u64, model: &str) -> Span<'static> {
    operation(id, "chat", model).with("gen_ai.request.model", model)
}

/// A tool call by the GenAI semantic conventions; its call id is `call-<id>`.
pub fn tool(id: u64, name: &str) -> Span<'static> {
    operation(id, "execute_tool", name).with("gen_ai.tool.name", name).with("gen_ai.tool.call.id", format!("call-{id}"))
}

/// A span of that `gen_ai.operation.name`, named as the conventions say.
pub fn operation(id: u64, operation: &str, object: &str) -> Span<'static> {
    span(id, &format!("{operation} {object}")).with("gen_ai.operation.name", operation)
}

/// Changes to a span, one behind the other.
pub trait Build: Sized {
    fn under(self, parent: u64) -> Self;
    fn between(self, start_ms: u64, end_ms: u64) -> Self;
    fn with<'v>(self, key: &str, value: impl Into<Value<'v>>) -> Self;
    fn scope(self, name: &str, version: &str) -> Self;
    fn resource(self, pairs: &[(&'static str, &'static str)]) -> Self;
    fn status(self, code: StatusCode, message: &str) -> Self;
    /// An event in the middle of it all, 500 milliseconds after [`NOW`].
    fn event(self, name: &str, attributes: Attributes<'static>) -> Self;
    /// An `exception` event, and nothing of the status.
    fn notes(self, kind: &str, message: &str) -> Self;
    /// An `exception` event and the status that SDKs set with it.
    fn raises(self, kind: &str, message: &str) -> Self;
}

impl Build for Span<'static> {
    fn under(mut self, parent: u64) -> Self {
        self.parent = Some(SpanId::from(parent));
        self
    }

    fn between(mut self, start_ms: u64, end_ms: u64) -> Self {
        (self.start, self.end) = (NOW + start_ms * MS, Some(NOW + end_ms * MS));
        self
    }

    fn with<'v>(mut self, key: &str, value: impl Into<Value<'v>>) -> Self {
        self.attributes.push(key.to_owned(), value.into().into_owned());
        self
    }

    fn scope(mut self, name: &str, version: &str) -> Self {
        self.scope = Arc::new(Scope { name: name.into(), version: version.into(), ..Scope::default() });
        self
    }

    fn resource(mut self, pairs: &[(&'static str, &'static str)]) -> Self {
        self.resource = Arc::new(Resource { attributes: pairs.iter().copied().collect() });
        self
    }

    fn status(mut self, code: StatusCode, message: &str) -> Self {
        self.status = Status { code, message: message.to_owned().into() };
        self
    }

    fn event(mut self, name: &str, attributes: Attributes<'static>) -> Self {
        self.events.push(SpanEvent { name: name.to_owned().into(), time: NOW + 500 * MS, attributes });
        self
    }

    fn notes(self, kind: &str, message: &str) -> Self {
        let trace = format!("Traceback (most recent call last):\n  File \"a.py\", line 1, in f\n{kind}: {message}");
        self.event(
            "exception",
            texts(&[("exception.type", kind), ("exception.message", message), ("exception.stacktrace", &trace)]),
        )
    }

    fn raises(self, kind: &str, message: &str) -> Self {
        let short = kind.rsplit('.').next().unwrap_or(kind);
        self.notes(kind, message).status(StatusCode::Error, &format!("{short}: {message}"))
    }
}

/// Attributes that are all text.
pub fn texts(pairs: &[(&str, &str)]) -> Attributes<'static> {
    pairs.iter().map(|(key, value)| ((*key).to_owned(), Value::from((*value).to_owned()))).collect()
}

/// The events of spans, with nothing configured.
pub fn events_of(spans: &[Span<'_>]) -> Vec<Json> {
    super::events(spans, &Mapping::default(), Policy::default())
}

/// The events of spans under a configuration.
pub fn events_with(spans: &[Span<'_>], config: &Config) -> Vec<Json> {
    super::events(spans, config.mapping(), config.policy())
}

/// The only event of that type.
pub fn only<'e>(events: &'e [Json], kind: &str) -> &'e Json {
    let found: Vec<_> = events.iter().filter(|event| event["type"] == kind).collect();
    assert_eq!(found.len(), 1, "one {kind} in {events:#?}");
    found[0]
}

/// What happened, an event a line: its type, its agent, and what it tells of success and failure.
pub fn story(events: &[Json]) -> Vec<String> {
    const TOLD: [&str; 7] =
        ["tool_name", "hook_name", "outcome", "error_type", "error", "fw_control_flow", "fw_incomplete"];
    let line = |event: &Json| {
        let told = TOLD.iter().filter(|key| !event[**key].is_null()).map(|key| &event[*key]);
        let words = [&event["type"], &event["agent_id"]].into_iter().chain(told);
        words.map(|word| word.as_str().map_or_else(|| word.to_string(), str::to_owned)).collect::<Vec<_>>().join(" ")
    };
    events.iter().map(line).collect()
}

/// [`story`] of the events of spans, with nothing configured.
pub fn story_of(spans: &[Span<'_>]) -> Vec<String> {
    story(&events_of(spans))
}

/// A way of writing the same spans.
pub type Dress = fn(Span<'static>) -> Span<'static>;

/// Both ways of writing: Pydantic AI marks a run that came to its end, the conventions do not.
pub const DIALECTS: [Dress; 2] = [|span| span, pydantic_ai];

/// The span as Pydantic AI writes it: a run is marked as having come to its end unless something happened on it.
pub fn pydantic_ai(span: Span<'static>) -> Span<'static> {
    let is_run = span.attributes.text("gen_ai.operation.name") == Some("invoke_agent");
    let failed = span.status.code == StatusCode::Error || !span.events.is_empty();
    let span = span.scope("pydantic-ai", "2.68.0");
    match is_run {
        true if failed => {
            span.with("pydantic_ai.all_messages", r#"[{"role":"user","parts":[{"type":"text","content":"go"}]}]"#)
        }
        true => span.with("final_result", "done"),
        false => span,
    }
}

/// The span as it is.
pub fn same(span: Span<'static>) -> Span<'static> {
    span
}
