//! What we write: the fifteen Failproof events, their JSON form and the limits of a payload.
//!
//! The contract is what Failproof's consumers (the spool daemon, the ingest endpoint, the dashboards) accept; they
//! skip or misread anything else without a word, so all of it is kept here: `schema` has the fields of each type
//! in their order and shape, `limits` the sizes, `agent_id` and `time` the forms of names and times.

mod agent_id;
mod limits;
mod line;
mod read;
mod schema;
mod time;

use std::sync::Arc;

use serde_json::{Map, Value};

pub(crate) use agent_id::UNNAMED_AGENT;
pub use agent_id::normalize_agent_id;
pub use limits::{
    BATCH_LIMIT, DEPTH_LIMIT, EXTRAS_LIMIT, ITEMS_LIMIT, LINE_LIMIT, MESSAGES_LIMIT, TEXT_LIMIT, truncate_front,
    truncate_head,
};
pub use read::EventError;
pub use schema::{EventType, Field, FieldError, Shape};
pub use time::{format_timestamp, parse_timestamp};

/// One event: one line of the spool.
#[derive(Clone, Debug, PartialEq)]
pub struct Event {
    /// Which of the fifteen it is.
    pub kind: EventType,
    /// When it happened, in nanoseconds since 1970; written in microseconds.
    pub time: u64,
    /// The session it belongs to; never blank.
    pub session_id: Arc<str>,
    /// The agent it belongs to: a name, never the id of a run.
    pub agent_id: Arc<str>,
    /// `prod`, `dev`, …; holds no comma (the server would skip the line).
    pub environment: Arc<str>,
    /// The dialect of the span that it tells, for those who count; not written. `none` for what no span says.
    pub(crate) dialect: &'static str,
    fields: Vec<(Field, Value)>,
    extras: Map<String, Value>,
}

impl Event {
    /// An event without any field.
    pub fn new(kind: EventType, time: u64, session_id: Arc<str>, agent_id: Arc<str>, environment: Arc<str>) -> Self {
        Event { kind, time, session_id, agent_id, environment, dialect: "none", fields: Vec::new(), extras: Map::new() }
    }

    /// Sets a field of the type. A field stays out if its value is null.
    ///
    /// # Errors
    /// If the type has no such field, or the value does not have the field's shape: the server would store a null
    /// without a word. The event stays as it was.
    pub fn set(&mut self, field: Field, value: impl Into<Value>) -> Result<(), FieldError> {
        let value = value.into();
        if value.is_null() {
            return Ok(());
        }
        self.kind.check(field, &value)?;
        self.fields.retain(|(known, _)| *known != field);
        self.fields.push((field, value));
        Ok(())
    }

    /// The value of a field.
    pub fn get(&self, field: Field) -> Option<&Value> {
        self.fields.iter().find(|(known, _)| *known == field).map(|(_, value)| value)
    }

    /// Adds something beside the declared fields, flat under its name (`fw_run_id`, `framework`, …); null stays out.
    pub fn set_extra(&mut self, name: &str, value: impl Into<Value>) {
        let value = value.into();
        debug_assert!(Field::from_name(name).is_none_or(|field| !self.kind.has(field)), "{name} is a declared field");
        if !value.is_null() {
            self.extras.insert(name.to_owned(), value);
        }
    }

    /// The value of an extra.
    pub fn extra(&self, name: &str) -> Option<&Value> {
        self.extras.get(name)
    }

    /// The required fields that it lacks.
    pub fn missing(&self) -> impl Iterator<Item = Field> + '_ {
        self.kind.required().iter().copied().filter(|field| self.get(*field).is_none())
    }

    /// Leaves out what a user said or a model answered: goals, summaries, messages, inputs, outputs, contents, and of
    /// tools all but the names. Names, ids, durations, tokens, outcomes and errors stay.
    pub fn drop_content(&mut self) {
        self.fields.retain(|(field, _)| !field.is_content());
        if let Some((_, Value::Array(tools))) = self.fields.iter_mut().find(|(field, _)| *field == Field::Tools) {
            for tool in tools.iter_mut().filter_map(Value::as_object_mut) {
                tool.retain(|key, _| key == "name");
            }
        }
    }

    /// The fields that are set, each with its name.
    pub(crate) fn fields_mut(&mut self) -> impl Iterator<Item = (&'static str, &mut Value)> {
        self.fields.iter_mut().map(|(field, value)| (field.name(), value))
    }

    /// All that it says beside its declared fields.
    pub(crate) fn extras_mut(&mut self) -> &mut Map<String, Value> {
        &mut self.extras
    }
}
