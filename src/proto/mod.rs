//! The protobuf form of events: the messages of `proto/failproof/events/v1/events.proto`, the client and the server of its
//! `EventService`, and the way from the JSON form and back.
//!
//! | module | does |
//! |---|---|
//! | `generated` | the messages, made of `proto/` and committed; `tests/generated.rs` makes them again and compares |
//! | `encode` | JSON to protobuf |
//! | `decode` | protobuf to JSON, within bounds |
//! | `client` | how a gateway is reached, and as whom |
//! | `status` | what stands behind a status: when to try again |
//!
//! Both ways stand on the table of the event's fields (`event::schema`): the number of a field is its place there, its
//! type follows from its shape. So a new field needs a line there and a line in `events.proto`, and nothing here. They
//! work on the wire form, so that a gateway never builds a message whose size a few bytes can blow up.
//!
//! ```
//! use opentelemetry_failproof::proto::{self, event::Payload};
//!
//! let line = r#"{"timestamp":"2026-01-02T03:04:05.678901Z","session_id":"s","agent_id":"a","type":"tool_result","tool_name":"bash","tool_call_id":"1","environment":"dev","output":{"lines":[1,2.0]}}"#;
//! let event = proto::Event::from_json(line.as_bytes())?;
//! let Some(Payload::ToolResult(result)) = &event.payload else { panic!("another type") };
//! assert_eq!(result.tool_name.as_deref(), Some("bash"));
//! assert_eq!(event.to_json()?, line);
//! # Ok::<(), proto::ConversionError>(())
//! ```

pub(crate) mod client;
mod decode;
mod encode;
#[rustfmt::skip]
#[allow(missing_docs, clippy::all, reason = "generated; the comments are those of events.proto")]
mod generated;
mod status;

use prost::Message;
use serde_json::{Map, Value as Json};

pub(crate) use self::decode::decode;
#[cfg(feature = "gateway")]
pub(crate) use self::decode::events;
use self::encode::encode;
pub use self::generated::*;
pub(crate) use self::status::RpcStatus;
use crate::event::{EventType, Field, LINE_LIMIT};
use crate::otlp::wire::Malformed;

/// How deep values may nest: each level takes up to three of the 100 messages within messages that protobuf readers
/// follow.
pub const DEPTH_LIMIT: usize = 24;
/// How many values an event may hold. An empty one takes two bytes on the wire and a hundred in memory.
pub const VALUES_LIMIT: usize = 131_072;

/// Why an event has no other form.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ConversionError {
    /// The text is not one JSON object.
    #[error("no JSON object: {0}")]
    Json(String),
    /// The bytes are not a message, or none that these bounds let through.
    #[error("no event message: {cause} at byte {offset}")]
    Wire {
        /// What is wrong.
        cause: &'static str,
        /// Where, counted in the message.
        offset: usize,
    },
    /// A name stands twice in one object.
    #[error("{0:?} stands twice in one object")]
    Twice(String),
    /// The order of the members is given, but not of these members.
    #[error("member_order does not name each member once")]
    Order,
    /// Values are nested too deep.
    #[error("values are nested more than {DEPTH_LIMIT} levels deep")]
    TooDeep,
    /// There are too many values.
    #[error("more than {VALUES_LIMIT} values in one event")]
    TooMany,
    /// One event is too long.
    #[error("more than {LINE_LIMIT} bytes in one event")]
    TooLong,
}

impl From<Malformed> for ConversionError {
    fn from(Malformed { cause, offset }: Malformed) -> Self {
        ConversionError::Wire { cause, offset }
    }
}

impl Event {
    /// The message of an event's JSON form.
    ///
    /// # Errors
    /// If the text is no JSON object, or goes beyond [`DEPTH_LIMIT`] or [`VALUES_LIMIT`].
    pub fn from_json(line: &[u8]) -> Result<Self, ConversionError> {
        let object: Map<String, Json> =
            serde_json::from_slice(line).map_err(|error| ConversionError::Json(error.to_string()))?;
        Event::from_object(&object)
    }

    pub(crate) fn from_object(object: &Map<String, Json>) -> Result<Self, ConversionError> {
        let bytes = encode(object)?;
        Event::decode(bytes.as_slice()).map_err(|_| ConversionError::TooDeep)
    }

    /// The JSON form of an event: one line, without its newline. The same bytes as before [`Event::from_json`], if they were
    /// compact JSON.
    ///
    /// # Errors
    /// If the message holds what JSON has not: a name twice in an object, a number that is not finite; or if it goes beyond
    /// [`DEPTH_LIMIT`] or [`VALUES_LIMIT`].
    pub fn to_json(&self) -> Result<String, ConversionError> {
        self.to_object().map(|object| Json::Object(object).to_string())
    }

    pub(crate) fn to_object(&self) -> Result<Map<String, Json>, ConversionError> {
        decode(&self.encode_to_vec())
    }
}

/// The field numbers of `Event`; the payloads follow in the order of their types.
mod number {
    pub const TIME: u32 = 1;
    pub const SESSION_ID: u32 = 2;
    pub const AGENT_ID: u32 = 3;
    pub const ENVIRONMENT: u32 = 4;
    pub const EXTRAS: u32 = 5;
    pub const MEMBER_ORDER: u32 = 6;
    pub const FIRST_PAYLOAD: u32 = 10;
}

/// The field numbers of `Value`.
mod kind {
    pub const STRING: u32 = 1;
    pub const BOOL: u32 = 2;
    pub const INT: u32 = 3;
    pub const UINT: u32 = 4;
    pub const DOUBLE: u32 = 5;
    pub const LIST: u32 = 6;
    pub const OBJECT: u32 = 7;
}

/// The field number of what an object, a list or a request repeats.
const ITEMS: u32 = 1;
/// The field numbers of `Member`.
const MEMBER_NAME: u32 = 1;
const MEMBER_VALUE: u32 = 2;

/// The members that have fields of their own in `Event`, and the type between them.
const IDENTITY: [&str; 4] = ["timestamp", "session_id", "agent_id", "type"];
const ENVIRONMENT: &str = "environment";

/// The fields of a payload with their numbers: by their place in the JSON form.
fn numbered(kind: EventType) -> impl Iterator<Item = (u32, Field)> {
    (1..).zip(kind.required().iter().chain(kind.optional()).copied())
}

/// The payloads with their numbers.
fn payloads() -> impl Iterator<Item = (u32, EventType)> {
    (number::FIRST_PAYLOAD..).zip(EventType::ALL)
}

/// The members in the order of the JSON form, but for the extras.
fn declared(kind: Option<EventType>) -> impl Iterator<Item = &'static str> {
    let names = |fields: fn(EventType) -> &'static [Field]| {
        kind.into_iter().flat_map(move |kind| fields(kind).iter().map(|field| field.name()))
    };
    IDENTITY.into_iter().chain(names(EventType::required)).chain([ENVIRONMENT]).chain(names(EventType::optional))
}

/// What one event may still take, on either way.
struct Bounds {
    values_left: usize,
}

impl Bounds {
    fn new() -> Self {
        Bounds { values_left: VALUES_LIMIT }
    }

    /// Takes one more value.
    fn count(&mut self) -> Result<(), ConversionError> {
        self.values_left = self.values_left.checked_sub(1).ok_or(ConversionError::TooMany)?;
        Ok(())
    }

    /// Goes into a list or an object that stands so deep.
    fn enter(&self, depth: usize) -> Result<(), ConversionError> {
        if depth > DEPTH_LIMIT { Err(ConversionError::TooDeep) } else { Ok(()) }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    fn message(value: Json) -> Result<Vec<u8>, ConversionError> {
        encode(value.as_object().unwrap())
    }

    fn nested(levels: usize) -> Json {
        (0..levels).fold(json!(1), |value, level| if level % 2 == 0 { json!({ "a": value }) } else { json!([value]) })
    }

    #[test]
    fn values_nest_so_deep_and_no_deeper() {
        let event = |levels| json!({ "type": "tool_result", "output": nested(levels), "fw_x": nested(levels) });
        let deepest = event(DEPTH_LIMIT);
        let bytes = message(deepest.clone()).unwrap();
        assert_eq!(Json::Object(decode(&bytes).unwrap()), deepest);
        // Readers made of events.proto take it too, within a request and a response as well.
        let request = ExportEventsRequest { events: vec![Event::decode(&*bytes).unwrap()] };
        assert_eq!(ExportEventsRequest::decode(&*request.encode_to_vec()).unwrap(), request);
        assert_eq!(message(event(DEPTH_LIMIT + 1)), Err(ConversionError::TooDeep));

        let mut value = Value { kind: None };
        for _ in 0..=DEPTH_LIMIT {
            value = Value { kind: Some(value::Kind::ListValue(List { items: vec![value] })) };
        }
        let extras = vec![Member { name: "x".to_owned(), value: Some(value) }];
        assert_eq!(Event { extras, ..Event::default() }.to_json(), Err(ConversionError::TooDeep));
    }

    #[test]
    fn an_event_holds_so_many_values_and_no_more() {
        // The list is a value, too.
        let event = |items| json!({ "type": "tool_result", "output": vec![Json::Null; items - 1] });
        let most = message(event(VALUES_LIMIT)).unwrap();
        assert_eq!(Json::Object(decode(&most).unwrap()), event(VALUES_LIMIT));
        assert_eq!(message(event(VALUES_LIMIT + 1)), Err(ConversionError::TooMany));
        // Two bytes each: `items` of no bytes. The lengths in front of them grow by one each all the way.
        let more = Event::from_json(event(VALUES_LIMIT).to_string().as_bytes()).unwrap();
        let Some(event::Payload::ToolResult(mut result)) = more.payload else { unreachable!() };
        let Some(value::Kind::ListValue(list)) = &mut result.output.as_mut().unwrap().kind else { unreachable!() };
        list.items.push(Value::default());
        let more = Event { payload: Some(event::Payload::ToolResult(result)), ..Event::default() };
        assert_eq!(more.to_json(), Err(ConversionError::TooMany));
        assert_eq!(decode(&vec![0; LINE_LIMIT + 1]), Err(ConversionError::TooLong));
    }

    #[test]
    fn what_json_does_not_have_is_refused() {
        let extra = |name: &str, kind| Member { name: name.to_owned(), value: Some(Value { kind }) };
        let json = |extras, member_order: &[&str]| {
            let member_order = member_order.iter().map(|name| (*name).to_owned()).collect();
            Event { extras, member_order, ..Event::default() }.to_json().map_err(|error| error.to_string())
        };
        let double = |number| vec![extra("x", Some(value::Kind::DoubleValue(number)))];
        assert_eq!(json(double(-0.0), &[]).unwrap(), r#"{"x":-0.0}"#);
        let error = json(double(f64::NAN), &[]).unwrap_err();
        assert!(error.starts_with("no event message: a number that is infinite or NaN at byte "), "{error}");
        let twice = || vec![extra("x", None), extra("y", None), extra("x", None)];
        assert_eq!(json(twice(), &[]).unwrap_err(), "\"x\" stands twice in one object");
        let two = || twice().into_iter().take(2).collect::<Vec<_>>();
        assert_eq!(json(two(), &["y", "x"]).unwrap(), r#"{"y":null,"x":null}"#);
        for wrong in [&["x"][..], &["x", "x"], &["x", "y", "z"], &["x", "y", "x"]] {
            assert_eq!(json(two(), wrong).unwrap_err(), "member_order does not name each member once");
        }
        let typed =
            Event { session_id: Some("s".to_owned()), extras: vec![extra("session_id", None)], ..Event::default() };
        assert_eq!(typed.to_json(), Err(ConversionError::Twice("session_id".to_owned())));
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn no_bytes_make_it_panic(bytes: Vec<u8>, at: prop::sample::Index, byte: u8, cut: prop::sample::Index) {
            let _ = decode(&bytes);
            let mut good = message(json!({
                "type": "model_request", "model": "m", "messages": [{"role": "user", "content": [{"a": 1.5}]}],
                "session_id": "s", "fw_x": [null, true, -1, "text"],
            })).unwrap();
            *at.get_mut(&mut good) = byte;
            let _ = decode(&good);
            let _ = decode(&good[..cut.index(good.len())]);
        }
    }
}
