//! What can be told of a run before all of its trace is there, and would be told with the same bytes later.
//!
//! Only spans that have ended arrive, so that the outermost run of a trace comes last. The calls of a run within it are
//! known for good as soon as the run around that has ended too, if the inner run's name is its own and its session does not
//! depend on what is further out: where one is pinned, or said by hand on the inner run or what is already there around it.

use std::collections::HashSet;

use super::tree::Tree;
use super::{KeyedEvents, Mapping};
use crate::event::EventType;
use crate::span::{Span, SpanId};

/// The events of calls whose agent and session are certain.
const CERTAIN: [EventType; 4] =
    [EventType::ToolUse, EventType::ToolResult, EventType::ModelRequest, EventType::ModelResponse];

/// Whether a span says its session itself, so that something may be told early.
pub(super) fn may_be_certain(span: &Span<'_>) -> bool {
    span.attributes.get(crate::dialect::SESSION_ID).is_some()
}

/// Leaves those of the events that no span that is still to come can change.
pub(super) fn keep_certain(events: &mut KeyedEvents, tree: &Tree<'_>, mapping: &Mapping) {
    let certain: HashSet<SpanId> = tree
        .agents
        .iter()
        .filter(|agent| agent.node.is_some_and(|node| is_certain(tree, node, agent.parent.is_some(), mapping)))
        .flat_map(|agent| agent.leaves.iter().map(|leaf| tree.nodes[*leaf].span.span_id))
        .collect();
    events.retain(|(key, event)| CERTAIN.contains(&event.kind) && certain.contains(&key.0));
}

fn is_certain(tree: &Tree<'_>, node: usize, is_nested: bool, mapping: &Mapping) -> bool {
    // What is around it could tell of the same run.
    if !is_nested && tree.nodes[node].span.parent.is_some() {
        return false;
    }
    let has_session = mapping.session_id.is_some() || tree.nodes[node].session_said.is_some();
    // The calls of a run that is named by its class give it a name, and more of them may come.
    has_session && tree.reading(node).is_some_and(|reading| !reading.is_named_by_class)
}
