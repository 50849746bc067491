//! OTLP/JSON, read leniently.
//!
//! Producers disagree on ids (hex, base64), enums (numbers, names), 64-bit numbers (text, numbers, `1.5e18`), key
//! spelling (`traceId`, `trace_id`), what to leave out (`null`, no `values`) and the names of old versions
//! (`instrumentationLibrarySpans`). A strict reader refuses a whole request for one of them, or finds no spans in it.
//! All of these are read here. Unknown fields are ignored.
//!
//! The document is taken apart down to the spans as text; then each span is parsed by itself. So one bad span harms no
//! other, and there is never a tree of more than one span in memory.

use std::borrow::Cow;
use std::sync::Arc;

use serde_json::value::RawValue;

use super::encoding::{base64, id};
use super::protobuf::{parent_is_remote, status_code};
use super::tree::{Node, RawMembers, camel, cause, mismatch, with_node};
use super::{Budget, ReadError, Spans, count_dropped, readable};
use crate::span::{Attributes, Resource, Scope, Span, SpanEvent, SpanId, Status, StatusCode, TraceId, Value};

/// Reads one JSON document: a request or `TracesData` (`{"resourceSpans": …}`), one of its parts down to a lone span,
/// a list of these, or what Tempo's API gives (`{"batches": …}`).
///
/// Half characters (`\ud83d` alone) and bytes that are not UTF-8 become U+FFFD.
///
/// # Errors
///
/// [`ReadError::Json`] if it is not JSON, [`ReadError::NotSpans`] if it is something else, such as logs,
/// [`ReadError::TooManySpans`] beyond the budget. What is wrong with a part is in [`Spans::rejected`] instead.
pub fn read(bytes: &[u8], budget: &Budget) -> Result<Spans<'static>, ReadError> {
    let text = String::from_utf8_lossy(bytes);
    let text = text.strip_prefix('\u{feff}').unwrap_or(&text);
    let document = serde_json::from_str(text).map_err(|error| ReadError::Json {
        cause: cause(&error),
        line: error.line(),
        column: error.column(),
    })?;
    read_document(document, budget)
}

/// Reads a document that is known to be JSON.
pub(super) fn read_document(document: &RawValue, budget: &Budget) -> Result<Spans<'static>, ReadError> {
    let mut reader = Reader { budget, seen: 0, found: Spans::default() };
    let nothing = Shared::default();
    let Ok(list) = serde_json::from_str::<Vec<&RawValue>>(document.get()) else {
        reader.part(document, "", &nothing, Level::Top)?;
        return Ok(reader.found);
    };
    let mut first_stranger = None;
    for (index, part) in list.into_iter().enumerate() {
        match reader.part(part, &format!("[{index}]"), &nothing, Level::Top) {
            Err(ReadError::NotSpans { found }) => {
                reader.found.report(format_args!("[{index}]"), format_args!("it holds {found}"));
                first_stranger = first_stranger.or(Some(ReadError::NotSpans { found }));
            }
            other => other?,
        }
    }
    match first_stranger {
        Some(error) if reader.found.spans.is_empty() && reader.found.rejected_spans == 0 => Err(error),
        _ => Ok(reader.found),
    }
}

struct Reader<'b> {
    budget: &'b Budget,
    seen: usize,
    found: Spans<'static>,
}

/// What the spans of one scope share.
#[derive(Clone, Default)]
struct Shared {
    resource: Arc<Resource>,
    scope: Arc<Scope>,
}

/// How far down a part stands. Each level has lists of the next; that bounds how deep they nest.
#[derive(Clone, Copy, PartialEq)]
enum Level {
    Top,
    ResourceSpans,
    ScopeSpans,
}

impl Reader<'_> {
    /// A request, resource spans or scope spans: whichever its members say it is.
    fn part(&mut self, json: &RawValue, place: &str, above: &Shared, level: Level) -> Result<(), ReadError> {
        let members = match serde_json::from_str(json.get()) {
            Ok(RawMembers(members)) => members,
            Err(_) if json.get() == "null" => return Ok(()),
            Err(error) if level == Level::Top => {
                return Err(ReadError::NotSpans { found: mismatch(json, "an object", &error) });
            }
            Err(error) => {
                self.found.reject_span(place, None, mismatch(json, "an object", &error));
                return Ok(());
            }
        };
        let find = |name: &str| members.iter().rev().find(|(key, _)| camel(key) == name).map(|(_, value)| *value);
        if level == Level::Top && find("traceId").is_some() && find("spanId").is_some() {
            return self.spans(&[json], above, |_| place.to_owned());
        }

        let mut shared = above.clone();
        if let Some(resource) = find("resource") {
            shared.resource = Arc::new(self.resource(resource, &below(place, "resource")));
        }
        if let Some(scope) = find("scope").or_else(|| find("instrumentationLibrary")) {
            shared.scope = Arc::new(self.scope(scope, &below(place, "scope")));
        }
        let mut holds_spans = false;
        for (key, value) in &members {
            let key = camel(key);
            let place = below(place, &key);
            let next = match (key.as_ref(), level) {
                ("spans", _) => {
                    let list = self.list(value, &place);
                    self.spans(&list, &shared, |index| format!("{place}[{index}]"))?;
                    holds_spans = true;
                    continue;
                }
                ("scopeSpans" | "instrumentationLibrarySpans", Level::Top | Level::ResourceSpans) => Level::ScopeSpans,
                ("resourceSpans" | "batches", Level::Top) => Level::ResourceSpans,
                _ => continue,
            };
            holds_spans = true;
            for (index, part) in self.list(value, &place).into_iter().enumerate() {
                self.part(part, &format!("{place}[{index}]"), &shared, next)?;
            }
        }
        if level == Level::Top && !holds_spans && !members.is_empty() {
            return Err(ReadError::NotSpans { found: describe(&members) });
        }
        Ok(())
    }

    fn list<'j>(&mut self, json: &'j RawValue, place: &str) -> Vec<&'j RawValue> {
        serde_json::from_str::<Option<_>>(json.get()).map(Option::unwrap_or_default).unwrap_or_else(|error| {
            self.found.reject_span(place, None, mismatch(json, "a list", &error));
            Vec::new()
        })
    }

    fn spans(&mut self, list: &[&RawValue], shared: &Shared, place: impl Fn(usize) -> String) -> Result<(), ReadError> {
        self.seen = self.seen.saturating_add(list.len());
        if self.seen > self.budget.max_spans {
            return Err(ReadError::TooManySpans { limit: self.budget.max_spans });
        }
        for (index, json) in list.iter().enumerate().filter(|(_, json)| json.get() != "null") {
            match with_node(json, |node| self.span(node, shared)) {
                Ok((span, events)) => {
                    if events > 0 {
                        self.found.report(place(index), format_args!("{events} of its events are beyond the limit"));
                    }
                    self.found.spans.push(span);
                }
                Err(cause) => self.found.reject_span(place(index), name_of(json).as_deref(), cause),
            }
        }
        Ok(())
    }

    fn resource(&mut self, json: &RawValue, place: &str) -> Resource {
        let mut resource = Resource::default();
        let read = with_node(json, |node| {
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
        let read = with_node(json, |node| {
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
        let mut span = Span {
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
            scope: Arc::clone(&shared.scope),
            resource: Arc::clone(&shared.resource),
        };
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
                for event in value.elements()?.into_iter().filter(|event| *event != Node::Null) {
                    if span.events.len() == self.budget.max_events {
                        excess.events += 1;
                    } else {
                        span.events.push(self.event(event, excess)?);
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
fn name_of(json: &RawValue) -> Option<String> {
    with_node(json, |node| {
        let mut name = node.members()?.filter(|(key, _)| key == "name").filter_map(|(_, value)| value.text().ok());
        Ok(name.next().map(Cow::into_owned))
    })
    .ok()
    .flatten()
}

fn below(place: &str, member: &str) -> String {
    if place.is_empty() { member.to_owned() } else { format!("{place}.{member}") }
}

/// What a document without spans holds, in words.
fn describe(members: &[(Cow<'_, str>, &RawValue)]) -> String {
    let has = |name: &str| members.iter().any(|(key, _)| camel(key) == name);
    if has("resourceLogs") {
        "logs, not spans".to_owned()
    } else if has("resourceMetrics") {
        "metrics, not spans".to_owned()
    } else if has("sessionId") && has("agentId") && has("timestamp") {
        "Failproof events already".to_owned()
    } else {
        let names: Vec<_> = members.iter().take(3).map(|(key, _)| format!("`{}`", readable(key))).collect();
        format!("an object with {}", names.join(", "))
    }
}
