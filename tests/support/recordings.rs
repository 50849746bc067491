//! Small recordings of real programs, and requests to take apart and put together again.
#![allow(dead_code, reason = "every test that includes it uses a part of it")]

use opentelemetry_failproof::otlp::{Budget, json, protobuf};
use opentelemetry_failproof::span::Span;
use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest as Request;
use opentelemetry_proto::tonic::trace::v1::{ResourceSpans, ScopeSpans, Span as SpanMessage};
use prost::Message;

/// A recording's name and its OTLP/JSON.
pub fn recordings() -> Vec<(String, String)> {
    let folder = super::support::fixtures("properties");
    let mut recordings: Vec<_> = std::fs::read_dir(folder)
        .unwrap()
        .map(|entry| {
            let path = entry.unwrap().path();
            let unpacked = zstd::decode_all(&*std::fs::read(&path).unwrap()).unwrap();
            (path.file_name().unwrap().to_string_lossy().into_owned(), String::from_utf8(unpacked).unwrap())
        })
        .collect();
    recordings.sort();
    recordings
}

/// The request of a recording.
pub fn request_of(json: &str) -> Request {
    serde_json::from_str(json).unwrap()
}

/// Requests of one span each.
pub fn taken_apart(request: &Request) -> Vec<Request> {
    let mut parts = Vec::new();
    for of_resource in &request.resource_spans {
        for of_scope in &of_resource.scope_spans {
            for span in &of_scope.spans {
                parts.push(request_with(of_resource, of_scope, span));
            }
        }
    }
    parts
}

fn request_with(of_resource: &ResourceSpans, of_scope: &ScopeSpans, span: &SpanMessage) -> Request {
    let scope_spans = vec![ScopeSpans { spans: vec![span.clone()], ..of_scope.clone() }];
    Request { resource_spans: vec![ResourceSpans { scope_spans, ..of_resource.clone() }] }
}

/// One request of several.
pub fn put_together(parts: &[Request]) -> Request {
    Request { resource_spans: parts.iter().flat_map(|part| part.resource_spans.clone()).collect() }
}

/// The spans of a recording that came in several requests, in any order, as protobuf and as JSON.
pub fn in_requests(request: &Request, seed: u64) -> Vec<Span<'static>> {
    let mut numbers = Numbers::from_seed(seed);
    let mut parts = taken_apart(request);
    numbers.shuffle(&mut parts);
    let mut spans = Vec::new();
    let mut rest = &parts[..];
    while !rest.is_empty() {
        let (some, others) = rest.split_at(1 + numbers.below(rest.len()));
        let request = put_together(some);
        let read = match numbers.below(2) {
            0 => json::read(&json_bytes(&request), &Budget::REQUEST).unwrap(),
            _ => protobuf::read(&protobuf_bytes(&request), &Budget::REQUEST).unwrap().into_owned(),
        };
        assert_eq!(read.rejected, []);
        spans.extend(read.spans);
        rest = others;
    }
    spans
}

/// The spans in another order, some of them more than once.
pub fn shaken(spans: &[Span<'static>], seed: u64) -> Vec<Span<'static>> {
    let mut numbers = Numbers::from_seed(seed);
    let again = numbers.below(spans.len() + 1);
    let mut shaken = [spans, &spans[..again]].concat();
    numbers.shuffle(&mut shaken);
    shaken
}

pub fn json_bytes(request: &Request) -> Vec<u8> {
    serde_json::to_vec(request).unwrap()
}

pub fn protobuf_bytes(request: &Request) -> Vec<u8> {
    request.encode_to_vec()
}

/// Numbers that look random and are the same in every run (xorshift).
pub struct Numbers(u64);

impl Numbers {
    pub fn from_seed(seed: u64) -> Self {
        Numbers(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    pub fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    /// A number below the limit; 0 if that is 0.
    pub fn below(&mut self, limit: usize) -> usize {
        usize::try_from(self.next() >> 11).unwrap() % limit.max(1)
    }

    pub fn shuffle<T>(&mut self, items: &mut [T]) {
        for at in (1..items.len()).rev() {
            items.swap(at, self.below(at + 1));
        }
    }
}
