//! Runs of agents, each made from its number alone: whoever has the number knows the spans and their events.

use opentelemetry_failproof::Policy;
use opentelemetry_failproof::otlp::{Budget, protobuf};
use opentelemetry_failproof::trace::Mapping;
use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest as Request;
use opentelemetry_proto::tonic::common::v1::any_value::Value as Any;
use opentelemetry_proto::tonic::common::v1::{AnyValue, KeyValue};
use opentelemetry_proto::tonic::resource::v1::Resource;
use opentelemetry_proto::tonic::trace::v1::span::Event;
use opentelemetry_proto::tonic::trace::v1::{ResourceSpans, ScopeSpans, Span, Status};
use prost::Message;

use super::support;
use super::support::spans::{MS, NOW};

/// Numbers that look random and are the same each time.
#[derive(Clone, Debug)]
pub struct Random(pub u64);

impl Random {
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// One of so many.
    pub fn below(&mut self, limit: usize) -> usize {
        (self.next() % limit as u64) as usize
    }

    /// Whether it is the one case of so many.
    pub fn once_in(&mut self, cases: usize) -> bool {
        self.below(cases) == 0
    }
}

/// The spans of a run in the order in which they end, so that the root comes last: steps of a model call and a tool or
/// another agent, some of which fail.
pub fn run(number: u64) -> Vec<Span> {
    let mut random = Random(number);
    let mut spans = Vec::new();
    let steps = 1 + random.below(4) as u64;
    for step in 0..steps {
        let id = 16 + 4 * step;
        let asked = text("gen_ai.input.messages", message("user", "How many bolts are there?", &mut random));
        let answered = text("gen_ai.output.messages", message("assistant", "Some.", &mut random));
        spans.push(span(number, id, 1, "chat", "scripted-1", [asked, answered]));
        if random.once_in(4) {
            spans.push(span(number, id + 2, id + 1, "chat", "scripted-2", []));
            spans.push(span(number, id + 1, 1, "invoke_agent", "researcher", []));
            continue;
        }
        let arguments = text("gen_ai.tool.call.arguments", format!(r#"{{"shelf":{}}}"#, random.below(100)));
        let result = text("gen_ai.tool.call.result", filler(&mut random));
        let mut tool = span(number, id + 1, 1, "execute_tool", "count_stock", [arguments, result]);
        if random.once_in(4) {
            raise(&mut tool, "StockError", "the shelf is gone");
        }
        spans.push(tool);
    }
    let conversation = text("gen_ai.conversation.id", format!("conversation-{}", number / 2));
    let mut root = span(number, 1, 0, "invoke_agent", "concierge", [conversation]);
    if random.once_in(6) {
        raise(&mut root, "RunError", "no answer");
    }
    spans.push(root);
    spans
}

/// A model call whose parent never comes.
pub fn orphan(number: u64) -> Span {
    span(number, 2, 1, "chat", "scripted-1", [])
}

/// The one span of trace `number` with that id and parent; 0 for none.
pub fn span<const N: usize>(
    number: u64,
    id: u64,
    parent: u64,
    operation: &str,
    name: &str,
    attributes: [KeyValue; N],
) -> Span {
    let bytes = |id: u64| if id == 0 { Vec::new() } else { id.to_be_bytes().to_vec() };
    let key = match operation {
        "chat" => "gen_ai.request.model",
        "execute_tool" => "gen_ai.tool.name",
        _ => "gen_ai.agent.name",
    };
    let common = [
        text("gen_ai.operation.name", operation.to_owned()),
        text(key, name.to_owned()),
        text("gen_ai.tool.call.id", format!("call-{number}-{id}")),
    ];
    Span {
        trace_id: trace_id(number),
        span_id: bytes(id),
        parent_span_id: bytes(parent),
        name: format!("{operation} {name}"),
        start_time_unix_nano: NOW + number * MS + id * MS,
        end_time_unix_nano: NOW + number * MS + (4_000_000 - id) * MS,
        attributes: common.into_iter().chain(attributes).collect(),
        ..Span::default()
    }
}

fn trace_id(number: u64) -> Vec<u8> {
    (1 + u128::from(number)).wrapping_mul(0x9e37_79b9_7f4a_7c15_f39c_c060_5ced_c835).to_be_bytes().to_vec()
}

fn raise(span: &mut Span, kind: &str, message: &str) {
    let pairs = [("exception.type", kind), ("exception.message", message)];
    let attributes = pairs.map(|(key, value)| text(key, value.to_owned())).to_vec();
    let time_unix_nano = span.end_time_unix_nano;
    span.events.push(Event { name: "exception".to_owned(), time_unix_nano, attributes, ..Event::default() });
    span.status = Some(Status { code: 2, message: format!("{kind}: {message}") });
}

pub fn text(key: &str, value: String) -> KeyValue {
    let value = AnyValue { value: Some(Any::StringValue(value)) };
    KeyValue { key: key.to_owned(), value: Some(value), ..KeyValue::default() }
}

fn message(role: &str, words: &str, random: &mut Random) -> String {
    format!(r#"[{{"role":"{role}","parts":[{{"type":"text","content":"{words} {}"}}]}}]"#, filler(random))
}

/// Up to a thousand bytes.
fn filler(random: &mut Random) -> String {
    "twelve bolts, ".repeat(random.below(70))
}

/// One request of these spans.
pub fn request(spans: Vec<Span>) -> Request {
    let resource = Resource { attributes: vec![text("service.name", "stock".to_owned())], ..Resource::default() };
    let scope_spans = vec![ScopeSpans { spans, ..ScopeSpans::default() }];
    Request {
        resource_spans: vec![ResourceSpans { resource: Some(resource), scope_spans, ..ResourceSpans::default() }],
    }
}

/// The requests of some runs that go on at the same time: each is split anywhere, and a request holds the next part of
/// several of them.
pub fn interleaved(numbers: &[u64], random: &mut Random) -> Vec<Request> {
    let mut rest: Vec<Vec<Span>> = numbers.iter().map(|number| run(*number)).collect();
    let mut requests = Vec::new();
    while rest.iter().any(|spans| !spans.is_empty()) {
        let mut part = Vec::new();
        for spans in &mut rest {
            let taken = random.below(4).min(spans.len());
            part.extend(spans.drain(..taken));
        }
        if !part.is_empty() {
            requests.push(request(part));
        }
    }
    requests
}

/// The lines that spans have to become, a trace of its own.
pub fn lines(spans: Vec<Span>) -> String {
    let bytes = request(spans).encode_to_vec();
    let read = protobuf::read(&bytes, &Budget::FILE).unwrap();
    assert_eq!(read.rejected, []);
    support::lines(&read.spans, &Mapping::default(), Policy::default())
}
