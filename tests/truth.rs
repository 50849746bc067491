//! The truth about recordings of other frameworks.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

#[path = "support/truth.rs"]
mod truth;

use std::collections::BTreeMap;
use std::path::PathBuf;

use opentelemetry_failproof::otlp::file::read_file;
use opentelemetry_failproof::trace::{Mapping, map};
use opentelemetry_failproof::{Policy, encode};
use serde_json::Value;

#[test]
#[ignore = "a survey over recordings outside the repository: TRUTH_DIR names them"]
fn survey() {
    let root = PathBuf::from(std::env::var("TRUTH_DIR").unwrap());
    let only = std::env::var("TRUTH_ONLY").unwrap_or_default();
    let truths: BTreeMap<String, Value> =
        serde_json::from_slice(&std::fs::read(root.join("truth.json")).unwrap()).unwrap();
    let mut totals: BTreeMap<String, (usize, usize)> = BTreeMap::new();
    for (name, truth) in truths.iter().filter(|(name, _)| name.contains(&only)) {
        let contents = read_file(&std::fs::read(root.join(format!("{name}.otlp.json"))).unwrap());
        let lines = encode(map(&contents.spans, &Mapping::default()), Policy::default());
        let events: Vec<Value> =
            String::from_utf8(lines).unwrap().lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        let verdict = truth::judge(truth, &events);
        let total = totals.entry(name.split('/').next().unwrap().to_owned()).or_default();
        total.0 += verdict.checked - verdict.misses.len();
        total.1 += verdict.checked;
        if !only.is_empty() {
            for (word, misses) in [("MISS", &verdict.misses), ("soft", &verdict.soft_misses)] {
                for miss in misses {
                    let cut = |text: &str| text.chars().take(400).collect::<String>();
                    println!("{word} {name} {}: expected {}, got {}", miss.fact, cut(&miss.expected), cut(&miss.got));
                }
            }
        }
    }
    for (folder, (held, checked)) in &totals {
        println!("{folder}: {held}/{checked}");
    }
    let sum = totals.values().fold((0, 0), |sum, total| (sum.0 + total.0, sum.1 + total.1));
    println!("all: {}/{}", sum.0, sum.1);
}
