//! From events to bytes: what may not leave is dropped, credentials are redacted, limits are kept, lines are written.

use std::borrow::Cow;
use std::sync::Arc;

use serde_json::Value;

use crate::event::Event;
use crate::redact::{redact_field, redact_text, redact_value};

/// What may leave.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Policy {
    /// Whether goals, messages, inputs, outputs and the like are written.
    pub capture_content: bool,
    /// Whether credentials are replaced by `[redacted:<kind>]`.
    pub redact: bool,
}

impl Default for Policy {
    fn default() -> Self {
        Policy { capture_content: true, redact: true }
    }
}

/// The events as lines, one JSON object each.
pub fn encode(events: impl IntoIterator<Item = Event>, policy: Policy) -> Vec<u8> {
    let mut lines = Vec::new();
    for event in events {
        let _ = encode_into(event, policy, &mut lines);
    }
    lines
}

/// Appends an event as a line; whether it lost something to a limit.
pub(crate) fn encode_into(mut event: Event, policy: Policy, lines: &mut Vec<u8>) -> bool {
    if !policy.capture_content {
        event.drop_content();
    }
    // Before the limits: a cut credential would be recognized no more.
    if policy.redact {
        redact_event(&mut event);
    }
    event.apply_limits();
    event.write_line(lines);
    event.is_truncated()
}

fn redact_event(event: &mut Event) {
    for (name, value) in event.fields_mut() {
        redact_field(name, value);
    }
    // As one object: the names of extras are redacted too.
    let mut extras = Value::Object(std::mem::take(event.extras_mut()));
    redact_value(&mut extras);
    if let Value::Object(extras) = extras {
        *event.extras_mut() = extras;
    }
    for part in [&mut event.session_id, &mut event.agent_id, &mut event.environment] {
        if let Cow::Owned(redacted) = redact_text(part) {
            *part = Arc::from(redacted);
        }
    }
}
