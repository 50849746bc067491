//! What holds for the recordings of all other frameworks: the contract, and the same bytes in whatever order, split and
//! repetition their spans come.
#![allow(clippy::unwrap_used, clippy::expect_used)]

#[path = "support/recordings.rs"]
mod recordings;
mod support;

use opentelemetry_failproof::Policy;
use opentelemetry_failproof::span::Span;
use opentelemetry_failproof::trace::Mapping;
use recordings::{in_requests, request_of, shaken};
use support::recorded::of_frameworks;

fn lines(spans: &[Span<'_>]) -> String {
    support::lines(spans, &Mapping::default(), Policy::default())
}

#[test]
fn any_order_and_any_repetition_of_a_recording_gives_the_same_bytes() {
    for recording in of_frameworks() {
        let spans = recording.spans();
        for seed in 0..8 {
            assert_eq!(lines(&shaken(&spans, seed)), recording.lines(), "{}, seed {seed}", recording.name());
        }
    }
}

#[test]
fn any_split_of_a_recording_into_requests_of_any_form_gives_the_same_bytes() {
    for recording in of_frameworks() {
        let request = request_of(&recording.json);
        for seed in 0..4 {
            assert_eq!(lines(&in_requests(&request, seed)), recording.lines(), "{}, seed {seed}", recording.name());
        }
    }
}

#[test]
fn all_events_keep_the_contract() {
    let broken: Vec<String> = of_frameworks()
        .iter()
        .filter_map(|recording| {
            let why = support::contract::check(recording.lines()).err()?;
            Some(format!("{}: {why}", recording.name()))
        })
        .collect();
    assert!(broken.is_empty(), "{} break it:\n{}", broken.len(), broken.join("\n"));
}

/// All recordings in one file, as a Collector of a whole team would write it.
#[test]
fn recordings_in_one_file_change_nothing_of_each_other() {
    let all: Vec<_> = of_frameworks().iter().flat_map(support::recorded::Recording::spans).collect();
    let sorted = |lines: &str| {
        let mut lines: Vec<String> = lines.lines().map(str::to_owned).collect();
        lines.sort();
        lines
    };
    let apart: String = of_frameworks().iter().map(support::recorded::Recording::lines).collect();
    assert_eq!(sorted(&lines(&all)), sorted(&apart));
}
