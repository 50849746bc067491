//! Hooks around the agent, stops for a person, and what goes on from them.

use std::borrow::Cow;
use std::collections::HashMap;

use super::super::order::Place;
use super::super::outcome::LeafEnd;
use super::super::pause::Stop;
use super::super::run::as_text;
use super::agent::add_run;
use super::{Leaf, Writer};
use crate::dialect::Fact;
use crate::event::{EventType, Field};

/// What a hook is called that has no name.
const UNNAMED_HOOK: &str = "hook";
/// The place of what follows the end of a span at the same moment.
const AFTER_END: u32 = 2;

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
        // As the official adapters call it, whatever it was that steered the run past the hook.
        (None, false) if leaf.control_flow().is_some() => "paused",
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

/// The questions that runs stopped with, after the end of what was stopped, and the pauses of all runs that wait.
pub(super) fn write_stops(writer: &mut Writer<'_, '_>) {
    let tree = writer.tree;
    // Several stops of one span are told apart by their number, from the end: parts that nothing else of a span has.
    let mut numbers: HashMap<usize, u32> = HashMap::new();
    for stop in &tree.stops {
        let node = &tree.nodes[stop.node];
        let agent = &tree.agents[stop.agent];
        if agent.node.is_none() && agent.is_open {
            continue;
        }
        let end = LeafEnd::of(tree, stop.node);
        if end.is_open {
            continue;
        }
        let number = numbers.entry(stop.node).or_insert(u32::MAX);
        let place = Place::Leaf(AFTER_END, stop.node);
        let mut wait = writer.draft(EventType::HumanWait, end.end, agent, node.span, node.reading.as_ref(), place);
        wait.set(Field::InputId, Some(stop.id.as_str()));
        wait.set(Field::Prompt, stop.prompt.clone().map(as_text));
        let options = stop.options.clone().map(|options| options.into_iter().map(as_text).collect::<Vec<_>>());
        wait.set(Field::Options, options);
        wait.set(Field::Reason, stop.reason.clone());
        wait.extra("fw_interrupt_id", stop.given.as_deref());
        wait.placed.key.2 = *number;
        writer.finish(wait);
        for paused in stop.runs.iter().filter(|_| stop.pauses) {
            let agent = &tree.agents[*paused];
            let time = end.end.clamp(agent.start, agent.end);
            let mut pause = writer.draft(EventType::AgentPause, time, agent, node.span, node.reading.as_ref(), place);
            pause.set(Field::PauseId, Some(stop.id.as_str()));
            pause.set(Field::Reason, stop.reason.clone());
            pause.placed.key.2 = *number;
            writer.finish(pause);
            *number -= 1;
        }
        if let Some(again) = stop.again {
            write_between(writer, stop, end.end, LeafEnd::of(tree, again).start, *number);
        }
        *number -= 1;
    }
}

/// The pause of a run that makes the call that stopped again itself, once it has an answer.
fn write_between(writer: &mut Writer<'_, '_>, stop: &Stop, stopped: u64, again: u64, number: u32) {
    let (node, agent) = (&writer.tree.nodes[stop.node], &writer.tree.agents[stop.agent]);
    let waited = u32::try_from(again.saturating_sub(stopped) / 1_000_000).ok();
    let draft = |writer: &Writer<'_, '_>, kind, time, place| {
        let mut draft =
            writer.draft(kind, time, agent, node.span, node.reading.as_ref(), Place::Leaf(place, stop.node));
        draft.placed.key.2 = number;
        draft
    };
    let mut pause = draft(writer, EventType::AgentPause, stopped, AFTER_END);
    pause.set(Field::PauseId, Some(stop.id.as_str()));
    pause.set(Field::Reason, stop.reason.clone());
    writer.finish(pause);
    let mut resume = draft(writer, EventType::AgentResume, again.max(stopped), 0);
    resume.set(Field::PauseId, Some(stop.id.as_str()));
    resume.set(Field::DurationMs, waited);
    writer.finish(resume);
    let mut input = draft(writer, EventType::HumanInput, again.max(stopped), 0);
    input.set(Field::InputId, Some(stop.id.as_str()));
    input.set(Field::DurationMs, waited);
    writer.finish(input);
}

/// How a run goes on from its stops, in place of its start; how many stops those are.
pub(super) fn write_resumes(writer: &mut Writer<'_, '_>, at: usize) -> usize {
    let tree = writer.tree;
    let agent = &tree.agents[at];
    let Some(node) = agent.node.map(|node| &tree.nodes[node]) else { return 0 };
    let mut number = 0;
    for resume in tree.resumes.iter().filter(|resume| resume.agents.contains(&at)) {
        let draft = |writer: &Writer<'_, '_>, kind| {
            writer.draft(kind, agent.start, agent, node.span, node.reading.as_ref(), writer.start_of(at))
        };
        let mut resumed = draft(writer, EventType::AgentResume);
        resumed.set(Field::PauseId, Some(resume.id.as_str()));
        if let Some(reading) = &node.reading {
            add_run(&mut resumed, reading);
        }
        // A run begins once, in whichever way it was told first.
        resumed.placed.key = match number {
            0 => (node.span.span_id, EventType::AgentStart.name(), 0),
            number => (node.span.span_id, EventType::AgentResume.name(), u32::MAX - number),
        };
        writer.finish(resumed);
        if resume.agents.first() == Some(&at) {
            let mut input = draft(writer, EventType::HumanInput);
            input.set(Field::InputId, Some(resume.id.as_str()));
            input.set(Field::Response, Some(resume.answer.clone()));
            input.placed.key.2 = u32::MAX - number;
            writer.finish(input);
        }
        number += 1;
    }
    number as usize
}
