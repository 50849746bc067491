//! The spans of one trace as a tree, and the role of each.

use std::cmp::Ordering;
use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use super::identity::{self, Agent};
use super::pause::{Resume, Stop};
use super::{Mapping, Said, ending};
use crate::dialect::{self, AGENT_ID, Fact, KIND, Kind, Reading, SESSION_ID};
use crate::exception::Exception;
use crate::span::{Span, SpanId};

/// The spans of a trace, parents before their children, and the agents among them.
pub(super) struct Tree<'s> {
    pub nodes: Vec<Node<'s>>,
    pub agents: Vec<Agent>,
    /// Where runs stopped for a person.
    pub stops: Vec<Stop>,
    /// What persons answered to runs that go on.
    pub resumes: Vec<Resume>,
}

/// A span in its tree.
pub(super) struct Node<'s> {
    pub span: &'s Span<'s>,
    /// `None` if no agent framework wrote it.
    pub reading: Option<Reading<'s>>,
    /// What it was ended by.
    pub exception: Option<Exception>,
    pub parent: Option<usize>,
    /// How many spans are above it.
    pub depth: usize,
    pub role: Role,
    /// The agent that it is, or the nearest one around it.
    pub agent: Option<usize>,
    /// What the nearest span above it, or it itself, says of the session.
    pub session_said: Option<&'s str>,
    /// What the nearest span above it, or it itself, says of the agent's name.
    pub agent_said: Option<&'s str>,
    /// The conversation that it, or the nearest span above it, belongs to.
    pub conversation: Option<Arc<str>>,
    /// It itself, or the nearest span above it, that stands for something; of one seen twice the one that it is told by.
    pub call: Option<usize>,
    /// Whether its parent is the agent that it is itself, told beside it: see [`Tree::join_told_beside`].
    is_joined: bool,
}

/// What becomes of a span.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Role {
    /// An agent: index into [`Tree::agents`].
    Agent(usize),
    /// A leaf of an agent: a model call, a tool call, a hook, a stop for a person.
    Leaf,
    /// The same as the node of that index, seen twice.
    Folded(usize),
    /// No event; its children look through it.
    Transparent,
}

impl<'s> Tree<'s> {
    pub fn build(spans: &[&'s Span<'s>], mapping: &Mapping, said: &Said) -> Self {
        let mut tree =
            Tree { nodes: link(&without_copies(spans)), agents: Vec::new(), stops: Vec::new(), resumes: Vec::new() };
        for at in 0..tree.nodes.len() {
            tree.read(at, mapping);
        }
        tree.name_exceptions();
        tree.promote_owners();
        tree.join_told_beside();
        for at in 0..tree.nodes.len() {
            tree.give_role(at);
        }
        tree.fold_told_twice();
        tree.make_unseen_agents();
        identity::name_agents(&mut tree, mapping, said);
        tree
    }

    /// The reading of a node that has a role; a node without a reading is transparent.
    pub fn reading(&self, at: usize) -> Option<&Reading<'s>> {
        self.nodes.get(at)?.reading.as_ref()
    }

    /// The session of each tree of agents, by the span of its root.
    pub fn root_sessions(&self) -> HashMap<SpanId, Arc<str>> {
        let roots = self.agents.iter().filter(|agent| agent.parent.is_none());
        roots.filter_map(|agent| Some((self.nodes[agent.node?].span.span_id, agent.session.clone()))).collect()
    }

    fn read(&mut self, at: usize, mapping: &Mapping) {
        let span = self.nodes[at].span;
        let above = self.nodes[at].parent.map(|parent| &self.nodes[parent]);
        let agent_above = above.and_then(|above| above.agent_said);
        let session_above = above.and_then(|above| above.session_said);
        let own_agent = span.attributes.text(AGENT_ID);
        let reading = match own_agent {
            // Baggage copies the name to all spans below: only the first one that says it is that agent.
            Some(name) if agent_above == Some(name) && span.attributes.get(KIND).is_none() => {
                dialect::read_without_hand(span)
            }
            // A name on a call says whose call it is.
            Some(_) if span.attributes.get(KIND).is_none() => match dialect::read_without_hand(span) {
                Some(reading) if !matches!(reading.kind, Kind::Agent | Kind::Transparent) => Some(reading),
                _ => dialect::read(span),
            },
            _ => dialect::read(span),
        };
        let own_conversation = reading.as_ref().and_then(|reading| reading.text(Fact::ConversationId));
        let conversation = own_conversation.and_then(|id| identity::session_text(&id));
        let conversation = conversation.or_else(|| above.and_then(|above| above.conversation.clone()));
        let node = &mut self.nodes[at];
        node.conversation = conversation;
        node.exception = ending::exception_of(span, reading.as_ref(), &mapping.classifier);
        node.reading = reading;
        node.agent_said = own_agent.or(agent_above);
        node.session_said = span.attributes.text(SESSION_ID).or(session_above);
    }

    /// Some frameworks tell the type of an exception where it was raised and the text alone on the runs that it crossed.
    fn name_exceptions(&mut self) {
        // The latest exception within each span that names its type; children stand behind their parents.
        let mut within: Vec<Option<usize>> = vec![None; self.nodes.len()];
        for at in (0..self.nodes.len()).rev() {
            let known = within[at].and_then(|known| self.nodes[known].exception.clone());
            let told = match (&mut self.nodes[at].exception, known) {
                (Some(own), _) if own.is_named() => Some(at),
                (Some(own), Some(known)) if !own.message.is_empty() && own.message == known.message => {
                    *own = known;
                    Some(at)
                }
                _ => within[at],
            };
            if let Some(parent) = self.nodes[at].parent {
                within[parent] = within[parent].or(told);
            }
        }
    }

    /// Some runs are known as an agent's by their hooks alone: the span right around those is the run.
    fn promote_owners(&mut self) {
        for at in 0..self.nodes.len() {
            let Some(hook) = &self.nodes[at].reading else { continue };
            let (is_owned, dialect) = (hook.kind == Kind::Hook && hook.owner_is_agent, hook.dialect);
            let Some(owner) = self.nodes[at].parent.filter(|_| is_owned) else { continue };
            let owner = self.nodes[owner].reading.as_mut();
            if let Some(owner) = owner.filter(|owner| owner.kind == Kind::Transparent && owner.dialect == dialect) {
                (owner.kind, owner.rule) = (Kind::Agent, "its hooks are those of an agent's run");
            }
        }
    }

    /// Some frameworks tell a nested agent by two spans side by side: one is the agent, the other has its work. A span that
    /// lies within an agent without any work, beside it and of its name, is that agent.
    fn join_told_beside(&mut self) {
        let busy: HashSet<usize> = self.nodes.iter().filter_map(|node| node.parent).collect();
        let mut idle: HashMap<(usize, String), usize> = HashMap::new();
        for at in 0..self.nodes.len() {
            // Parents stand before their children, so that theirs is known.
            self.nodes[at].depth = self.nodes[at].parent.map_or(0, |parent| self.nodes[parent].depth + 1);
            let node = &self.nodes[at];
            let (Some(parent), Some(reading)) = (node.parent, &node.reading) else { continue };
            let is_agent = reading.kind == Kind::Agent;
            let name = reading.text(if is_agent { Fact::AgentName } else { Fact::HookName }).unwrap_or_default();
            let key = (parent, name.into_owned());
            let around = idle.get(&key).copied().filter(|agent| {
                let agent = &self.nodes[*agent];
                let is_within = agent.span.end.is_none_or(|end| node.span.end.is_some_and(|own| own <= end));
                is_within && agent.reading.as_ref().is_some_and(|agent| agent.dialect == reading.dialect)
            });
            match around {
                Some(agent) if reading.tells_again || !is_agent => {
                    let node = &mut self.nodes[at];
                    (node.parent, node.is_joined) = (Some(agent), true);
                    node.depth += 1;
                }
                _ if is_agent && !busy.contains(&at) => drop(idle.insert(key, at)),
                _ => {}
            }
        }
    }

    fn give_role(&mut self, at: usize) {
        let parent = self.nodes[at].parent;
        let around = parent.and_then(|parent| self.nodes[parent].agent);
        let call = parent.and_then(|parent| self.nodes[parent].call);
        (self.nodes[at].agent, self.nodes[at].call) = (around, call);
        let Some(kind) = self.reading(at).map(|reading| reading.kind) else { return };
        self.nodes[at].role = match kind {
            _ if self.nodes[at].is_joined => call.map_or(Role::Transparent, Role::Folded),
            Kind::Transparent => Role::Transparent,
            Kind::Agent => match call {
                Some(above) if self.is_same_agent(above, at) => Role::Folded(above),
                _ => {
                    self.agents.push(Agent::new(at, around));
                    self.nodes[at].agent = Some(self.agents.len() - 1);
                    Role::Agent(self.agents.len() - 1)
                }
            },
            Kind::Model | Kind::Tool => match call {
                Some(above) if self.is_same_call(above, at) => Role::Folded(above),
                _ => Role::Leaf,
            },
            Kind::Hook => match call {
                Some(above) if self.is_same_hook(above, at) => Role::Folded(above),
                _ => Role::Leaf,
            },
            Kind::Human => Role::Leaf,
        };
        match self.nodes[at].role {
            Role::Folded(into) => self.fold(at, into),
            Role::Agent(_) | Role::Leaf => self.nodes[at].call = Some(at),
            Role::Transparent => {}
        }
        if kind == Kind::Model {
            self.take_frame(at);
        }
    }

    /// A model call takes what only the span right around it tells.
    fn take_frame(&mut self, at: usize) {
        let Some(frame) = self.nodes[at].parent.and_then(|parent| self.reading(parent)) else { return };
        if frame.frames_call {
            let frame = frame.clone();
            if let Some(reading) = &mut self.nodes[at].reading {
                reading.fill_from(&frame);
            }
        }
    }

    /// Two spans that tell of the same tool call side by side, under the same run or call: the id and the name agree, one
    /// runs while the other does, and they are not written alike.
    fn fold_told_twice(&mut self) {
        let mut calls: HashMap<(Option<usize>, String, String), usize> = HashMap::new();
        let mut tools: Vec<usize> = (0..self.nodes.len()).filter(|at| self.is_tool(*at)).collect();
        tools.sort_by_key(|at| (self.nodes[*at].span.start, self.nodes[*at].span.span_id.to_bytes()));
        for at in tools {
            let Some(reading) = self.reading(at) else { continue };
            let (Some(id), Some(name)) = (reading.text(Fact::ToolCallId), reading.text(Fact::ToolName)) else {
                continue;
            };
            let above = self.nodes[at].parent.and_then(|parent| self.nodes[parent].call);
            let key = (above, id.into_owned(), name.into_owned());
            match calls.get(&key).copied() {
                Some(first) if self.may_tell_the_same(first, at) => {
                    self.nodes[at].role = Role::Folded(first);
                    self.fold(at, first);
                }
                _ => drop(calls.insert(key, at)),
            }
        }
    }

    fn may_tell_the_same(&self, first: usize, at: usize) -> bool {
        let (first, span) = (self.nodes[first].span, self.nodes[at].span);
        let is_written_alike = first.name == span.name && first.scope.name == span.scope.name;
        !is_written_alike && span.start <= first.end_or_start()
    }

    /// Some frameworks have no span for an agent that a tool runs, only calls of models that name it: it is made, for all
    /// calls under that tool.
    fn make_unseen_agents(&mut self) {
        let around = self.tools_around();
        let mut named: HashMap<usize, String> = HashMap::new();
        for (at, tool) in around.iter().enumerate() {
            let asks = |reading: &&Reading<'_>| reading.kind == Kind::Model && self.nodes[at].role == Role::Leaf;
            let name = self.reading(at).filter(asks).and_then(|reading| reading.text(Fact::AgentName));
            if let (Some(tool), Some(name)) = (tool, name) {
                named.entry(*tool).or_insert_with(|| name.into_owned());
            }
        }
        if named.is_empty() {
            return;
        }
        let mut made: HashMap<usize, usize> = HashMap::new();
        for (at, tool) in around.into_iter().enumerate() {
            // Parents stand before their children: the tool's own agent is settled.
            if let (Some(tool), false) = (tool, matches!(self.nodes[at].role, Role::Agent(_))) {
                self.nodes[at].agent = made.get(&tool).copied().or(self.nodes[tool].agent);
            }
            let Some((name, agent)) = named.get(&at).zip(self.nodes[at].agent) else { continue };
            if self.agent_name(agent) != crate::event::normalize_agent_id(name) {
                self.agents.push(Agent::unseen(at, agent, name));
                made.insert(at, self.agents.len() - 1);
            }
        }
    }

    /// For each span the tool call that it is part of, if no agent stands between.
    fn tools_around(&self) -> Vec<Option<usize>> {
        let mut around: Vec<Option<usize>> = Vec::with_capacity(self.nodes.len());
        for node in &self.nodes {
            let tool = node.parent.and_then(|parent| match self.nodes[parent].role {
                Role::Agent(_) => None,
                Role::Folded(into) if self.is_tool(into) => Some(into),
                _ if self.is_tool(parent) => Some(parent),
                _ => around[parent],
            });
            around.push(tool);
        }
        around
    }

    fn agent_name(&self, agent: usize) -> String {
        let agent = &self.agents[agent];
        let named = agent.node.and_then(|node| self.reading(node)).and_then(|reading| reading.text(Fact::AgentName));
        match agent.node {
            Some(_) => crate::event::normalize_agent_id(&named.unwrap_or_default()),
            None => agent.id.to_string(),
        }
    }

    fn is_tool(&self, at: usize) -> bool {
        self.nodes[at].role == Role::Leaf && self.reading(at).is_some_and(|reading| reading.kind == Kind::Tool)
    }

    /// Two instrumentations, or a name given by hand and the framework's own span, tell of one run: nested, no call
    /// between, one name. One dialect that has an agent of the same name inside an agent means two, unless it says that it
    /// tells each twice.
    fn is_same_agent(&self, above: usize, at: usize) -> bool {
        let (Some(outer), Some(inner)) = (self.reading(above), self.reading(at)) else { return false };
        let name = |reading: &Reading<'_>| {
            crate::event::normalize_agent_id(&reading.text(Fact::AgentName).unwrap_or_default())
        };
        let may_be_one = outer.dialect != inner.dialect || inner.tells_again;
        let is_one =
            (may_be_one && name(outer) == name(inner)) || (inner.is_named_by_class && outer.dialect == inner.dialect);
        outer.kind == Kind::Agent && is_one
    }

    /// A model call inside a model call, or a tool inside a tool of the same name, is that same call; two ids are two calls.
    fn is_same_call(&self, above: usize, at: usize) -> bool {
        let (Some(outer), Some(inner)) = (self.reading(above), self.reading(at)) else { return false };
        match (outer.kind, inner.kind) {
            (Kind::Model, Kind::Model) => true,
            (Kind::Tool, Kind::Tool) => {
                let ids = outer.text(Fact::ToolCallId).zip(inner.text(Fact::ToolCallId));
                let same_name = inner.is_stage || outer.text(Fact::ToolName) == inner.text(Fact::ToolName);
                same_name && ids.is_none_or(|(outer, inner)| outer == inner)
            }
            _ => false,
        }
    }

    /// A hook inside a hook of the same name is that same hook, if its dialect tells some twice.
    fn is_same_hook(&self, above: usize, at: usize) -> bool {
        let (Some(outer), Some(inner)) = (self.reading(above), self.reading(at)) else { return false };
        let is_one = outer.kind == Kind::Hook && inner.tells_again;
        is_one && outer.text(Fact::HookName) == inner.text(Fact::HookName)
    }

    /// Fields that the outer span lacks are taken from the inner; of several inner ones, the later know the outcome.
    fn fold(&mut self, at: usize, into: usize) {
        let inner = self.nodes[at].reading.clone();
        let exception = self.nodes[at].exception.clone();
        let outer = &mut self.nodes[into];
        let is_agent = matches!(outer.role, Role::Agent(_));
        let is_stage = inner.as_ref().is_some_and(|inner| inner.is_stage);
        if let (Some(outer), Some(inner)) = (&mut outer.reading, inner) {
            outer.fill_from(&inner);
            outer.framework = outer.framework.or(inner.framework);
            if is_agent {
                outer.completion = inner.completion;
                outer.usage_is_own |= inner.usage_is_own;
            }
        }
        // A call that was tried again inside has failed only if the outer span says so; a run has no second try, and a stage
        // of a call knows how the call ended. Of two exceptions of one class of a run the inner one is the cause, the outer
        // one what became of it on its way.
        let is_cause = |inner: &Exception, outer: &Exception| is_agent && inner.class == outer.class;
        match (&outer.exception, &exception) {
            (None, _) if is_agent || is_stage => outer.exception = exception,
            (Some(told), Some(inner)) if is_cause(inner, told) => outer.exception = exception,
            _ => {}
        }
    }
}

/// Each span once: of several reports of one span the most complete, whatever order they came in.
fn without_copies<'s>(spans: &[&'s Span<'s>]) -> Vec<&'s Span<'s>> {
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

fn more_complete(one: &Span<'_>, other: &Span<'_>) -> Ordering {
    let measure = |span: &Span<'_>| (span.end, span.attributes.len(), span.events.len(), span.weight());
    // Equal in all measures and still not the same: any order will do, as long as it is one.
    measure(one)
        .cmp(&measure(other))
        .then_with(|| if one == other { Ordering::Equal } else { format!("{one:?}").cmp(&format!("{other:?}")) })
}

/// The spans as nodes, parents before children; siblings by their start. A parent that is not here, the span itself or a
/// span below it is no parent.
fn link<'s>(spans: &[&'s Span<'s>]) -> Vec<Node<'s>> {
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
