//! Replaces credential-shaped text by `[redacted:<kind>]`, before anything is stored or sent.
//!
//! The rules are those of the Failproof daemon and of the official SDK, and give the same text for
//! the same input; see `tests/redaction.rs`. Beyond them this module redacts what the contract
//! names and they let through: a `sbp_` token of 16 to 19 characters, and secrets in JSON text
//! that is itself the content of a string, quoted or escaped.

mod rules;
mod scan;

use std::borrow::Cow;
use std::collections::HashMap;

use serde_json::{Map, Value};

/// The text with every credential replaced by `[redacted:<kind>]`; borrowed if there is none.
pub fn redact_text(text: &str) -> Cow<'_, str> {
    match scan::scan(text).replaced(text) {
        Some(redacted) => Cow::Owned(redacted),
        None => Cow::Borrowed(text),
    }
}

/// [`redact_text`] for the value of a field. A secret's field (see [`is_secret_name`]) loses all
/// of its value, if that is a literal of 12 bytes or more and holds no other known credential.
pub fn redact_field_text<'t>(name: &str, text: &'t str) -> Cow<'t, str> {
    let found = scan::scan(text);
    if !found.by_sdk && rules::is_secret_value(text) && is_secret_name(name) {
        return Cow::Owned(rules::SECRET_MARKER.to_owned());
    }
    match found.replaced(text) {
        Some(redacted) => Cow::Owned(redacted),
        None => Cow::Borrowed(text),
    }
}

/// Whether a field or variable of this name holds a secret: the name ends in `secret`, `password`,
/// `passwd` or `credential`, or is a compound that ends in `key` or `token`.
pub fn is_secret_name(name: &str) -> bool {
    rules::is_secret_name(name)
}

/// Redacts every string and every object key within the value. The order of keys stays; keys that
/// become equal are told apart by `#2`, `#3` and so on.
pub fn redact_value(value: &mut Value) {
    redact(None, value);
}

/// [`redact_value`] for the value of a field; the elements of an array are values of that field.
pub fn redact_field(name: &str, value: &mut Value) {
    redact(Some(name), value);
}

fn redact(name: Option<&str>, value: &mut Value) {
    match value {
        Value::String(text) => {
            let redacted = match name {
                Some(name) => redact_field_text(name, text),
                None => redact_text(text),
            };
            if let Cow::Owned(redacted) = redacted {
                *text = redacted;
            }
        }
        Value::Array(items) => items.iter_mut().for_each(|item| redact(name, item)),
        Value::Object(fields) => {
            fields.iter_mut().for_each(|(key, item)| redact(Some(key), item));
            if fields.keys().any(|key| matches!(redact_text(key), Cow::Owned(_))) {
                redact_keys(fields);
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

fn redact_keys(fields: &mut Map<String, Value>) {
    let mut next_suffix = HashMap::new();
    for (key, item) in std::mem::take(fields) {
        let redacted = redact_text(&key).into_owned();
        let mut unique = redacted.clone();
        if fields.contains_key(&unique) {
            // Counting on from the last suffix gives the same one as counting from 2.
            let suffix = next_suffix.entry(redacted.clone()).or_insert(2_u64);
            while fields.contains_key(&unique) {
                unique = format!("{redacted}#{suffix}");
                *suffix += 1;
            }
        }
        fields.insert(unique, item);
    }
}
