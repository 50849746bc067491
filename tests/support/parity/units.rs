//! What belongs together: the request and the response of a call; our events and the official ones of the same thing.

use std::cmp::Reverse;
use std::collections::{BTreeMap, HashMap, HashSet, VecDeque};

use serde_json::Value;

use super::form::Form;

/// A call with its result, or an event that stands alone.
pub(super) struct Unit<'e> {
    /// Its agent, as [`same_agents`] counts them.
    pub agent: usize,
    /// Units of one kind alone can be the same.
    kind: String,
    pub events: Vec<&'e Value>,
    /// Where the events stand among all.
    pub places: Vec<usize>,
    /// All that is compared.
    pub form: Form,
}

/// Session and agent.
type Name = (String, String);

/// Which agents and runs of both sides are the same.
pub(super) struct Agents {
    /// A number for each agent of each session; the same for two that are one.
    numbers: HashMap<Name, usize>,
    /// The ids of runs that both sides know.
    runs: HashSet<String>,
}

/// Two agents are the same where one run, known by its id, is told of both: so runs meet in spite of sessions and names
/// that spans do not know. What no such id joins is joined by its name, and the last that are left by being the last.
pub(super) fn same_agents(official: &[Value], ours: &[Value]) -> Agents {
    let mut numbers: HashMap<Name, usize> = HashMap::new();
    for event in official.iter().chain(ours) {
        let next = numbers.len();
        numbers.entry(name(event)).or_insert(next);
    }
    let run = |event: &Value| event["fw_run_id"].as_str().map(str::to_owned);
    let own_runs: HashSet<String> = ours.iter().filter_map(run).collect();
    let runs: HashSet<String> = official.iter().filter_map(run).filter(|run| own_runs.contains(run)).collect();
    let mut agents = Agents { numbers, runs };
    for theirs in official.iter().filter(|event| run(event).is_some()) {
        for own in ours.iter().filter(|own| own["fw_run_id"] == theirs["fw_run_id"]) {
            agents.join(&name(theirs), &name(own));
        }
    }
    let (theirs, own) = (names(official), names(ours));
    for one in &theirs {
        let namesake = agents.alone(&own, &theirs).into_iter().find(|own| own.1 == one.1);
        let is_alone = !agents.alone(std::slice::from_ref(one), &own).is_empty();
        if let Some(namesake) = namesake.filter(|_| is_alone) {
            agents.join(one, &namesake);
        }
    }
    if let ([last], [last_own]) = (&agents.alone(&theirs, &own)[..], &agents.alone(&own, &theirs)[..]) {
        agents.join(last, last_own);
    }
    agents
}

impl Agents {
    fn join(&mut self, one: &Name, other: &Name) {
        let (one, other) = (self.numbers[one], self.numbers[other]);
        self.numbers.values_mut().filter(|number| **number == other).for_each(|number| *number = one);
    }

    /// Those that none of the others is the same as.
    fn alone(&self, names: &[Name], others: &[Name]) -> Vec<Name> {
        let taken: HashSet<usize> = others.iter().map(|name| self.numbers[name]).collect();
        names.iter().filter(|name| !taken.contains(&self.numbers[*name])).cloned().collect()
    }
}

/// The agents in the order of their first events.
fn names(events: &[Value]) -> Vec<Name> {
    let mut names: Vec<Name> = Vec::new();
    for name in events.iter().map(name) {
        if !names.contains(&name) {
            names.push(name);
        }
    }
    names
}

pub(super) fn units<'e>(events: &'e [Value], agents: &Agents, form: fn(&Value) -> Form) -> Vec<Unit<'e>> {
    let mut units: Vec<Unit<'e>> = Vec::new();
    // The calls of an agent and id that have no result yet; the first of them gets the next one.
    let mut open: HashMap<(Name, &str, &str), VecDeque<usize>> = HashMap::new();
    for (place, event) in events.iter().enumerate() {
        let text = |name: &str| event[name].as_str().unwrap_or_default();
        let (kind, closes) = match text("type") {
            "model_request" => (("model", text("request_id")), false),
            "model_response" => (("model", text("request_id")), true),
            "tool_use" => (("tool", text("tool_call_id")), false),
            "tool_result" => (("tool", text("tool_call_id")), true),
            "hook_triggered" => (("hook", text("hook_id")), false),
            "hook_completed" => (("hook", text("hook_id")), true),
            other => ((other, ""), false),
        };
        let key = (name(event), kind.0, kind.1);
        let started = open.get_mut(&key).filter(|_| closes).and_then(VecDeque::pop_front);
        if let Some(at) = started {
            let unit = &mut units[at];
            unit.events.push(event);
            unit.places.push(place);
            unit.form.extend(form(event));
            continue;
        }
        let agent = agents.numbers[&key.0];
        let which = match kind.0 {
            "tool" => text("tool_name"),
            "hook" => text("hook_name"),
            "agent_start" if agents.runs.contains(text("fw_run_id")) => text("fw_run_id"),
            _ => "",
        };
        // What a program said by hand, beside the framework's own.
        let by_hand = if event.get("framework").is_none() { " by hand" } else { "" };
        let kind = format!("{agent} {} {which}{by_hand}", kind.0);
        open.entry(key).or_default().push_back(units.len());
        units.push(Unit { agent, kind, events: vec![event], places: vec![place], form: form(event) });
    }
    units
}

/// Pairs, and what is left alone on each side.
type Pairs<'u, 'e> = (Vec<(&'u Unit<'e>, &'u Unit<'e>)>, Vec<&'u Unit<'e>>, Vec<&'u Unit<'e>>);

/// Pairs the units: of one kind those that have most in common, then those that are nearest in time.
pub(super) fn pair<'u, 'e>(official: &'u [Unit<'e>], ours: &'u [Unit<'e>]) -> Pairs<'u, 'e> {
    let mut kinds: BTreeMap<&str, (Vec<usize>, Vec<usize>)> = BTreeMap::new();
    for (at, unit) in official.iter().enumerate() {
        kinds.entry(&unit.kind).or_default().0.push(at);
    }
    for (at, unit) in ours.iter().enumerate() {
        kinds.entry(&unit.kind).or_default().1.push(at);
    }
    let mut partner: HashMap<usize, usize> = HashMap::new();
    let mut taken = vec![false; ours.len()];
    for (theirs, own) in kinds.values() {
        let all = theirs.iter().flat_map(|theirs| own.iter().map(|own| (*theirs, *own)));
        let mut all: Vec<_> = all.map(|(theirs, own)| (likeness(&official[theirs], &ours[own]), theirs, own)).collect();
        all.sort();
        for (_, theirs, own) in all {
            if !taken[own] && !partner.contains_key(&theirs) {
                taken[own] = true;
                partner.insert(theirs, own);
            }
        }
    }
    let mut pairs = Vec::new();
    let mut only_official = Vec::new();
    for (at, unit) in official.iter().enumerate() {
        match partner.get(&at) {
            Some(own) => pairs.push((unit, &ours[*own])),
            None => only_official.push(unit),
        }
    }
    let only_ours = ours.iter().zip(taken).filter(|(_, taken)| !taken).map(|(unit, _)| unit).collect();
    (pairs, only_official, only_ours)
}

fn likeness(one: &Unit<'_>, other: &Unit<'_>) -> (Reverse<usize>, i64) {
    let equal = one.form.iter().filter(|(name, value)| other.form.get(*name) == Some(*value)).count();
    (Reverse(equal), (time(one.events[0]) - time(other.events[0])).abs())
}

/// The time of an event in microseconds, from the start of its month.
pub(super) fn time(event: &Value) -> i64 {
    let digits = |from: usize, to: usize| -> i64 {
        event["timestamp"].as_str().and_then(|text| text.get(from..to)?.parse().ok()).expect("events have a timestamp")
    };
    (((digits(8, 10) * 24 + digits(11, 13)) * 60 + digits(14, 16)) * 60 + digits(17, 19)) * 1_000_000 + digits(20, 26)
}

fn name(event: &Value) -> Name {
    let text = |name: &str| event[name].as_str().unwrap_or_default().to_owned();
    (text("session_id"), text("agent_id"))
}
