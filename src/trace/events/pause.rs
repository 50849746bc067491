//! Hooks around the agent, and stops for a person.

use std::borrow::Cow;

use serde_json::Value as Json;

use super::super::identity::Agent;
use super::super::order::Place;
use super::super::outcome::LeafEnd;
use super::super::run::as_text;
use super::{Leaf, Writer};
use crate::dialect::{Fact, Reading};
use crate::event::{EventType, Field};
use crate::span::Span;

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

/// A call that stopped for a person. If the run makes it again, it was only paused in between.
pub(super) fn write_waits_of_leaf(writer: &mut Writer<'_, '_>, leaf: &Leaf<'_, '_>) {
    if leaf.end.is_open {
        return;
    }
    let ids = write_waits(writer, leaf.agent, leaf.node.span, leaf.reading, leaf.end.end, leaf.at);
    let (Some(id), Some(again)) = (ids.into_iter().next(), made_again(writer, leaf)) else { return };
    let resumed = LeafEnd::of(writer.tree, again).start;
    let waited = u32::try_from((resumed - leaf.end.end.min(resumed)) / 1_000_000).ok();
    let draft = |writer: &Writer<'_, '_>, kind, time, part| {
        writer.draft(kind, time, leaf.agent, leaf.node.span, Some(leaf.reading), Place::Leaf(part, leaf.at))
    };
    let mut pause = draft(writer, EventType::AgentPause, leaf.end.end, AFTER_WAITS);
    pause.set(Field::PauseId, Some(id.as_str()));
    writer.finish(pause);
    let mut resume = draft(writer, EventType::AgentResume, resumed, 0);
    resume.set(Field::PauseId, Some(id.as_str()));
    resume.set(Field::DurationMs, waited);
    writer.finish(resume);
    let mut input = draft(writer, EventType::HumanInput, resumed, 0);
    input.set(Field::InputId, Some(id));
    input.set(Field::DurationMs, waited);
    writer.finish(input);
}

/// The next call of the same run that is this one made again: its name, its id and its kind agree.
fn made_again(writer: &Writer<'_, '_>, leaf: &Leaf<'_, '_>) -> Option<usize> {
    let name = |reading: &Reading<'_>| {
        [Fact::ToolName, Fact::ToolCallId, Fact::HookName].map(|fact| reading.text(fact).map(|name| name.into_owned()))
    };
    let is_again = |at: &&usize| {
        let starts_later = writer.tree.nodes[**at].span.start >= leaf.node.span.end_or_start();
        let reading = writer.tree.reading(**at).filter(|reading| reading.kind == leaf.reading.kind);
        starts_later && reading.is_some_and(|reading| name(reading) == name(leaf.reading))
    };
    leaf.agent.leaves.iter().find(is_again).copied()
}

/// What follows the stops of a span.
const AFTER_WAITS: u32 = 12;

/// The stops for a person that a span ended with, and their ids. Nothing says that the run goes on.
pub(super) fn write_waits(
    writer: &mut Writer<'_, '_>,
    agent: &Agent,
    span: &Span<'_>,
    reading: &Reading<'_>,
    time: u64,
    at: usize,
) -> Vec<String> {
    let mut ids = Vec::new();
    let Some(Json::Array(waits)) = reading.json(Fact::Waits) else { return ids };
    for (number, mut wait) in (0..AFTER_WAITS - FIRST_WAIT).zip(waits) {
        let made = || if number == 0 { span.span_id.to_string() } else { format!("{}#{number}", span.span_id) };
        let id = wait["id"].as_str().map_or_else(made, str::to_owned);
        let mut draft =
            writer.draft(EventType::HumanWait, time, agent, span, Some(reading), Place::Leaf(FIRST_WAIT + number, at));
        draft.set(Field::InputId, Some(id.as_str()));
        let prompt = wait.get_mut("prompt").map(Json::take).filter(|prompt| !prompt.is_null());
        draft.set(Field::Prompt, prompt.map(as_text));
        writer.finish(draft);
        ids.push(id);
    }
    ids
}

/// Stops come after what a call has to say itself.
const FIRST_WAIT: u32 = 2;

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
