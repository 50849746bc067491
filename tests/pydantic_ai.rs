//! The rules of errors, control flow and cancellation on recorded Pydantic AI programs, one sentence each.
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod support;

use serde_json::Value;
use support::recorded::{Recording, recording, recordings, scenario};

fn of_type<'e>(events: &'e [Value], kind: &str) -> Vec<&'e Value> {
    events.iter().filter(|event| event["type"] == kind).collect()
}

fn outcomes(events: &[Value]) -> Vec<&str> {
    of_type(events, "agent_end").into_iter().map(|end| end["outcome"].as_str().unwrap()).collect()
}

/// The span of a run that no agent is around.
fn root_run(recording: &Recording) -> Value {
    let spans = support::otlp_spans(&recording.json);
    let is_root = |span: &&Value| span["parentSpanId"].as_str().unwrap_or_default().is_empty();
    spans.iter().find(is_root).expect("a run has a span").clone()
}

#[test]
fn a_value_error_in_a_tool_is_told_by_the_tool_then_once_by_its_run_which_failed() {
    for recording in ["d_tool_valueerror", "d_tool_valueerror_deep"].into_iter().flat_map(scenario) {
        let events = recording.events();
        let told = of_type(&events, "tool_result")[0]["error"].as_str().unwrap();
        assert!(told.starts_with("ValueError"), "{told}");
        let [.., error, end] = &events[..] else { panic!("a run has events") };
        assert_eq!(of_type(&events, "error"), [error], "{}", recording.name());
        assert_eq!((&error["error_type"], &end["outcome"]), (&"ValueError".into(), &"failed".into()));
        assert_eq!(end["type"], "agent_end");
        if recording.has_content() {
            assert_eq!(told, format!("ValueError: {}", error["message"].as_str().unwrap()));
            let traceback = error["traceback"].as_str().unwrap();
            assert!(traceback.trim_end().ends_with(&format!("\n{told}")), "{traceback}");
        }
    }
}

#[test]
fn no_traceback_is_longer_than_the_limit_and_each_keeps_its_end() {
    let mut cut = 0;
    for recording in recordings() {
        for error in of_type(&recording.events(), "error") {
            let Some(traceback) = error["traceback"].as_str() else { continue };
            assert!(traceback.chars().count() <= 8_192, "{}", recording.name());
            let kept = traceback.strip_prefix("[older frames truncated]…\n");
            cut += usize::from(kept.is_some());
            let spans = support::otlp_spans(&recording.json);
            let span = spans.iter().find(|span| span["spanId"] == error["fw_span_id"]).unwrap();
            let whole = support::attribute(span["events"].as_array().unwrap().last().unwrap(), "exception.stacktrace");
            assert!(whole.as_str().unwrap().ends_with(kept.unwrap_or(traceback)), "{}", recording.name());
        }
    }
    assert!(cut > 0, "some were cut");
}

#[test]
fn a_model_retry_is_the_tools_error_and_none_of_the_run_that_goes_on() {
    for recording in ["c_inventory", "g_modelretry_twice_then_ok"].into_iter().flat_map(scenario) {
        let events = recording.events();
        let told = of_type(&events, "tool_result").into_iter().filter_map(|result| result["error"].as_str());
        let told: Vec<&str> = told.collect();
        assert!(!told.is_empty() && told.iter().all(|told| told.starts_with("ToolRetryError")), "{told:?}");
        assert_eq!((outcomes(&events), of_type(&events, "error").len()), (vec!["success"], 0), "{}", recording.name());
    }
}

#[test]
fn control_flow_is_no_error_anywhere_whatever_the_status_says() {
    let scenarios = [
        "f_approval_required",
        "f_approval_required_inline_raise",
        "f_call_deferred",
        "f_call_deferred_no_metadata",
        "f_deferred_handled_inline",
        "f_skip_model_request",
        "f_skip_model_request_with_tool",
        "f_skip_tool_execution",
        "f_skip_tool_execution_none",
        "f_skip_tool_validation",
    ];
    let mut spans_with_error = 0;
    for recording in scenarios.into_iter().flat_map(scenario) {
        let spans = support::otlp_spans(&recording.json);
        spans_with_error += spans.iter().filter(|span| span["status"]["code"] == 2).count();
        let events = recording.events();
        assert!(outcomes(&events).iter().all(|outcome| *outcome == "success"), "{}", recording.name());
        for event in &events {
            assert!(event["type"] != "error" && event.get("error").is_none(), "{}: {event}", recording.name());
        }
    }
    assert!(spans_with_error > 0, "some of their spans claim an error");
}

#[test]
fn a_call_that_was_put_off_names_what_put_it_off() {
    let named = |name: &str, kind: &str| -> Vec<String> {
        let of_recording =
            |recording: &Recording| of_type(&recording.events(), kind).into_iter().map(named_by).collect::<Vec<_>>();
        scenario(name).flat_map(of_recording).flatten().collect()
    };
    fn named_by(event: &Value) -> Option<String> {
        event["fw_control_flow"].as_str().map(str::to_owned)
    }
    let cases = [
        ("f_approval_required", "tool_result", "ApprovalRequired"),
        ("f_call_deferred", "tool_result", "CallDeferred"),
        ("f_skip_model_request", "model_response", "SkipModelRequest"),
    ];
    for (name, kind, expected) in cases {
        let named = named(name, kind);
        assert!(named.len() >= scenario(name).count(), "{name} says it under every label");
        assert!(named.iter().all(|named| named == expected), "{named:?}");
    }
}

#[test]
fn a_cancelled_run_is_cancelled_and_the_calls_that_were_open_are_incomplete() {
    for (name, open) in [("l_cancel_tool", "tool_result"), ("l_cancel_model", "model_response")] {
        for recording in scenario(name) {
            let events = recording.events();
            assert_eq!((outcomes(&events), of_type(&events, "error").len()), (vec!["cancelled"], 0), "{name}");
            let last = of_type(&events, open).pop().unwrap();
            assert_eq!(last["fw_incomplete"], true, "{}", recording.name());
            assert!(last.get("error").is_none(), "{last}");
        }
    }
}

#[test]
fn without_content_a_run_that_answered_is_a_success_and_a_cancelled_one_is_not() {
    let cases = [
        ("c_inventory", "success"),
        ("b_output_function", "success"),
        ("b_typed_output", "success"),
        ("f_skip_model_request", "success"),
        ("l_cancel_model", "cancelled"),
        ("l_cancel_tool", "cancelled"),
        ("l_sibling_cancelled", "failed"),
    ];
    for (name, expected) in cases {
        assert_eq!(outcomes(&recording(name, "v5-nocontent").events()), [expected], "{name}");
    }
}

#[test]
fn pending_copies_of_logfire_are_never_events_of_their_own() {
    for name in ["c_inventory", "i_nested", "l_cancel_model", "f_call_deferred"] {
        let (plain, pending) = (recording(name, "logfire"), recording(name, "logfire-pending"));
        let spans = |recording: &Recording| support::otlp_spans(&recording.json).len();
        assert!(spans(pending) > spans(plain), "{name} has copies");
        let kinds = |recording: &Recording| {
            recording.events().iter().map(|event| event["type"].to_string()).collect::<Vec<_>>()
        };
        assert_eq!(kinds(pending), kinds(plain), "{name}");
    }
}

#[test]
fn an_ok_that_openinference_forced_is_no_proof_of_success() {
    for name in ["l_cancel_tool", "l_cancel_model"] {
        let recording = recording(name, "openinference");
        assert_eq!(root_run(recording)["status"]["code"], 1, "{name} claims to be fine");
        assert_eq!(outcomes(&recording.events()), ["cancelled"], "{name}");
    }
}
