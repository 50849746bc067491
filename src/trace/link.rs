//! Spans to nodes: each span once, parents before their children.

use std::cmp::Ordering;
use std::collections::HashMap;

use super::tree::{Node, Role};
use crate::span::{Span, SpanId};

/// Each span once: of several reports of one span the most complete, whatever order they came in.
pub(super) fn without_copies<'s>(spans: &[&'s Span<'s>]) -> Vec<&'s Span<'s>> {
    let mut by_id: HashMap<SpanId, &'s Span<'s>> = HashMap::with_capacity(spans.len());
    for span in spans {
        by_id
            .entry(span.span_id)
            .and_modify(|known| {
                if more_complete(span, known) == Ordering::Greater {
                    *known = span;
                }
            })
            .or_insert(span);
    }
    let mut spans: Vec<_> = by_id.into_values().collect();
    spans.sort_unstable_by_key(|span| (span.start, span.span_id.to_bytes()));
    spans
}

/// How much a report of a span says: the bigger of two is the more complete.
pub(super) fn measure(span: &Span<'_>) -> (Option<u64>, usize, usize, usize) {
    (span.end, span.attributes.len(), span.events.len(), span.weight())
}

fn more_complete(one: &Span<'_>, other: &Span<'_>) -> Ordering {
    // Equal in all measures and still not the same: any order will do, as long as it is one.
    measure(one)
        .cmp(&measure(other))
        .then_with(|| if one == other { Ordering::Equal } else { format!("{one:?}").cmp(&format!("{other:?}")) })
}

/// The spans as nodes, parents before children; siblings by their start. A parent that is not here, the span itself or a
/// span below it is no parent.
pub(super) fn link<'s>(spans: &[&'s Span<'s>]) -> Vec<Node<'s>> {
    let index: HashMap<SpanId, usize> = spans.iter().enumerate().map(|(at, span)| (span.span_id, at)).collect();
    let parent_of = |at: usize| {
        let parent = spans.get(at)?.parent?;
        index.get(&parent).copied().filter(|parent| *parent != at)
    };
    let mut children: Vec<Vec<usize>> = vec![Vec::new(); spans.len()];
    let mut roots = Vec::new();
    for at in 0..spans.len() {
        match parent_of(at) {
            Some(parent) => children[parent].push(at),
            None => roots.push(at),
        }
    }
    let mut nodes = Vec::with_capacity(spans.len());
    let mut placed: Vec<Option<usize>> = vec![None; spans.len()];
    let mut next_in_cycle = 0;
    loop {
        // Breadth first, so that depth costs no stack.
        let mut queue: std::collections::VecDeque<usize> = roots.drain(..).collect();
        while let Some(at) = queue.pop_front() {
            let parent = parent_of(at).and_then(|parent| placed[parent]);
            placed[at] = Some(nodes.len());
            nodes.push(node(spans[at], parent, &nodes));
            queue.extend(children[at].iter().copied().filter(|child| placed[*child].is_none()));
        }
        // What is left hangs on a cycle: its earliest span becomes a root.
        while placed.get(next_in_cycle).is_some_and(Option::is_some) {
            next_in_cycle += 1;
        }
        if next_in_cycle == spans.len() {
            return nodes;
        }
        roots.push(next_in_cycle);
    }
}

fn node<'s>(span: &'s Span<'s>, parent: Option<usize>, nodes: &[Node<'s>]) -> Node<'s> {
    Node {
        span,
        reading: None,
        exception: None,
        parent,
        depth: parent.and_then(|parent| nodes.get(parent)).map_or(0, |parent| parent.depth + 1),
        role: Role::Transparent,
        agent: None,
        session_said: None,
        agent_said: None,
        conversation: None,
        call: None,
        is_joined: false,
    }
}
