//! What became of every span, and why: the cure for an empty trace.

use std::collections::HashMap;

use super::tree::{Role, Tree};
use super::{Mapping, Said, by_trace, events, settled, told_elsewhere};
use crate::dialect::Fact;
use crate::span::{Span, SpanId, TraceId};

/// What became of one span.
#[derive(Clone, Debug, PartialEq)]
pub struct Explained {
    /// Its trace.
    pub trace_id: TraceId,
    /// Its id.
    pub span_id: SpanId,
    /// How many spans of the same input are above it.
    pub depth: usize,
    /// Its name.
    pub name: String,
    /// Its instrumentation scope.
    pub scope: String,
    /// What it stands for: `agent`, `model`, `tool`, `hook`, `human` or `none`.
    pub kind: &'static str,
    /// The dialect that recognized it; `None` if none did.
    pub dialect: Option<&'static str>,
    /// The rule that gave its kind, or why it gave nothing.
    pub why: String,
    /// The agent and the session that its events belong to.
    pub belongs_to: Option<(String, String)>,
    /// The types of its events, in their order.
    pub events: Vec<&'static str>,
    /// The facts that it gave, each with the attribute or place that it came from.
    pub facts: Vec<(Fact, String)>,
}

/// What became of the spans, trace by trace, parents before their children.
pub fn explain(spans: &[Span<'_>], mapping: &Mapping) -> Vec<Explained> {
    let traces = by_trace(spans);
    let told_elsewhere = told_elsewhere(&traces);
    let explained = traces.into_iter().flat_map(|(trace_id, spans)| {
        let mut explained = explain_trace(&spans, mapping);
        if told_elsewhere.contains(&trace_id) {
            for span in &mut explained {
                span.why.push_str("; another trace tells the same call");
                span.events.clear();
                span.belongs_to = None;
            }
        }
        explained
    });
    explained.collect()
}

fn explain_trace(spans: &[&Span<'_>], mapping: &Mapping) -> Vec<Explained> {
    let tree = settled(spans, mapping, &Said::default());
    // By what the event itself says: one of an agent that was made has no span, and tells of the first that it has.
    let mut events_of: HashMap<String, Vec<&'static str>> = HashMap::new();
    for (_, event) in super::order::in_order(events::of_tree(&tree, mapping)) {
        let span_id = event.extra("fw_span_id").and_then(|id| id.as_str()).unwrap_or_default().to_owned();
        events_of.entry(span_id).or_default().push(event.kind.name());
    }
    let in_tree_order = depth_first(&tree);
    let explained = in_tree_order.into_iter().map(|at| {
        let node = &tree.nodes[at];
        let reading = node.reading.as_ref();
        let agent = node.agent.map(|agent| &tree.agents[agent]);
        Explained {
            trace_id: node.span.trace_id,
            span_id: node.span.span_id,
            depth: node.depth,
            name: node.span.name.to_string(),
            scope: node.span.scope.name.clone(),
            kind: reading.map_or("none", |reading| reading.kind.name()),
            dialect: reading.map(|reading| reading.dialect),
            why: why(&tree, at),
            belongs_to: agent.map(|agent| (agent.id.to_string(), agent.session.to_string())),
            events: events_of.get(&node.span.span_id.to_string()).cloned().unwrap_or_default(),
            facts: reading
                .map(|reading| reading.facts().map(|(fact, found)| (fact, found.source.to_string())).collect())
                .unwrap_or_default(),
        }
    });
    explained.collect()
}

fn why(tree: &Tree<'_>, at: usize) -> String {
    let node = &tree.nodes[at];
    match (&node.reading, node.role) {
        (None, _) => "no agent framework wrote it; its children look through it".to_owned(),
        (Some(reading), Role::Folded(into)) => {
            format!("{}; the same as {:?}, seen twice", reading.rule, tree.nodes[into].span.name)
        }
        (Some(reading), role) if events::gives_events(role) => reading.rule.to_owned(),
        (Some(reading), _) => format!("{}; its children look through it", reading.rule),
    }
}

/// The nodes, each followed by those below it.
fn depth_first(tree: &Tree<'_>) -> Vec<usize> {
    let mut children: Vec<Vec<usize>> = vec![Vec::new(); tree.nodes.len()];
    let mut stack = Vec::new();
    for (at, node) in tree.nodes.iter().enumerate() {
        match node.parent {
            Some(parent) => children[parent].push(at),
            None => stack.push(at),
        }
    }
    stack.reverse();
    let mut order = Vec::with_capacity(tree.nodes.len());
    while let Some(at) = stack.pop() {
        order.push(at);
        stack.extend(children[at].iter().rev());
    }
    order
}
