//! Parity with the official adapter on recordings of the same runs: every field of every event.
//!
//! What differs is listed with its cause in `tests/fixtures/parity/differences.tsv`. To see all of it:
//! `cargo test --test parity -- --nocapture`; `PARITY_ONLY=c_inventory/v5` shows one recording's.
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod support;

use std::sync::LazyLock;

use opentelemetry_failproof::trace::{ErrorEvents, Mapping};
use serde_json::Value;
use support::parity::differences::differences;
use support::parity::{DURATION, RAISED_DURATION, Report, compare};
use support::recorded::{Recording, recordings};

/// The comparison with what the default gives, and with the errors that `UnlessLeaf` gives.
static REPORT: LazyLock<Report> = LazyLock::new(|| {
    let only = std::env::var("PARITY_ONLY").unwrap_or_default();
    let (mut report, mut like_adapter) = (Report::default(), Report::default());
    let unless_leaf = Mapping { error_events: ErrorEvents::UnlessLeaf, ..Mapping::default() };
    for recording in recordings().iter().filter(|recording| recording.name().contains(&only)) {
        compare(recording, &recording.events(), &mut report);
        compare(recording, &support::parse_lines(&recording.mapped(&unless_leaf)), &mut like_adapter);
    }
    for name in ["present", "error_type", "message"] {
        report.take(&mut like_adapter, &format!("error.{name}"), &format!("error.{name}, unless-leaf"));
    }
    report
});

#[test]
fn every_difference_has_a_cause_and_every_cause_a_difference() {
    REPORT.assert_explained(&differences());
}

/// What has to agree wherever the spans hold it: a way of writing or of measuring is no excuse here.
#[test]
fn what_happened_differs_for_a_reason_of_substance_alone() {
    let strict = [
        "agent_id",
        "agent_start.present",
        "agent_end.present",
        "agent_end.outcome",
        "agent_start.parent_id",
        "model_request.model",
        "model_response.model",
        "model_response.input_tokens",
        "model_response.output_tokens",
        "model_response.stop_reason",
        "model_response.error",
        "tool_use.tool_name",
        "tool_use.tool_call_id",
        "tool_result.tool_call_id",
        "tool_result.error",
        "agent_start.fw_run_id",
        "error.error_type",
        "error.message",
        "error.present, unless-leaf",
        "error.error_type, unless-leaf",
        "error.message, unless-leaf",
    ];
    for row in differences().iter().filter(|row| strict.contains(&row.field.as_str())) {
        assert!(!["timing", "python rendering"].contains(&row.kind.as_str()), "{}: {}", row.field, row.kind);
    }
    for field in strict {
        assert!(REPORT.tally(field, |_| true).1 > 0, "{field} is compared");
    }
}

/// Goals, inputs and outputs are compared where the spans were to hold content. A call that raised is not among the
/// durations: its span ends once the traceback is written, 6 to 20 ms later than the adapter looked at its clock on the
/// recorder's machine, so that about half of them are further apart than 5 ms; they keep a bar of their own.
#[test]
fn goals_inputs_outputs_and_durations_agree_as_often_as_they_must() {
    let bars = [
        ("agent_start.goal", 93.0),
        ("tool_use.input", 93.0),
        ("tool_result.output", 87.0),
        ("model_request.messages", 87.0),
        ("model_response.content", 97.0),
        ("agent_end.summary", 86.0),
        (DURATION, 95.0),
        (RAISED_DURATION, 50.0),
        ("timestamp", 99.0),
        ("order of types", 99.0),
    ];
    for (field, bar) in bars {
        let (equal, compared) = REPORT.tally(field, Recording::has_content);
        let percent = 100.0 * equal as f64 / compared as f64;
        println!("{field}: {percent:.1} % of {compared}");
        assert!(percent >= bar, "{field}: {percent:.1} % are equal, {bar} % must be");
    }
}

/// Difference 1: a run that an exception ends says so, whoever else did; one exception is told once.
#[test]
fn every_failed_run_tells_its_error_right_before_its_end_unless_a_run_within_told_it() {
    for recording in recordings() {
        let events = recording.events();
        let exceptions = exceptions_of_runs(recording);
        let mut told = 0;
        for (at, end) in events.iter().enumerate() {
            if end["type"] != "agent_end" || end["outcome"] != "failed" {
                continue;
            }
            let before = &events[at - 1];
            if before["type"] == "error" && before["fw_span_id"] == end["fw_span_id"] {
                told += 1;
                continue;
            }
            let (_, error_type, message) = exceptions.iter().find(|(span, ..)| end["fw_span_id"] == **span).unwrap();
            let told_within = events[..at].iter().any(|error| {
                let same_session = error["session_id"] == end["session_id"];
                let same = error["error_type"] == **error_type && error["message"] == **message;
                error["type"] == "error" && same_session && same
            });
            assert!(told_within, "{}: {end} has its error", recording.name());
        }
        let errors = events.iter().filter(|event| event["type"] == "error").count();
        assert_eq!(errors, told, "{}: an error stands before the end of its run and nowhere else", recording.name());
    }
}

/// Span, class and message of what ended the runs that failed.
fn exceptions_of_runs(recording: &Recording) -> Vec<(String, String, String)> {
    let spans = support::otlp_spans(&recording.json);
    let failed = spans.iter().filter(|span| span["status"]["code"] == 2);
    let exception = |span: &Value| {
        let event = span["events"].as_array()?.iter().rfind(|event| event["name"] == "exception")?;
        let text = |name| support::attribute(event, name).as_str().unwrap_or_default().to_owned();
        let class = text("exception.type").rsplit('.').next()?.to_owned();
        Some((span["spanId"].as_str()?.to_owned(), class, text("exception.message")))
    };
    failed.filter_map(exception).collect()
}

/// The official adapter says `dev` whatever the resource says.
#[test]
fn the_environment_is_that_of_the_resource() {
    for recording in recordings() {
        let request: Value = serde_json::from_str(&recording.json).unwrap();
        let resource = &request["resourceSpans"][0]["resource"];
        let expected = support::attribute(resource, "deployment.environment.name").as_str().unwrap_or("dev").to_owned();
        for event in recording.events() {
            assert_eq!(event["environment"], *expected, "{}", recording.name());
        }
    }
}

#[test]
fn all_events_keep_the_contract() {
    for recording in recordings() {
        let checked = support::contract::check(recording.lines());
        assert_eq!(checked, Ok(()), "{}", recording.name());
    }
}

#[test]
fn the_check_of_the_contract_sees_what_breaks_it() {
    let lines = support::recorded::recording("i_nested", "v5").lines();
    let without = |kind: &str| {
        let kept = lines.lines().filter(|line| !line.contains(&format!(r#""type":"{kind}""#)));
        kept.map(|line| format!("{line}\n")).collect::<String>()
    };
    let broken = [
        ("an open end", without("model_response")),
        ("an end without a start", without("tool_use")),
        ("an endless run", without("agent_end")),
        ("a run that never started", without("agent_start")),
        ("no newline", lines.trim_end().to_owned()),
        ("spaces", lines.replacen("\":", "\": ", 1)),
        ("a null", lines.replacen(r#""outcome":"success""#, r#""outcome":null"#, 1)),
        ("a word that is none", lines.replacen(r#""outcome":"success""#, r#""outcome":"failure""#, 1)),
        ("a blank id", lines.replacen(r#""tool_name":""#, r#""tool_name":" ","x":""#, 1)),
        ("an environment with a comma", lines.replace(r#""environment":""#, r#""environment":"a,"#)),
        ("a float", lines.replacen(r#""duration_ms":"#, r#""duration_ms":0."#, 1)),
        ("too many tokens", lines.replacen(r#""input_tokens":"#, r#""input_tokens":99999999999"#, 1)),
        ("an extra of the wrong name", lines.replacen(r#""fw_run_id""#, r#""run_id""#, 1)),
        ("a parent that is none", lines.replacen(r#""parent_id":""#, r#""parent_id":"x"#, 1)),
        ("two requests of one id", format!("{lines}{lines}")),
    ];
    for (what, broken) in broken {
        assert_ne!(broken, lines, "{what} is a change");
        assert!(support::contract::check(&broken).is_err(), "{what}");
    }
}
