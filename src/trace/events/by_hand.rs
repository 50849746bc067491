//! Events said by hand: a span event named `failproof.<type>` is that event.

use super::super::order::Place;
use super::{Draft, Writer};
use crate::dialect::EVENT_PREFIX;
use crate::event::{EventType, Field, Shape};
use crate::span::{Span, SpanEvent, Value};

/// Parts from here on are events said by hand, so that none of them has the key of another event of its span.
const FIRST_PART: u32 = 16;

/// Whether anything on the span is said by hand.
pub(crate) fn has_events(span: &Span<'_>) -> bool {
    span.events.iter().any(|event| kind_of(event).is_some())
}

pub(super) fn write(writer: &mut Writer<'_, '_>) {
    for at in 0..writer.tree.nodes.len() {
        let span = writer.tree.nodes[at].span;
        for (number, event) in span.events.iter().enumerate() {
            let Some(kind) = kind_of(event) else { continue };
            let part = FIRST_PART.saturating_add(u32::try_from(number).unwrap_or(u32::MAX));
            match draft(writer, at, event, kind, part) {
                Ok(Some(draft)) => writer.finish(draft),
                Ok(None) => {}
                Err(why) => crate::once::warn("event-by-hand", || {
                    format!("span event {} of span {:?} is left out: {why}", event.name, span.name)
                }),
            }
        }
    }
}

fn kind_of(event: &SpanEvent<'_>) -> Option<EventType> {
    event.name.strip_prefix(EVENT_PREFIX).and_then(EventType::from_name)
}

/// The event if it keeps the contract, else what is wrong with it; none yet for an agent that is still in the making.
fn draft(
    writer: &Writer<'_, '_>,
    at: usize,
    event: &SpanEvent<'_>,
    kind: EventType,
    part: u32,
) -> Result<Option<Draft>, String> {
    let node = &writer.tree.nodes[at];
    let agent = node.agent.ok_or("no agent is around it")?;
    let agent = &writer.tree.agents[agent];
    if agent.node.is_none() && agent.is_open {
        return Ok(None);
    }
    let time = event.time.clamp(agent.start, agent.end);
    let mut draft = writer.draft(kind, time, agent, node.span, node.reading.as_ref(), Place::Leaf(part, at));
    for (key, value) in event.attributes.iter() {
        match kind.field(key) {
            Some(field) => {
                if let Err(error) = draft.placed.event.set(field, in_shape(field, value)) {
                    crate::once::warn("field-by-hand", || {
                        format!(
                            "a field of span event {} of span {:?} is left out: {error}",
                            event.name, node.span.name
                        )
                    });
                }
            }
            // What the type does not declare is kept as an extra of the application's own.
            None => draft.placed.event.set_extra(&format!("fw_{}", key.trim_start_matches("fw_")), value.to_json()),
        }
    }
    let missing = draft.placed.event.missing().next();
    match missing {
        Some(field) => Err(format!("{} needs {}", kind.name(), field.name())),
        None => Ok(Some(draft)),
    }
}

/// The attribute as the field wants it: attributes are flat, so objects come as JSON text.
fn in_shape(field: Field, value: &Value<'_>) -> serde_json::Value {
    match field.shape() {
        Shape::Text | Shape::Name | Shape::Texts => value.to_json(),
        Shape::U32 => value.as_i64().map_or_else(|| value.to_json(), serde_json::Value::from),
        Shape::Object | Shape::Objects | Shape::Any => value.parse_json(),
    }
}
