//! From the JSON form of an event to its message.

use prost::encoding::{WireType, encode_key, encode_varint};
use serde_json::{Map, Value};

use super::{Bounds, ConversionError, ENVIRONMENT, ITEMS, MEMBER_NAME, MEMBER_VALUE};
use super::{declared, kind, number, numbered, payloads};
use crate::event::{EventType, Shape, format_timestamp, parse_timestamp};

/// The message `Event` of a JSON object.
pub(crate) fn encode(object: &Map<String, Value>) -> Result<Vec<u8>, ConversionError> {
    let named = object.get("type").and_then(Value::as_str).and_then(EventType::from_name);
    let mut writer = Writer { bounds: Bounds::new() };
    let (mut out, mut payload, mut extras) = (Vec::new(), Vec::new(), Vec::new());
    for (name, value) in object {
        let is_typed = match name.as_str() {
            "type" => named.is_some(),
            "timestamp" => put_time(value, &mut out),
            "session_id" => put_if_text(number::SESSION_ID, value, &mut out),
            "agent_id" => put_if_text(number::AGENT_ID, value, &mut out),
            ENVIRONMENT => put_if_text(number::ENVIRONMENT, value, &mut out),
            name => writer.field(named, name, value, &mut payload)?,
        };
        if !is_typed {
            extras.push(name.as_str());
            writer.member(number::EXTRAS, name, value, 1, &mut out)?;
        }
    }
    if let Some((number, _)) = payloads().find(|(_, kind)| Some(*kind) == named) {
        put_bytes(number, &payload, &mut out);
    }
    let mut usual: Vec<&str> = declared(named).filter(|name| object.contains_key(*name)).collect();
    usual.retain(|name| !extras.contains(name));
    usual.extend(&extras);
    if !object.keys().eq(usual) {
        for name in object.keys() {
            writer.bounds.count()?;
            put_bytes(number::MEMBER_ORDER, name.as_bytes(), &mut out);
        }
    }
    Ok(out)
}

struct Writer {
    bounds: Bounds,
}

impl Writer {
    /// Writes a member that the type declares; false if it does not, or the value is not of the field's type.
    fn field(
        &mut self,
        kind: Option<EventType>,
        name: &str,
        value: &Value,
        out: &mut Vec<u8>,
    ) -> Result<bool, ConversionError> {
        let field = kind.and_then(|kind| numbered(kind).find(|(_, field)| field.name() == name));
        let Some((number, field)) = field else { return Ok(false) };
        match (field.shape(), value) {
            (Shape::Text | Shape::Name, value) => return Ok(put_if_text(number, value, out)),
            (Shape::U32, value) => match value.as_u64().filter(|value| u32::try_from(*value).is_ok()) {
                Some(value) => put_varint(number, value, out),
                None => return Ok(false),
            },
            (Shape::Object, Value::Object(members)) => self.object(number, members, 1, out)?,
            (Shape::Objects, Value::Array(items)) if items.iter().all(Value::is_object) => {
                self.nested(number, out, |writer, out| {
                    items.iter().filter_map(Value::as_object).try_for_each(|members| {
                        writer.bounds.count()?;
                        writer.object(ITEMS, members, 2, out)
                    })
                })?;
            }
            (Shape::Texts, Value::Array(items)) if items.iter().all(Value::is_string) => {
                self.nested(number, out, |writer, out| {
                    items.iter().filter_map(Value::as_str).try_for_each(|text| {
                        writer.bounds.count()?;
                        put_bytes(ITEMS, text.as_bytes(), out);
                        Ok(())
                    })
                })?;
            }
            (Shape::Any, value) => self.value(number, value, 1, out)?,
            (Shape::Object | Shape::Objects | Shape::Texts, _) => return Ok(false),
        }
        Ok(true)
    }

    fn value(&mut self, number: u32, value: &Value, depth: usize, out: &mut Vec<u8>) -> Result<(), ConversionError> {
        self.bounds.count()?;
        self.nested(number, out, |writer, out| {
            match value {
                Value::Null => {}
                Value::Bool(value) => put_varint(kind::BOOL, u64::from(*value), out),
                Value::Number(value) => match (value.as_i64(), value.as_u64(), value.as_f64()) {
                    (Some(value), ..) => put_varint(kind::INT, value.cast_unsigned(), out),
                    (None, Some(value), _) => put_varint(kind::UINT, value, out),
                    (None, None, value) => put_fixed64(kind::DOUBLE, value.unwrap_or_default().to_bits(), out),
                },
                Value::String(text) => put_bytes(kind::STRING, text.as_bytes(), out),
                Value::Array(items) => writer.nested(kind::LIST, out, |writer, out| {
                    writer.bounds.enter(depth)?;
                    items.iter().try_for_each(|item| writer.value(ITEMS, item, depth + 1, out))
                })?,
                Value::Object(members) => writer.object(kind::OBJECT, members, depth, out)?,
            }
            Ok(())
        })
    }

    fn object(
        &mut self,
        number: u32,
        members: &Map<String, Value>,
        depth: usize,
        out: &mut Vec<u8>,
    ) -> Result<(), ConversionError> {
        self.bounds.enter(depth)?;
        self.nested(number, out, |writer, out| {
            members.iter().try_for_each(|(name, value)| writer.member(ITEMS, name, value, depth + 1, out))
        })
    }

    fn member(
        &mut self,
        number: u32,
        name: &str,
        value: &Value,
        depth: usize,
        out: &mut Vec<u8>,
    ) -> Result<(), ConversionError> {
        self.nested(number, out, |writer, out| {
            put_bytes(MEMBER_NAME, name.as_bytes(), out);
            writer.value(MEMBER_VALUE, value, depth, out)
        })
    }

    fn nested(
        &mut self,
        number: u32,
        out: &mut Vec<u8>,
        write: impl FnOnce(&mut Self, &mut Vec<u8>) -> Result<(), ConversionError>,
    ) -> Result<(), ConversionError> {
        let mut message = Vec::new();
        write(self, &mut message)?;
        put_bytes(number, &message, out);
        Ok(())
    }
}

/// Writes a time, if it has the form that comes back byte for byte.
fn put_time(value: &Value, out: &mut Vec<u8>) -> bool {
    let text = value.as_str().unwrap_or_default();
    let time = parse_timestamp(text).filter(|time| format_timestamp(*time) == text);
    if let Some(time) = time {
        put_fixed64(number::TIME, time, out);
    }
    time.is_some()
}

fn put_if_text(number: u32, value: &Value, out: &mut Vec<u8>) -> bool {
    let text = value.as_str();
    if let Some(text) = text {
        put_bytes(number, text.as_bytes(), out);
    }
    text.is_some()
}

fn put_bytes(number: u32, bytes: &[u8], out: &mut Vec<u8>) {
    encode_key(number, WireType::LengthDelimited, out);
    encode_varint(bytes.len() as u64, out);
    out.extend_from_slice(bytes);
}

fn put_varint(number: u32, value: u64, out: &mut Vec<u8>) {
    encode_key(number, WireType::Varint, out);
    encode_varint(value, out);
}

fn put_fixed64(number: u32, bits: u64, out: &mut Vec<u8>) {
    encode_key(number, WireType::SixtyFourBit, out);
    out.extend_from_slice(&bits.to_le_bytes());
}
