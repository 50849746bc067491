//! OTLP/JSON, read leniently.
//!
//! Producers disagree on ids (hex, base64), enums (numbers, names), 64-bit numbers (text, numbers, `1.5e18`), key
//! spelling (`traceId`, `trace_id`), what to leave out (`null`, no `values`) and the names of old versions
//! (`instrumentationLibrarySpans`). A strict reader refuses a whole request for one of them, or finds no spans in it.
//! All of these are read here. Unknown fields are ignored.
//!
//! A first pass takes the document apart and leaves each span as text (`frame`); then each span is parsed by itself
//! (`tree`). So one bad span harms no other, and there is never a tree of more than one span in memory.

use std::borrow::Cow;
use std::sync::Arc;

use serde_json::value::RawValue;

use super::encoding::{base64, id};
use super::frame::Part;
use super::protobuf::{parent_is_remote, status_code};
use super::tree::{Node, camel, cause, with_node};
use super::{Budget, ReadError, Spans, count_dropped, readable};
use crate::span::{Attributes, Resource, Scope, Span, SpanEvent, SpanId, Status, StatusCode, TraceId, Value};

/// Reads one JSON document: a request or `TracesData` (`{"resourceSpans": …}`), one of its parts (`{"scopeSpans": …}`,
/// `{"spans": …}`), a list of these, or what Tempo's API gives (`{"batches": …}`).
///
/// Half characters (`\ud83d` alone) and bytes that are not UTF-8 become U+FFFD.
///
/// # Errors
///
/// [`ReadError::Json`] if it is not JSON or its frame has, for example, text where a list belongs;
/// [`ReadError::NotSpans`] if it is something else, such as logs; [`ReadError::TooManySpans`] beyond the budget. What
/// is wrong inside a span, a scope or a resource is in [`Spans::rejected`] instead.
pub fn read(bytes: &[u8], budget: &Budget) -> Result<Spans<'static>, ReadError> {
    // The lossy check alone would be ten times slower.
    let text = std::str::from_utf8(bytes).map_or_else(|_| String::from_utf8_lossy(bytes), Cow::Borrowed);
    let text = text.strip_prefix('\u{feff}').unwrap_or(&text);
    read_text(text, budget)
}

/// Reads a document that is known to be UTF-8.
pub(super) fn read_text(text: &str, budget: &Budget) -> Result<Spans<'static>, ReadError> {
    let most = budget.values(text.len());
    let document = Part::parse(text, most).map_err(|error| ReadError::Json {
        cause: cause(&error),
        line: error.line(),
        column: error.column(),
    })?;
    let document = document.ok_or(ReadError::TooManyParts { limit: most })?;
    let mut reader = Reader { budget, seen: 0, found: Spans::default() };
    let nothing = Shared::default();
    let parts = match document {
        Part::List(parts) => parts,
        part => {
            if let Some(found) = stranger(&part) {
                return Err(ReadError::NotSpans { found });
            }
            reader.part(part, "", &nothing)?;
            return Ok(reader.found);
        }
    };
    let mut first_stranger = None;
    for (index, part) in parts.into_iter().enumerate() {
        let place = format!("[{index}]");
        if let Some(found) = stranger(&part) {
            reader.found.report(&place, format_args!("it holds {found}"));
            first_stranger = first_stranger.or(Some(found));
        } else {
            reader.part(part, &place, &nothing)?;
        }
    }
    match first_stranger {
        Some(found) if reader.seen == 0 => Err(ReadError::NotSpans { found }),
        _ => Ok(reader.found),
    }
}

struct Reader<'b> {
    budget: &'b Budget,
    /// How many spans, good or not.
    seen: usize,
    found: Spans<'static>,
}

/// What the spans of one scope share.
#[derive(Clone, Default)]
struct Shared {
    resource: Arc<Resource>,
    scope: Arc<Scope>,
}

impl Reader<'_> {
    /// A request, resource spans or scope spans: whichever its members say it is.
    fn part(&mut self, part: Part<'_>, place: &str, above: &Shared) -> Result<(), ReadError> {
        let Part::Object(members) = part else { return Ok(()) };
        let mut shared = above.clone();
        // The order of members is the sender's choice: what is shared first, wherever it stands.
        for (key, part) in &members {
            match (key.as_ref(), part) {
                ("resource", Part::Json(json)) => {
                    shared.resource = Arc::new(self.resource(json, &below(place, "resource")));
                }
                ("scope" | "instrumentationLibrary", Part::Json(json)) => {
                    shared.scope = Arc::new(self.scope(json, &below(place, "scope")));
                }
                _ => {}
            }
        }
        for (key, part) in members {
            let Part::List(parts) = part else { continue };
            let place = below(place, &key);
            if key == "spans" {
                self.spans(&parts, &shared, &place)?;
                continue;
            }
            for (index, part) in parts.into_iter().enumerate() {
                self.part(part, &format!("{place}[{index}]"), &shared)?;
            }
        }
        Ok(())
    }

    fn spans(&mut self, parts: &[Part<'_>], shared: &Shared, place: &str) -> Result<(), ReadError> {
        self.seen = self.seen.saturating_add(parts.len());
        if self.seen > self.budget.max_spans {
            return Err(ReadError::TooManySpans { limit: self.budget.max_spans });
        }
        for (index, part) in parts.iter().enumerate() {
            let Part::Json(json) = part else { continue };
            let place = || format!("{place}[{index}]");
            match with_node(json, self.budget, |node| self.span(node, shared)) {
                Ok((span, 0)) => self.found.spans.push(span),
                Ok((span, events)) => {
                    self.found.report(place(), format_args!("{events} of its events are beyond the limit"));
                    self.found.spans.push(span);
                }
                Err(_) if json.get() == "null" => {}
                Err(cause) => self.found.reject_span(place(), name_of(json, self.budget).as_deref(), cause),
            }
        }
        Ok(())
    }

    fn resource(&mut self, json: &RawValue, place: &str) -> Resource {
        let mut resource = Resource::default();
        let read = with_node(json, self.budget, |node| {
            for (key, value) in node.members()? {
                if key == "attributes" {
                    self.shared_attributes(&mut resource.attributes, value, place)?;
                }
            }
            Ok(())
        });
        if let Err(cause) = read {
            self.found.report(place, cause);
        }
        resource
    }

    fn scope(&mut self, json: &RawValue, place: &str) -> Scope {
        let mut scope = Scope::default();
        let read = with_node(json, self.budget, |node| {
            for (key, value) in node.members()? {
                match key.as_ref() {
                    "name" => scope.name = value.text()?.into_owned(),
                    "version" => scope.version = value.text()?.into_owned(),
                    "attributes" => self.shared_attributes(&mut scope.attributes, value, place)?,
                    _ => {}
                }
            }
            Ok(())
        });
        if let Err(cause) = read {
            self.found.report(place, cause);
        }
        scope
    }

    /// Reads what many spans share. Whatever is wrong in it is reported and left out: no reason to reject the spans.
    fn shared_attributes(&mut self, all: &mut Attributes<'static>, list: Node<'_>, place: &str) -> Result<(), String> {
        for (index, attribute) in list.elements()?.into_iter().enumerate() {
            match self.key_value(attribute, 1) {
                Ok(Some(_)) if all.len() == self.budget.max_attributes => {
                    self.found.report(place, "an attribute beyond the limit");
                }
                Ok(Some((key, value))) => all.push(key, value),
                Ok(None) => {}
                Err(cause) => self.found.report(format_args!("{place}.attributes[{index}]"), cause),
            }
        }
        Ok(())
    }

    /// The span, and how many of its events are beyond the limit.
    fn span(&self, node: Node<'_>, shared: &Shared) -> Result<(Span<'static>, usize), String> {
        let mut span = Span::blank(&shared.scope, &shared.resource);
        let mut excess = Excess::default();
        for (key, value) in node.members()? {
            let key = camel(&key);
            self.span_field(&mut span, &key, value, &mut excess).map_err(|cause| format!("{key}: {cause}"))?;
        }
        if span.trace_id == TraceId::INVALID {
            return Err("no trace id, or one of zeros".to_owned());
        }
        if span.span_id == SpanId::INVALID {
            return Err("no span id, or one of zeros".to_owned());
        }
        span.dropped_attributes = count_dropped(span.dropped_attributes, excess.attributes);
        Ok((span, excess.events))
    }

    fn span_field(
        &self,
        span: &mut Span<'static>,
        key: &str,
        value: Node<'_>,
        excess: &mut Excess,
    ) -> Result<(), String> {
        match key {
            "traceId" => span.trace_id = TraceId::from_bytes(read_id(value)?),
            "spanId" => span.span_id = SpanId::from_bytes(read_id(value)?),
            "parentSpanId" if value == Node::Text(Cow::Borrowed("")) => span.parent = None,
            "parentSpanId" => {
                let parent = SpanId::from_bytes(read_id(value)?);
                span.parent = (parent != SpanId::INVALID).then_some(parent);
            }
            "flags" => span.parent_is_remote = parent_is_remote(value.u64()? as u32),
            "name" => span.name = Cow::Owned(value.text()?.into_owned()),
            "startTimeUnixNano" => span.start = value.u64()?,
            "endTimeUnixNano" => span.end = Some(value.u64()?).filter(|end| *end != 0),
            "attributes" => self.attributes(&mut span.attributes, value, excess)?,
            "droppedAttributesCount" => {
                span.dropped_attributes = u32::try_from(value.u64()?).unwrap_or(u32::MAX);
            }
            "events" => {
                for event in value.elements()? {
                    if span.events.len() == self.budget.max_events {
                        excess.events += 1;
                        continue;
                    }
                    let event = self.event(event, excess)?;
                    // An empty one says nothing; `null` is one.
                    if event != SpanEvent::default() {
                        span.events.push(event);
                    }
                }
            }
            "status" => span.status = status(value)?,
            _ => {}
        }
        Ok(())
    }

    fn event(&self, node: Node<'_>, excess: &mut Excess) -> Result<SpanEvent<'static>, String> {
        let mut event = SpanEvent::default();
        for (key, value) in node.members()? {
            match camel(&key).as_ref() {
                "name" => event.name = Cow::Owned(value.text()?.into_owned()),
                "timeUnixNano" => event.time = value.u64()?,
                "attributes" => self.attributes(&mut event.attributes, value, excess)?,
                _ => {}
            }
        }
        Ok(event)
    }

    fn attributes(&self, all: &mut Attributes<'static>, list: Node<'_>, excess: &mut Excess) -> Result<(), String> {
        for attribute in list.elements()? {
            if all.len() == self.budget.max_attributes {
                excess.attributes += 1;
            } else if let Some((key, value)) = self.key_value(attribute, 1)? {
                all.push(key, value);
            }
        }
        Ok(())
    }

    /// `None` if it has no value.
    fn key_value(&self, node: Node<'_>, depth: usize) -> Result<Option<(String, Value<'static>)>, String> {
        let (mut key, mut value) = (String::new(), None);
        for (name, node) in node.members()? {
            match name.as_ref() {
                "key" => key = node.text()?.into_owned(),
                "value" => {
                    value = self.any_value(node, depth).map_err(|cause| format!("`{}`: {cause}", readable(&key)))?
                }
                _ => {}
            }
        }
        Ok(value.map(|value| (key, value)))
    }

    fn any_value(&self, node: Node<'_>, depth: usize) -> Result<Option<Value<'static>>, String> {
        if depth > self.budget.max_depth {
            return Err("lists and maps nested too deep".to_owned());
        }
        let mut value = None;
        for (key, node) in node.members()? {
            value = Some(match camel(&key).as_ref() {
                "stringValue" => Value::Text(Cow::Owned(node.text()?.into_owned())),
                "boolValue" => Value::Bool(node.bool()?),
                "intValue" => whole_number(&node)?,
                "doubleValue" => Value::Double(node.f64()?),
                "arrayValue" => self.array(node, depth + 1)?,
                "kvlistValue" => self.map(node, depth + 1)?,
                "bytesValue" => Value::Bytes(Cow::Owned(base64(&node.text()?).ok_or("text that is not base64")?)),
                _ => continue,
            });
        }
        Ok(value)
    }

    fn array(&self, node: Node<'_>, depth: usize) -> Result<Value<'static>, String> {
        let mut items = Vec::new();
        for item in values(node)? {
            items.extend(self.any_value(item, depth)?);
        }
        Ok(Value::Array(items))
    }

    fn map(&self, node: Node<'_>, depth: usize) -> Result<Value<'static>, String> {
        let mut pairs = Vec::new();
        for pair in values(node)? {
            pairs.extend(self.key_value(pair, depth)?.map(|(key, value)| (Cow::Owned(key), value)));
        }
        Ok(Value::Map(pairs))
    }
}

/// What a span held beyond the budget.
#[derive(Default)]
struct Excess {
    attributes: usize,
    events: usize,
}

/// The list in an `arrayValue` or a `kvlistValue`; missing if it is empty, as protobuf's own JSON has it.
fn values(node: Node<'_>) -> Result<Vec<Node<'_>>, String> {
    node.members()?.filter(|(key, _)| key == "values").last().map_or(Ok(Vec::new()), |(_, list)| list.elements())
}

fn read_id<const N: usize>(node: Node<'_>) -> Result<[u8; N], String> {
    id(&node.text()?).ok_or_else(|| format!("not {N} bytes in hex ({} digits) or base64", 2 * N))
}

/// A whole number, also as text and also as `7.0`. One that is not whole or beyond `i64` is kept as it is.
fn whole_number(node: &Node<'_>) -> Result<Value<'static>, String> {
    let number = match node {
        Node::Int(number) => return Ok(Value::Int(*number)),
        Node::Text(text) => match text.parse() {
            Ok(number) => return Ok(Value::Int(number)),
            Err(_) => node.f64()?,
        },
        other => other.f64()?,
    };
    // From -2^63 to below 2^63: what an `i64` holds.
    let fits = number.fract() == 0.0 && (-9_223_372_036_854_775_808.0..9_223_372_036_854_775_808.0).contains(&number);
    Ok(if fits { Value::Int(number as i64) } else { Value::Double(number) })
}

fn status(node: Node<'_>) -> Result<Status<'static>, String> {
    let mut status = Status::default();
    for (key, value) in node.members()? {
        match (key.as_ref(), &value) {
            ("message", _) => status.message = Cow::Owned(value.text()?.into_owned()),
            ("code", Node::Text(name)) if value.u64().is_err() => {
                status.code = match name.trim_start_matches("STATUS_CODE_").to_ascii_uppercase().as_str() {
                    "OK" => StatusCode::Ok,
                    "ERROR" => StatusCode::Error,
                    _ => StatusCode::Unset,
                };
            }
            ("code", _) => status.code = status_code(value.u64()?),
            _ => {}
        }
    }
    Ok(status)
}

/// The name of a span that could not be read, if that much can be.
fn name_of(json: &RawValue, budget: &Budget) -> Option<String> {
    with_node(json, budget, |node| {
        let mut name = node.members()?.filter(|(key, _)| key == "name").filter_map(|(_, value)| value.text().ok());
        Ok(name.next().map(Cow::into_owned))
    })
    .ok()
    .flatten()
}

fn below(place: &str, member: &str) -> String {
    if place.is_empty() { member.to_owned() } else { format!("{place}.{member}") }
}

/// What a document holds, in words, if it has nothing of a request. An empty one is a request without spans.
fn stranger(part: &Part<'_>) -> Option<String> {
    let members = match part {
        Part::Object(members) => members,
        Part::List(_) | Part::Json(_) => return None,
    };
    let has = |name: &str| members.iter().any(|(key, _)| key == name);
    if members.is_empty() || members.iter().any(|(_, part)| matches!(part, Part::List(_))) {
        None
    } else if has("resourceLogs") {
        Some("logs, not spans".to_owned())
    } else if has("resourceMetrics") {
        Some("metrics, not spans".to_owned())
    } else if has("sessionId") && has("agentId") && has("timestamp") {
        Some("Failproof events already".to_owned())
    } else {
        let names: Vec<_> = members.iter().take(3).map(|(key, _)| format!("`{}`", readable(key))).collect();
        Some(format!("an object with {}", names.join(", ")))
    }
}
