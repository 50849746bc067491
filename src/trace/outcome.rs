//! How the runs ended, and which of them tell of the error.

use std::collections::HashSet;

use super::ErrorEvents;
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
        let Some(node) = agent.node.map(|node| &tree.nodes[node]) else { continue };
        let outcome = outcome(tree, at, node);
        let error = node.exception.as_ref().filter(|exception| exception.class == Class::Failure && outcome == FAILED);
        let mut tells_error = false;
        if let Some(error) = error {
            let is_new = passed[at].insert((error.type_name.clone(), error.message.clone()));
            tells_error = is_new && !(error_events == ErrorEvents::UnlessLeaf && leaf_told(tree, at, error));
        }
        if let Some(parent) = agent.parent {
            let inner = std::mem::take(&mut passed[at]);
            passed[parent].extend(inner);
        }
        (tree.agents[at].outcome, tree.agents[at].tells_error) = (outcome, tells_error);
    }
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
        let run = agent.node.map(|node| tree.nodes[node].span);
        let incomplete = !is_open && (span.end.is_none() || run.is_some_and(|run| outlives(span, run)));
        LeafEnd { start, end, is_open, incomplete }
    }
}

/// Whether a span was still open when its run ended. Clocks of two processes do not agree well enough to say so.
fn outlives(span: &Span<'_>, run: &Span<'_>) -> bool {
    span.resource == run.resource && run.end.is_some_and(|end| span.end_or_start() > end)
}

fn outcome(tree: &Tree<'_>, at: usize, node: &Node<'_>) -> &'static str {
    let by_exception = node.exception.as_ref().map(|exception| match exception.class {
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
        cancelled && outlives(leaf.span, node.span)
    })
}

/// Without content, a run has succeeded if its messages go on after the last request's, and that request was answered, by
/// a model or by the hook that skipped it. Source: Pydantic AI, checked on recordings; on an error or a cancellation the
/// messages stop at the last request.
fn history_shows_answer(tree: &Tree<'_>, at: usize, reading: &Reading<'_>) -> bool {
    let is_request = |node: &&Node<'_>| node.reading.as_ref().is_some_and(|reading| reading.kind == Kind::Model);
    let requests = || tree.agents[at].leaves.iter().map(|leaf| &tree.nodes[*leaf]).filter(is_request);
    let sent = requests().filter_map(|node| node.reading.as_ref()).map(|request| turns(request, Fact::InputMessages));
    let Some(last) = requests().next_back() else { return false };
    let skipped = last.exception.as_ref().is_some_and(|exception| exception.class == Class::ControlFlow);
    let answered = skipped || last.reading.as_ref().is_some_and(|request| request.has(Fact::ResponseModel));
    // A request that was skipped does not tell what it would have sent: one turn at least.
    answered && turns(reading, Fact::History) > sent.max().unwrap_or(0).max(1)
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
