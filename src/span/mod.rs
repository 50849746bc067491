//! What we read: one view of a span, whatever it came from.
//!
//! A [`Span`] borrows from the bytes it was decoded from where it can (OTLP protobuf) and owns its text where it
//! must (JSON, `opentelemetry_sdk`). Everything after `otlp` knows this form alone.

mod attributes;
mod value;

use std::borrow::Cow;
use std::sync::Arc;

pub use attributes::Attributes;
pub use opentelemetry::{SpanId, TraceId};
pub use value::{Value, parse_json_text};

/// One span, as its process reported it.
#[derive(Clone, Debug, PartialEq)]
pub struct Span<'a> {
    /// The trace it belongs to; never all zeros.
    pub trace_id: TraceId,
    /// Its own id; never all zeros.
    pub span_id: SpanId,
    /// The span it was started under, if any.
    pub parent: Option<SpanId>,
    /// Whether the parent lives in another process; `None` where the sender did not say (OTLP flags before 1.1).
    pub parent_is_remote: Option<bool>,
    /// Its name.
    pub name: Cow<'a, str>,
    /// When it started, in nanoseconds since 1970.
    pub start: u64,
    /// When it ended, in nanoseconds since 1970; `None` while it is open.
    pub end: Option<u64>,
    /// What it says of itself.
    pub attributes: Attributes<'a>,
    /// How many attributes the sender dropped to keep a limit.
    pub dropped_attributes: u32,
    /// What happened on it, in the sender's order.
    pub events: Vec<SpanEvent<'a>>,
    /// How it ended.
    pub status: Status<'a>,
    /// The instrumentation that made it.
    pub scope: Arc<Scope>,
    /// The process that made it.
    pub resource: Arc<Resource>,
}

/// Something that happened at one moment of a span, for example an exception.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SpanEvent<'a> {
    /// What kind of thing happened: `exception`, `gen_ai.user.message`, …
    pub name: Cow<'a, str>,
    /// When, in nanoseconds since 1970.
    pub time: u64,
    /// Its details.
    pub attributes: Attributes<'a>,
}

/// The status of a span.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Status<'a> {
    /// Its code.
    pub code: StatusCode,
    /// Its text; empty if none was set.
    pub message: Cow<'a, str>,
}

/// The three codes of a span's status.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum StatusCode {
    /// Nobody said anything. Most spans that went well have this.
    #[default]
    Unset,
    /// Somebody said that it went well. No proof: some instrumentations set it on cancelled runs.
    Ok,
    /// It failed, or was steered by an exception.
    Error,
}

/// The instrumentation scope.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Scope {
    /// The name, such as `pydantic-ai`; empty if unknown.
    pub name: String,
    /// The version; empty if unknown.
    pub version: String,
    /// What else it says of itself.
    pub attributes: Attributes<'static>,
}

/// The process that spans come from.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Resource {
    /// `service.name`, `deployment.environment.name`, …
    pub attributes: Attributes<'static>,
}

impl Span<'_> {
    /// A span that nothing is known of yet but where it comes from; a reader fills it.
    pub(crate) fn blank(scope: &Arc<Scope>, resource: &Arc<Resource>) -> Self {
        Span {
            trace_id: TraceId::INVALID,
            span_id: SpanId::INVALID,
            parent: None,
            parent_is_remote: None,
            name: Cow::Borrowed(""),
            start: 0,
            end: None,
            attributes: Attributes::default(),
            dropped_attributes: 0,
            events: Vec::new(),
            status: Status::default(),
            scope: Arc::clone(scope),
            resource: Arc::clone(resource),
        }
    }

    /// A copy that borrows nothing.
    pub fn into_owned(self) -> Span<'static> {
        Span {
            trace_id: self.trace_id,
            span_id: self.span_id,
            parent: self.parent,
            parent_is_remote: self.parent_is_remote,
            name: Cow::Owned(self.name.into_owned()),
            start: self.start,
            end: self.end,
            attributes: self.attributes.into_owned(),
            dropped_attributes: self.dropped_attributes,
            events: self.events.into_iter().map(SpanEvent::into_owned).collect(),
            status: Status { code: self.status.code, message: Cow::Owned(self.status.message.into_owned()) },
            scope: self.scope,
            resource: self.resource,
        }
    }

    /// The end, or the start while the span is open; never before the start (clocks can step back).
    pub fn end_or_start(&self) -> u64 {
        self.end.map_or(self.start, |end| end.max(self.start))
    }

    /// Roughly how many bytes of memory it holds; the measure of every bound on waiting spans.
    pub fn weight(&self) -> usize {
        size_of::<Self>()
            + self.name.len()
            + self.status.message.len()
            + self.attributes.weight()
            + self.events.iter().map(SpanEvent::weight).sum::<usize>()
    }
}

impl SpanEvent<'_> {
    fn into_owned(self) -> SpanEvent<'static> {
        SpanEvent {
            name: Cow::Owned(self.name.into_owned()),
            time: self.time,
            attributes: self.attributes.into_owned(),
        }
    }

    fn weight(&self) -> usize {
        size_of::<Self>() + self.name.len() + self.attributes.weight()
    }
}
