//! OTLP in protobuf: a walk over the bytes of an `ExportTraceServiceRequest` that borrows all text.
//!
//! Written by hand because a generated decoder copies every string (33 allocations a span), and takes memory for
//! whatever the bytes announce before anyone can look at it. Unknown fields are skipped; a field that stands twice
//! counts as protobuf wants it: the last number or text wins, lists are joined. Groups are refused. The numbers in the
//! matches below are field numbers of `opentelemetry/proto/{trace,common,resource}/v1`.

use std::borrow::Cow;
use std::cell::Cell;
use std::sync::Arc;

use super::wire::{Field, Malformed, Message};
use super::{Budget, ReadError, Spans, count_dropped};
use crate::span::{Attributes, Resource, Scope, Span, SpanEvent, SpanId, Status, StatusCode, TraceId, Value};

/// Reads a request (also a `TracesData`, which has the same form). No bytes at all are a request without spans.
///
/// # Errors
///
/// [`ReadError::Protobuf`] if the framing down to the spans is broken, [`ReadError::TooManySpans`] beyond the budget.
/// What is wrong inside a span, a scope or a resource is in [`Spans::rejected`] instead.
pub fn read<'a>(bytes: &'a [u8], budget: &Budget) -> Result<Spans<'a>, ReadError> {
    let request = Message::new(bytes);
    let count = count_spans(request, budget.max_spans)?;
    let values_left = Cell::new(budget.values(bytes.len()));
    let mut reader = Reader { budget, values_left, found: Spans::default() };
    // A span that can be accepted has at least its two ids.
    reader.found.spans.reserve_exact(count.min(bytes.len() / SHORTEST_SPAN));
    for (index, resource_spans) in request.all(1).enumerate() {
        reader.resource_spans(resource_spans?, index)?;
    }
    Ok(reader.found)
}

/// The bytes of a span that holds nothing but its two ids, in its list.
const SHORTEST_SPAN: usize = 2 + (2 + 16) + (2 + 8);

/// Whether the bytes have the outer form of a request; for telling files apart.
pub(super) fn is_framed(bytes: &[u8]) -> bool {
    !bytes.is_empty()
        && Message::new(bytes).fields().all(|field| {
            field.is_ok_and(|field| {
                field.number == 1 && field.message().is_ok_and(|inner| inner.fields().all(|inner| inner.is_ok()))
            })
        })
}

/// Counts the spans and with that proves the framing down to them, before any memory is taken.
fn count_spans(request: Message<'_>, limit: usize) -> Result<usize, ReadError> {
    let mut count = 0;
    for resource_spans in request.all(1) {
        for scope_spans in resource_spans?.all(2) {
            for span in scope_spans?.all(2) {
                span?;
                count += 1;
                if count > limit {
                    return Err(ReadError::TooManySpans { limit });
                }
            }
        }
    }
    Ok(count)
}

struct Reader<'a, 'b> {
    budget: &'b Budget,
    /// How many more values the request may have.
    values_left: Cell<usize>,
    found: Spans<'a>,
}

impl<'a> Reader<'a, '_> {
    fn resource_spans(&mut self, message: Message<'a>, index: usize) -> Result<(), Malformed> {
        let place = format!("resourceSpans[{index}]");
        let mut resource = Resource::default();
        // The order of fields is the sender's choice: the resource first, wherever it stands.
        for part in message.all(1) {
            self.described(part?, &format!("{place}.resource"), |reader, field| match field.number {
                1 => reader.shared_attribute(&mut resource.attributes, field),
                _ => Ok(()),
            });
        }
        let resource = Arc::new(resource);
        for (index, scope_spans) in message.all(2).enumerate() {
            self.scope_spans(scope_spans?, &resource, &format!("{place}.scopeSpans[{index}]"))?;
        }
        Ok(())
    }

    fn scope_spans(&mut self, message: Message<'a>, resource: &Arc<Resource>, place: &str) -> Result<(), Malformed> {
        let mut scope = Scope::default();
        for part in message.all(1) {
            self.described(part?, &format!("{place}.scope"), |reader, field| {
                match field.number {
                    1 => scope.name = field.text()?.to_owned(),
                    2 => scope.version = field.text()?.to_owned(),
                    3 => reader.shared_attribute(&mut scope.attributes, field)?,
                    _ => {}
                }
                Ok(())
            });
        }
        let scope = Arc::new(scope);
        for (index, span) in message.all(2).enumerate() {
            let message = span?;
            let place = || format!("{place}.spans[{index}]");
            match self.span(message, resource, &scope) {
                Ok((span, 0)) => self.found.spans.push(span),
                Ok((span, events)) => {
                    self.found.report(place(), format_args!("{events} of its events are beyond the limit"));
                    self.found.spans.push(span);
                }
                Err(malformed) => self.found.reject_span(place(), name_of(message), malformed),
            }
        }
        Ok(())
    }

    /// Reads what many spans share. Whatever is wrong in it is reported and left out: no reason to reject the spans.
    fn described(
        &mut self,
        message: Message<'a>,
        place: &str,
        mut read: impl FnMut(&Self, Field<'a>) -> Result<(), Malformed>,
    ) {
        for field in message.fields() {
            if let Err(malformed) = field.and_then(|field| read(self, field)) {
                self.found.report(place, malformed);
            }
        }
    }

    fn shared_attribute(&self, attributes: &mut Attributes<'static>, field: Field<'a>) -> Result<(), Malformed> {
        if attributes.len() == self.budget.max_attributes {
            return Err(field.malformed("an attribute beyond the limit"));
        }
        let (key, value) = key_value(field.message()?)?;
        self.any_value(value, 1, |value| attributes.push(key.to_owned(), value.into_owned()))?;
        Ok(())
    }

    /// The span, and how many of its events are beyond the limit.
    fn span(
        &self,
        message: Message<'a>,
        resource: &Arc<Resource>,
        scope: &Arc<Scope>,
    ) -> Result<(Span<'a>, usize), Malformed> {
        let mut span = Span::blank(scope, resource);
        let (mut excess_attributes, mut excess_events) = (0, 0);
        for field in message.fields() {
            let field = field?;
            match field.number {
                1 => span.trace_id = TraceId::from_bytes(id(field, "a trace id that is not 16 bytes long")?),
                2 => span.span_id = SpanId::from_bytes(id(field, "a span id that is not 8 bytes long")?),
                4 if field.bytes()?.is_empty() => span.parent = None,
                4 => {
                    let parent = SpanId::from_bytes(id(field, "a parent's span id that is not 8 bytes long")?);
                    span.parent = (parent != SpanId::INVALID).then_some(parent);
                }
                5 => span.name = Cow::Borrowed(field.text()?),
                7 => span.start = field.fixed64()?,
                8 => span.end = Some(field.fixed64()?).filter(|end| *end != 0),
                9 => excess_attributes += self.attribute(&mut span.attributes, field)?,
                10 => span.dropped_attributes = field.varint()? as u32,
                11 if span.events.len() == self.budget.max_events => excess_events += 1,
                11 => {
                    let event = self.event(field.message()?, &mut excess_attributes)?;
                    // An empty one says nothing, and would make 56 bytes of two.
                    if event != SpanEvent::default() {
                        self.count_value(message)?;
                        span.events.push(event);
                    }
                }
                15 => status(field.message()?, &mut span.status)?,
                16 => span.parent_is_remote = parent_is_remote(field.fixed32()?),
                _ => {}
            }
        }
        if span.trace_id == TraceId::INVALID {
            return Err(message.malformed("no trace id, or one of zeros, in the span"));
        }
        if span.span_id == SpanId::INVALID {
            return Err(message.malformed("no span id, or one of zeros, in the span"));
        }
        span.dropped_attributes = count_dropped(span.dropped_attributes, excess_attributes);
        Ok((span, excess_events))
    }

    fn event(&self, message: Message<'a>, excess_attributes: &mut usize) -> Result<SpanEvent<'a>, Malformed> {
        let mut event = SpanEvent::default();
        for field in message.fields() {
            let field = field?;
            match field.number {
                1 => event.time = field.fixed64()?,
                2 => event.name = Cow::Borrowed(field.text()?),
                3 => *excess_attributes += self.attribute(&mut event.attributes, field)?,
                _ => {}
            }
        }
        Ok(event)
    }

    /// Adds an attribute and returns 0, or leaves it out and returns 1 because there are too many.
    fn attribute(&self, attributes: &mut Attributes<'a>, field: Field<'a>) -> Result<usize, Malformed> {
        if attributes.len() == self.budget.max_attributes {
            return Ok(1);
        }
        let (key, value) = key_value(field.message()?)?;
        self.any_value(value, 1, |value| attributes.push(key, value))?;
        Ok(0)
    }

    /// Hands a value on, unless it is empty. The caller's `put` stands in each arm, so that a value is made where it
    /// stays: moving it about costs more than all the parsing.
    #[inline(always)]
    fn any_value(&self, message: Message<'a>, depth: usize, put: impl FnOnce(Value<'a>)) -> Result<(), Malformed> {
        if depth > self.budget.max_depth {
            return Err(message.malformed("lists and maps nested too deep"));
        }
        let mut last = None;
        for field in message.fields() {
            let field = field?;
            if (1..=7).contains(&field.number) {
                last = Some(field);
            }
        }
        let Some(field) = last else { return Ok(()) };
        self.count_value(message)?;
        match field.number {
            1 => put(Value::from(field.text()?)),
            2 => put(Value::Bool(field.varint()? != 0)),
            3 => put(Value::Int(field.varint()? as i64)),
            4 => put(Value::Double(f64::from_bits(field.fixed64()?))),
            5 => put(self.array(field.message()?, depth + 1)?),
            6 => put(self.map(field.message()?, depth + 1)?),
            _ => put(Value::Bytes(Cow::Borrowed(field.bytes()?))),
        }
        Ok(())
    }

    /// Takes one off what the request may have.
    fn count_value(&self, message: Message<'a>) -> Result<(), Malformed> {
        let left = self.values_left.get().checked_sub(1);
        self.values_left
            .set(left.ok_or_else(|| message.malformed("more values than a request of this size may have"))?);
        Ok(())
    }

    fn array(&self, message: Message<'a>, depth: usize) -> Result<Value<'a>, Malformed> {
        let mut items = Vec::new();
        for item in message.all(1) {
            self.any_value(item?, depth, |value| items.push(value))?;
        }
        Ok(Value::Array(items))
    }

    fn map(&self, message: Message<'a>, depth: usize) -> Result<Value<'a>, Malformed> {
        let mut pairs = Vec::new();
        for pair in message.all(1) {
            let (key, value) = key_value(pair?)?;
            self.any_value(value, depth, |value| pairs.push((Cow::Borrowed(key), value)))?;
        }
        Ok(Value::Map(pairs))
    }
}

/// The key and the value's message, which is empty if there is no value.
#[inline(always)]
fn key_value(message: Message<'_>) -> Result<(&str, Message<'_>), Malformed> {
    let (mut key, mut value) = ("", Message::new(&[]));
    for field in message.fields() {
        let field = field?;
        match field.number {
            1 => key = field.text()?,
            2 => value = field.message()?,
            _ => {}
        }
    }
    Ok((key, value))
}

fn id<const N: usize>(field: Field<'_>, wrong_length: &'static str) -> Result<[u8; N], Malformed> {
    field.bytes()?.try_into().map_err(|_| field.malformed(wrong_length))
}

fn status<'a>(message: Message<'a>, status: &mut Status<'a>) -> Result<(), Malformed> {
    for field in message.fields() {
        let field = field?;
        match field.number {
            2 => status.message = Cow::Borrowed(field.text()?),
            3 => status.code = status_code(field.varint()?),
            _ => {}
        }
    }
    Ok(())
}

/// A code that we don't know says nothing, as an unknown field does.
pub(super) fn status_code(number: u64) -> StatusCode {
    match number {
        1 => StatusCode::Ok,
        2 => StatusCode::Error,
        _ => StatusCode::Unset,
    }
}

/// Bit 8 says that bit 9 means something (`SPAN_FLAGS_CONTEXT_HAS_IS_REMOTE_MASK`).
pub(super) fn parent_is_remote(flags: u32) -> Option<bool> {
    (flags & 0x100 != 0).then_some(flags & 0x200 != 0)
}

/// The name of a span that could not be read, if that much can be.
fn name_of(message: Message<'_>) -> Option<&str> {
    message.fields().filter_map(Result::ok).filter(|field| field.number == 5).find_map(|field| field.text().ok())
}

impl From<Malformed> for ReadError {
    fn from(Malformed { cause, offset }: Malformed) -> Self {
        ReadError::Protobuf { cause, offset }
    }
}
