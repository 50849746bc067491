//! Stops for a person: who asks, which runs wait for the answer, and which run goes on from it.
//!
//! A run is left open only where the spans of the run that goes on from it tell which stop that was, each half by itself:
//! they can come in another trace, in another file. What both know is the place in the graph of the task that stopped, and
//! so the id that is made from it.

use std::collections::HashMap;

use serde_json::Value as Json;

use super::tree::{Role, Tree};
use crate::dialect::{Fact, Kind, Reading};
use crate::exception::Class;

/// How many graphs within each other are looked into for the task that runs again.
const MAX_NESTED: usize = 64;
/// How many answers a task can have had that stops again.
const MAX_ANSWERED: usize = 16;
/// Where a question stands in what a graph hands out, in the order of the official adapter.
const QUESTIONS: [&str; 3] = ["prompt", "question", "message"];

/// A stop for a person.
pub(super) struct Stop {
    /// The innermost span that tells of it.
    pub node: usize,
    /// How deep the outermost one lies that does.
    outermost: usize,
    /// Who asks.
    pub agent: usize,
    /// The id that both halves know.
    pub id: String,
    /// The id that the framework gave it, where that is another one.
    pub given: Option<String>,
    /// What is asked.
    pub prompt: Option<Json>,
    /// The answers to choose from.
    pub options: Option<Vec<Json>>,
    /// Why, in the framework's words.
    pub reason: Option<Json>,
    /// The runs that it stopped, the innermost first.
    pub runs: Vec<usize>,
    /// Whether those wait for the answer. They end where the run that goes on looks like any other.
    pub pauses: bool,
    /// The same call, made again by the run itself: it was paused only in between.
    pub again: Option<usize>,
}

/// An answer that a run goes on with.
pub(super) struct Resume {
    /// The id of the stop.
    pub id: String,
    pub answer: Json,
    /// The runs that go on, the innermost first.
    pub agents: Vec<usize>,
}

/// Finds the stops and the answers of a tree, and tells the runs of them.
pub(super) fn settle(tree: &mut Tree<'_>) {
    let mut stops = waits(tree);
    stops.extend(interrupts(tree));
    for stop in &stops {
        for agent in stop.runs.iter().chain([&stop.agent]) {
            tree.agents[*agent].asks = true;
            tree.agents[*agent].is_paused |= stop.pauses;
        }
    }
    (tree.resumes, tree.stops) = (resumes(tree), stops);
}

/// A span that tells of stops, by the span that it is told by.
struct Teller {
    node: usize,
    stops: Vec<Json>,
    /// Whether a span within tells of stops too.
    is_around: bool,
}

fn tellers(tree: &Tree<'_>, fact: Fact) -> Vec<Teller> {
    let mut tellers: Vec<Teller> = Vec::new();
    let mut known: HashMap<usize, usize> = HashMap::new();
    for (at, node) in tree.nodes.iter().enumerate() {
        let told = node.reading.as_ref().and_then(|reading| reading.json(fact));
        let at = if super::events::gives_events(node.role) { Some(at) } else { node.call };
        let (Some(Json::Array(mut stops)), Some(at), Some(_)) = (told, at, node.agent) else { continue };
        if stops.is_empty() {
            // It stopped, and nothing is known of the question.
            stops.push(Json::Null);
        }
        match known.get(&at).map(|known| &mut tellers[*known]) {
            // A span without events of its own tells of the stop of the one around it.
            Some(known) if known.stops.len() >= stops.len() => {}
            Some(known) => known.stops = stops,
            None => {
                known.insert(at, tellers.len());
                tellers.push(Teller { node: at, stops, is_around: false });
            }
        }
    }
    let mut is_around = vec![false; if tellers.is_empty() { 0 } else { tree.nodes.len() }];
    for teller in &tellers {
        let mut above = tree.nodes[teller.node].parent;
        while let Some(at) = above.filter(|at| !is_around[*at]) {
            is_around[at] = true;
            above = tree.nodes[at].parent;
        }
    }
    for teller in &mut tellers {
        teller.is_around = is_around[teller.node];
    }
    tellers
}

/// Stops, each once by its id and the run at the root of its tree.
#[derive(Default)]
struct Stops {
    stops: Vec<Stop>,
    known: HashMap<(Option<usize>, String), usize>,
}

impl Stops {
    /// Adds a stop, or what it tells of one that is known: the innermost span is the one that was stopped.
    fn add(&mut self, mut stop: Stop, tree: &Tree<'_>) {
        let root = std::iter::successors(Some(stop.agent), |agent| tree.agents[*agent].parent).last();
        let key = (root, stop.id.clone());
        let Some(known) = self.known.get(&key).map(|known| &mut self.stops[*known]) else {
            self.known.insert(key, self.stops.len());
            self.stops.push(stop);
            return;
        };
        if tree.nodes[stop.node].depth > tree.nodes[known.node].depth {
            std::mem::swap(known, &mut stop);
        }
        known.outermost = known.outermost.min(stop.outermost);
        known.prompt = known.prompt.take().or(stop.prompt);
        known.options = known.options.take().or(stop.options);
    }

    fn add_told(
        &mut self,
        tree: &Tree<'_>,
        node: usize,
        id: String,
        (prompt, options): (Option<Json>, Option<Vec<Json>>),
        reason: &Json,
    ) {
        let Some(agent) = tree.nodes[node].agent else { return };
        let (outermost, reason) = (tree.nodes[node].depth, some(reason));
        let (given, runs, pauses, again) = (None, Vec::new(), false, None);
        let stop = Stop { node, outermost, agent, id, given, prompt, options, reason, runs, pauses, again };
        self.add(stop, tree);
    }
}

/// The stops that calls and runs say they ended with.
fn waits(tree: &Tree<'_>) -> Vec<Stop> {
    let mut stops = Stops::default();
    for Teller { node, stops: told, is_around } in tellers(tree, Fact::Waits) {
        for (number, stop) in told.iter().enumerate() {
            let given = text(&stop["id"]);
            if given.is_none() && is_around {
                continue;
            }
            let span = tree.nodes[node].span.span_id;
            let own = || if number == 0 { span.to_string() } else { format!("{span}#{number}") };
            let asked = (some(&stop["prompt"]), stop["options"].as_array().cloned());
            stops.add_told(tree, node, given.unwrap_or_else(own), asked, &stop["reason"]);
        }
    }
    for stop in &mut stops.stops {
        stop.again = made_again(tree, stop);
    }
    stops.stops
}

/// The next call of the same run that is the one that stopped, made again: its name, its id and its kind agree.
fn made_again(tree: &Tree<'_>, stop: &Stop) -> Option<usize> {
    let own = tree.reading(stop.node).filter(|_| tree.nodes[stop.node].role == Role::Leaf)?;
    let agrees = |reading: &Reading<'_>| {
        let names = [Fact::ToolName, Fact::ToolCallId, Fact::HookName];
        reading.kind == own.kind && names.into_iter().all(|fact| reading.text(fact) == own.text(fact))
    };
    let end = tree.nodes[stop.node].span.end_or_start();
    let is_again = |at: &&usize| tree.nodes[**at].span.start >= end && tree.reading(**at).is_some_and(agrees);
    tree.agents[stop.agent].leaves.iter().find(is_again).copied()
}

/// The interrupts that stopped the runs of graphs, each once though all spans that it crossed tell of it.
fn interrupts(tree: &Tree<'_>) -> Vec<Stop> {
    let mut stops = Stops::default();
    for Teller { node, stops: told, is_around } in tellers(tree, Fact::Interrupts) {
        let made = || namespace(tree, node).map(|namespace| id_of(&namespace));
        for stop in told {
            let given = text(&stop["id"]).filter(|id| is_made(id));
            if given.is_none() && is_around {
                continue;
            }
            let id = given.or_else(made).unwrap_or_else(|| tree.nodes[node].span.span_id.to_string());
            stops.add_told(tree, node, id, question(&stop["value"]), &stop["reason"]);
        }
    }
    let mut stops = stops.stops;
    stops.retain_mut(|stop| {
        let Some(runs) = stopped(tree, stop) else { return false };
        let made = namespace(tree, stop.node).filter(|namespace| is_id_of(&stop.id, namespace));
        if let Some(made) = made.as_deref().map(id_of).filter(|made| *made != stop.id) {
            stop.given = Some(std::mem::replace(&mut stop.id, made));
        }
        stop.pauses = made.is_some() && is_whole_chain(tree, stop.agent, &runs) && shows_content(tree, &runs);
        stop.runs = runs;
        true
    });
    stops
}

/// The runs that an interrupt stopped, the innermost first; `None` if it went no further than to a call that caught it,
/// or was lost when the run ended otherwise, or if the run still goes on.
fn stopped(tree: &Tree<'_>, stop: &Stop) -> Option<Vec<usize>> {
    let class = |at: usize| tree.nodes[at].exception.as_ref().map(|exception| exception.class);
    let mut runs = Vec::new();
    for at in std::iter::successors(Some(stop.node), |at| tree.nodes[*at].parent) {
        let kind = tree.reading(at).map(|reading| reading.kind);
        match (tree.nodes[at].role, class(at)) {
            (Role::Agent(_), Some(Class::Failure | Class::ToolFailure | Class::Cancellation)) => return None,
            (Role::Agent(agent), _) if tree.agents[agent].is_open => return None,
            (Role::Agent(agent), class) => {
                runs.push(agent);
                // A graph that nobody's task runs stops and raises nothing.
                if class.is_none() && stop.outermost >= tree.nodes[at].depth {
                    break;
                }
            }
            (Role::Leaf, Some(Class::ControlFlow)) => {}
            (Role::Leaf, _) if matches!(kind, Some(Kind::Hook | Kind::Tool)) => return None,
            _ => {}
        }
    }
    Some(runs)
}

/// Whether those are all runs around, and their session is known wherever they go on. A run that stopped within one that
/// goes on has ended as far as that one knows.
fn is_whole_chain(tree: &Tree<'_>, innermost: usize, runs: &[usize]) -> bool {
    let around = std::iter::successors(Some(innermost), |agent| tree.agents[*agent].parent);
    around.eq(runs.iter().copied()) && runs.last().is_some_and(|root| has_lasting_session(tree, *root))
}

/// Whether a run's session is more than the id of the run or of its trace.
fn has_lasting_session(tree: &Tree<'_>, root: usize) -> bool {
    let agent = &tree.agents[root];
    let Some(node) = agent.node else { return false };
    let run_id = tree.reading(node).and_then(|reading| reading.text(Fact::RunId));
    run_id.is_none_or(|id| id != *agent.session) && *agent.session != *tree.nodes[node].span.trace_id.to_string()
}

/// Whether the spans show what runs and calls were given: only then a run that goes on shows the answer.
fn shows_content(tree: &Tree<'_>, runs: &[usize]) -> bool {
    let shows = |at: usize| {
        let has = |fact| tree.reading(at).is_some_and(|reading| reading.has(fact));
        [Fact::Goal, Fact::ResumeValue, Fact::ToolInput, Fact::InputMessages].into_iter().any(has)
    };
    let own = |run: &usize| tree.agents[*run].node.into_iter().chain(tree.agents[*run].leaves.iter().copied());
    runs.iter().flat_map(own).any(shows)
}

/// The answers that runs go on with.
fn resumes(tree: &Tree<'_>) -> Vec<Resume> {
    let mut resumes = Vec::new();
    let is_root = |agent: &usize| tree.agents[*agent].parent.is_none() && has_lasting_session(tree, *agent);
    let roots = (0..tree.agents.len()).filter(is_root);
    for root in roots {
        let reading = tree.agents[root].node.and_then(|node| tree.reading(node));
        let Some(answer) = reading.and_then(|reading| reading.json(Fact::ResumeValue)) else { continue };
        let tasks = Tasks::of(tree, root);
        match answer {
            // Answers to several stops, each by the id of its stop.
            Json::Object(answers) if !answers.is_empty() && answers.keys().all(|id| is_made(id)) => {
                resumes.extend(answers.into_iter().map(|(id, answer)| match tasks.by_id(&id) {
                    Some(task) => tasks.resume(task, answer),
                    None => Resume { id, answer, agents: vec![root] },
                }));
            }
            answer => resumes.extend(tasks.first_again().map(|task| tasks.resume(task, answer))),
        }
    }
    resumes
}

/// The tasks of a run's tree, each with its place in its graph.
struct Tasks<'t, 's> {
    tree: &'t Tree<'s>,
    tasks: HashMap<usize, String>,
}

impl<'t, 's> Tasks<'t, 's> {
    fn of(tree: &'t Tree<'s>, root: usize) -> Self {
        let root_of = |agent| std::iter::successors(Some(agent), |agent: &usize| tree.agents[*agent].parent).last();
        let tasks = tree.nodes.iter().enumerate().filter_map(|(at, node)| {
            let namespace = node.reading.as_ref()?.text(Fact::CheckpointNamespace)?;
            let is_own = node.agent.and_then(root_of) == Some(root) && tree.agents[root].node != Some(at);
            is_own.then(|| (at, namespace.into_owned()))
        });
        Tasks { tree, tasks: tasks.collect() }
    }

    /// The task that ran first, and within it the first of the graph that it runs, down to the one that stopped: a graph
    /// starts again with the tasks that did not come to their end.
    fn first_again(&self) -> Option<usize> {
        let start = |at: usize| (self.tree.nodes[at].span.start, self.tree.nodes[at].depth, at);
        let mut first = self.tasks.keys().copied().min_by_key(|at| start(*at))?;
        for _ in 0..MAX_NESTED {
            let mut within = vec![false; self.tree.nodes.len()];
            within[first] = true;
            // Parents stand before their children.
            for at in first + 1..within.len() {
                within[at] = self.tree.nodes[at].parent.is_some_and(|parent| within[parent]);
            }
            let deeper = self.tasks.iter().filter(|(at, namespace)| within[**at] && **namespace != self.tasks[&first]);
            match deeper.map(|(at, _)| *at).min_by_key(|at| start(*at)) {
                Some(deeper) => first = deeper,
                None => break,
            }
        }
        Some(first)
    }

    fn by_id(&self, id: &str) -> Option<usize> {
        self.tasks.iter().filter(|(_, namespace)| is_id_of(id, namespace)).map(|(at, _)| *at).min()
    }

    /// How the runs around a task go on with an answer to it.
    fn resume(&self, task: usize, answer: Json) -> Resume {
        let agents = &self.tree.agents;
        let around = std::iter::successors(self.tree.nodes[task].agent, |agent| agents[*agent].parent);
        let around = around.filter(|agent| agents[*agent].node.is_some()).collect();
        Resume { id: id_of(&self.tasks[&task]), answer, agents: around }
    }
}

/// The place in its graph of the task that a span is part of.
fn namespace(tree: &Tree<'_>, at: usize) -> Option<String> {
    let mut up = std::iter::successors(Some(at), |at| tree.nodes[*at].parent);
    up.find_map(|at| Some(tree.reading(at)?.text(Fact::CheckpointNamespace)?.into_owned()))
}

/// The id of a stop, made from the place of the task that stopped, as graphs make it: see `tests/pauses.rs`.
fn id_of(namespace: &str) -> String {
    format!("{:032x}", twox_hash::XxHash3_128::oneshot(namespace.as_bytes()))
}

/// Whether an id is that of a stop of the task at that place. A task that had answers already and stops again has another
/// id for each stop; its spans do not tell how many answers it had when it goes on.
fn is_id_of(id: &str, namespace: &str) -> bool {
    let again = || (1..=MAX_ANSWERED).any(|answered| id_of(&format!("{namespace}|{answered}")) == id);
    id_of(namespace) == id || again()
}

/// Whether an id can be one of [`id_of`].
fn is_made(id: &str) -> bool {
    id.len() == 32 && id.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
}

/// The question and the answers to choose from, in whatever was handed out.
fn question(value: &Json) -> (Option<Json>, Option<Vec<Json>>) {
    let asked = QUESTIONS.iter().find_map(|key| some(value.get(*key)?));
    (asked.or_else(|| some(value)), value["options"].as_array().cloned())
}

fn some(value: &Json) -> Option<Json> {
    (!value.is_null()).then(|| value.clone())
}

fn text(value: &Json) -> Option<String> {
    value.as_str().map(str::trim).filter(|text| !text.is_empty()).map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Recorded.
    #[test]
    fn an_id_is_that_of_the_task_that_stopped() {
        assert_eq!(id_of("tools:bd4523b0-5103-76bd-f282-abcb2fa9368e"), "2907f3b3ef9e70be0e46f6232bc2153d");
        assert_eq!(id_of("tools:3e959963-f2fc-056c-99ee-f62cca6a19c5"), "3ee47b025b223582e3ddb309b2481916");
    }
}
