//! How the runs ended, and which of them tell of the error.

use std::collections::HashSet;

use super::ErrorEvents;
use super::identity::ends_early;
use super::tree::{Node, Tree};
use crate::dialect::{Completion, Fact, Kind, OUTCOME, Reading};
use crate::exception::{Class, Exception};
use crate::span::Span;

const SUCCESS: &str = "success";
const FAILED: &str = "failed";
const CANCELLED: &str = "cancelled";

/// Gives every agent its outcome, and the `error` event of each exception to the innermost run that it escapes.
pub(super) fn settle(tree: &mut Tree<'_>, error_events: ErrorEvents) {
    let mut passed: Vec<HashSet<(String, String)>> = vec![HashSet::new(); tree.agents.len()];
    // Agents stand behind those around them.
    for at in (0..tree.agents.len()).rev() {
        let agent = &tree.agents[at];
        let Some(node) = agent.node.map(|node| &tree.nodes[node]) else {
            let failed = last_leaf_failed(tree, at);
            let tells_error = failed && error_events == ErrorEvents::Once;
            (tree.agents[at].outcome, tree.agents[at].tells_error) =
                (if failed { FAILED } else { SUCCESS }, tells_error);
            continue;
        };
        let outcome = outcome(tree, at, node);
        let error = node.exception.as_ref().filter(|exception| exception.class == Class::Failure && outcome == FAILED);
        let mut tells_error = false;
        if let Some(error) = error {
            let told = (error.type_name.clone(), error.message.clone());
            let by_leaf = error_events == ErrorEvents::UnlessLeaf && leaf_told(tree, at, error);
            tells_error = !by_leaf && passed[at].insert(told);
        }
        if let Some(parent) = agent.parent {
            let (mut more, mut fewer) = (std::mem::take(&mut passed[at]), std::mem::take(&mut passed[parent]));
            if more.len() < fewer.len() {
                std::mem::swap(&mut more, &mut fewer);
            }
            more.extend(fewer);
            passed[parent] = more;
        }
        (tree.agents[at].outcome, tree.agents[at].tells_error) = (outcome, tells_error);
    }
}

/// Nobody knows what became of an exception that left the last call of an agent that was made: nothing came after it.
fn last_leaf_failed(tree: &Tree<'_>, at: usize) -> bool {
    last_leaf(tree, at).and_then(|leaf| leaf.exception.as_ref()).is_some_and(|error| error.class == Class::Failure)
}

/// The call of an agent that ended last.
pub(super) fn last_leaf<'t, 's>(tree: &'t Tree<'s>, at: usize) -> Option<&'t Node<'s>> {
    let leaves = tree.agents[at].leaves.iter().map(|leaf| &tree.nodes[*leaf]);
    leaves.max_by_key(|leaf| (leaf.span.end_or_start(), leaf.span.span_id.to_bytes()))
}

/// How a leaf ended, seen from its agent.
pub(super) struct LeafEnd {
    /// When it started, within the times of its agent.
    pub start: u64,
    /// When it ended, within the times of its agent; the start while it goes on.
    pub end: u64,
    /// Whether it goes on.
    pub is_open: bool,
    /// Whether the end of its run closed it, before it reported its own outcome.
    pub incomplete: bool,
}

impl LeafEnd {
    pub fn of(tree: &Tree<'_>, at: usize) -> Self {
        let span = tree.nodes[at].span;
        let Some(agent) = tree.nodes[at].agent.map(|agent| &tree.agents[agent]) else {
            return LeafEnd { start: span.start, end: span.end_or_start(), is_open: false, incomplete: false };
        };
        let is_open = span.end.is_none() && agent.is_open;
        let start = span.start.clamp(agent.start, agent.end);
        let own_end = if is_open { Some(start) } else { span.end };
        let end = own_end.unwrap_or(agent.end).clamp(start, agent.end);
        let run = agent.node.map(|node| &tree.nodes[node]).filter(|node| !ends_early(node)).map(|node| node.span);
        let incomplete = !is_open && (span.end.is_none() || run.is_some_and(|run| outlives(span, run)));
        LeafEnd { start, end, is_open, incomplete }
    }
}

/// Whether a span was still open when its run ended. Clocks of two processes do not agree well enough to say so.
fn outlives(span: &Span<'_>, run: &Span<'_>) -> bool {
    let grain = if [span, run].into_iter().all(|span| span.start % MILLISECOND == 0) { MILLISECOND } else { 0 };
    span.resource == run.resource && run.end.is_some_and(|end| span.end_or_start() > end.saturating_add(grain))
}

/// JavaScript's SDK starts each span at a whole millisecond and adds an exact duration: a span can seem to end up to one
/// after the span around it.
const MILLISECOND: u64 = 1_000_000;

fn outcome(tree: &Tree<'_>, at: usize, node: &Node<'_>) -> &'static str {
    let by_exception = node.exception.as_ref().map(|exception| match exception.class {
        // A run that asked a person has come as far as it could.
        Class::ControlFlow if tree.agents[at].asks => SUCCESS,
        Class::Failure | Class::ToolFailure => FAILED,
        Class::ControlFlow | Class::Cancellation => CANCELLED,
    });
    let reading = node.reading.as_ref();
    let completion = reading.map_or(Completion::Unmarked, |reading| reading.completion);
    let by_hand = node.span.attributes.text(OUTCOME).map(word);
    let by_exception = by_exception.or(tree.agents[at].incomplete.then_some(CANCELLED));
    by_hand.or(by_exception).unwrap_or_else(|| match completion {
        Completion::Reached => SUCCESS,
        Completion::Unmarked if was_cancelled(tree, at, node) => CANCELLED,
        Completion::Unmarked => SUCCESS,
        Completion::NotReached => CANCELLED,
        Completion::Hidden if reading.is_some_and(|reading| history_shows_answer(tree, at, reading)) => SUCCESS,
        Completion::Hidden => CANCELLED,
    })
}

/// The outcome that a word given by hand means: dashboards know three, and count `failed` alone as a failure.
fn word(said: &str) -> &'static str {
    match said.trim().to_ascii_lowercase().as_str() {
        "failed" | "failure" | "fail" | "error" | "timeout" | "rejected" => FAILED,
        "cancelled" | "canceled" | "aborted" => CANCELLED,
        _ => SUCCESS,
    }
}

/// A run that marks nothing was cancelled if a call of it outlived it and was cancelled then.
fn was_cancelled(tree: &Tree<'_>, at: usize, node: &Node<'_>) -> bool {
    tree.agents[at].leaves.iter().map(|leaf| &tree.nodes[*leaf]).any(|leaf| {
        let cancelled = leaf.exception.as_ref().is_some_and(|exception| exception.class == Class::Cancellation);
        cancelled && !ends_early(node) && outlives(leaf.span, node.span)
    })
}

/// Without content, a run has succeeded if its messages go on after the last request's and that one was answered, by a
/// model or by the hook that skipped it. Source: Pydantic AI, checked on recordings: on an error or a cancellation the
/// messages stop at the last request; a hook that recovers an error leaves none at all.
fn history_shows_answer(tree: &Tree<'_>, at: usize, reading: &Reading<'_>) -> bool {
    let is_request = |node: &&Node<'_>| node.reading.as_ref().is_some_and(|reading| reading.kind == Kind::Model);
    let mut requests = tree.agents[at].leaves.iter().map(|leaf| &tree.nodes[*leaf]).filter(is_request);
    let sent = requests.clone().filter_map(|node| node.reading.as_ref());
    let sent = sent.map(|request| turns(request, Fact::InputMessages)).max().unwrap_or(0);
    let history = turns(reading, Fact::History);
    let Some(last) = requests.next_back() else { return ends_in_answer(reading) };
    let last = |fact| last.reading.as_ref().is_some_and(|request| request.has(fact));
    if last(Fact::OutputMessages) {
        return history == 0 || history > sent;
    }
    // A request that was skipped has not come as far as to its model. It would have sent one turn at least.
    !last(Fact::Provider) && history > sent.max(1)
}

fn ends_in_answer(reading: &Reading<'_>) -> bool {
    let history = reading.json(Fact::History).unwrap_or_default();
    history.as_array().and_then(|messages| messages.last()).is_some_and(|message| message["role"] == "assistant")
}

/// How many turns the messages are: all messages between two answers are one.
fn turns(reading: &Reading<'_>, fact: Fact) -> usize {
    let messages = reading.json(fact).unwrap_or_default();
    let mut turns = 0;
    let mut previous_is_answer = None;
    for message in messages.as_array().into_iter().flatten() {
        let is_answer = message["role"] == "assistant";
        if is_answer || previous_is_answer != Some(false) {
            turns += 1;
        }
        previous_is_answer = Some(is_answer);
    }
    turns
}

fn leaf_told(tree: &Tree<'_>, at: usize, error: &Exception) -> bool {
    tree.agents[at]
        .leaves
        .iter()
        .filter_map(|leaf| tree.nodes[*leaf].exception.as_ref())
        .any(|told| told.is_error() && told.type_name == error.type_name && told.message == error.message)
}
