//! The spans of one trace as a tree, and the role of each.

use std::collections::HashMap;
use std::sync::Arc;

use super::identity::{self, Agent};
use super::link::{link, without_copies};
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
    /// Whether its parent is the agent that it is itself, told beside it: see `twice`.
    pub is_joined: bool,
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

    pub fn is_tool(&self, at: usize) -> bool {
        self.nodes[at].role == Role::Leaf && self.reading(at).is_some_and(|reading| reading.kind == Kind::Tool)
    }
}
