//! Which call of the model a tool answers, where the tool's own span does not say, or has lost what it was called with.

use std::collections::HashMap;

use serde_json::{Value as Json, json};

use super::tree::Tree;
use crate::dialect::messages::{normalize_answer, normalize_messages};
use crate::dialect::{Fact, Kind};

/// A call as the model made it.
#[derive(Clone)]
pub(super) struct Call {
    /// Its id.
    pub id: String,
    name: String,
    /// What it was made with.
    pub input: Json,
}

/// How many calls of one name are looked at for a tool: of those nobody answered yet, the latest.
const SEARCHED: usize = 64;

/// The calls that the tools of a run answer, by the tool's node: by its id, else by its name and its input, each call
/// once.
///
/// What the hook right around a tool was handed comes before what the model answered: a graph hands each call to a node.
pub(super) fn answered(tree: &Tree<'_>, agent: usize) -> HashMap<usize, Call> {
    let leaves = &tree.agents[agent].leaves;
    let of_kind =
        |kind| leaves.iter().copied().filter(move |leaf| tree.reading(*leaf).is_some_and(|it| it.kind == kind));
    let lacks_something = |tool: usize| own_id(tree, tool).is_none() || !own_input(tree, tool).is_object();
    let tools: Vec<usize> = of_kind(Kind::Tool).filter(|tool| lacks_something(*tool)).collect();
    if tools.is_empty() {
        return HashMap::new();
    }
    let mut open: HashMap<String, Vec<(u64, Call)>> = HashMap::new();
    for request in of_kind(Kind::Model) {
        let answer =
            tree.reading(request).and_then(|reading| reading.json(Fact::OutputMessages)).and_then(normalize_answer);
        for call in calls_of(answer.unwrap_or_default()) {
            open.entry(call.name.clone()).or_default().push((tree.nodes[request].span.start, call));
        }
    }
    // A run that goes on from a stop makes calls that an earlier one asked for: its first request sends them back.
    let first = of_kind(Kind::Model).next();
    let first_start = first.map_or(u64::MAX, |first| tree.nodes[first].span.start);
    let sent = first.and_then(|first| tree.reading(first)?.json(Fact::InputMessages)).map(normalize_messages);
    let last = sent.and_then(|sent| sent.into_iter().rfind(|message| message["role"] == "assistant"));
    let before = calls_of(last.and_then(|mut last| Some(last.get_mut("content")?.take())).unwrap_or_default());
    let known: Vec<String> = of_kind(Kind::Tool).filter_map(|tool| own_id(tree, tool)).collect();
    let mut found = HashMap::new();
    let (with_id, without): (Vec<_>, Vec<_>) = tools.into_iter().partition(|tool| own_id(tree, *tool).is_some());
    for tool in with_id.into_iter().chain(without) {
        let name = tree.reading(tool).and_then(|reading| reading.text(Fact::ToolName)).unwrap_or_default();
        let (id, input) = (own_id(tree, tool), own_input(tree, tool));
        let fits = |call: &Call| match &id {
            Some(id) => call.id == *id,
            None => call.name == name && !known.contains(&call.id) && is_same(&call.input, &input),
        };
        let handed = calls_of(handed_to_hook(tree, tool)).into_iter().find(&fits);
        let open = open.entry(name.to_string()).or_default();
        let start = tree.nodes[tool].span.start;
        let at = match &handed {
            Some(handed) => open.iter().rposition(|(_, call)| call.id == handed.id),
            None => open
                .iter()
                .enumerate()
                .rev()
                .filter(|(_, (made, _))| *made <= start)
                .take(SEARCHED)
                .fold(None, |best, (at, (made, call))| match best {
                    // Of one answer's calls the first, of several answers' the last one's.
                    Some((_, best_made)) if best_made != *made => best,
                    _ if fits(call) => Some((at, *made)),
                    _ => best,
                })
                .map(|(at, _)| at),
        };
        let made = at.map(|at| open.remove(at).1);
        let sent_back = || before.iter().filter(|_| start < first_start).find(|call| fits(call)).cloned();
        if let Some(call) = handed.or(made).or_else(sent_back) {
            found.insert(tool, call);
        }
    }
    found
}

fn own_id(tree: &Tree<'_>, tool: usize) -> Option<String> {
    tree.reading(tool)?.text(Fact::ToolCallId).map(|id| id.into_owned())
}

fn own_input(tree: &Tree<'_>, tool: usize) -> Json {
    tree.reading(tool).and_then(|reading| reading.json(Fact::ToolInput)).unwrap_or_default()
}

/// What the nearest hook around a tool was handed, within the run.
fn handed_to_hook(tree: &Tree<'_>, tool: usize) -> Json {
    let above = std::iter::successors(tree.nodes[tool].parent, |at| tree.nodes[*at].parent);
    let mut within = above.take_while(|at| tree.nodes[*at].agent == tree.nodes[tool].agent);
    let hook = within.find_map(|at| tree.reading(at).filter(|reading| reading.kind == Kind::Hook));
    let handed = hook.and_then(|hook| hook.json(Fact::HandedCalls));
    handed.and_then(|calls| normalize_answer(json!({"role": "assistant", "tool_calls": calls}))).unwrap_or_default()
}

fn calls_of(content: Json) -> Vec<Call> {
    let Json::Array(blocks) = content else { return Vec::new() };
    let calls = blocks.into_iter().filter(|block| block["type"] == "tool_use").filter_map(|mut block| {
        let text = |member: &Json| member.as_str().filter(|text| !text.trim().is_empty()).map(str::to_owned);
        // Arguments that are not there are none.
        let input =
            block.get_mut("input").map(Json::take).filter(|input| !input.is_null()).unwrap_or_else(|| json!({}));
        Some(Call { id: text(&block["id"])?, name: text(&block["name"])?, input })
    });
    calls.collect()
}

/// Whether a tool's own input is that of the call: equal, not there, or, where a lone argument stands bare, that argument.
fn is_same(made: &Json, own: &Json) -> bool {
    let lone = made.as_object().filter(|members| members.len() == 1).and_then(|members| members.values().next());
    own.is_null()
        || made == own
        || lone == Some(own)
        || lone.is_some_and(|lone| own.as_str() == Some(&lone.to_string()))
}
