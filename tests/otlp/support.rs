//! What the tests are made of.

pub use std::borrow::Cow;
pub use std::sync::Arc;
pub use std::time::{Duration, UNIX_EPOCH};

pub use opentelemetry_failproof::otlp::write;
pub use opentelemetry_failproof::otlp::{
    Budget, ReadError, Spans,
    file::{FileContents, read_file},
    json, protobuf, sdk,
};
pub use opentelemetry_failproof::span::{
    Attributes, Resource, Scope, Span, SpanEvent, SpanId, Status, StatusCode, TraceId, Value,
};
pub use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
pub use opentelemetry_proto::tonic::common::v1::{
    AnyValue, ArrayValue, InstrumentationScope, KeyValue, KeyValueList, any_value,
};
pub use opentelemetry_proto::tonic::resource::v1::Resource as ProtoResource;
pub use opentelemetry_proto::tonic::trace::v1::{
    ResourceSpans, ScopeSpans, Span as ProtoSpan, Status as ProtoStatus, span::Event,
};
pub use proptest::prelude::*;
pub use prost::Message;

pub const RECORDINGS: [&str; 4] = [
    include_str!("../fixtures/otlp/rust-rig.json"),
    include_str!("../fixtures/otlp/javascript-vercel-ai.json"),
    include_str!("../fixtures/otlp/python-strands.json"),
    include_str!("../fixtures/otlp/python-openllmetry.json"),
];

pub const SMALLEST: &str = RECORDINGS[0];

pub const MINIMAL_SPAN: &str =
    r#"{"traceId":"0102030405060708090a0b0c0d0e0f10","spanId":"0102030405060708","name":"minimal"}"#;

/// A list of one minimal span with more members. The later of two members of one name counts.
pub fn spans_with(members: &str) -> String {
    format!(r#"{{"spans":[{}]}}"#, MINIMAL_SPAN.replace('}', &format!(",{members}}}")))
}

pub fn read_minimal(members: &str) -> Span<'static> {
    let mut found = read_json(&spans_with(members));
    assert_eq!(found.rejected, []);
    found.spans.remove(0)
}

pub fn read_span(members: &str) -> Span<'static> {
    read_json(&format!(r#"{{"spans":[{{{members}}}]}}"#)).spans.remove(0)
}

pub fn read_json(json: &str) -> Spans<'static> {
    json::read(json.as_bytes(), &Budget::REQUEST).unwrap()
}

pub fn read_protobuf(bytes: &[u8]) -> Spans<'static> {
    protobuf::read(bytes, &Budget::REQUEST).unwrap().into_owned()
}

/// One span through both readers.
pub fn read_both(span: ProtoSpan, budget: &Budget) -> [Spans<'static>; 2] {
    let request = ExportTraceServiceRequest {
        resource_spans: vec![ResourceSpans {
            scope_spans: vec![ScopeSpans { spans: vec![span], ..Default::default() }],
            ..Default::default()
        }],
    };
    let bytes = request.encode_to_vec();
    let json = serde_json::to_vec(&request).unwrap();
    [protobuf::read(&bytes, budget).unwrap().into_owned(), json::read(&json, budget).unwrap()]
}

pub fn request(json: &str) -> ExportTraceServiceRequest {
    serde_json::from_str(json).unwrap()
}

pub fn good(spans: &[Span<'static>]) -> FileContents {
    FileContents { spans: spans.to_vec(), ..FileContents::default() }
}

pub fn proto_span(name: &str) -> ProtoSpan {
    ProtoSpan { trace_id: vec![1; 16], span_id: vec![2; 8], name: name.to_owned(), ..Default::default() }
}

pub fn text(text: &str) -> AnyValue {
    AnyValue { value: Some(any_value::Value::StringValue(text.to_owned())) }
}

pub fn key_value(key: &str, value: AnyValue) -> KeyValue {
    KeyValue { key: key.to_owned(), value: Some(value), ..Default::default() }
}

/// An attribute whose value has so many levels.
pub fn nested(depth: usize) -> KeyValue {
    let mut value = text("deep");
    for _ in 1..depth {
        value = AnyValue { value: Some(any_value::Value::ArrayValue(ArrayValue { values: vec![value] })) };
    }
    key_value("k", value)
}

pub fn message(number: u32, bytes: &[u8]) -> Vec<u8> {
    let mut field = Vec::new();
    prost::encoding::encode_varint(u64::from(number << 3 | 2), &mut field);
    prost::encoding::encode_varint(bytes.len() as u64, &mut field);
    field.extend(bytes);
    field
}

/// A request around the encoded spans of one scope.
pub fn wrapped(spans: &[Vec<u8>]) -> Vec<u8> {
    let spans: Vec<_> = spans.iter().flat_map(|span| message(2, span)).collect();
    message(1, &message(2, &spans))
}

pub fn framed(messages: &[&[u8]]) -> Vec<u8> {
    messages.iter().flat_map(|message| [&(message.len() as u32).to_be_bytes()[..], message].concat()).collect()
}

/// A small generator that gives the same numbers every time.
pub struct Random(pub u64);

impl Random {
    pub fn below(&mut self, limit: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as usize % limit
    }
}

pub fn sdk_span() -> opentelemetry_sdk::trace::SpanData {
    use opentelemetry::trace::{Event, SpanContext, SpanKind, Status, TraceFlags, TraceState};
    use opentelemetry::{Array, KeyValue, Value};

    let pair = |key: &'static str, value: Value| KeyValue::new(key, value);
    let mut events = opentelemetry_sdk::trace::SpanEvents::default();
    events.events.push(Event::new("e", UNIX_EPOCH + Duration::from_secs(1), vec![pair("type", "x".into())], 0));
    opentelemetry_sdk::trace::SpanData {
        span_context: SpanContext::new(
            TraceId::from(7),
            SpanId::from(8),
            TraceFlags::SAMPLED,
            true,
            TraceState::default(),
        ),
        parent_span_id: SpanId::from(9),
        parent_span_is_remote: true,
        span_kind: SpanKind::Client,
        name: "chat".into(),
        start_time: UNIX_EPOCH + Duration::from_nanos(1_500),
        end_time: UNIX_EPOCH + Duration::from_nanos(2_500),
        attributes: vec![
            pair("text", "t".into()),
            pair("int", 1.into()),
            pair("double", 1.5.into()),
            pair("bool", true.into()),
            pair("texts", Value::Array(Array::String(vec!["a".into(), "b".into()]))),
            pair("ints", Value::Array(Array::I64(vec![1, 2]))),
            pair("text", "twice".into()),
        ],
        dropped_attributes_count: 4,
        events,
        links: Default::default(),
        status: Status::error("failed"),
        instrumentation_scope: opentelemetry::InstrumentationScope::builder("lib")
            .with_version("1.2")
            .with_attributes([pair("s", "a".into())])
            .build(),
    }
}

/// What our readers must make of a request, told from prost's structures alone.
pub fn expected(request: &ExportTraceServiceRequest) -> Spans<'static> {
    let mut found = Spans::default();
    for resource_spans in &request.resource_spans {
        let resource = resource_spans.resource.clone().unwrap_or_default();
        let resource = Arc::new(Resource { attributes: expected_attributes(&resource.attributes) });
        for scope_spans in &resource_spans.scope_spans {
            let scope = scope_spans.scope.clone().unwrap_or_default();
            let attributes = expected_attributes(&scope.attributes);
            let scope = Arc::new(Scope { name: scope.name, version: scope.version, attributes });
            for span in &scope_spans.spans {
                match expected_span(span, &resource, &scope) {
                    Some(span) => found.spans.push(span),
                    None => found.rejected_spans += 1,
                }
            }
        }
    }
    found
}

pub fn expected_span(span: &ProtoSpan, resource: &Arc<Resource>, scope: &Arc<Scope>) -> Option<Span<'static>> {
    let parent = match span.parent_span_id.as_slice() {
        [] => None,
        id => Some(SpanId::from_bytes(id.try_into().ok()?)).filter(|id| *id != SpanId::INVALID),
    };
    let status = span.status.clone().unwrap_or_default();
    Some(Span {
        trace_id: Some(TraceId::from_bytes(span.trace_id.as_slice().try_into().ok()?))
            .filter(|id| *id != TraceId::INVALID)?,
        span_id: Some(SpanId::from_bytes(span.span_id.as_slice().try_into().ok()?))
            .filter(|id| *id != SpanId::INVALID)?,
        parent,
        parent_is_remote: (span.flags >> 8 & 1 == 1).then_some(span.flags >> 9 & 1 == 1),
        name: span.name.clone().into(),
        start: span.start_time_unix_nano,
        end: Some(span.end_time_unix_nano).filter(|end| *end > 0),
        attributes: expected_attributes(&span.attributes),
        dropped_attributes: span.dropped_attributes_count,
        events: span
            .events
            .iter()
            .map(|event| SpanEvent {
                name: event.name.clone().into(),
                time: event.time_unix_nano,
                attributes: expected_attributes(&event.attributes),
            })
            .collect(),
        status: Status {
            code: [StatusCode::Unset, StatusCode::Ok, StatusCode::Error]
                .get(status.code as usize)
                .copied()
                .unwrap_or_default(),
            message: status.message.into(),
        },
        scope: Arc::clone(scope),
        resource: Arc::clone(resource),
    })
}

pub fn expected_attributes(pairs: &[KeyValue]) -> Attributes<'static> {
    pairs.iter().filter_map(|pair| Some((pair.key.clone(), expected_value(pair.value.as_ref()?)?))).collect()
}

pub fn expected_value(value: &AnyValue) -> Option<Value<'static>> {
    Some(match value.value.as_ref()? {
        any_value::Value::StringValue(text) => Value::from(text.clone()),
        any_value::Value::BoolValue(truth) => Value::Bool(*truth),
        any_value::Value::IntValue(number) => Value::Int(*number),
        any_value::Value::DoubleValue(number) => Value::Double(*number),
        any_value::Value::BytesValue(bytes) => Value::Bytes(bytes.clone().into()),
        any_value::Value::ArrayValue(list) => Value::Array(list.values.iter().filter_map(expected_value).collect()),
        any_value::Value::KvlistValue(list) => {
            let pairs = list.values.iter();
            Value::Map(
                pairs
                    .filter_map(|pair| Some((pair.key.clone().into(), expected_value(pair.value.as_ref()?)?)))
                    .collect(),
            )
        }
        any_value::Value::StringValueStrindex(_) => return None,
    })
}

pub fn any_request() -> impl Strategy<Value = ExportTraceServiceRequest> {
    let scope = (".{0,8}", ".{0,4}", attributes()).prop_map(|(name, version, attributes)| InstrumentationScope {
        name,
        version,
        attributes,
        dropped_attributes_count: 1,
    });
    let scope_spans = (prop::option::of(scope), prop::collection::vec(any_span(), 0..4))
        .prop_map(|(scope, spans)| ScopeSpans { scope, spans, schema_url: "https://schema".to_owned() });
    let resource = attributes().prop_map(|attributes| ProtoResource { attributes, ..Default::default() });
    let resource_spans =
        (prop::option::of(resource), prop::collection::vec(scope_spans, 0..3)).prop_map(|(resource, scope_spans)| {
            ResourceSpans { resource, scope_spans, schema_url: "https://schema".to_owned() }
        });
    prop::collection::vec(resource_spans, 0..3).prop_map(|resource_spans| ExportTraceServiceRequest { resource_spans })
}

pub fn any_span() -> impl Strategy<Value = ProtoSpan> {
    let event = (any::<u64>(), ".{0,8}", attributes()).prop_map(|(time_unix_nano, name, attributes)| Event {
        time_unix_nano,
        name,
        attributes,
        dropped_attributes_count: 2,
    });
    let status = (".{0,8}", 0..4).prop_map(|(message, code)| ProtoStatus { message, code });
    (
        (any_id(16), any_id(8), any_id(8), any::<u32>(), ".{0,8}"),
        (any::<u64>(), any::<u64>(), any::<u32>()),
        (attributes(), prop::collection::vec(event, 0..3), prop::option::of(status)),
    )
        .prop_map(
            |(
                (trace_id, span_id, parent_span_id, flags, name),
                (start, end, dropped),
                (attributes, events, status),
            )| {
                ProtoSpan {
                    trace_id,
                    span_id,
                    parent_span_id,
                    flags,
                    name,
                    kind: 3,
                    trace_state: "a=b".to_owned(),
                    start_time_unix_nano: start,
                    end_time_unix_nano: end,
                    dropped_attributes_count: dropped,
                    attributes,
                    events,
                    status,
                    links: vec![Default::default()],
                    ..Default::default()
                }
            },
        )
}

/// Mostly good, sometimes zeros, sometimes of another length.
pub fn any_id(length: usize) -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![
        8 => prop::collection::vec(any::<u8>(), length),
        1 => Just(vec![0; length]),
        1 => prop::collection::vec(any::<u8>(), 0..40),
    ]
}

pub fn attributes() -> impl Strategy<Value = Vec<KeyValue>> {
    prop::collection::vec(attribute(any_value()), 0..4)
}

pub fn attribute(value: impl Strategy<Value = AnyValue>) -> impl Strategy<Value = KeyValue> {
    (".{0,8}", prop::option::of(value)).prop_map(|(key, value)| KeyValue { key, value, ..Default::default() })
}

pub fn any_value() -> impl Strategy<Value = AnyValue> {
    use any_value::Value::{
        ArrayValue as List, BoolValue, BytesValue, DoubleValue, IntValue, KvlistValue, StringValue,
    };

    let plain = prop_oneof![
        ".{0,16}".prop_map(StringValue),
        any::<bool>().prop_map(BoolValue),
        any::<i64>().prop_map(IntValue),
        (prop::num::f64::NORMAL | prop::num::f64::ZERO).prop_map(DoubleValue),
        prop::collection::vec(any::<u8>(), 0..8).prop_map(BytesValue),
    ]
    .prop_map(|value| AnyValue { value: Some(value) });
    plain.prop_recursive(3, 12, 3, |inner| {
        let list = prop::collection::vec(inner.clone(), 0..3).prop_map(|values| List(ArrayValue { values }));
        let map = prop::collection::vec(attribute(inner), 0..3).prop_map(|values| KvlistValue(KeyValueList { values }));
        prop_oneof![list, map].prop_map(|value| AnyValue { value: Some(value) })
    })
}
