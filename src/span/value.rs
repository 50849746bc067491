//! The value of an attribute: OTLP's `AnyValue`, and the forms in which the field it stands for can arrive.

use std::borrow::Cow;

use serde_json::Value as Json;

/// One attribute's value. OTLP's empty value has no form here: it is absent.
#[derive(Clone, Debug, PartialEq)]
pub enum Value<'a> {
    /// Text; often JSON in text.
    Text(Cow<'a, str>),
    /// True or false.
    Bool(bool),
    /// A whole number.
    Int(i64),
    /// A number; NaN and infinities are possible.
    Double(f64),
    /// Bytes.
    Bytes(Cow<'a, [u8]>),
    /// A list.
    Array(Vec<Value<'a>>),
    /// An object, in the sender's order.
    Map(Vec<(Cow<'a, str>, Value<'a>)>),
}

impl<'a> Value<'a> {
    /// The text, if it is text.
    pub fn as_str(&self) -> Option<&str> {
        match self {
            Value::Text(text) => Some(text),
            _ => None,
        }
    }

    /// The whole number, whether it was sent as a number (also `3.0`) or as text.
    pub fn as_i64(&self) -> Option<i64> {
        match self {
            Value::Int(number) => Some(*number),
            // 2^53: beyond it a double no longer tells neighbouring integers apart.
            Value::Double(number) if number.fract() == 0.0 && number.abs() <= 9_007_199_254_740_992.0 => {
                Some(*number as i64)
            }
            Value::Text(text) => text.trim().parse().ok(),
            _ => None,
        }
    }

    /// The number, whether it was sent as a number or as text; never NaN or infinite.
    pub fn as_f64(&self) -> Option<f64> {
        match self {
            Value::Int(number) => Some(*number as f64),
            Value::Double(number) => Some(*number),
            Value::Text(text) => text.trim().parse().ok(),
            _ => None,
        }
        .filter(|number| number.is_finite())
    }

    /// The truth, whether it was sent as a boolean or as text (`True` is how Python's SDK writes it).
    pub fn as_bool(&self) -> Option<bool> {
        match self {
            Value::Bool(truth) => Some(*truth),
            Value::Text(text) if text.eq_ignore_ascii_case("true") => Some(true),
            Value::Text(text) if text.eq_ignore_ascii_case("false") => Some(false),
            _ => None,
        }
    }

    /// The JSON that this value stands for: JSON text is parsed, other text stays text.
    pub fn parse_json(&self) -> Json {
        match self {
            Value::Text(text) => parse_json_text(text),
            other => other.to_json(),
        }
    }

    /// The value itself as JSON: text stays text, bytes become their number, NaN and infinities become text.
    pub fn to_json(&self) -> Json {
        match self {
            Value::Text(text) => Json::from(text.as_ref()),
            Value::Bool(truth) => Json::from(*truth),
            Value::Int(number) => Json::from(*number),
            Value::Double(number) => {
                serde_json::Number::from_f64(*number).map_or_else(|| Json::from(number.to_string()), Json::Number)
            }
            Value::Bytes(bytes) => Json::from(format!("[{} bytes]", bytes.len())),
            Value::Array(items) => Json::Array(items.iter().map(Value::to_json).collect()),
            Value::Map(pairs) => {
                Json::Object(pairs.iter().map(|(key, value)| (key.to_string(), value.to_json())).collect())
            }
        }
    }

    /// A copy that borrows nothing.
    pub fn into_owned(self) -> Value<'static> {
        match self {
            Value::Text(text) => Value::Text(Cow::Owned(text.into_owned())),
            Value::Bool(truth) => Value::Bool(truth),
            Value::Int(number) => Value::Int(number),
            Value::Double(number) => Value::Double(number),
            Value::Bytes(bytes) => Value::Bytes(Cow::Owned(bytes.into_owned())),
            Value::Array(items) => Value::Array(items.into_iter().map(Value::into_owned).collect()),
            Value::Map(pairs) => Value::Map(
                pairs.into_iter().map(|(key, value)| (Cow::Owned(key.into_owned()), value.into_owned())).collect(),
            ),
        }
    }

    /// Roughly how many bytes it holds beside its own size.
    pub(super) fn weight(&self) -> usize {
        match self {
            Value::Text(text) => text.len(),
            Value::Bytes(bytes) => bytes.len(),
            Value::Array(items) => items.iter().map(|item| size_of::<Self>() + item.weight()).sum(),
            Value::Map(pairs) => {
                pairs.iter().map(|(key, value)| 2 * size_of::<Self>() + key.len() + value.weight()).sum()
            }
            Value::Bool(_) | Value::Int(_) | Value::Double(_) => 0,
        }
    }
}

/// JSON if the text is JSON as a whole, else the text itself. Text that was cut in the middle stays text.
pub fn parse_json_text(text: &str) -> Json {
    // Most text is no JSON: look at one character before a parser is started.
    let could_be_json = matches!(
        text.trim_start().as_bytes().first(),
        Some(b'{' | b'[' | b'"' | b'-' | b'0'..=b'9' | b't' | b'f' | b'n')
    );
    could_be_json.then(|| serde_json::from_str(text).ok()).flatten().unwrap_or_else(|| Json::from(text))
}

impl<'a> From<&'a str> for Value<'a> {
    fn from(text: &'a str) -> Self {
        Value::Text(Cow::Borrowed(text))
    }
}

impl From<String> for Value<'_> {
    fn from(text: String) -> Self {
        Value::Text(Cow::Owned(text))
    }
}

impl<'a> From<Cow<'a, str>> for Value<'a> {
    fn from(text: Cow<'a, str>) -> Self {
        Value::Text(text)
    }
}

impl From<bool> for Value<'_> {
    fn from(truth: bool) -> Self {
        Value::Bool(truth)
    }
}

impl From<i64> for Value<'_> {
    fn from(number: i64) -> Self {
        Value::Int(number)
    }
}

impl From<f64> for Value<'_> {
    fn from(number: f64) -> Self {
        Value::Double(number)
    }
}

impl<'a> From<Vec<Value<'a>>> for Value<'a> {
    fn from(items: Vec<Value<'a>>) -> Self {
        Value::Array(items)
    }
}
