//! Which agent and which session: the rules of identity, in their order.

use std::collections::HashMap;
use std::sync::Arc;

use super::tree::{Node, Role, Tree};
use super::{Mapping, Said};
use crate::dialect::{AGENT_ID, Fact, KIND, Kind, SESSION_ID};
use crate::event::{UNNAMED_AGENT, normalize_agent_id};

/// The longest session id, in characters; a longer one keeps its head.
const SESSION_LIMIT: usize = 512;

/// An agent's run.
pub(super) struct Agent {
    /// Its span; `None` if it was made for calls that no agent encloses.
    pub node: Option<usize>,
    /// The first span of an agent that was made.
    pub first: Option<usize>,
    /// The tool call that runs it, if it has no span but what its calls say.
    pub tool: Option<usize>,
    /// The agent around it, in the same session.
    pub parent: Option<usize>,
    /// How many agents are around it.
    pub depth: usize,
    /// Its name.
    pub id: Arc<str>,
    /// The name as it was given, if that is another one.
    pub raw_name: Option<String>,
    /// Its session.
    pub session: Arc<str>,
    /// Its calls, by their start; hooks and stops too.
    pub leaves: Vec<usize>,
    /// When it started and ended, within the agent around it.
    pub start: u64,
    /// See `start`.
    pub end: u64,
    /// Whether it goes on: it has started, and neither it nor an agent around it has ended.
    pub is_open: bool,
    /// Whether the end of an agent around it, or of the process, closed it.
    pub incomplete: bool,
    /// Whether it waits for the answer of a person, and has no end.
    pub is_paused: bool,
    /// Whether a stop for a person was part of it.
    pub asks: bool,
    /// How it ended: `success`, `failed` or `cancelled`.
    pub outcome: &'static str,
    /// Whether it gets an `error` event.
    pub tells_error: bool,
}

impl Agent {
    pub fn new(node: usize, parent: Option<usize>) -> Self {
        Agent { node: Some(node), parent, ..Agent::unnamed() }
    }

    /// An agent that a tool call runs and that has no span of its own.
    pub fn unseen(tool: usize, parent: usize, name: &str) -> Self {
        let id = normalize_agent_id(name);
        let raw_name = (id != name).then(|| name.to_owned());
        Agent { tool: Some(tool), parent: Some(parent), id: Arc::from(id), raw_name, ..Agent::unnamed() }
    }

    fn unnamed() -> Self {
        Agent {
            node: None,
            first: None,
            tool: None,
            parent: None,
            depth: 0,
            id: Arc::from(UNNAMED_AGENT),
            raw_name: None,
            session: Arc::from(""),
            leaves: Vec::new(),
            start: 0,
            end: 0,
            is_open: false,
            incomplete: false,
            is_paused: false,
            asks: false,
            outcome: "success",
            tells_error: false,
        }
    }
}

/// Gives every agent its name, its session and its times, and every call its agent: one is made where there is none.
pub(super) fn name_agents(tree: &mut Tree<'_>, mapping: &Mapping, said: &Said) {
    adopt_orphans(tree, mapping, said.closed_at);
    let of_trace = first_conversation(tree, 0..tree.nodes.len());
    let ends = ends_within(tree);
    let agreed = agreed_names(tree);
    for at in 0..tree.agents.len() {
        let Some(node) = tree.agents[at].node else {
            settle_unseen(tree, at, said.closed_at);
            continue;
        };
        let own =
            || tree.reading(node).and_then(|reading| reading.text(Fact::AgentName)).unwrap_or_default().into_owned();
        let raw = agreed.get(&at).cloned().flatten().unwrap_or_else(own);
        let id = normalize_agent_id(&raw);
        tree.agents[at].raw_name = (id != raw && !raw.is_empty()).then_some(raw);
        tree.agents[at].id = Arc::from(id);
        let session = match tree.agents[at].parent {
            Some(parent) if mapping.session_id.is_some() || !starts_session(tree, node, parent) => {
                tree.agents[parent].session.clone()
            }
            _ => {
                tree.agents[at].parent = None;
                root_session(tree, at, node, mapping, said, of_trace.as_ref())
            }
        };
        tree.agents[at].session = session;
        set_times(tree, at, node, ends[node].or(said.closed_at));
    }
}

/// The name that the spans within a run give their agent, where its own span knows that of a class alone; `None` if they
/// do not agree.
fn agreed_names(tree: &Tree<'_>) -> HashMap<usize, Option<String>> {
    let is_generic =
        |agent: &Agent| agent.node.and_then(|node| tree.reading(node)).is_some_and(|reading| reading.is_named_by_class);
    let mut agreed: HashMap<usize, Option<String>> = HashMap::new();
    for node in &tree.nodes {
        let Some(agent) = node.agent.filter(|agent| is_generic(&tree.agents[*agent])) else { continue };
        let reading = node.reading.as_ref().filter(|reading| reading.kind != Kind::Agent);
        let Some(name) = reading.and_then(|reading| reading.text(Fact::AgentName)) else { continue };
        let known = agreed.entry(agent).or_insert_with(|| Some(name.clone().into_owned()));
        if known.as_deref().is_some_and(|known| known != name) {
            *known = None;
        }
    }
    agreed
}

/// When each run ended by its own span, or by the last one within where that span can end early; `None` while it goes on.
fn ends_within(tree: &Tree<'_>) -> Vec<Option<u64>> {
    let mut ends: Vec<Option<u64>> = tree.nodes.iter().map(|node| node.span.end).collect();
    if !tree.nodes.iter().any(ends_early) {
        return ends;
    }
    let mut last = ends.clone();
    // Children stand behind their parents.
    for at in (0..tree.nodes.len()).rev() {
        if let Some(parent) = tree.nodes[at].parent {
            last[parent] = last[parent].zip(last[at]).map(|(own, within)| own.max(within));
        }
        if ends_early(&tree.nodes[at]) {
            ends[at] = last[at];
        }
    }
    ends
}

/// See [`crate::dialect::Reading::ends_early`].
pub(super) fn ends_early(node: &Node<'_>) -> bool {
    node.reading.as_ref().is_some_and(|reading| reading.ends_early)
}

/// Model and tool calls that no agent encloses get an agent, so that their session exists: one for each session and name.
/// Hooks around such calls are that agent's; a hook that is around none of them is left out.
fn adopt_orphans(tree: &mut Tree<'_>, mapping: &Mapping, closed_at: Option<u64>) {
    let mut made: HashMap<(Arc<str>, String), usize> = HashMap::new();
    let of_trace = first_conversation(tree, 0..tree.nodes.len());
    let siblings = names_of_siblings(tree);
    let is_hook = |tree: &Tree<'_>, at: usize| {
        let by_hand = tree.nodes[at].span.attributes.get(KIND).is_some();
        !by_hand && tree.reading(at).is_some_and(|reading| reading.kind == Kind::Hook)
    };
    let (hooks, others): (Vec<usize>, Vec<usize>) = (0..tree.nodes.len()).partition(|at| is_hook(tree, *at));
    for at in others.into_iter().chain(hooks) {
        let node = &tree.nodes[at];
        let has_events = super::events::has_events_by_hand(node.span);
        if node.role != Role::Leaf && !has_events {
            continue;
        }
        let agent = match node.agent {
            Some(agent) => agent,
            None => {
                let session = pinned_or_said(tree, at, mapping)
                    .or_else(|| tree.nodes[at].conversation.clone())
                    .or_else(|| of_trace.clone())
                    .unwrap_or_else(|| generated(tree, at));
                let name = orphan_name(tree, at, &siblings);
                if is_hook(tree, at) && !has_events && !made.contains_key(&(session.clone(), name.clone())) {
                    tree.nodes[at].role = Role::Transparent;
                    continue;
                }
                let agents = &mut tree.agents;
                *made.entry((session.clone(), name.clone())).or_insert_with(|| {
                    let id = normalize_agent_id(&name);
                    let raw_name = (id != name).then_some(name);
                    agents.push(Agent { id: Arc::from(id), raw_name, session, start: u64::MAX, ..Agent::unnamed() });
                    agents.len() - 1
                })
            }
        };
        let span = tree.nodes[at].span;
        let adopted = tree.nodes[at].agent.is_none();
        tree.nodes[at].agent = Some(agent);
        if tree.nodes[at].role == Role::Leaf {
            tree.agents[agent].leaves.push(at);
        }
        if adopted {
            let start = |node: usize| (tree.nodes[node].span.start, tree.nodes[node].span.span_id.to_bytes());
            let first = tree.agents[agent].first.filter(|first| start(*first) <= start(at)).unwrap_or(at);
            tree.agents[agent].first = Some(first);
            tree.agents[agent].start = tree.agents[agent].start.min(span.start);
            tree.agents[agent].end =
                tree.agents[agent].end.max(span.end.or(closed_at).unwrap_or(span.start).max(span.start));
            tree.agents[agent].is_open |= span.end.or(closed_at).is_none();
        }
    }
    for agent in &mut tree.agents {
        agent
            .leaves
            .sort_by_key(|leaf| tree.nodes.get(*leaf).map(|node| (node.span.start, node.span.span_id.to_bytes())));
    }
}

fn orphan_name(tree: &Tree<'_>, at: usize, siblings: &HashMap<Option<usize>, Option<String>>) -> String {
    let node = &tree.nodes[at];
    let by_hand = node.agent_said.or_else(|| node.span.resource.attributes.text(AGENT_ID));
    let named = by_hand.map(str::to_owned).or_else(|| own_name(tree, at));
    named.or_else(|| siblings.get(&node.parent)?.clone()).unwrap_or_else(|| UNNAMED_AGENT.to_owned())
}

fn own_name(tree: &Tree<'_>, at: usize) -> Option<String> {
    tree.reading(at)?.text(Fact::AgentName).map(|name| name.into_owned())
}

/// The agent that calls without an agent name, by the span around them: a call of theirs that names none is that agent's
/// too. `None` where they name several; spans at the root are no siblings.
fn names_of_siblings(tree: &Tree<'_>) -> HashMap<Option<usize>, Option<String>> {
    let mut names: HashMap<Option<usize>, Option<String>> = HashMap::new();
    let orphans = tree.nodes.iter().enumerate().filter(|(_, node)| node.role == Role::Leaf && node.agent.is_none());
    for (at, node) in orphans.filter(|(_, node)| node.parent.is_some()) {
        let Some(name) = own_name(tree, at) else { continue };
        let known = names.entry(node.parent).or_insert_with(|| Some(name.clone()));
        if known.as_ref().is_some_and(|known| *known != name) {
            *known = None;
        }
    }
    names
}

/// Whether a nested agent opens a session of its own: only if somebody said another one by hand, between it and the agent
/// around.
fn starts_session(tree: &Tree<'_>, node: usize, parent: usize) -> bool {
    let around = &tree.agents[parent];
    let said = |node: usize| tree.nodes[node].session_said;
    let own = said(node).filter(|own| around.node.and_then(said) != Some(*own)).and_then(session_text);
    own.is_some_and(|own| own != around.session)
}

/// The session of a tree of agents: what is pinned, what was said by hand, the root run's conversation, its run id, the
/// first conversation that any span of the trace names, and at last the trace's own id.
fn root_session(
    tree: &Tree<'_>,
    agent: usize,
    node: usize,
    mapping: &Mapping,
    said: &Said,
    of_trace: Option<&Arc<str>>,
) -> Arc<str> {
    let known = || said.sessions.get(&tree.nodes[node].span.span_id).cloned();
    let run_id = || tree.reading(node).and_then(|reading| session_text(&reading.text(Fact::RunId)?));
    known()
        .or_else(|| pinned_or_said(tree, node, mapping))
        .or_else(|| tree.nodes[node].conversation.clone())
        .or_else(|| first_conversation(tree, tree.agents[agent].leaves.iter().copied()))
        .or_else(run_id)
        .or_else(|| of_trace.cloned())
        .unwrap_or_else(|| generated(tree, node))
}

fn pinned_or_said(tree: &Tree<'_>, at: usize, mapping: &Mapping) -> Option<Arc<str>> {
    let node = &tree.nodes[at];
    let by_hand = || node.session_said.or_else(|| node.span.resource.attributes.text(SESSION_ID));
    mapping.session_id.clone().or_else(|| session_text(by_hand()?))
}

fn first_conversation(tree: &Tree<'_>, nodes: impl Iterator<Item = usize>) -> Option<Arc<str>> {
    let named = nodes.map(|at| &tree.nodes[at]).filter(|node| node.conversation.is_some());
    let first = named.min_by_key(|node| (node.span.start, node.span.span_id.to_bytes()));
    first.and_then(|node| node.conversation.clone())
}

/// The trace id: the shape of a `uuid4().hex`, and the same at every mapping.
fn generated(tree: &Tree<'_>, at: usize) -> Arc<str> {
    Arc::from(tree.nodes[at].span.trace_id.to_string())
}

/// A session id as it is stored: trimmed, not endless, never blank.
pub(crate) fn session_text(raw: &str) -> Option<Arc<str>> {
    let text: String = raw.trim().chars().take(SESSION_LIMIT).collect();
    (!text.is_empty()).then(|| Arc::from(text))
}

/// The session, the depth and the times of an agent without a span that a tool runs: from the first of its calls to the
/// last. It starts within the agent around it, but can outlive it: nobody says that one waited for the other.
fn settle_unseen(tree: &mut Tree<'_>, at: usize, closed_at: Option<u64>) {
    let Some(parent) = tree.agents[at].parent else { return };
    let (session, depth, around) = {
        let parent = &tree.agents[parent];
        (parent.session.clone(), parent.depth + 1, (parent.start, parent.end, parent.is_open))
    };
    let ends = |leaf: &usize| tree.nodes[*leaf].span.end.or(closed_at);
    let leaves = || tree.agents[at].leaves.iter();
    let first = leaves().map(|leaf| tree.nodes[*leaf].span.start).min();
    let start = first.unwrap_or(around.0).clamp(around.0, around.1);
    let end = leaves().map(|leaf| ends(leaf).unwrap_or(tree.nodes[*leaf].span.start)).max().unwrap_or(start).max(start);
    let is_open = around.2 || leaves().any(|leaf| ends(leaf).is_none());
    let agent = &mut tree.agents[at];
    agent.first = agent.leaves.first().copied();
    (agent.session, agent.depth, agent.start, agent.end, agent.is_open) = (session, depth, start, end, is_open);
}

/// An agent's own times, within those of the agent around it. One that goes on has no end yet.
fn set_times(tree: &mut Tree<'_>, at: usize, node: usize, own_end: Option<u64>) {
    let span = tree.nodes[node].span;
    let around = tree.agents[at].parent.map(|parent| &tree.agents[parent]);
    let (earliest, latest) = around.map_or((0, u64::MAX), |around| (around.start, around.end));
    let depth = around.map_or(0, |around| around.depth + 1);
    let around_goes_on = around.is_none_or(|around| around.is_open);

    let start = span.start.clamp(earliest, latest);
    let end = own_end.unwrap_or(u64::MAX).clamp(start, latest);
    let agent = &mut tree.agents[at];
    (agent.start, agent.end, agent.depth) = (start, end, depth);
    agent.is_open = own_end.is_none() && around_goes_on;
    agent.incomplete = span.end.is_none() && !agent.is_open;
}
