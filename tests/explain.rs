//! `explain` on every recording: a dialect and a rule for every span of a known agent framework.
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod support;

use std::collections::{BTreeMap, BTreeSet};

use opentelemetry_failproof::Policy;
use opentelemetry_failproof::trace::{Explained, Mapping, explain};
use support::recorded::{Recording, of_frameworks, recordings};

/// Scopes that are no agent framework's, each with the reason: their spans may stay unexplained.
const NOISE: [(&str, &str); 2] = [
    ("my.app", "the program's own span around the run, as a web server writes it"),
    ("rig-app", "the program's own span around the run, as a web server writes it"),
];

fn all() -> impl Iterator<Item = &'static Recording> {
    recordings().iter().chain(of_frameworks())
}

fn explained(recording: &Recording) -> Vec<Explained> {
    explain(&recording.spans(), &Mapping::default())
}

#[test]
fn no_span_of_a_known_agent_framework_is_left_unexplained() {
    let mut unexplained: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    let mut noise: BTreeSet<String> = BTreeSet::new();
    let (mut spans, mut silent) = (0, 0);
    for recording in all() {
        for span in explained(recording) {
            assert!(!span.why.trim().is_empty(), "{}: {span:?} has a rule", recording.name());
            assert_eq!(
                span.dialect.is_none(),
                span.why.starts_with("no agent framework"),
                "{}: {span:?}",
                recording.name()
            );
            spans += 1;
            if span.dialect.is_some() {
                continue;
            }
            silent += 1;
            assert!(span.events.is_empty(), "{}: {span:?} gives nothing", recording.name());
            if NOISE.iter().any(|(scope, _)| *scope == span.scope) {
                noise.insert(span.scope);
            } else {
                unexplained.entry(span.scope).or_default().insert(format!("{}: {}", recording.name(), span.name));
            }
        }
    }
    println!("{spans} spans, {silent} of them of no dialect");
    assert!(unexplained.is_empty(), "spans that no dialect knows, by scope: {unexplained:#?}");
    let stale: Vec<_> = NOISE.iter().filter(|(scope, _)| !noise.contains(*scope)).collect();
    assert!(stale.is_empty(), "no recording has such noise, or a dialect reads it: {stale:?}");
}

#[test]
fn every_event_is_that_of_an_explained_span_which_says_where_it_belongs() {
    for recording in all() {
        let explained = explained(recording);
        let told: usize = explained.iter().map(|span| span.events.len()).sum();
        // An agent that was made for calls that none encloses has no span that could tell of it.
        let has_span = !recording.lines().contains("\"fw_synthetic\":true");
        let lines = support::lines(&recording.spans(), &Mapping::default(), Policy::default());
        assert!(if has_span { told == lines.lines().count() } else { told > 0 }, "{}: {told}", recording.name());
        for span in explained.iter().filter(|span| !span.events.is_empty()) {
            let (agent, session) = span.belongs_to.as_ref().unwrap();
            assert!(!agent.is_empty() && !session.is_empty(), "{}: {span:?}", recording.name());
        }
    }
}
