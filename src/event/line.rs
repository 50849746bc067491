//! The wire form: one JSON object a line, in the contract's key order.

use serde::Serialize;

use super::{Event, LINE_LIMIT, format_timestamp};

impl Event {
    /// Appends the event as one line, newline included: identity, the type's required fields, `environment`, the
    /// optional fields, the extras. The line holds at most [`LINE_LIMIT`] bytes.
    pub fn write_line(&mut self, out: &mut Vec<u8>) {
        let start = out.len();
        loop {
            self.append(out);
            if out.len() - start <= LINE_LIMIT || !self.drop_largest_field() {
                return;
            }
            out.truncate(start);
        }
    }

    fn append(&self, out: &mut Vec<u8>) {
        out.push(b'{');
        append_member(out, "timestamp", &format_timestamp(self.time));
        append_member(out, "session_id", self.session_id.as_ref());
        append_member(out, "agent_id", self.agent_id.as_ref());
        append_member(out, "type", self.kind.name());
        let in_order = |fields: &'static [super::Field], out: &mut Vec<u8>| {
            for field in fields {
                if let Some(value) = self.get(*field) {
                    append_member(out, field.name(), value);
                }
            }
        };
        in_order(self.kind.required(), out);
        append_member(out, "environment", self.environment.as_ref());
        in_order(self.kind.optional(), out);
        for (name, value) in &self.extras {
            append_member(out, name, value);
        }
        out.extend_from_slice(b"}\n");
    }
}

fn append_member(out: &mut Vec<u8>, name: &str, value: &(impl Serialize + ?Sized)) {
    if out.last() != Some(&b'{') {
        out.push(b',');
    }
    append_json(out, name);
    out.push(b':');
    append_json(out, value);
}

fn append_json(out: &mut Vec<u8>, value: &(impl Serialize + ?Sized)) {
    let start = out.len();
    // JSON values and texts always have a JSON form and a `Vec` always takes it; were that ever untrue, a null keeps the line whole.
    if serde_json::to_writer(&mut *out, value).is_err() {
        out.truncate(start);
        out.extend_from_slice(b"null");
    }
}
