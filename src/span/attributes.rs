//! Key and value pairs as a span, a scope or a resource carries them.

use std::borrow::Cow;

use super::Value;

/// Attributes in the sender's order.
///
/// A key can stand there twice (`opentelemetry_sdk` appends, it never replaces): the last one wins. An attribute
/// without a value is absent.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Attributes<'a>(Vec<(Cow<'a, str>, Value<'a>)>);

impl<'a> Attributes<'a> {
    /// Adds one. A later one of the same key hides an earlier one.
    pub fn push(&mut self, key: impl Into<Cow<'a, str>>, value: impl Into<Value<'a>>) {
        self.0.push((key.into(), value.into()));
    }

    /// The value of a key.
    pub fn get(&self, key: &str) -> Option<&Value<'a>> {
        self.0.iter().rev().find(|(name, _)| name == key).map(|(_, value)| value)
    }

    /// The value of a key if it is text that is not blank.
    pub fn text(&self, key: &str) -> Option<&str> {
        self.get(key).and_then(Value::as_str).filter(|text| !text.trim().is_empty())
    }

    /// All of them in order; of a key that stands there twice, the later is the one that counts.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = (&str, &Value<'a>)> {
        self.0.iter().map(|(key, value)| (key.as_ref(), value))
    }

    /// How many there are, hidden ones too.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// A copy that borrows nothing.
    pub fn into_owned(self) -> Attributes<'static> {
        Attributes(self.0.into_iter().map(|(key, value)| (Cow::Owned(key.into_owned()), value.into_owned())).collect())
    }

    /// Roughly how many bytes of memory they hold.
    pub fn weight(&self) -> usize {
        self.0.iter().map(|(key, value)| size_of::<(Cow<'_, str>, Value<'_>)>() + key.len() + value.weight()).sum()
    }
}

impl<'a, K: Into<Cow<'a, str>>, V: Into<Value<'a>>> FromIterator<(K, V)> for Attributes<'a> {
    fn from_iter<I: IntoIterator<Item = (K, V)>>(pairs: I) -> Self {
        Attributes(pairs.into_iter().map(|(key, value)| (key.into(), value.into())).collect())
    }
}
