//! Parity with the official adapters of LangGraph, CrewAI and LlamaIndex on recordings of the same runs, through each of
//! the instrumentations that write their spans.
//!
//! What differs is listed with its cause in `tests/fixtures/frameworks/differences.tsv`. To see all of it:
//! `cargo test --test framework_parity -- --nocapture`; `PARITY_ONLY=langgraph-openinference/interrupt` shows one
//! recording's.
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod support;

use std::sync::LazyLock;

use support::parity::differences::differences_in;
use support::parity::{Report, compare};
use support::recorded::{Recording, of_frameworks};

static REPORT: LazyLock<Report> = LazyLock::new(|| {
    let mut report = Report::default();
    compared().for_each(|recording| compare(recording, &recording.events(), &mut report));
    report
});

fn compared() -> impl Iterator<Item = &'static Recording> {
    let only = std::env::var("PARITY_ONLY").unwrap_or_default();
    let all = of_frameworks().iter().filter(|recording| !recording.official.is_empty());
    all.filter(move |recording| recording.name().contains(&only))
}

#[test]
fn every_difference_has_a_cause_and_every_cause_a_difference() {
    REPORT.assert_explained(&differences_in("frameworks"));
}

/// What has to agree wherever the spans hold it: a way of writing or of measuring is no excuse here.
#[test]
fn what_happened_differs_for_a_reason_of_substance_alone() {
    let strict = [
        "agent_id",
        "agent_start.present",
        "agent_start.parent_id",
        "agent_end.present",
        "agent_end.outcome",
        "hook_triggered.present",
        "hook_triggered.hook_name",
        "hook_triggered.trigger_event",
        "hook_completed.outcome",
        "hook_completed.error",
        "model_request.present",
        "model_request.model",
        "model_response.input_tokens",
        "model_response.output_tokens",
        "model_response.stop_reason",
        "tool_use.present",
        "tool_use.tool_name",
        "tool_use.tool_call_id",
        "tool_result.error",
        "tool_result.output",
        "human_wait.present",
        "agent_pause.present",
        "order of types",
    ];
    for row in differences_in("frameworks").iter().filter(|row| strict.contains(&row.field.as_str())) {
        assert!(!["timing", "python rendering"].contains(&row.kind.as_str()), "{}: {}", row.field, row.kind);
    }
    for field in strict {
        assert!(REPORT.tally(field, |_| true).1 > 0, "{field} is compared");
    }
}

#[test]
fn every_framework_is_compared_through_each_of_its_instrumentations() {
    for folder in [
        "crewai-openinference",
        "crewai-openinference_events",
        "crewai-openllmetry",
        "langgraph-langsmith",
        "langgraph-openinference",
        "langgraph-openllmetry",
        "langgraph-otelgenai",
        "llamaindex-native",
        "llamaindex-openinference",
        "llamaindex-openllmetry",
    ] {
        let (equal, all) = REPORT.tally("agent_start.present", |recording| recording.scenario == folder);
        println!("{folder}: {equal} of {all} runs are told by both");
        assert!(equal > 0, "{folder} has runs that both tell");
    }
}
