//! What one span says, whoever wrote it.

use std::borrow::Cow;

use serde_json::Value as Json;

use crate::span::Value;

/// What a span stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Kind {
    /// It owns a model decision loop and has a goal of its own.
    Agent,
    /// A call of a model.
    Model,
    /// Something that an agent calls: function tools, retrievers, memory, MCP calls.
    Tool,
    /// Machinery around the agent: a graph node, a workflow step, a guardrail.
    Hook,
    /// A stop for a person.
    Human,
    /// Nothing of its own; its children look through it for their agent.
    Transparent,
}

impl Kind {
    /// Its name, as `explain` gives it and `failproof.kind` takes it.
    pub fn name(self) -> &'static str {
        match self {
            Kind::Agent => "agent",
            Kind::Model => "model",
            Kind::Tool => "tool",
            Kind::Hook => "hook",
            Kind::Human => "human",
            Kind::Transparent => "none",
        }
    }

    /// The kind of that name.
    pub fn from_name(name: &str) -> Option<Self> {
        [Kind::Agent, Kind::Model, Kind::Tool, Kind::Hook, Kind::Human, Kind::Transparent]
            .into_iter()
            .find(|kind| kind.name() == name)
    }
}

/// Something that a span can say.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Fact {
    /// The agent's name, raw.
    AgentName,
    /// What the agent is for.
    AgentDescription,
    /// The id of this run of the agent.
    RunId,
    /// The conversation that the run belongs to.
    ConversationId,
    /// What the run was asked.
    Goal,
    /// What the run gave; there only if it succeeded.
    Summary,
    /// All messages of a run: those of earlier runs, then its own.
    History,
    /// How many of the model's messages in the history are from earlier runs.
    NewMessageIndex,
    /// Data that the application attached to the run.
    Metadata,
    /// The model that was asked.
    RequestModel,
    /// Of a run: what all its requests ask, whatever model answers them.
    AskedModel,
    /// The model that answered.
    ResponseModel,
    /// The provider of the model.
    Provider,
    /// What the model was sent.
    InputMessages,
    /// What it answered.
    OutputMessages,
    /// The system instructions.
    SystemInstructions,
    /// The tools that it could call.
    ToolDefinitions,
    /// Why it stopped.
    FinishReasons,
    /// The answer's id at the provider.
    ResponseId,
    /// Tokens sent, cached ones included.
    InputTokens,
    /// Tokens answered, reasoning included.
    OutputTokens,
    /// Of the tokens sent: those read from the cache.
    CacheReadTokens,
    /// Of the tokens sent: those written to the cache.
    CacheWriteTokens,
    /// Of the tokens answered: those of reasoning.
    ReasoningTokens,
    /// What the call cost, in US dollars.
    Cost,
    /// Seconds until the first chunk of a streamed answer.
    TimeToFirstChunk,
    /// Seconds that a call took of which the span is a point in time alone.
    Duration,
    /// Whether the answer was streamed.
    Streaming,
    /// The tool's name.
    ToolName,
    /// The id of the call, as the model gave it.
    ToolCallId,
    /// What the tool was called with.
    ToolInput,
    /// What it gave.
    ToolOutput,
    /// What sort of tool it is, in the framework's words.
    ToolKind,
    /// The stage of the call that failed before the tool ran.
    FailureStage,
    /// The exception that left the call to somebody else.
    Deferral,
    /// The kind of tool of each tool of the request, by name.
    ToolKinds,
    /// The type of the error that the span's own attributes tell of, where neither its status nor an exception does.
    ErrorType,
    /// The text of that error.
    ErrorMessage,
    /// The hook's name.
    HookName,
    /// What sort of hook it is: `graph_node`, `workflow_step`, …
    HookTrigger,
    /// The id of a stop for a person.
    HumanId,
    /// The question of a stop for a person.
    Prompt,
    /// The stops for a person that a call or a run ended with: a list of `{id, prompt, options, reason}`, all of them
    /// optional.
    Waits,
    /// The interrupts of a graph that ended the span, on the task that stopped and on all around it: a list of `{id, value,
    /// reason}`, each member only if it is known. A list without any tells that it stopped all the same.
    Interrupts,
    /// What a person answered to the stop that the run goes on from.
    ResumeValue,
    /// The calls of the model that a hook was handed to carry out: a list of parts `{type: tool_call, id, name, …}`.
    HandedCalls,
    /// The place of a task in its graph: the same when the task runs again after a stop.
    CheckpointNamespace,
    /// The framework's own version, where the scope's is that of an instrumentation.
    FrameworkVersion,
}

/// A fact as it was found.
#[derive(Clone, Debug, PartialEq)]
pub struct Found<'s> {
    /// The attribute, or in a few words the place, that it came from.
    pub source: Cow<'s, str>,
    value: FoundValue<'s>,
    rank: usize,
}

#[derive(Clone, Debug, PartialEq)]
enum FoundValue<'s> {
    Attribute(&'s Value<'s>),
    Made(Json),
}

/// Facts that a function adds come after those of every table.
const ADDED: usize = usize::MAX;

/// What one span says: its kind, and its facts.
#[derive(Clone, Debug, PartialEq)]
pub struct Reading<'s> {
    /// What the span stands for.
    pub kind: Kind,
    /// The dialect that recognized it.
    pub dialect: &'static str,
    /// The rule that gave its kind.
    pub rule: &'static str,
    /// The framework's name on events; `None` leaves it to the scope's name.
    pub framework: Option<&'static str>,
    /// Whether the run is known to have come to its end; only frameworks that mark success can say.
    pub completion: Completion,
    /// Whether the tokens on an agent's span are what this very run spent.
    pub usage_is_own: bool,
    /// Whether a token count that is absent on an answered call is a zero.
    pub absent_tokens_are_zero: bool,
    /// Whether the messages of the run tell a number from a text that reads like one, where the span does not.
    pub results_are_typed: bool,
    /// Whether the run is known to have got no question of its own: it went on from where another one stopped.
    pub goes_on_without_goal: bool,
    /// Of a hook: whether the span right around it is an agent's run, whatever that span says itself. A graph runs its
    /// nodes.
    pub owner_is_agent: bool,
    /// Whether the agent's name is only that of its class: what all its calls and hooks call it is better.
    pub is_named_by_class: bool,
    /// Whether the framework tells one thing by two spans, of which this is the second: within or beside the first, with
    /// the same name.
    pub tells_again: bool,
    /// Whether the span can end before its run does: the run ends with the last span within.
    pub ends_early: bool,
    /// Whether the span is a stage of the call above it, the one that knows how it ended: whatever its name.
    pub is_stage: bool,
    /// Whether the span, none of its own, tells what the model call right below it was sent and answered.
    pub frames_call: bool,
    facts: Vec<(Fact, Found<'s>)>,
}

/// What a framework's span says of the end of its run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Completion {
    /// The framework does not mark success: no error is success.
    #[default]
    Unmarked,
    /// It says that the run came to its end.
    Reached,
    /// It would say so if the run had, and does not.
    NotReached,
    /// Content is off and the mark with it: the run's messages have to tell.
    Hidden,
}

impl<'s> Reading<'s> {
    /// A reading without any fact.
    pub fn new(kind: Kind, dialect: &'static str, rule: &'static str) -> Self {
        Reading {
            kind,
            dialect,
            rule,
            framework: None,
            completion: Completion::Unmarked,
            usage_is_own: false,
            absent_tokens_are_zero: false,
            results_are_typed: false,
            goes_on_without_goal: false,
            owner_is_agent: false,
            is_named_by_class: false,
            tells_again: false,
            ends_early: false,
            is_stage: false,
            frames_call: false,
            facts: Vec::new(),
        }
    }

    /// Offers an attribute for a fact; the lowest rank wins, of equals the later one. Blank text says nothing, except
    /// where it is content.
    pub(super) fn offer(&mut self, fact: Fact, rank: usize, value: &'s Value<'s>, key: &'s str) {
        let is_blank = value.as_str().is_some_and(|text| text.trim().is_empty());
        if is_blank && !matches!(fact, Fact::Summary | Fact::ToolOutput) {
            return;
        }
        let found = Found { source: Cow::Borrowed(key), value: FoundValue::Attribute(value), rank };
        match self.facts.iter_mut().find(|(known, _)| *known == fact) {
            Some((_, known)) if rank > known.rank => {}
            Some((_, known)) => *known = found,
            None => self.facts.push((fact, found)),
        }
    }

    /// Adds a fact that had to be worked out, if nothing else gave it; blank text says nothing.
    pub fn add(&mut self, fact: Fact, value: impl Into<Json>, source: &'static str) {
        let value = value.into();
        let is_blank = value.is_null() || value.as_str().is_some_and(|text| text.trim().is_empty());
        if !is_blank && !self.has(fact) {
            let found = Found { source: Cow::Borrowed(source), value: FoundValue::Made(value), rank: ADDED };
            self.facts.push((fact, found));
        }
    }

    /// Forgets a fact.
    pub(super) fn remove(&mut self, fact: Fact) {
        self.facts.retain(|(known, _)| *known != fact);
    }

    /// Takes over the facts that only the other one has.
    pub(crate) fn fill_from(&mut self, other: &Reading<'s>) {
        for (fact, found) in &other.facts {
            if !self.has(*fact) {
                self.facts.push((*fact, found.clone()));
            }
        }
    }

    /// Whether the span says it.
    pub fn has(&self, fact: Fact) -> bool {
        self.found(fact).is_some()
    }

    /// The facts, each with its source.
    pub fn facts(&self) -> impl Iterator<Item = (Fact, &Found<'s>)> {
        self.facts.iter().map(|(fact, found)| (*fact, found))
    }

    /// Text; a list of texts gives its first.
    pub fn text(&self, fact: Fact) -> Option<Cow<'_, str>> {
        match &self.found(fact)?.value {
            FoundValue::Attribute(Value::Text(text)) => Some(Cow::Borrowed(text.as_ref())),
            FoundValue::Attribute(Value::Int(number)) => Some(Cow::Owned(number.to_string())),
            FoundValue::Attribute(Value::Array(items)) => items.first().and_then(Value::as_str).map(Cow::Borrowed),
            FoundValue::Made(Json::String(text)) => Some(Cow::Borrowed(text)),
            FoundValue::Attribute(_) | FoundValue::Made(_) => None,
        }
    }

    /// A whole number.
    pub fn int(&self, fact: Fact) -> Option<i64> {
        match &self.found(fact)?.value {
            FoundValue::Attribute(value) => value.as_i64(),
            FoundValue::Made(value) => value.as_i64(),
        }
    }

    /// A number.
    pub fn number(&self, fact: Fact) -> Option<f64> {
        match &self.found(fact)?.value {
            FoundValue::Attribute(value) => value.as_f64(),
            FoundValue::Made(value) => value.as_f64(),
        }
    }

    /// The truth of it.
    pub fn flag(&self, fact: Fact) -> Option<bool> {
        match &self.found(fact)?.value {
            FoundValue::Attribute(value) => value.as_bool(),
            FoundValue::Made(value) => value.as_bool(),
        }
    }

    /// Whatever it is, with JSON text parsed.
    pub fn json(&self, fact: Fact) -> Option<Json> {
        match &self.found(fact)?.value {
            FoundValue::Attribute(value) => Some(value.parse_json()),
            FoundValue::Made(value) => Some(value.clone()),
        }
    }

    fn found(&self, fact: Fact) -> Option<&Found<'s>> {
        self.facts.iter().find(|(known, _)| *known == fact).map(|(_, found)| found)
    }
}
