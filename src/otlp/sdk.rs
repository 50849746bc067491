//! Spans as `opentelemetry_sdk` hands them to processors and exporters.

use std::borrow::Cow;
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use opentelemetry::{Array, InstrumentationScope, KeyValue, trace};
use opentelemetry_sdk::trace::SpanData;

use crate::span::{Attributes, Resource, Scope, Span, SpanEvent, SpanId, Status, StatusCode, Value};

/// A span that has ended. Its text is moved, not copied. The limits are the SDK's own (`SpanLimits`).
pub fn span_from_sdk(data: SpanData, resource: &Arc<Resource>) -> Span<'static> {
    let end = nanoseconds(data.end_time);
    Span { end: Some(end), ..open_span_from_sdk(data, resource) }
}

/// A span that has only started, as `Span::exported_data` gives it in `on_start`: its end time means nothing yet.
pub fn open_span_from_sdk(data: SpanData, resource: &Arc<Resource>) -> Span<'static> {
    Span {
        trace_id: data.span_context.trace_id(),
        span_id: data.span_context.span_id(),
        parent: (data.parent_span_id != SpanId::INVALID).then_some(data.parent_span_id),
        parent_is_remote: Some(data.parent_span_is_remote),
        name: data.name,
        start: nanoseconds(data.start_time),
        end: None,
        attributes: attributes(data.attributes),
        dropped_attributes: data.dropped_attributes_count,
        events: data.events.into_iter().map(event).collect(),
        status: status(data.status),
        scope: Arc::new(scope(&data.instrumentation_scope)),
        resource: Arc::clone(resource),
    }
}

/// Roughly how many bytes of memory a span holds: cheap enough to be asked on the thread that ends it.
pub fn weight(data: &SpanData) -> usize {
    let text = |pair: &KeyValue| match &pair.value {
        opentelemetry::Value::String(text) => text.as_str().len(),
        _ => 0,
    };
    let of = |attributes: &[KeyValue]| attributes.iter().map(|pair| size_of::<KeyValue>() + text(pair)).sum::<usize>();
    size_of::<SpanData>() + of(&data.attributes) + data.events.iter().map(|event| of(&event.attributes)).sum::<usize>()
}

/// The resource, which a processor or an exporter gets by `set_resource`, sorted by key: the SDK keeps it in an order
/// that differs from process to process.
pub fn resource_from_sdk(resource: &opentelemetry_sdk::Resource) -> Resource {
    let mut pairs: Vec<_> = resource.iter().collect();
    pairs.sort_by_key(|(key, _)| key.as_str());
    Resource { attributes: pairs.into_iter().map(|(key, other)| (key.to_string(), value(other.clone()))).collect() }
}

fn scope(scope: &InstrumentationScope) -> Scope {
    Scope {
        name: scope.name().to_owned(),
        version: scope.version().unwrap_or_default().to_owned(),
        attributes: attributes(scope.attributes().cloned()),
    }
}

fn event(event: trace::Event) -> SpanEvent<'static> {
    SpanEvent { name: event.name, time: nanoseconds(event.timestamp), attributes: attributes(event.attributes) }
}

fn status(status: trace::Status) -> Status<'static> {
    let (code, message) = match status {
        trace::Status::Unset => (StatusCode::Unset, Cow::Borrowed("")),
        trace::Status::Ok => (StatusCode::Ok, Cow::Borrowed("")),
        trace::Status::Error { description } => (StatusCode::Error, description),
    };
    Status { code, message }
}

fn attributes(pairs: impl IntoIterator<Item = KeyValue>) -> Attributes<'static> {
    pairs.into_iter().map(|pair| (String::from(pair.key), value(pair.value))).collect()
}

fn value(value: opentelemetry::Value) -> Value<'static> {
    match value {
        opentelemetry::Value::Bool(truth) => Value::Bool(truth),
        opentelemetry::Value::I64(number) => Value::Int(number),
        opentelemetry::Value::F64(number) => Value::Double(number),
        opentelemetry::Value::String(text) => Value::from(String::from(text)),
        opentelemetry::Value::Array(Array::Bool(items)) => list(items, Value::Bool),
        opentelemetry::Value::Array(Array::I64(items)) => list(items, Value::Int),
        opentelemetry::Value::Array(Array::F64(items)) => list(items, Value::Double),
        opentelemetry::Value::Array(Array::String(items)) => list(items, |text| Value::from(String::from(text))),
        // The enums may grow: a new kind is at least legible.
        other => Value::from(other.to_string()),
    }
}

fn list<T>(items: Vec<T>, value: impl Fn(T) -> Value<'static>) -> Value<'static> {
    Value::Array(items.into_iter().map(value).collect())
}

/// Since 1970; what is earlier counts as 1970, what is later than 2554 as that.
fn nanoseconds(time: SystemTime) -> u64 {
    time.duration_since(UNIX_EPOCH).map_or(0, |since| u64::try_from(since.as_nanos()).unwrap_or(u64::MAX))
}
