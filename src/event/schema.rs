//! The fifteen types, the fields of each in the order in which they are written, and the shape of every field.

use serde_json::Value;

/// The fifteen types of event.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[allow(missing_docs, reason = "each is named as its wire form is; the contract's table gives the meaning")]
pub enum EventType {
    AgentStart,
    AgentEnd,
    AgentPause,
    AgentResume,
    ToolUse,
    ToolResult,
    ModelRequest,
    ModelResponse,
    HookTriggered,
    HookCompleted,
    Error,
    HumanWait,
    HumanInput,
    HumanPause,
    HumanInterrupt,
}

/// A declared field of an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[allow(missing_docs, reason = "each is named as its wire form is; the contract's table gives the meaning")]
pub enum Field {
    AtStep,
    Content,
    DurationMs,
    Error,
    ErrorType,
    Goal,
    HookId,
    HookName,
    Input,
    HookInput,
    InputId,
    InputTokens,
    Message,
    Messages,
    Model,
    Options,
    Outcome,
    Output,
    OutputTokens,
    ParentId,
    PauseId,
    Prompt,
    Reason,
    RequestId,
    Response,
    Role,
    StopReason,
    Summary,
    System,
    ToolCallId,
    ToolName,
    Tools,
    Traceback,
    TriggerEvent,
    Usage,
    UserId,
}

/// What a field's value must be: the server stores a null for anything else.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shape {
    /// Text.
    Text,
    /// Text that is not blank: an id or a name that rows are joined by.
    Name,
    /// A whole number from 0 to 2^32-1: milliseconds or tokens.
    U32,
    /// An object.
    Object,
    /// A list of objects.
    Objects,
    /// A list of texts.
    Texts,
    /// Anything.
    Any,
}

/// Why a value was not taken.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FieldError {
    /// The type of event does not declare the field.
    #[error("{0} has no field {1}", kind.name(), field.name())]
    Undeclared {
        /// The type of event.
        kind: EventType,
        /// The field.
        field: Field,
    },
    /// The value does not have the field's shape.
    #[error("{0} must be {1}", field.name(), shape.describe())]
    WrongShape {
        /// The field.
        field: Field,
        /// What it must be.
        shape: Shape,
    },
}

struct Type {
    kind: EventType,
    name: &'static str,
    /// Written before `environment`.
    required: &'static [Field],
    /// Written after it. `error`, `duration_ms` and `usage` of a `model_response` are extras by the contract's words,
    /// but have their place here as well.
    optional: &'static [Field],
}

#[rustfmt::skip]
const TYPES: [Type; 15] = {
    use EventType::*;
    use Field::*;
    [
        Type { kind: AgentStart, name: "agent_start", required: &[], optional: &[Goal, ParentId] },
        Type { kind: AgentEnd, name: "agent_end", required: &[], optional: &[Outcome, Summary, Usage] },
        Type { kind: AgentPause, name: "agent_pause", required: &[PauseId], optional: &[Reason, UserId] },
        Type { kind: AgentResume, name: "agent_resume", required: &[PauseId], optional: &[DurationMs, Reason, UserId] },
        Type { kind: ToolUse, name: "tool_use", required: &[ToolName, ToolCallId], optional: &[Input] },
        Type { kind: ToolResult, name: "tool_result", required: &[ToolName, ToolCallId], optional: &[Output, EventType::ERROR_FIELD, DurationMs] },
        Type { kind: ModelRequest, name: "model_request", required: &[], optional: &[Model, Messages, System, Tools, RequestId] },
        Type { kind: ModelResponse, name: "model_response", required: &[], optional: &[Model, StopReason, InputTokens, OutputTokens, Content, Role, RequestId, EventType::ERROR_FIELD, DurationMs, Usage] },
        Type { kind: HookTriggered, name: "hook_triggered", required: &[HookName, HookId], optional: &[TriggerEvent, HookInput] },
        Type { kind: HookCompleted, name: "hook_completed", required: &[HookName, HookId], optional: &[Outcome, Output, EventType::ERROR_FIELD, DurationMs] },
        Type { kind: EventType::Error, name: "error", required: &[ErrorType, Message], optional: &[Traceback] },
        Type { kind: HumanWait, name: "human_wait", required: &[InputId], optional: &[Prompt, Options, Reason] },
        Type { kind: HumanInput, name: "human_input", required: &[InputId], optional: &[Response, DurationMs] },
        Type { kind: HumanPause, name: "human_pause", required: &[], optional: &[Reason, UserId] },
        Type { kind: HumanInterrupt, name: "human_interrupt", required: &[], optional: &[Reason, UserId, AtStep] },
    ]
};

struct FieldRow {
    field: Field,
    name: &'static str,
    shape: Shape,
    /// Said by a user or a model, or handed to or by a tool: left out when content is not captured.
    content: bool,
}

#[rustfmt::skip]
const FIELDS: [FieldRow; 36] = {
    use Field::*;
    use Shape::*;
    const fn row(field: Field, name: &'static str, shape: Shape, content: bool) -> FieldRow {
        FieldRow { field, name, shape, content }
    }
    [
        row(AtStep, "at_step", Any, false),
        row(Content, "content", Any, true),
        row(DurationMs, "duration_ms", U32, false),
        row(Field::Error, "error", Text, false),
        row(ErrorType, "error_type", Name, false),
        row(Goal, "goal", Text, true),
        row(HookId, "hook_id", Name, false),
        row(HookName, "hook_name", Name, false),
        row(Input, "input", Object, true),
        row(HookInput, "input", Any, true),
        row(InputId, "input_id", Name, false),
        row(InputTokens, "input_tokens", U32, false),
        row(Message, "message", Text, false),
        row(Messages, "messages", Objects, true),
        row(Model, "model", Name, false),
        row(Options, "options", Texts, true),
        row(Outcome, "outcome", Name, false),
        row(Output, "output", Any, true),
        row(OutputTokens, "output_tokens", U32, false),
        row(ParentId, "parent_id", Name, false),
        row(PauseId, "pause_id", Name, false),
        row(Prompt, "prompt", Text, true),
        row(Reason, "reason", Text, false),
        row(RequestId, "request_id", Name, false),
        row(Response, "response", Any, true),
        row(Role, "role", Name, false),
        row(StopReason, "stop_reason", Name, false),
        row(Summary, "summary", Text, true),
        row(System, "system", Text, true),
        row(ToolCallId, "tool_call_id", Name, false),
        row(ToolName, "tool_name", Name, false),
        row(Tools, "tools", Objects, false),
        row(Traceback, "traceback", Text, false),
        row(TriggerEvent, "trigger_event", Name, false),
        row(Usage, "usage", Object, false),
        row(UserId, "user_id", Name, false),
    ]
};

impl EventType {
    /// All fifteen.
    pub const ALL: [EventType; 15] = {
        let mut all = [EventType::AgentStart; 15];
        let mut at = 0;
        while at < all.len() {
            all[at] = TYPES[at].kind;
            at += 1;
        }
        all
    };
    const ERROR_FIELD: Field = Field::Error;

    /// Its name on the wire.
    pub fn name(self) -> &'static str {
        self.row().name
    }

    /// The type of that name on the wire.
    pub fn from_name(name: &str) -> Option<Self> {
        TYPES.iter().find(|row| row.name == name).map(|row| row.kind)
    }

    /// The fields that it must have, in the order in which they are written: before `environment`.
    pub fn required(self) -> &'static [Field] {
        self.row().required
    }

    /// The fields that it can have, in the order in which they are written: after `environment`.
    pub fn optional(self) -> &'static [Field] {
        self.row().optional
    }

    /// Whether the type declares the field.
    pub fn has(self, field: Field) -> bool {
        self.required().contains(&field) || self.optional().contains(&field)
    }

    /// The field of that name on the wire, if the type declares it.
    pub fn field(self, name: &str) -> Option<Field> {
        self.required().iter().chain(self.optional()).copied().find(|field| field.name() == name)
    }

    pub(super) fn check(self, field: Field, value: &Value) -> Result<(), FieldError> {
        if !self.has(field) {
            return Err(FieldError::Undeclared { kind: self, field });
        }
        let shape = field.shape();
        if shape.fits(value) { Ok(()) } else { Err(FieldError::WrongShape { field, shape }) }
    }

    fn row(self) -> &'static Type {
        &TYPES[self as usize]
    }
}

impl Field {
    /// Its name on the wire.
    pub fn name(self) -> &'static str {
        self.row().name
    }

    /// What its value must be.
    pub fn shape(self) -> Shape {
        self.row().shape
    }

    /// Whether it is left out when content is not captured.
    pub fn is_content(self) -> bool {
        self.row().content
    }

    pub(super) fn from_name(name: &str) -> Option<Self> {
        FIELDS.iter().find(|row| row.name == name).map(|row| row.field)
    }

    fn row(self) -> &'static FieldRow {
        &FIELDS[self as usize]
    }
}

impl Shape {
    fn fits(self, value: &Value) -> bool {
        let all = |fits: fn(&Value) -> bool| value.as_array().is_some_and(|items| items.iter().all(fits));
        match self {
            Shape::Text => value.is_string(),
            Shape::Name => value.as_str().is_some_and(|text| !text.trim().is_empty()),
            Shape::U32 => value.as_u64().is_some_and(|number| u32::try_from(number).is_ok()),
            Shape::Object => value.is_object(),
            Shape::Objects => all(Value::is_object),
            Shape::Texts => all(Value::is_string),
            Shape::Any => true,
        }
    }

    fn describe(self) -> &'static str {
        match self {
            Shape::Text => "text",
            Shape::Name => "text that is not blank",
            Shape::U32 => "a whole number from 0 to 4294967295",
            Shape::Object => "an object",
            Shape::Objects => "a list of objects",
            Shape::Texts => "a list of texts",
            Shape::Any => "any value",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_type_and_field_stands_at_its_own_place_in_its_table() {
        for (at, row) in TYPES.iter().enumerate() {
            assert_eq!(row.kind as usize, at, "{}", row.name);
        }
        for (at, row) in FIELDS.iter().enumerate() {
            assert_eq!(row.field as usize, at, "{}", row.name);
        }
    }
}
