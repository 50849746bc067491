//! From the JSON form back to an event, for events that others made.
//!
//! Failproof's server skips or misreads what breaks the contract and says nothing; so it is refused here, with the reason.

use std::sync::Arc;

use serde_json::{Map, Value};

use super::limits::REST_KEY;
use super::{Event, EventType, Field, FieldError, normalize_agent_id, parse_timestamp};

/// The extras that are not named `fw_*`; the last says how many were cut.
const SHARED_EXTRAS: [&str; 4] = ["framework", "framework_version", "integration_version", REST_KEY];
/// The words that consumers know for an `outcome`; any other, such as `failure`, would count as a success.
const OUTCOMES: [&str; 7] = ["success", "failed", "cancelled", "paused", "error", "timeout", "rejected"];
/// The extra that keeps an agent's raw name, if that is not its id.
const RAW_AGENT_ID: &str = "fw_agent_id";

/// Why an object is no event.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum EventError {
    /// A member is missing that every event of its type has.
    #[error("{0} is missing")]
    Missing(&'static str),
    /// A member of the identity is not text, or blank.
    #[error("{0} must be text that is not blank")]
    Blank(&'static str),
    /// A time that cannot be read.
    #[error("timestamp {0:?} is no time such as 2026-01-02T03:04:05.678901Z")]
    Timestamp(String),
    /// None of the fifteen types.
    #[error("{0:?} is no type of event")]
    Type(String),
    /// The server skips every line whose environment holds a comma.
    #[error("environment {0:?} holds a comma, which Failproof does not store")]
    Comma(String),
    /// A declared field has a wrong value.
    #[error(transparent)]
    Field(#[from] FieldError),
    /// An outcome that nobody knows.
    #[error("{0:?} is no outcome; use success, failed or cancelled")]
    Outcome(String),
    /// A member that the type does not declare.
    #[error("{name:?} is no member of {}; name extras fw_*", kind.name())]
    Extra {
        /// Its name.
        name: String,
        /// The type of event.
        kind: EventType,
    },
}

impl Event {
    /// The event of a JSON object, whatever the order of its members. Members that are null are left out. An agent's name
    /// that holds an id becomes one without, as in all events; the raw one is kept in `fw_agent_id`.
    ///
    /// # Errors
    /// If a consumer would skip or misread it.
    pub fn from_members(mut members: Map<String, Value>) -> Result<Self, EventError> {
        members.retain(|_, value| !value.is_null());
        let timestamp = take_text(&mut members, "timestamp")?;
        let time = parse_timestamp(&timestamp).ok_or(EventError::Timestamp(timestamp))?;
        let session_id = take_text(&mut members, "session_id")?;
        let raw_agent_id = take_text(&mut members, "agent_id")?;
        let kind = take_text(&mut members, "type")?;
        let kind = EventType::from_name(&kind).ok_or(EventError::Type(kind))?;
        let environment = take_text(&mut members, "environment")?;
        if environment.contains(',') {
            return Err(EventError::Comma(environment));
        }
        let agent_id = normalize_agent_id(&raw_agent_id);
        let is_renamed = agent_id != raw_agent_id;
        let [session_id, agent_id, environment] = [session_id, agent_id, environment].map(Arc::from);
        let mut event = Event::new(kind, time, session_id, agent_id, environment);
        for (name, value) in members {
            event.take_member(name, value)?;
        }
        if let Some(field) = event.missing().next() {
            return Err(EventError::Missing(field.name()));
        }
        if is_renamed && event.extra(RAW_AGENT_ID).is_none() {
            event.set_extra(RAW_AGENT_ID, raw_agent_id);
        }
        Ok(event)
    }

    fn take_member(&mut self, name: String, mut value: Value) -> Result<(), EventError> {
        let Some(field) = self.kind.field(&name) else {
            let is_extra =
                SHARED_EXTRAS.contains(&name.as_str()) || name.strip_prefix("fw_").is_some_and(|rest| !rest.is_empty());
            if !is_extra {
                return Err(EventError::Extra { name, kind: self.kind });
            }
            self.set_extra(&name, value);
            return Ok(());
        };
        match (field, value.as_str()) {
            (Field::Outcome, Some(outcome)) if !OUTCOMES.contains(&outcome) => {
                return Err(EventError::Outcome(outcome.to_owned()));
            }
            (Field::ParentId, Some(parent)) if !parent.trim().is_empty() => value = normalize_agent_id(parent).into(),
            _ => {}
        }
        Ok(self.set(field, value)?)
    }
}

fn take_text(members: &mut Map<String, Value>, name: &'static str) -> Result<String, EventError> {
    match members.shift_remove(name) {
        None => Err(EventError::Missing(name)),
        Some(Value::String(text)) if !text.trim().is_empty() => Ok(text),
        Some(_) => Err(EventError::Blank(name)),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn read(change: impl FnOnce(&mut Map<String, Value>)) -> Result<String, String> {
        let Value::Object(mut members) = json!({
            "type": "tool_result", "fw_x": 1, "output": {"b": 1, "a": 2.0}, "environment": "dev", "tool_name": "bash",
            "timestamp": "2026-01-02T03:04:05.678901Z", "agent_id": "a", "session_id": "s", "tool_call_id": "1",
        }) else {
            unreachable!()
        };
        change(&mut members);
        let mut line = Vec::new();
        Event::from_members(members).map_err(|error| error.to_string())?.write_line(&mut line);
        Ok(String::from_utf8(line).unwrap())
    }

    #[test]
    fn a_good_event_gets_the_order_of_the_contract() {
        assert_eq!(
            read(|_| {}).unwrap(),
            "{\"timestamp\":\"2026-01-02T03:04:05.678901Z\",\"session_id\":\"s\",\"agent_id\":\"a\",\"type\":\"tool_result\",\
             \"tool_name\":\"bash\",\"tool_call_id\":\"1\",\"environment\":\"dev\",\"output\":{\"b\":1,\"a\":2.0},\"fw_x\":1}\n"
        );
        let line = read(|members| {
            members.insert("agent_id".into(), "agent-3f9a1c2b-1111-4222-8333-444455556666".into());
            members.insert("error".into(), Value::Null);
        });
        assert!(line.unwrap().contains("\"agent_id\":\"agent\""));
    }

    #[test]
    fn what_a_consumer_would_skip_or_misread_is_refused_with_its_reason() {
        for (name, value, reason) in [
            ("session_id", json!(" "), "session_id must be text that is not blank"),
            ("agent_id", json!(7), "agent_id must be text that is not blank"),
            ("session_id", json!(null), "session_id is missing"),
            ("type", json!("tool"), "\"tool\" is no type of event"),
            ("timestamp", json!("yesterday"), "timestamp \"yesterday\" is no time such as 2026-01-02T03:04:05.678901Z"),
            ("environment", json!("a,b"), "environment \"a,b\" holds a comma, which Failproof does not store"),
            ("tool_name", json!(null), "tool_name is missing"),
            ("tool_name", json!(""), "tool_name must be text that is not blank"),
            ("duration_ms", json!(1.5), "duration_ms must be a whole number from 0 to 4294967295"),
            ("duration_ms", json!(1_u64 << 32), "duration_ms must be a whole number from 0 to 4294967295"),
            ("goal", json!("x"), "\"goal\" is no member of tool_result; name extras fw_*"),
            ("fw_", json!("x"), "\"fw_\" is no member of tool_result; name extras fw_*"),
        ] {
            let refused = read(|members| {
                members.insert(name.into(), value);
            });
            assert_eq!(refused, Err(reason.to_owned()), "{name}");
        }
    }

    #[test]
    fn an_outcome_is_a_word_that_the_server_knows() {
        let outcome = |word: &str| {
            let Value::Object(members) = json!({
                "timestamp": "2026-01-02T03:04:05Z", "session_id": "s", "agent_id": "a", "type": "agent_end",
                "environment": "dev", "outcome": word,
            }) else {
                unreachable!()
            };
            Event::from_members(members).map(|_| ())
        };
        assert_eq!(outcome("failed"), Ok(()));
        assert_eq!(outcome("failure"), Err(EventError::Outcome("failure".to_owned())));
    }
}
