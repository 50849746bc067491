//! The truth about recordings of all other frameworks: what a correct mapping must give, worked out from the recorded
//! programs, not from any mapper.
//!
//! `tests/fixtures/frameworks/truth.json` has, for each recording: `agents` (agent id to number of starts; `a|b` is
//! either), `outcomes` (in the order of the ends; `open`: no end, or cancelled), `model_calls`, `tokens` summed over them,
//! `tools` (name, status, call id, arguments, result), `hooks`, `errors`, `human` (stops for a person), `parents`,
//! `sessions`, `session_id`, `must_not`. null is not compared; `soft` is a judgement, `confidence` how sure the whole is.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

#[path = "support/truth.rs"]
mod truth;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use opentelemetry_failproof::otlp::file::read_file;
use opentelemetry_failproof::span::Span;
use opentelemetry_failproof::trace::{Mapping, map};
use opentelemetry_failproof::{Policy, encode};
use serde_json::Value;
use truth::{Miss, judge};

/// Facts of the truth that are wrong or that spans cannot show, each with the reason: recording, fact, why.
const EXCEPTIONS: &str = include_str!("fixtures/frameworks/exceptions.tsv");

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/frameworks")
}

fn truths() -> BTreeMap<String, Value> {
    serde_json::from_slice(&std::fs::read(folder().join("truth.json")).unwrap()).unwrap()
}

fn spans(recording: &str) -> Vec<Span<'static>> {
    let packed = std::fs::read(folder().join(format!("{recording}.spans.json.zst"))).unwrap();
    read_file(&zstd::decode_all(packed.as_slice()).unwrap()).spans
}

fn events(recording: &str) -> Vec<Value> {
    let lines = encode(map(&spans(recording), &Mapping::default()), Policy::default());
    String::from_utf8(lines).unwrap().lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// `TRUTH_ONLY=folder/scenario cargo test --test truth -- --nocapture` tells of those recordings alone, soft facts too.
#[test]
fn every_fact_of_high_confidence_holds() {
    let only = std::env::var("TRUTH_ONLY").unwrap_or_default();
    let mut exceptions: Vec<(&str, &str)> = EXCEPTIONS
        .lines()
        .skip(1)
        .filter(|row| row.contains(&only))
        .map(|row| {
            let mut columns = row.splitn(3, '\t');
            let key = (columns.next().unwrap(), columns.next().unwrap());
            assert!(columns.next().is_some_and(|why| !why.trim().is_empty()), "{row} has a reason");
            key
        })
        .collect();
    let mut totals: BTreeMap<String, (usize, usize)> = BTreeMap::new();
    let mut broken = Vec::new();
    for (name, truth) in truths().iter().filter(|(name, _)| name.contains(&only)) {
        let verdict = judge(truth, &events(name));
        let total = totals.entry(name.split('/').next().unwrap().to_owned()).or_default();
        total.0 += verdict.checked - verdict.misses.len();
        total.1 += verdict.checked;
        let is_sure = truth["confidence"] == "high";
        for Miss { fact, expected, got } in &verdict.misses {
            let miss = format!("{name} {fact}: expected {expected}, got {got}");
            match exceptions.iter().position(|exception| *exception == (name, fact)) {
                Some(at) => drop(exceptions.remove(at)),
                None if is_sure => broken.push(miss),
                None => println!("not sure: {miss}"),
            }
        }
        if !only.is_empty() {
            for Miss { fact, expected, got } in &verdict.soft_misses {
                println!("soft: {name} {fact}: expected {expected}, got {got}");
            }
        }
    }
    for (folder, (held, checked)) in &totals {
        println!("{folder}: {held}/{checked}");
    }
    let (held, checked) = totals.values().fold((0, 0), |sum, total| (sum.0 + total.0, sum.1 + total.1));
    println!("all: {held}/{checked}");
    assert!(broken.is_empty(), "{} facts do not hold:\n{}", broken.len(), broken.join("\n"));
    assert!(exceptions.is_empty(), "these hold now, take them out of exceptions.tsv: {exceptions:?}");
}
