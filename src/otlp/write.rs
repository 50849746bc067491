//! Spans back to bytes: a `TracesData` in protobuf that [`protobuf::read`](super::protobuf::read) reads as the very same
//! spans, whatever they were read from. What the gateway's journal holds.
//!
//! Two of them one after the other are one that holds the spans of both, as protobuf has it.

use std::sync::Arc;

use crate::span::{Attributes, Resource, Scope, Span, SpanEvent, StatusCode, Value};

const VARINT: u32 = 0;
const FIXED64: u32 = 1;
const BYTES: u32 = 2;
const FIXED32: u32 = 5;

/// How many bytes the length of a message takes. It is known when the message is written, behind it, and padded so that
/// nothing has to be moved.
const LENGTH_BYTES: usize = 5;

/// Appends spans to `bytes`. Neighbours of one resource and scope share them.
pub fn write<'s>(spans: impl IntoIterator<Item = &'s Span<'s>>, bytes: &mut Vec<u8>) {
    let mut spans = spans.into_iter().peekable();
    while let Some(first) = spans.peek().map(|span| Arc::clone(&span.resource)) {
        message(bytes, 1, |bytes| {
            message(bytes, 1, |bytes| resource(bytes, &first));
            let is_here = |span: &&Span<'_>| Arc::ptr_eq(&span.resource, &first);
            while let Some(of) = spans.peek().filter(|span| is_here(span)).map(|span| Arc::clone(&span.scope)) {
                message(bytes, 2, |bytes| {
                    message(bytes, 1, |bytes| scope(bytes, &of));
                    while let Some(next) = spans.next_if(|span| is_here(span) && Arc::ptr_eq(&span.scope, &of)) {
                        message(bytes, 2, |bytes| span(bytes, next));
                    }
                });
            }
        });
    }
}

fn resource(bytes: &mut Vec<u8>, resource: &Resource) {
    attributes(bytes, 1, &resource.attributes);
}

fn scope(bytes: &mut Vec<u8>, scope: &Scope) {
    text(bytes, 1, &scope.name);
    text(bytes, 2, &scope.version);
    attributes(bytes, 3, &scope.attributes);
}

fn span(bytes: &mut Vec<u8>, span: &Span<'_>) {
    field(bytes, 1, &span.trace_id.to_bytes());
    field(bytes, 2, &span.span_id.to_bytes());
    if let Some(parent) = span.parent {
        field(bytes, 4, &parent.to_bytes());
    }
    text(bytes, 5, &span.name);
    fixed64(bytes, 7, span.start);
    if let Some(end) = span.end {
        fixed64(bytes, 8, end);
    }
    attributes(bytes, 9, &span.attributes);
    if span.dropped_attributes != 0 {
        number(bytes, 10, span.dropped_attributes.into());
    }
    for event in &span.events {
        message(bytes, 11, |bytes| self::event(bytes, event));
    }
    message(bytes, 15, |bytes| {
        text(bytes, 2, &span.status.message);
        match span.status.code {
            StatusCode::Unset => {}
            StatusCode::Ok => number(bytes, 3, 1),
            StatusCode::Error => number(bytes, 3, 2),
        }
    });
    if let Some(is_remote) = span.parent_is_remote {
        tag(bytes, 16, FIXED32);
        bytes.extend_from_slice(&(0x100_u32 | if is_remote { 0x200 } else { 0 }).to_le_bytes());
    }
}

fn event(bytes: &mut Vec<u8>, event: &SpanEvent<'_>) {
    fixed64(bytes, 1, event.time);
    text(bytes, 2, &event.name);
    attributes(bytes, 3, &event.attributes);
}

fn attributes(bytes: &mut Vec<u8>, number: u32, attributes: &Attributes<'_>) {
    for (key, value) in attributes.iter() {
        key_value(bytes, number, key, value);
    }
}

fn key_value(bytes: &mut Vec<u8>, number: u32, key: &str, value: &Value<'_>) {
    message(bytes, number, |bytes| {
        text(bytes, 1, key);
        message(bytes, 2, |bytes| any_value(bytes, value));
    });
}

/// Written out even where it is empty or zero: of a value the field says which kind it is.
fn any_value(bytes: &mut Vec<u8>, value: &Value<'_>) {
    match value {
        Value::Text(text) => field(bytes, 1, text.as_bytes()),
        Value::Bool(truth) => number(bytes, 2, (*truth).into()),
        Value::Int(int) => number(bytes, 3, int.cast_unsigned()),
        Value::Double(double) => fixed64(bytes, 4, double.to_bits()),
        Value::Bytes(value) => field(bytes, 7, value),
        Value::Array(items) => message(bytes, 5, |bytes| {
            for item in items {
                message(bytes, 1, |bytes| any_value(bytes, item));
            }
        }),
        Value::Map(pairs) => message(bytes, 6, |bytes| {
            for (key, value) in pairs {
                key_value(bytes, 1, key, value);
            }
        }),
    }
}

fn text(bytes: &mut Vec<u8>, number: u32, text: &str) {
    if !text.is_empty() {
        field(bytes, number, text.as_bytes());
    }
}

fn field(bytes: &mut Vec<u8>, number: u32, content: &[u8]) {
    tag(bytes, number, BYTES);
    varint(bytes, content.len() as u64);
    bytes.extend_from_slice(content);
}

fn number(bytes: &mut Vec<u8>, number: u32, value: u64) {
    tag(bytes, number, VARINT);
    varint(bytes, value);
}

fn fixed64(bytes: &mut Vec<u8>, number: u32, value: u64) {
    tag(bytes, number, FIXED64);
    bytes.extend_from_slice(&value.to_le_bytes());
}

fn message(bytes: &mut Vec<u8>, number: u32, content: impl FnOnce(&mut Vec<u8>)) {
    tag(bytes, number, BYTES);
    let start = bytes.len();
    bytes.extend_from_slice(&[0; LENGTH_BYTES]);
    content(bytes);
    let mut length = bytes.len() - start - LENGTH_BYTES;
    for (at, byte) in bytes[start..start + LENGTH_BYTES].iter_mut().enumerate() {
        let more = if at + 1 < LENGTH_BYTES { 0x80 } else { 0 };
        *byte = (length & 0x7f) as u8 | more;
        length >>= 7;
    }
}

fn tag(bytes: &mut Vec<u8>, number: u32, wire_type: u32) {
    varint(bytes, (number << 3 | wire_type).into());
}

fn varint(bytes: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        bytes.push((value & 0x7f) as u8 | 0x80);
        value >>= 7;
    }
    bytes.push(value as u8);
}
