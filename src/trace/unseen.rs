//! Agents that have no span of their own: only the calls that they make name them.

use std::collections::HashMap;

use super::identity::Agent;
use super::tree::{Role, Tree};
use crate::dialect::{Fact, Kind, Reading};

impl Tree<'_> {
    /// Some frameworks have no span for an agent that a tool runs, only calls of models that name it: it is made, for all
    /// calls under that tool.
    pub(super) fn make_unseen_agents(&mut self) {
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
}
