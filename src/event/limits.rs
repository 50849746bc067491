//! The sizes of a payload. Whatever is cut marks its event with `fw_truncated`; nothing is cut without a sign.
//!
//! Source of the figures: the Failproof contract, "Payload limits". Lengths of text count characters (code points).

use std::sync::Arc;

use serde_json::{Map, Value};

use super::{Event, EventType, Field, Shape};

/// The longest text, marker included.
pub const TEXT_LIMIT: usize = 8_192;
/// The most items of a list or keys of an object.
pub const ITEMS_LIMIT: usize = 100;
/// How deep a value nests; below, its JSON text stands in for it.
pub const DEPTH_LIMIT: usize = 6;
/// The most messages of a request; the newest stay.
pub const MESSAGES_LIMIT: usize = 20;
/// The most bytes of all extras of an event together.
pub const EXTRAS_LIMIT: usize = 16 * TEXT_LIMIT;
/// The most bytes of a line, its newline included.
pub const LINE_LIMIT: usize = 4 << 20;
/// The most bytes of a batch file.
pub const BATCH_LIMIT: usize = 8 << 20;

const HEAD_MARKER: &str = "…[truncated]";
const FRONT_MARKER: &str = "[older frames truncated]…\n";
/// The end of what stands in for the entries that were cut.
const CUT_MARKER: &str = " truncated]";
/// The key that says how many keys of an object are missing.
pub(super) const REST_KEY: &str = "…";
/// The extra that says that its event lost something to a limit.
pub(crate) const TRUNCATED: &str = "fw_truncated";
/// The extra that counts the older messages that a request lost.
const MESSAGES_OMITTED: &str = "fw_messages_omitted";

/// The head of a text and a marker, if it is longer than `limit` characters.
pub fn truncate_head(text: &mut String, limit: usize) -> bool {
    if !is_longer(text, limit) {
        return false;
    }
    let keep = limit.saturating_sub(HEAD_MARKER.chars().count());
    let end = text.char_indices().nth(keep).map_or(text.len(), |(at, _)| at);
    text.truncate(end);
    text.push_str(HEAD_MARKER);
    true
}

/// A marker and the tail of a text, if it is longer than `limit` characters: for tracebacks, whose last line is the
/// exception itself.
pub fn truncate_front(text: &mut String, limit: usize) -> bool {
    if !is_longer(text, limit) {
        return false;
    }
    let keep = limit.saturating_sub(FRONT_MARKER.chars().count());
    let start = text.char_indices().rev().take(keep).last().map_or(text.len(), |(at, _)| at);
    text.replace_range(..start, FRONT_MARKER);
    true
}

fn is_longer(text: &str, limit: usize) -> bool {
    text.len() > limit && text.chars().nth(limit).is_some()
}

impl Event {
    /// Cuts all that is over a limit. What was cut before, here or in another gateway, stays as it is.
    pub(crate) fn apply_limits(&mut self) {
        let mut cut = self.extras.shift_remove(TRUNCATED).is_some();
        cut |= self.keep_newest_messages();
        for (field, value) in &mut self.fields {
            cut |= match &mut *value {
                Value::String(text) if *field == Field::Traceback => truncate_front(text, TEXT_LIMIT),
                value => limit_value(value, 0),
            };
            if let (Shape::Objects, Value::Array(items)) = (field.shape(), value)
                && let Some(told @ Value::String(_)) = items.last_mut()
            {
                *told = Value::Object(Map::from_iter([(REST_KEY.to_owned(), told.take())]));
            }
        }
        for part in [&mut self.session_id, &mut self.agent_id, &mut self.environment] {
            if is_longer(part, TEXT_LIMIT) {
                let mut text = part.to_string();
                cut |= truncate_head(&mut text, TEXT_LIMIT);
                *part = Arc::from(text);
            }
        }
        cut |= limit_members(&mut self.extras, 0);
        cut |= self.keep_small_extras();
        if cut {
            self.extras.insert(TRUNCATED.to_owned(), Value::Bool(true));
        }
    }

    /// Whether it lost something to a limit.
    pub(crate) fn is_truncated(&self) -> bool {
        self.extras.contains_key(TRUNCATED)
    }

    /// Leaves out the field that takes most room; the last resort for a line over its limit. False if nothing is left
    /// to leave out.
    pub(super) fn drop_largest_field(&mut self) -> bool {
        let size = |value: &Value| value.to_string().len();
        let optional = self.fields.iter().enumerate().filter(|(_, (field, _))| self.kind.optional().contains(field));
        let Some((at, _)) = optional.max_by_key(|(at, (_, value))| (size(value), usize::MAX - at)) else {
            return false;
        };
        self.fields.remove(at);
        self.extras.insert(TRUNCATED.to_owned(), Value::Bool(true));
        true
    }

    fn keep_newest_messages(&mut self) -> bool {
        if self.kind != EventType::ModelRequest {
            return false;
        }
        let messages = self.fields.iter_mut().find(|(field, _)| *field == Field::Messages);
        let Some((_, Value::Array(messages))) = messages else { return false };
        let omitted = messages.len().saturating_sub(MESSAGES_LIMIT);
        if omitted > 0 {
            messages.drain(..omitted);
            self.extras.insert(MESSAGES_OMITTED.to_owned(), Value::from(omitted));
        }
        omitted > 0
    }

    /// Smallest first, so that a big payload never pushes out the ids; what does not fit is left out whole.
    fn keep_small_extras(&mut self) -> bool {
        let mut sizes: Vec<(usize, String)> =
            self.extras.iter().map(|(name, value)| (value.to_string().len(), name.clone())).collect();
        if sizes.iter().map(|(size, _)| size).sum::<usize>() <= EXTRAS_LIMIT {
            return false;
        }
        sizes.sort();
        let mut left = EXTRAS_LIMIT;
        for (size, name) in sizes {
            match left.checked_sub(size) {
                Some(rest) => left = rest,
                None => {
                    self.extras.shift_remove(&name);
                }
            }
        }
        true
    }
}

/// Cuts a value's texts, lists, objects and depth; true if something was cut.
fn limit_value(value: &mut Value, depth: usize) -> bool {
    match value {
        Value::String(text) => truncate_head(text, TEXT_LIMIT),
        Value::Array(_) | Value::Object(_) if depth >= DEPTH_LIMIT => {
            let mut text = value.to_string();
            truncate_head(&mut text, TEXT_LIMIT);
            *value = Value::String(text);
            true
        }
        Value::Array(items) => {
            let more = excess(items.len(), items.last());
            if more > 0 {
                items.truncate(ITEMS_LIMIT);
            }
            let mut cut = more > 0;
            for item in items.iter_mut() {
                cut |= limit_value(item, depth + 1);
            }
            if more > 0 {
                items.push(Value::from(format!("[{more} more items{CUT_MARKER}")));
            }
            cut
        }
        Value::Object(members) => limit_members(members, depth + 1),
        Value::Null | Value::Bool(_) | Value::Number(_) => false,
    }
}

/// How many entries are too many. One more than the limit is none, if the last only says how many were cut before.
fn excess(entries: usize, last: Option<&Value>) -> usize {
    let is_cut = |last: &Value| {
        last.get(REST_KEY)
            .unwrap_or(last)
            .as_str()
            .is_some_and(|text| text.starts_with('[') && text.ends_with(CUT_MARKER))
    };
    match entries.saturating_sub(ITEMS_LIMIT) {
        1 if last.is_some_and(is_cut) => 0,
        more => more,
    }
}

/// Cuts the members of an object; `depth` is that of its values.
fn limit_members(members: &mut Map<String, Value>, depth: usize) -> bool {
    let last = members.iter().next_back().filter(|(key, _)| *key == REST_KEY).map(|(_, value)| value);
    let more = excess(members.len(), last);
    let mut cut = more > 0;
    if more > 0 || members.keys().any(|key| is_longer(key, TEXT_LIMIT)) {
        let keep = if more > 0 { ITEMS_LIMIT } else { members.len() };
        let kept = std::mem::take(members).into_iter().take(keep);
        *members = kept
            .map(|(mut key, value)| {
                cut |= truncate_head(&mut key, TEXT_LIMIT);
                (key, value)
            })
            .collect();
    }
    for (_, value) in members.iter_mut() {
        cut |= limit_value(value, depth);
    }
    if more > 0 {
        members.insert(REST_KEY.to_owned(), Value::from(format!("[{more} more keys{CUT_MARKER}")));
    }
    cut
}
