//! The frame of an OTLP/JSON document, down to the spans: one pass that leaves each span as text.

use std::borrow::Cow;
use std::cell::Cell;
use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, Error, MapAccess, SeqAccess, Unexpected, Visitor};
use serde_json::value::RawValue;

use super::tree::{Key, camel};

/// A piece of a document.
pub(super) enum Part<'a> {
    /// Not part of the frame: a span, a resource, a scope, an unknown field.
    Json(&'a RawValue),
    /// A list of the frame; empty for `null`.
    List(Vec<Part<'a>>),
    /// An object of the frame, keys in one spelling; empty for `null`.
    Object(Vec<(Cow<'a, str>, Part<'a>)>),
}

impl<'a> Part<'a> {
    /// Reads a document: a request, one of its parts, or a list of these. `None` if it has more parts than `most`.
    pub(super) fn parse(json: &'a str, most: usize) -> Result<Option<Part<'a>>, serde_json::Error> {
        let mut deserializer = serde_json::Deserializer::from_str(json);
        let left = Cell::new(Some(most));
        match (Place { shape: Shape::Document, left: &left }).deserialize(&mut deserializer) {
            Err(_) if left.get().is_none() => Ok(None),
            part => part.and_then(|part| deserializer.end().map(|()| Some(part))),
        }
    }
}

/// What is expected at a place. Each shape holds shapes further down only; that bounds how deep the frame nests.
#[derive(Clone, Copy)]
enum Shape {
    Document,
    Object(Level),
    List(Level),
    Spans,
    Json,
}

/// A shape, and how many more parts the document may have; nothing when it had too many.
#[derive(Clone, Copy)]
struct Place<'c> {
    shape: Shape,
    left: &'c Cell<Option<usize>>,
}

#[derive(Clone, Copy)]
enum Level {
    Request,
    ResourceSpans,
    ScopeSpans,
}

impl Shape {
    fn element(self) -> Option<Shape> {
        match self {
            Shape::Document => Some(Shape::Object(Level::Request)),
            Shape::List(level) => Some(Shape::Object(level)),
            Shape::Spans => Some(Shape::Json),
            Shape::Object(_) | Shape::Json => None,
        }
    }

    /// A part may stand alone: a document can start at any level.
    fn member(self, key: &str) -> Option<Shape> {
        let level = match self {
            Shape::Document => Level::Request,
            Shape::Object(level) => level,
            Shape::List(_) | Shape::Spans | Shape::Json => return None,
        };
        Some(match (key, level) {
            ("resourceSpans" | "batches", Level::Request) => Shape::List(Level::ResourceSpans),
            ("scopeSpans" | "instrumentationLibrarySpans", Level::Request | Level::ResourceSpans) => {
                Shape::List(Level::ScopeSpans)
            }
            ("spans", _) => Shape::Spans,
            _ => Shape::Json,
        })
    }
}

impl Place<'_> {
    /// Takes one off what the document may have.
    fn count<E: Error>(self) -> Result<(), E> {
        self.left.set(self.left.get().and_then(|left| left.checked_sub(1)));
        self.left.get().map(|_| ()).ok_or_else(|| E::custom("too many parts"))
    }
}

impl<'de> DeserializeSeed<'de> for Place<'_> {
    type Value = Part<'de>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Part<'de>, D::Error> {
        match self.shape {
            Shape::Json => serde::Deserialize::deserialize(deserializer).map(Part::Json),
            _ => deserializer.deserialize_any(self),
        }
    }
}

impl<'de> Visitor<'de> for Place<'_> {
    type Value = Part<'de>;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self.shape {
            Shape::Document | Shape::Object(_) => "an object",
            Shape::List(_) | Shape::Spans | Shape::Json => "a list",
        })
    }

    fn visit_unit<E: Error>(self) -> Result<Part<'de>, E> {
        Ok(if self.shape.member("").is_some() { Part::Object(Vec::new()) } else { Part::List(Vec::new()) })
    }

    // The error that serde would make quotes the text, which may be a secret.
    fn visit_str<E: Error>(self, _: &str) -> Result<Part<'de>, E> {
        Err(E::invalid_type(Unexpected::Other("text"), &self))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Part<'de>, A::Error> {
        let shape = self.shape.element().ok_or_else(|| A::Error::invalid_type(Unexpected::Seq, &self))?;
        let mut parts = Vec::new();
        while let Some(part) = seq.next_element_seed(Place { shape, ..self })? {
            self.count()?;
            parts.push(part);
        }
        Ok(Part::List(parts))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Part<'de>, A::Error> {
        let mut members = Vec::new();
        while let Some(Key(key)) = map.next_key()? {
            let key = match camel(&key) {
                Cow::Borrowed(_) => key,
                Cow::Owned(camel) => Cow::Owned(camel),
            };
            let shape = self.shape.member(&key).ok_or_else(|| A::Error::invalid_type(Unexpected::Map, &self))?;
            self.count()?;
            members.push((key, map.next_value_seed(Place { shape, ..self })?));
        }
        Ok(Part::Object(members))
    }
}
