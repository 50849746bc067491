//! What has to be known of a run as a whole: its steps, its messages, its tools, its tokens.

use std::collections::HashMap;

use serde_json::{Map, Value as Json};

use super::calls::{self, Call};
use super::outcome::LeafEnd;
use super::tree::Tree;
use crate::dialect::messages::{normalize_answer, normalize_messages, text_of};
use crate::dialect::{Fact, Kind, Reading};
use crate::exception::Class;

/// A run's model calls and what they tell of everything else in it.
pub(super) struct Run<'t, 's> {
    tree: &'t Tree<'s>,
    agent: usize,
    /// By their start.
    requests: Vec<Request>,
    lists_tools: bool,
    history: Vec<Json>,
    calls: HashMap<usize, Call>,
}

struct Request {
    node: usize,
    messages: Vec<Json>,
    tool_kinds: Map<String, Json>,
}

impl<'t, 's> Run<'t, 's> {
    pub fn new(tree: &'t Tree<'s>, agent: usize) -> Self {
        let is_request = |leaf: &usize| tree.reading(*leaf).is_some_and(|reading| reading.kind == Kind::Model);
        let requests = tree.agents[agent].leaves.iter().copied().filter(is_request).map(|node| {
            let json = |fact| tree.reading(node).and_then(|reading| reading.json(fact)).unwrap_or_default();
            let tool_kinds = match json(Fact::ToolKinds) {
                Json::Object(kinds) => kinds,
                _ => Map::new(),
            };
            Request { node, messages: normalize_messages(json(Fact::InputMessages)), tool_kinds }
        });
        let requests: Vec<Request> = requests.collect();
        let lists_tools = requests.iter().any(|request| !request.tool_kinds.is_empty());
        let own = tree.agents[agent].node.and_then(|node| tree.reading(node));
        let history = own.and_then(|reading| reading.json(Fact::History)).map(normalize_messages).unwrap_or_default();
        Run { tree, agent, requests, lists_tools, history, calls: calls::answered(tree, agent) }
    }

    /// What the model was sent, in the contract's form.
    pub fn messages(&self, node: usize) -> &[Json] {
        let own = self.step(node).checked_sub(1).and_then(|at| self.requests.get(at));
        own.filter(|request| request.node == node).map_or(&[], |request| &request.messages)
    }

    /// The number of a leaf's step: of a model call its own, of a tool the one that called it; 0 before the first.
    pub fn step(&self, node: usize) -> usize {
        let start = |node: usize| (self.tree.nodes[node].span.start, self.tree.nodes[node].span.span_id.to_bytes());
        self.requests.partition_point(|request| start(request.node) <= start(node))
    }

    /// What the run was asked: what its span says, else the text that its first request ends with. A run that goes on from
    /// where another one stopped sends tool results first and has no goal of its own.
    pub fn goal(&self) -> Option<String> {
        if let Some(own) = self.reading() {
            if let Some(goal) = own.json(Fact::Goal) {
                return Some(as_text(goal));
            }
            if own.goes_on_without_goal {
                return None;
            }
        }
        self.is_one_run().then_some(())?;
        let asked = &self.requests.first()?.messages;
        let last = asked.iter().rfind(|message| !matches!(message["role"].as_str(), Some("system" | "developer")))?;
        (last["role"] == "user").then(|| text_of(&last["content"])).flatten()
    }

    /// What the run gave: what its span says, letter by letter also where that happens to be JSON; else the text of the last
    /// answer, if that one called no tool.
    pub fn summary(&self) -> Option<String> {
        if let Some(own) = self.reading()
            && let Some(summary) = own.json(Fact::Summary)
        {
            return Some(own.text(Fact::Summary).map_or_else(|| as_text(summary), |text| text.into_owned()));
        }
        self.is_one_run().then_some(())?;
        let last = self.tree.reading(self.requests.last()?.node)?;
        let answer = last.json(Fact::OutputMessages).and_then(normalize_answer)?;
        let calls_a_tool =
            answer.as_array().is_some_and(|blocks| blocks.iter().any(|block| block["type"] == "tool_use"));
        if calls_a_tool { None } else { text_of(&answer) }
    }

    /// The model that the run says all its requests ask, whatever answers them.
    pub fn asked_model(&self) -> Option<String> {
        self.reading()?.text(Fact::AskedModel).map(|model| model.into_owned())
    }

    /// What sort of tool it is: as the request that called it lists it, or as its own span says.
    pub fn tool_kind(&self, node: usize) -> Option<String> {
        let reading = self.tree.reading(node)?;
        let name = reading.text(Fact::ToolName)?;
        let (before, after) = self.requests.split_at(self.step(node));
        let mut around = before.iter().rev().chain(after);
        let listed = || around.find_map(|request| request.tool_kinds.get(name.as_ref()))?.as_str().map(str::to_owned);
        let listed = if self.lists_tools { Some(listed).and_then(|mut listed| listed()) } else { None };
        listed.or_else(|| reading.text(Fact::ToolKind).map(|kind| kind.into_owned()))
    }

    /// The id of the call that a tool answers: its own, else that of the model's call.
    pub fn call_id(&self, node: usize) -> Option<String> {
        let own = self.tree.reading(node).and_then(|reading| reading.text(Fact::ToolCallId));
        own.map(|id| id.into_owned()).or_else(|| self.calls.get(&node).map(|call| call.id.clone()))
    }

    /// What a tool was called with: what its span says if that is whole, else what the model sent.
    pub fn tool_input(&self, node: usize) -> Option<Json> {
        let own = self.tree.reading(node).and_then(|reading| reading.json(Fact::ToolInput));
        let sent = || self.calls.get(&node).map(|call| call.input.clone());
        own.as_ref().filter(|own| own.is_object()).cloned().or_else(sent).or(own)
    }

    /// What a tool gave. Where its span does not say, or writes `12` for a number and for a text alike, the message that
    /// took the result to the model knows it.
    pub fn tool_output(&self, node: usize) -> Option<Json> {
        let reading = self.tree.reading(node)?;
        let output = reading.json(Fact::ToolOutput);
        if output.is_some() && !reading.results_are_typed {
            return output;
        }
        let told = self.call_id(node).and_then(|id| {
            // A tool can ask a model itself: the first request that has its result need not be the next one.
            let later = self.requests.iter().skip(self.step(node));
            let sent = later.map(|request| last_result(&request.messages, &id)).find(Option::is_some).flatten();
            sent.or_else(|| last_result(&self.history, &id))
        });
        match told {
            // A result without content is one that was nothing.
            Some(told) => told.get("content").cloned(),
            None => output,
        }
    }

    /// The tokens of the run, those of nested runs not among them: its own count if that is known to be one, else the
    /// sum of its calls, else whatever its span says.
    pub fn usage(&self) -> Option<Json> {
        let own = self.reading().map(Usage::of);
        let calls = self.requests.iter().filter_map(|request| self.tree.reading(request.node));
        let sum = calls.map(Usage::of).fold(Usage::default(), Usage::plus);
        let own_counts = self.reading().is_some_and(|reading| reading.usage_is_own);
        let tokens = match own {
            Some(own) if own.is_some() && (own_counts || !sum.is_some()) => own,
            _ => sum,
        };
        tokens.to_json(self.answered_requests(), self.successful_tools())
    }

    /// Whether the calls are those of one run: an agent that was made for calls without any can stand for several.
    fn is_one_run(&self) -> bool {
        let agent = &self.tree.agents[self.agent];
        agent.node.is_some() || agent.tool.is_some()
    }

    fn reading(&self) -> Option<&Reading<'s>> {
        self.tree.agents[self.agent].node.and_then(|node| self.tree.reading(node))
    }

    fn answered_requests(&self) -> u64 {
        let answered = |request: &&Request| {
            let node = &self.tree.nodes[request.node];
            let skipped = node.exception.as_ref().is_some_and(|exception| exception.class == Class::ControlFlow);
            let incomplete = LeafEnd::of(self.tree, request.node).incomplete;
            let has = |fact| node.reading.as_ref().is_some_and(|reading| reading.has(fact));
            // Some instrumentations name the model that should have answered on a request that failed as well.
            let has_answer = has(Fact::OutputMessages)
                || has(Fact::OutputTokens)
                || (has(Fact::ResponseModel) && node.exception.is_none());
            !incomplete && (skipped || has_answer)
        };
        self.requests.iter().filter(answered).count() as u64
    }

    fn successful_tools(&self) -> u64 {
        let succeeded = |leaf: &&usize| {
            let node = &self.tree.nodes[**leaf];
            let is_tool = node.reading.as_ref().is_some_and(|reading| reading.kind == Kind::Tool);
            is_tool && node.exception.is_none() && !LeafEnd::of(self.tree, **leaf).incomplete
        };
        self.tree.agents[self.agent].leaves.iter().filter(succeeded).count() as u64
    }
}

/// Text as it is, anything else as JSON.
pub(super) fn as_text(value: Json) -> String {
    match value {
        Json::String(text) => text,
        other => other.to_string(),
    }
}

fn last_result<'m>(messages: &'m [Json], call_id: &str) -> Option<&'m Json> {
    messages.iter().rev().filter_map(|message| message["content"].as_array()).find_map(|blocks| {
        blocks.iter().rev().find(|block| block["type"] == "tool_result" && block["tool_use_id"] == call_id)
    })
}

/// Token counts: of [`COUNTS`] in that order.
#[derive(Clone, Copy, Default)]
pub(super) struct Usage([Option<u64>; COUNTS.len()]);

const COUNTS: [Fact; 4] = [Fact::InputTokens, Fact::OutputTokens, Fact::CacheReadTokens, Fact::CacheWriteTokens];

impl Usage {
    pub fn of(reading: &Reading<'_>) -> Self {
        Usage(COUNTS.map(|fact| reading.int(fact).and_then(|count| u64::try_from(count).ok())))
    }

    fn is_some(&self) -> bool {
        self.0.iter().any(Option::is_some)
    }

    fn plus(self, other: Self) -> Self {
        let mut sum = self;
        for (total, more) in sum.0.iter_mut().zip(other.0) {
            *total = match (*total, more) {
                (Some(one), Some(other)) => Some(one.saturating_add(other)),
                (one, other) => one.or(other),
            };
        }
        sum
    }

    /// As the contract writes it: zeros left out, nothing at all if nothing is left.
    pub fn to_json(self, requests: u64, tool_calls: u64) -> Option<Json> {
        let [input, output, cache_read, cache_write] = self.0.map(|count| count.unwrap_or(0));
        let members = [
            ("input_tokens", input),
            ("output_tokens", output),
            ("total_tokens", input.saturating_add(output)),
            ("cache_read_tokens", cache_read),
            ("cache_write_tokens", cache_write),
            ("requests", requests),
            ("tool_calls", tool_calls),
        ];
        let counted = members.into_iter().filter(|(_, count)| *count > 0);
        let usage: Map<String, Json> = counted.map(|(name, count)| (name.to_owned(), count.into())).collect();
        (!usage.is_empty()).then_some(Json::Object(usage))
    }
}
