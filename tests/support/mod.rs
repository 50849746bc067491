//! What several tests need.
#![allow(dead_code, clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::print_stdout)]

pub mod contract;
pub mod invariants;
pub mod parity;
#[cfg(all(feature = "cli", feature = "gateway"))]
pub mod programs;
pub mod recorded;
#[cfg(all(feature = "cli", feature = "gateway"))]
pub mod serving;
pub mod spans;

use std::path::{Path, PathBuf};

use opentelemetry_failproof::otlp::{self, Budget};
use opentelemetry_failproof::span::Span;
use opentelemetry_failproof::trace::{Mapping, map};
use opentelemetry_failproof::{Policy, encode};
use serde_json::Value;

/// A folder of `tests/fixtures`.
pub fn fixtures(folder: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures").join(folder)
}

/// The spans of an OTLP/JSON document.
pub fn spans_of(json: &[u8]) -> Vec<Span<'static>> {
    let read = otlp::json::read(json, &Budget::FILE).expect("the recording is OTLP/JSON");
    assert_eq!(read.rejected, [], "every span of the recording is good");
    read.spans
}

/// The lines that spans become.
pub fn lines(spans: &[Span<'_>], mapping: &Mapping, policy: Policy) -> String {
    String::from_utf8(encode(map(spans, mapping), policy)).expect("events are UTF-8")
}

/// The events that spans become.
pub fn events(spans: &[Span<'_>], mapping: &Mapping, policy: Policy) -> Vec<Value> {
    parse_lines(&lines(spans, mapping, policy))
}

/// JSON lines as values.
pub fn parse_lines(lines: &str) -> Vec<Value> {
    lines.lines().map(|line| serde_json::from_str(line).expect("every line is JSON")).collect()
}

/// All spans of an OTLP/JSON request, as they stand there.
pub fn otlp_spans(json: &str) -> Vec<Value> {
    let request: Value = serde_json::from_str(json).expect("the request is JSON");
    let list = |value: &Value, name: &str| value[name].as_array().cloned().unwrap_or_default();
    let scopes = list(&request, "resourceSpans").into_iter().flat_map(|resource| list(&resource, "scopeSpans"));
    scopes.flat_map(|scope| list(&scope, "spans")).collect()
}

/// An attribute's text; `null` if there is none.
pub fn attribute(holder: &Value, name: &str) -> Value {
    let found = holder["attributes"].as_array().into_iter().flatten().find(|attribute| attribute["key"] == name);
    found.map_or(Value::Null, |attribute| attribute["value"]["stringValue"].clone())
}
