//! Hooks around the agent, and stops for a person.

use std::borrow::Cow;

use super::super::run::as_text;
use super::{Leaf, Writer};
use crate::dialect::Fact;
use crate::event::{EventType, Field};

/// What a hook is called that has no name.
const UNNAMED_HOOK: &str = "hook";

pub(super) fn write_hook(writer: &mut Writer<'_, '_>, leaf: &Leaf<'_, '_>) {
    let reading = leaf.reading;
    let named = reading.text(Fact::HookName).unwrap_or(Cow::Borrowed(leaf.node.span.name.as_ref()));
    let name = if named.trim().is_empty() { UNNAMED_HOOK.to_owned() } else { named.into_owned() };
    let id = leaf.node.span.span_id.to_string();

    let mut triggered = writer.of_leaf(leaf, EventType::HookTriggered, 0);
    triggered.set(Field::HookName, Some(name.as_str()));
    triggered.set(Field::HookId, Some(id.as_str()));
    triggered.set(Field::TriggerEvent, reading.text(Fact::HookTrigger).as_deref());
    triggered.set(Field::HookInput, reading.json(Fact::ToolInput));
    writer.finish(triggered);

    if leaf.end.is_open {
        return;
    }
    let error = leaf.error();
    let outcome = match (&error, leaf.is_complete()) {
        (Some(_), _) => "failed",
        (None, true) => "success",
        (None, false) => "cancelled",
    };
    let mut completed = writer.of_leaf(leaf, EventType::HookCompleted, 1);
    completed.set(Field::HookName, Some(name));
    completed.set(Field::HookId, Some(id));
    completed.set(Field::Outcome, Some(outcome));
    completed.set(Field::Output, reading.json(Fact::ToolOutput).filter(|_| leaf.is_complete()));
    completed.set(Field::Error, error);
    completed.set(Field::DurationMs, leaf.duration_ms());
    completed.extra("fw_control_flow", leaf.control_flow());
    completed.extra("fw_incomplete", leaf.end.incomplete.then_some(true));
    writer.finish(completed);
}

/// A span that lasts from the question to the answer: the agent pauses with it and goes on with it.
pub(super) fn write_human(writer: &mut Writer<'_, '_>, leaf: &Leaf<'_, '_>) {
    let reading = leaf.reading;
    let id = reading.text(Fact::HumanId).map(|id| id.into_owned());
    let id = id.unwrap_or_else(|| leaf.node.span.span_id.to_string());

    let mut wait = writer.of_leaf(leaf, EventType::HumanWait, 0);
    wait.set(Field::InputId, Some(id.as_str()));
    wait.set(Field::Prompt, reading.json(Fact::Prompt).map(as_text));
    writer.finish(wait);
    let mut pause = writer.of_leaf(leaf, EventType::AgentPause, 0);
    pause.set(Field::PauseId, Some(id.as_str()));
    writer.finish(pause);

    if leaf.end.is_open {
        return;
    }
    let mut resume = writer.of_leaf(leaf, EventType::AgentResume, 1);
    resume.set(Field::PauseId, Some(id.as_str()));
    resume.set(Field::DurationMs, leaf.duration_ms());
    writer.finish(resume);
    let mut input = writer.of_leaf(leaf, EventType::HumanInput, 1);
    input.set(Field::InputId, Some(id));
    input.set(Field::Response, reading.json(Fact::ToolOutput));
    input.set(Field::DurationMs, leaf.duration_ms());
    writer.finish(input);
}
