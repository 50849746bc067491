//! JSON as a tree of borrowed text.
//!
//! `serde_json::Value` would copy every string and take 72 bytes for `{}`; a node takes 32, and a hostile document
//! at most 16 times its size.

use std::borrow::Cow;
use std::fmt;

use serde::de::{Deserialize, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_json::value::RawValue;

use super::Budget;
use super::encoding::repair_surrogates;

/// A JSON value.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Node<'a> {
    Null,
    Bool(bool),
    Int(i64),
    /// A whole number beyond `i64`.
    Large(u64),
    Double(f64),
    Text(Cow<'a, str>),
    List(Vec<Node<'a>>),
    Object(Vec<(Cow<'a, str>, Node<'a>)>),
}

impl<'a> Node<'a> {
    /// Members that are there: `null` is as good as absent.
    pub(super) fn members(self) -> Result<impl Iterator<Item = (Cow<'a, str>, Node<'a>)>, String> {
        let members = match self {
            Node::Object(members) => members,
            Node::Null => Vec::new(),
            other => return Err(format!("{}, not an object", other.kind())),
        };
        Ok(members.into_iter().filter(|(_, value)| !matches!(value, Node::Null)))
    }

    /// The elements of a list. `null` as a list is an empty one.
    pub(super) fn elements(self) -> Result<Vec<Node<'a>>, String> {
        match self {
            Node::List(elements) => Ok(elements),
            Node::Null => Ok(Vec::new()),
            other => Err(format!("{}, not a list", other.kind())),
        }
    }

    pub(super) fn text(self) -> Result<Cow<'a, str>, String> {
        match self {
            Node::Text(text) => Ok(text),
            other => Err(format!("{}, not text", other.kind())),
        }
    }

    pub(super) fn bool(&self) -> Result<bool, String> {
        match self {
            Node::Bool(truth) => Ok(*truth),
            Node::Text(text) => text.parse().map_err(|_| "text, not true or false".to_owned()),
            other => Err(format!("{}, not true or false", other.kind())),
        }
    }

    /// A number that can't be negative, also as text and also as `1.5e18`.
    pub(super) fn u64(&self) -> Result<u64, String> {
        // 2^64: the first double that does not fit.
        let whole = |number: f64| (0.0..18_446_744_073_709_551_616.0).contains(&number).then_some(number as u64);
        match self {
            Node::Int(number) => u64::try_from(*number).ok(),
            Node::Large(number) => Some(*number),
            Node::Double(number) => whole(*number),
            Node::Text(text) => text.parse().ok().or_else(|| text.parse().ok().and_then(whole)),
            other => return Err(format!("{}, not a number", other.kind())),
        }
        .ok_or_else(|| "no number from 0 to 2^64 - 1".to_owned())
    }

    /// A number, also as text and also as `"NaN"`, `"Infinity"` or `"-Infinity"`.
    pub(super) fn f64(&self) -> Result<f64, String> {
        match self {
            Node::Int(number) => Ok(*number as f64),
            Node::Large(number) => Ok(*number as f64),
            Node::Double(number) => Ok(*number),
            Node::Text(text) => text.parse().map_err(|_| "text that is no number".to_owned()),
            other => Err(format!("{}, not a number", other.kind())),
        }
    }

    pub(super) fn kind(&self) -> &'static str {
        match self {
            Node::Null => "null",
            Node::Bool(_) => "true or false",
            Node::Int(_) | Node::Large(_) | Node::Double(_) => "a number",
            Node::Text(_) => "text",
            Node::List(_) => "a list",
            Node::Object(_) => "an object",
        }
    }
}

impl<'de: 'a, 'a> Deserialize<'de> for Node<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Any;

        impl<'de> Visitor<'de> for Any {
            type Value = Node<'de>;

            fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
                formatter.write_str("JSON")
            }

            fn visit_unit<E>(self) -> Result<Self::Value, E> {
                Ok(Node::Null)
            }

            fn visit_bool<E>(self, truth: bool) -> Result<Self::Value, E> {
                Ok(Node::Bool(truth))
            }

            fn visit_i64<E>(self, number: i64) -> Result<Self::Value, E> {
                Ok(Node::Int(number))
            }

            fn visit_u64<E>(self, number: u64) -> Result<Self::Value, E> {
                Ok(i64::try_from(number).map_or(Node::Large(number), Node::Int))
            }

            fn visit_f64<E>(self, number: f64) -> Result<Self::Value, E> {
                Ok(Node::Double(number))
            }

            fn visit_str<E>(self, text: &str) -> Result<Self::Value, E> {
                Ok(Node::Text(Cow::Owned(text.to_owned())))
            }

            fn visit_borrowed_str<E>(self, text: &'de str) -> Result<Self::Value, E> {
                Ok(Node::Text(Cow::Borrowed(text)))
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Self::Value, A::Error> {
                let mut elements = Vec::new();
                while let Some(element) = seq.next_element()? {
                    elements.push(element);
                }
                Ok(Node::List(elements))
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                let mut members = Vec::new();
                while let Some((Key(key), value)) = map.next_entry()? {
                    members.push((key, value));
                }
                Ok(Node::Object(members))
            }
        }

        deserializer.deserialize_any(Any)
    }
}

/// A key, borrowed if it has no escapes.
#[derive(serde::Deserialize)]
pub(super) struct Key<'a>(#[serde(borrow)] pub(super) Cow<'a, str>);

/// Parses a piece of JSON and hands it on. Half characters, which serde_json refuses, are replaced first; that costs
/// nothing as long as there are none.
///
/// A piece that has more nodes than the budget has values is not parsed.
pub(super) fn with_node<T>(
    json: &RawValue,
    budget: &Budget,
    read: impl FnOnce(Node<'_>) -> Result<T, String>,
) -> Result<T, String> {
    let (text, most) = (json.get(), budget.values(json.get().len()));
    // A node takes two bytes at least: usual pieces need not be counted.
    if text.len() / 2 > most && has_more_nodes_than(most, text) {
        return Err(format!("more than {most} values"));
    }
    match serde_json::from_str(json.get()) {
        Ok(node) => read(node),
        Err(error) => match repair_surrogates(json.get()) {
            Some(repaired) => read(serde_json::from_str(&repaired).map_err(|error| cause(&error))?),
            None => Err(cause(&error)),
        },
    }
}

/// What serde_json says is wrong, without the place: it counts from the start of a piece.
pub(super) fn cause(error: &serde_json::Error) -> String {
    let text = error.to_string();
    match text.rfind(" at line ") {
        Some(end) => text.get(..end).unwrap_or_default().to_owned(),
        None => text,
    }
}

/// The one spelling of a key: `trace_id` and `traceId` are the same field.
pub(super) fn camel(key: &str) -> Cow<'_, str> {
    if !key.contains('_') {
        return Cow::Borrowed(key);
    }
    let mut words = key.split('_');
    let mut camel = words.next().unwrap_or_default().to_owned();
    for word in words {
        let mut letters = word.chars();
        camel.extend(letters.next().map(|first| first.to_ascii_uppercase()));
        camel.push_str(letters.as_str());
    }
    Cow::Owned(camel)
}

/// Every node but the outermost follows a comma or the beginning of a list or an object.
fn has_more_nodes_than(most: usize, json: &str) -> bool {
    let (mut is_text, mut is_escaped) = (false, false);
    let nodes = json.bytes().filter(|byte| {
        let begins_one = !is_text && matches!(byte, b',' | b'[' | b'{');
        match byte {
            _ if is_escaped => is_escaped = false,
            b'\\' => is_escaped = is_text,
            b'"' => is_text = !is_text,
            _ => {}
        }
        begins_one
    });
    nodes.take(most.saturating_add(1)).count() > most
}
