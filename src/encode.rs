//! From events to bytes: what may not leave is dropped, credentials are redacted, limits are kept, lines are written.

use std::sync::Arc;

use crate::event::Event;
use crate::redact;

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
        encode_into(event, policy, &mut lines);
    }
    lines
}

/// Appends an event as a line.
pub(crate) fn encode_into(mut event: Event, policy: Policy, lines: &mut Vec<u8>) {
    if !policy.capture_content {
        event.drop_content();
    }
    // Before the limits: a cut credential would be recognized no more.
    if policy.redact {
        event.for_each_value(redact::redact_field);
        redact_id(&mut event.session_id);
        redact_id(&mut event.agent_id);
    }
    event.apply_limits();
    event.write_line(lines);
}

fn redact_id(id: &mut Arc<str>) {
    if let std::borrow::Cow::Owned(redacted) = redact::redact_text(id) {
        *id = Arc::from(redacted);
    }
}
