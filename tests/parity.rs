//! Parity with the official adapter on recordings of the same runs.
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod support;

use std::path::PathBuf;

use opentelemetry_failproof::Policy;
use opentelemetry_failproof::trace::Mapping;
use support::parity::{Report, compare};

#[test]
fn survey() {
    let root = PathBuf::from(std::env::var("PARITY_DIR").unwrap());
    let only = std::env::var("PARITY_ONLY").ok();
    let label_filter = std::env::var("PARITY_LABELS").ok();
    let mut report = Report::default();
    for scenario in std::fs::read_dir(root).unwrap() {
        let scenario = scenario.unwrap().path();
        for label in std::fs::read_dir(&scenario).unwrap() {
            let label = label.unwrap().path();
            let name = format!(
                "{}/{}",
                scenario.file_name().unwrap().to_str().unwrap(),
                label.file_name().unwrap().to_str().unwrap()
            );
            if only.as_ref().is_some_and(|only| !name.contains(only.as_str())) {
                continue;
            }
            if label_filter.as_ref().is_some_and(|only| !only.split(',').any(|l| name.ends_with(&format!("/{l}")))) {
                continue;
            }
            let Ok(spans) = std::fs::read(label.join("spans.otlp.json")) else { continue };
            let spans = support::spans_of(&spans);
            let policy = Policy { capture_content: !name.ends_with("-nocontent"), ..Policy::default() };
            let ours = support::events(&spans, &Mapping::default(), policy);
            if only.is_some() {
                for e in &ours {
                    println!("{e}");
                }
            }
            let official = support::parse_lines(&std::fs::read_to_string(label.join("events.jsonl")).unwrap());
            compare(&name, &official, &ours, &mut report);
        }
    }
    for (field, tally) in &report.0 {
        println!("{field}: {}/{}", tally.equal, tally.compared);
        for (recording, difference) in
            tally.differences.iter().take(std::env::var("PARITY_N").ok().and_then(|n| n.parse().ok()).unwrap_or(4))
        {
            println!("      {recording}: {}", difference.chars().take(330).collect::<String>());
        }
    }
}
