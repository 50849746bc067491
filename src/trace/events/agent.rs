//! `agent_start`, `error`, `agent_end`.

use std::hash::{DefaultHasher, Hash, Hasher};

use super::super::EventKey;
use super::super::identity::Agent;
use super::super::outcome::last_leaf;
use super::super::run::Run;
use super::super::tree::Tree;
use super::{Draft, Writer, pause};
use crate::dialect::{Fact, Reading};
use crate::event::{EventType, Field};
use crate::exception::Exception;
use crate::span::SpanId;

pub(super) fn write(writer: &mut Writer<'_, '_>, at: usize, run: &Run<'_, '_>) {
    let agent = &writer.tree.agents[at];
    match agent.node {
        Some(node) => write_run(writer, at, node, run),
        None => write_made(writer, at, run),
    }
}

fn write_run(writer: &mut Writer<'_, '_>, at: usize, node: usize, run: &Run<'_, '_>) {
    let tree = writer.tree;
    let (agent, node) = (&tree.agents[at], &tree.nodes[node]);
    let Some(reading) = &node.reading else { return };
    let draft =
        |writer: &Writer<'_, '_>, kind, time, place| writer.draft(kind, time, agent, node.span, Some(reading), place);

    if pause::write_resumes(writer, at) == 0 {
        let mut start = draft(writer, EventType::AgentStart, agent.start, writer.start_of(at));
        start.set(Field::Goal, run.goal());
        start.set(Field::ParentId, agent.parent.map(|parent| tree.agents[parent].id.as_ref()));
        start.extra("fw_agent_id", agent.raw_name.as_deref());
        add_run(&mut start, reading);
        writer.finish(start);
    }

    if agent.is_open || agent.is_paused {
        return;
    }
    if let Some(error) = node.exception.as_ref().filter(|_| agent.tells_error) {
        let mut event = draft(writer, EventType::Error, agent.end, writer.end_of(at, 0));
        describe_error(&mut event, error);
        writer.finish(event);
    }
    let mut end = draft(writer, EventType::AgentEnd, agent.end, writer.end_of(at, 1));
    end.set(Field::Outcome, Some(agent.outcome));
    let control_flow = node.exception.as_ref().filter(|exception| !exception.is_error());
    // What a run that stopped gave is its stop.
    let has_summary = agent.outcome == "success" && control_flow.is_none();
    end.set(Field::Summary, if has_summary { run.summary() } else { None });
    end.set(Field::Usage, run.usage());
    end.extra("fw_control_flow", control_flow.map(|exception| exception.type_name.as_str()));
    add_cost(&mut end, reading);
    end.extra("fw_incomplete", agent.incomplete.then_some(true));
    writer.finish(end);
}

fn describe_error(event: &mut Draft, error: &Exception) {
    event.set(Field::ErrorType, Some(error.type_name.as_str()));
    event.set(Field::Message, Some(error.message.as_str()));
    event.set(Field::Traceback, error.stacktrace.as_deref());
}

pub(super) fn add_run(event: &mut Draft, reading: &Reading<'_>) {
    event.extra("fw_run_id", reading.text(Fact::RunId).as_deref());
    event.extra("fw_conversation_id", reading.text(Fact::ConversationId).as_deref());
    event.extra("fw_model", reading.text(Fact::RequestModel).as_deref());
    event.extra("fw_agent_description", reading.text(Fact::AgentDescription).as_deref());
    event.extra("fw_metadata", reading.json(Fact::Metadata));
}

/// What a call or run cost and thought, where spans have it.
pub(super) fn add_cost(event: &mut Draft, reading: &Reading<'_>) {
    event.extra("fw_cost_usd", reading.number(Fact::Cost));
    event.extra("fw_reasoning_tokens", reading.int(Fact::ReasoningTokens).filter(|tokens| *tokens > 0));
}

/// An agent that was made for calls that none encloses: from the first of them to the last.
fn write_made(writer: &mut Writer<'_, '_>, at: usize, run: &Run<'_, '_>) {
    let tree = writer.tree;
    let agent = &tree.agents[at];
    let Some(first) = agent.first.map(|first| &tree.nodes[first]) else { return };

    let place = writer.start_of(at);
    let mut start = writer.draft(EventType::AgentStart, agent.start, agent, first.span, first.reading.as_ref(), place);
    start.set(Field::Goal, run.goal());
    start.set(Field::ParentId, agent.parent.map(|parent| tree.agents[parent].id.as_ref()));
    start.extra("fw_agent_id", agent.raw_name.as_deref());
    start.extra("fw_synthetic", Some(true));
    start.placed.key = made_key(tree, agent, EventType::AgentStart);
    writer.finish(start);

    let last = last_leaf(tree, at);
    let error = last.and_then(|last| Some((last, last.exception.as_ref()?))).filter(|_| agent.tells_error);
    if let Some((last, error)) = error {
        let place = writer.end_of(at, 0);
        let mut event = writer.draft(EventType::Error, agent.end, agent, last.span, last.reading.as_ref(), place);
        describe_error(&mut event, error);
        event.placed.key = made_key(tree, agent, EventType::Error);
        writer.finish(event);
    }
    let place = writer.end_of(at, 1);
    let mut end = writer.draft(EventType::AgentEnd, agent.end, agent, first.span, first.reading.as_ref(), place);
    end.set(Field::Outcome, Some(agent.outcome));
    end.set(Field::Summary, if agent.outcome == "success" { run.summary() } else { None });
    end.set(Field::Usage, run.usage());
    end.extra("fw_synthetic", Some(true));
    end.placed.key = made_key(tree, agent, EventType::AgentEnd);
    writer.finish(end);
}

/// The key of an agent that was made: it has no span, and the first of its calls can still be on its way.
fn made_key(tree: &Tree<'_>, agent: &Agent, kind: EventType) -> EventKey {
    if let Some(tool) = agent.tool {
        return (tree.nodes[tool].span.span_id, kind.name(), 0);
    }
    let mut hasher = DefaultHasher::new();
    (&agent.session, &agent.id).hash(&mut hasher);
    (SpanId::INVALID, kind.name(), hasher.finish() as u32)
}
