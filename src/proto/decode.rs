//! From the message of an event to its JSON form, within bounds that are checked before memory is taken.

use std::collections::HashMap;

use serde_json::{Map, Number, Value};

use super::{Bounds, ConversionError, ENVIRONMENT, ITEMS, MEMBER_NAME, MEMBER_VALUE};
use super::{declared, kind, number, numbered, payloads};
use crate::event::{EventType, LINE_LIMIT, Shape, format_timestamp};
use crate::otlp::wire::{Field, Message};

/// The messages of the events in an `ExportEventsRequest`. Ends after the first error.
#[cfg(feature = "gateway")]
pub(crate) fn events(request: &[u8]) -> impl Iterator<Item = Result<&[u8], ConversionError>> {
    Message::new(request).fields().filter_map(|field| match field {
        Ok(field) if field.number == ITEMS => Some(field.bytes().map_err(ConversionError::from)),
        Ok(_) => None,
        Err(malformed) => Some(Err(malformed.into())),
    })
}

/// The JSON object of a message `Event`. Fields that are not known here are passed over, as protobuf has it.
pub(crate) fn decode(message: &[u8]) -> Result<Map<String, Value>, ConversionError> {
    if message.len() > LINE_LIMIT {
        return Err(ConversionError::TooLong);
    }
    let mut reader = Reader { bounds: Bounds::new() };
    let mut members: HashMap<&'static str, Value> = HashMap::new();
    let (mut extras, mut order, mut payload) = (Map::new(), Vec::new(), None);
    for field in Message::new(message).fields() {
        let field = field?;
        match field.number {
            number::TIME => {
                members.insert("timestamp", format_timestamp(field.fixed64()?).into());
            }
            number::SESSION_ID => {
                members.insert("session_id", field.text()?.into());
            }
            number::AGENT_ID => {
                members.insert("agent_id", field.text()?.into());
            }
            number::ENVIRONMENT => {
                members.insert(ENVIRONMENT, field.text()?.into());
            }
            number::EXTRAS => reader.member(field.message()?, 1, &mut extras)?,
            number::MEMBER_ORDER => {
                reader.bounds.count()?;
                order.push(field.text()?);
            }
            number => {
                if let Some((_, kind)) = payloads().find(|(known, _)| *known == number) {
                    // The last one counts; nobody sets two.
                    payload = Some((kind, reader.payload(kind, field.message()?)?));
                }
            }
        }
    }
    let mut named = None;
    if let Some((kind, fields)) = payload {
        named = Some(kind);
        members.insert("type", kind.name().into());
        members.extend(fields);
    }
    let mut object: Map<String, Value> =
        declared(named).filter_map(|name| Some((name.to_owned(), members.remove(name)?))).collect();
    for (name, value) in extras {
        insert(&mut object, name, value)?;
    }
    if order.is_empty() { Ok(object) } else { reorder(object, &order) }
}

fn reorder(object: Map<String, Value>, order: &[&str]) -> Result<Map<String, Value>, ConversionError> {
    let mut members: HashMap<String, Value> = object.into_iter().collect();
    let mut ordered = Map::with_capacity(members.len());
    for name in order {
        let (name, value) = members.remove_entry(*name).ok_or(ConversionError::Order)?;
        ordered.insert(name, value);
    }
    if members.is_empty() { Ok(ordered) } else { Err(ConversionError::Order) }
}

fn insert(object: &mut Map<String, Value>, name: String, value: Value) -> Result<(), ConversionError> {
    if object.contains_key(&name) {
        return Err(ConversionError::Twice(name));
    }
    object.insert(name, value);
    Ok(())
}

struct Reader {
    bounds: Bounds,
}

impl Reader {
    fn payload(
        &mut self,
        kind: EventType,
        message: Message<'_>,
    ) -> Result<HashMap<&'static str, Value>, ConversionError> {
        let mut fields = HashMap::new();
        for field in message.fields() {
            let field = field?;
            if let Some((_, known)) = numbered(kind).find(|(number, _)| *number == field.number) {
                fields.insert(known.name(), self.field(known.shape(), field)?);
            }
        }
        Ok(fields)
    }

    fn field(&mut self, shape: Shape, field: Field<'_>) -> Result<Value, ConversionError> {
        Ok(match shape {
            Shape::Text | Shape::Name => field.text()?.into(),
            // Readers of protobuf take the low bits of a longer number.
            Shape::U32 => (field.varint()? as u32).into(),
            Shape::Object => Value::Object(self.object(field.message()?, 1)?),
            Shape::Objects => self.items(field, |reader, item| {
                reader.bounds.count()?;
                reader.object(item.message()?, 2).map(Value::Object)
            })?,
            Shape::Texts => self.items(field, |reader, item| {
                reader.bounds.count()?;
                Ok(item.text()?.into())
            })?,
            Shape::Any => self.value(field.message()?, 1)?,
        })
    }

    fn items(
        &mut self,
        list: Field<'_>,
        mut read: impl FnMut(&mut Self, Field<'_>) -> Result<Value, ConversionError>,
    ) -> Result<Value, ConversionError> {
        let mut items = Vec::new();
        for field in list.message()?.fields() {
            let field = field?;
            if field.number == ITEMS {
                items.push(read(self, field)?);
            }
        }
        Ok(Value::Array(items))
    }

    fn value(&mut self, message: Message<'_>, depth: usize) -> Result<Value, ConversionError> {
        self.bounds.count()?;
        let mut value = Value::Null;
        for field in message.fields() {
            let field = field?;
            value = match field.number {
                kind::STRING => field.text()?.into(),
                kind::BOOL => (field.varint()? != 0).into(),
                kind::INT => field.varint()?.cast_signed().into(),
                kind::UINT => field.varint()?.into(),
                kind::DOUBLE => Number::from_f64(f64::from_bits(field.fixed64()?))
                    .ok_or_else(|| field.malformed("a number that is infinite or NaN"))?
                    .into(),
                kind::LIST => {
                    self.bounds.enter(depth)?;
                    self.items(field, |reader, item| reader.value(item.message()?, depth + 1))?
                }
                kind::OBJECT => Value::Object(self.object(field.message()?, depth)?),
                _ => value,
            };
        }
        Ok(value)
    }

    fn object(&mut self, message: Message<'_>, depth: usize) -> Result<Map<String, Value>, ConversionError> {
        self.bounds.enter(depth)?;
        let mut object = Map::new();
        for member in message.all(ITEMS) {
            self.member(member?, depth + 1, &mut object)?;
        }
        Ok(object)
    }

    fn member(
        &mut self,
        message: Message<'_>,
        depth: usize,
        object: &mut Map<String, Value>,
    ) -> Result<(), ConversionError> {
        let (mut name, mut value) = ("", None);
        for field in message.fields() {
            let field = field?;
            match field.number {
                MEMBER_NAME => name = field.text()?,
                MEMBER_VALUE => value = Some(self.value(field.message()?, depth)?),
                _ => {}
            }
        }
        if value.is_none() {
            self.bounds.count()?;
        }
        insert(object, name.to_owned(), value.unwrap_or(Value::Null))
    }
}
