//! Our events beside those of the official adapter for the same run, field by field.

pub mod differences;
mod form;
mod framework_form;
mod units;

use std::collections::BTreeMap;
use std::fmt::{self, Display, Formatter};

use serde_json::Value;

use super::recorded::Recording;
use units::{Unit, pair, units};

/// Durations of calls that came to their end by themselves.
pub const DURATION: &str = "duration_ms";
/// Durations of calls that an exception ended: their spans end once its traceback is written, which the adapter does not
/// wait for.
pub const RAISED_DURATION: &str = "duration_ms of a call that raised";
/// How far apart durations may be, in milliseconds.
const DURATION_MS: i64 = 5;
/// How far apart times may be, in microseconds.
const TIME_US: i64 = 25_000;

/// All comparisons, by field.
#[derive(Default)]
pub struct Report(pub BTreeMap<String, Vec<Comparison>>);

/// Two values that should be alike.
pub struct Comparison {
    pub recording: &'static Recording,
    /// Both values, if they differ.
    pub difference: Option<String>,
}

impl Report {
    fn note(&mut self, field: &str, recording: &'static Recording, equal: bool, both: impl FnOnce() -> String) {
        let difference = (!equal).then(both);
        self.0.entry(field.to_owned()).or_default().push(Comparison { recording, difference });
    }

    /// How many are equal, and how many were compared, in the recordings that `counts` names.
    pub fn tally(&self, field: &str, counts: impl Fn(&Recording) -> bool) -> (usize, usize) {
        let counted = self.0.get(field).into_iter().flatten().filter(|comparison| counts(comparison.recording));
        let (equal, differing): (Vec<_>, Vec<_>) = counted.partition(|comparison| comparison.difference.is_none());
        (equal.len(), equal.len() + differing.len())
    }

    /// Takes over what another way of mapping gave for one field.
    pub fn take(&mut self, other: &mut Report, field: &str, renamed: &str) {
        if let Some(comparisons) = other.0.remove(field) {
            self.0.insert(renamed.to_owned(), comparisons);
        }
    }
}

/// How many of each field are equal: a table.
impl Display for Report {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        writeln!(f, "{:40} {:>13} {:>20}", "field", "equal/all", "where content is on")?;
        for field in self.0.keys() {
            let (equal, all) = self.tally(field, |_| true);
            let (equal_on, all_on) = self.tally(field, Recording::has_content);
            writeln!(f, "{field:40} {equal:>6}/{all:<6} {equal_on:>6}/{all_on:<6}")?;
        }
        Ok(())
    }
}

/// Compares the events of one recording.
pub fn compare(recording: &'static Recording, ours: &[Value], report: &mut Report) {
    let official = &recording.official;
    let agents = units::same_agents(official, ours);
    let forms = form::forms(official);
    let official = units(official, &agents, forms.official);
    let ours = units(ours, &agents, forms.ours);
    let (pairs, only_official, only_ours) = pair(&official, &ours);
    for (whose, alone) in [("official", only_official), ("ours", only_ours)] {
        for event in alone.iter().flat_map(|unit| &unit.events) {
            report.note(&field(event, "present"), recording, false, || format!("only {whose}: {event}"));
        }
    }
    for (theirs, own) in &pairs {
        compare_units(recording, theirs, own, report);
    }
    compare_order(recording, &pairs, report);
}

fn compare_units(recording: &'static Recording, theirs: &Unit<'_>, own: &Unit<'_>, report: &mut Report) {
    let mut names: Vec<&String> = theirs.form.keys().chain(own.form.keys()).collect();
    names.sort();
    names.dedup();
    for name in names {
        let (theirs, own) = (theirs.form.get(name), own.form.get(name));
        let text = |value: Option<&Value>| value.map_or("nothing".to_owned(), Value::to_string);
        report.note(name, recording, theirs == own, || format!("official {}, ours {}", text(theirs), text(own)));
    }
    let count = theirs.events.len().max(own.events.len());
    for at in 0..count {
        match (theirs.events.get(at), own.events.get(at)) {
            (Some(theirs), Some(own)) => compare_events(recording, theirs, own, report),
            (theirs, own) => {
                let alone = theirs.or(own).expect("one of them is there");
                report.note(&field(alone, "present"), recording, false, || format!("one side only: {alone}"));
            }
        }
    }
}

/// What is alike in two events though it is never the same: times, and what each says of itself.
fn compare_events(recording: &'static Recording, theirs: &Value, own: &Value, report: &mut Report) {
    report.note(&field(theirs, "present"), recording, true, String::new);
    let raised = own.get("error").is_some() || own.get("fw_control_flow").is_some();
    match (theirs["duration_ms"].as_i64(), own["duration_ms"].as_i64()) {
        (None, None) => {}
        (Some(theirs), Some(own)) => {
            let field = if raised { RAISED_DURATION } else { DURATION };
            let near = (theirs - own).abs() <= DURATION_MS;
            report.note(field, recording, near, || format!("official {theirs}, ours {own}"));
        }
        (theirs, own) => {
            report.note("duration_ms known", recording, false, || format!("official {theirs:?}, ours {own:?}"));
        }
    }
    let apart = units::time(own) - units::time(theirs);
    report.note("timestamp", recording, apart.abs() <= TIME_US, || format!("ours is {apart} µs later"));
}

/// The order of the events of each agent.
fn compare_order(recording: &'static Recording, pairs: &[(&Unit<'_>, &Unit<'_>)], report: &mut Report) {
    let mut agents: BTreeMap<usize, Vec<(usize, usize, &str)>> = BTreeMap::new();
    for (theirs, own) in pairs {
        for at in 0..theirs.events.len().min(own.events.len()) {
            let kind = theirs.events[at]["type"].as_str().unwrap_or_default();
            agents.entry(theirs.agent).or_default().push((theirs.places[at], own.places[at], kind));
        }
    }
    for events in agents.values_mut() {
        let kinds =
            |events: &[(usize, usize, &str)]| events.iter().map(|(.., kind)| *kind).collect::<Vec<_>>().join(" ");
        events.sort_by_key(|(theirs, ..)| *theirs);
        let theirs = kinds(events);
        events.sort_by_key(|(_, own, _)| *own);
        let own = kinds(events);
        report.note("order of types", recording, theirs == own, || format!("official {theirs}, ours {own}"));
    }
}

fn field(event: &Value, name: &str) -> String {
    format!("{}.{name}", event["type"].as_str().unwrap_or_default())
}
