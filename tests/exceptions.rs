//! The four classes of exceptions, from spans to events: spans of Pydantic AI and of the plain GenAI conventions.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod support;

use opentelemetry_failproof::Config;
use opentelemetry_failproof::exception::Class;
use opentelemetry_failproof::span::{Span, StatusCode};
use serde_json::json;
use support::spans::*;

/// An agent with a model call and a tool call, changed by these.
fn run(
    dress: Dress,
    run: impl Fn(Span<'static>) -> Span<'static>,
    tool_call: impl Fn(Span<'static>) -> Span<'static>,
) -> Vec<String> {
    let spans = [
        dress(run(agent(1, "a"))),
        dress(model(2, "m").under(1).between(2, 10)),
        dress(tool_call(tool(3, "t").under(1).between(20, 30))),
    ];
    story_of(&spans)
}

fn around(tool_result: &str, end: &[&str]) -> Vec<String> {
    let calls = ["agent_start a", "model_request a", "model_response a", "tool_use a t", tool_result];
    calls.iter().chain(end).map(|line| (*line).to_owned()).collect()
}

/// The spellings of a class in `exception.type`.
fn spellings(module: &str, name: &str) -> Vec<String> {
    vec![
        name.to_owned(),
        format!("{module}.{name}"),
        format!("<class '{module}.{name}'>"),
        format!(" {module}.{name}\n"),
    ]
}

const TOOL_FAILURES: [&str; 4] = ["ModelRetry", "ToolRetryError", "ToolFailedError", "ToolFailed"];
const CONTROL_FLOW: [&str; 5] =
    ["SkipToolExecution", "SkipToolValidation", "SkipModelRequest", "CallDeferred", "ApprovalRequired"];
const CANCELLATIONS: [(&str, &str); 4] = [
    ("asyncio.exceptions", "CancelledError"),
    ("concurrent.futures._base", "CancelledError"),
    ("asyncio", "CancelledError"),
    ("builtins", "GeneratorExit"),
];

#[test]
fn a_failed_tool_is_an_error_of_its_result_alone() {
    for (dress, name) in DIALECTS.into_iter().flat_map(|dress| TOOL_FAILURES.map(|name| (dress, name))) {
        for spelled in spellings("pydantic_ai.exceptions", name) {
            let told = run(dress, same, |tool| tool.raises(&spelled, "no such item"));
            assert_eq!(
                told,
                around(&format!("tool_result a t {name}: no such item"), &["agent_end a success"]),
                "{spelled}"
            );
        }
    }
}

#[test]
fn a_failed_tool_without_a_text_is_told_by_its_class_alone() {
    let told = run(pydantic_ai, same, |tool| tool.raises("pydantic_ai.exceptions.ModelRetry", ""));
    assert_eq!(told, around("tool_result a t ModelRetry", &["agent_end a success"]));
}

#[test]
fn control_flow_is_no_error_anywhere_whatever_the_status() {
    for (dress, name) in DIALECTS.into_iter().flat_map(|dress| CONTROL_FLOW.map(|name| (dress, name))) {
        let expected = around(&format!("tool_result a t {name}"), &["agent_end a success"]);
        for spelled in spellings("pydantic_ai.exceptions", name) {
            assert_eq!(run(dress, same, |tool| tool.raises(&spelled, "later")), expected, "{spelled}");
            assert_eq!(run(dress, same, |tool| tool.notes(&spelled, "later")), expected, "{spelled}");
            assert_eq!(
                run(dress, same, |tool| tool.notes(&spelled, "later").status(StatusCode::Ok, "")),
                expected,
                "{spelled}"
            );
            let by_attribute =
                |tool: Span<'static>| tool.status(StatusCode::Error, "").with("error.type", spelled.as_str());
            assert_eq!(run(dress, same, by_attribute), expected, "{spelled}");
        }
    }
}

#[test]
fn a_deferral_attribute_is_control_flow_without_any_exception() {
    for name in ["CallDeferred", "ApprovalRequired", "SomethingNew"] {
        let told = run(pydantic_ai, same, |tool| {
            tool.with("pydantic_ai.tool.deferral.name", name).with("gen_ai.tool.call.result", "later")
        });
        assert_eq!(told, around(&format!("tool_result a t {name}"), &["agent_end a success"]));
    }
}

#[test]
fn control_flow_that_escapes_a_run_ends_it_cancelled_and_without_an_error() {
    for (dress, name) in DIALECTS.into_iter().flat_map(|dress| CONTROL_FLOW.map(|name| (dress, name))) {
        let raises = |span: Span<'static>| span.raises(&format!("pydantic_ai.exceptions.{name}"), "later");
        let told = run(dress, raises, raises);
        assert_eq!(told, around(&format!("tool_result a t {name}"), &[&format!("agent_end a cancelled {name}")]));
    }
}

#[test]
fn a_cancelled_run_is_cancelled_whatever_its_status() {
    for (dress, (module, name)) in DIALECTS.into_iter().flat_map(|dress| CANCELLATIONS.map(|name| (dress, name))) {
        for spelled in spellings(module, name) {
            for status in [StatusCode::Error, StatusCode::Unset, StatusCode::Ok] {
                let ends = |span: Span<'static>| span.notes(&spelled, "").status(status, "");
                let told = run(dress, ends, ends);
                let no_errors = told.iter().all(|line| !line.starts_with("error ") && !line.contains(':'));
                assert!(
                    no_errors && told.last().unwrap().starts_with("agent_end a cancelled"),
                    "{spelled} {status:?}: {told:?}"
                );
            }
        }
    }
}

#[test]
fn a_call_that_outlives_its_cancelled_run_is_incomplete_and_has_no_error() {
    for dress in DIALECTS {
        let cancelled = |span: Span<'static>| span.notes("asyncio.exceptions.CancelledError", "");
        let told = run(dress, |span| cancelled(span.between(1, 25)), |tool| tool.raises("ValueError", "too late"));
        assert_eq!(told[4..5], ["tool_result a t true"]);
        assert!(told[5].starts_with("agent_end a cancelled"), "{told:?}");
    }
}

#[test]
fn an_unmarked_run_of_pydantic_ai_was_cancelled_even_if_its_status_is_ok() {
    let spans = [agent(1, "a")
        .scope("pydantic-ai", "2.68.0")
        .status(StatusCode::Ok, "")
        .with("pydantic_ai.all_messages", r#"[{"role":"user","parts":[{"type":"text","content":"go"}]}]"#)];
    assert_eq!(story_of(&spans), ["agent_start a", "agent_end a cancelled"]);
}

#[test]
fn any_other_exception_is_a_failure_of_the_tool_and_of_the_run_that_it_escapes() {
    for dress in DIALECTS {
        for (spelled, name) in [
            ("ValueError", "ValueError"),
            ("shop.errors.Closed", "Closed"),
            ("<class 'shop.Closed'>", "Closed"),
            ("test.<locals>.Closed", "Closed"),
            ("my_crate::tool::Closed", "Closed"),
            ("com.shop.Outer$Closed", "Closed"),
            ("KeyboardInterruptX", "KeyboardInterruptX"),
            ("evil.ModelRetry", "ModelRetry"),
            ("evil.CancelledError", "CancelledError"),
            ("MyApprovalRequired", "MyApprovalRequired"),
            ("ModelRetryError", "ModelRetryError"),
            ("notpydantic_ai.exceptions.CallDeferred", "CallDeferred"),
        ] {
            let raises = |span: Span<'static>| span.raises(spelled, "no");
            let failed = [&*format!("error a {name}"), "agent_end a failed"];
            assert_eq!(
                run(dress, raises, raises),
                around(&format!("tool_result a t {name}: no"), &failed),
                "{spelled}"
            );
            assert_eq!(
                run(dress, same, raises),
                around(&format!("tool_result a t {name}: no"), &["agent_end a success"]),
                "{spelled}"
            );
            assert_eq!(run(dress, raises, same), around("tool_result a t", &failed), "{spelled}");
        }
    }
}

#[test]
fn a_failure_is_told_with_its_message_and_its_traceback() {
    let events = events_of(&[agent(1, "a").raises("shop.errors.Closed", "until monday")]);
    let error = only(&events, "error");
    assert_eq!((&error["error_type"], &error["message"]), (&json!("Closed"), &json!("until monday")));
    assert!(error["traceback"].as_str().unwrap().ends_with("shop.errors.Closed: until monday"));
    let long = format!(
        "Traceback (most recent call last):\n{}ValueError: no",
        "  File \"é.py\", line 1, in f\n".repeat(40_000)
    );
    let attributes =
        texts(&[("exception.type", "ValueError"), ("exception.message", "no"), ("exception.stacktrace", &long)]);
    let events = events_of(&[agent(1, "a").event("exception", attributes).status(StatusCode::Error, "no")]);
    let traceback = only(&events, "error")["traceback"].as_str().unwrap();
    assert_eq!((traceback.chars().count(), traceback.lines().last()), (8_192, Some("ValueError: no")));
}

#[test]
fn error_type_alone_names_the_failure() {
    for (error_type, status, told) in [
        ("ValueError", "", ("ValueError", "")),
        ("ValueError", "no such item", ("ValueError", "no such item")),
        ("ValueError", "ValueError: no such item", ("ValueError", "no such item")),
        ("shop.errors.Closed", "Closed: until monday", ("Closed", "until monday")),
        ("timeout", "gave up: 30 s", ("timeout", "gave up: 30 s")),
        ("500", "", ("500", "")),
        ("_OTHER", "ValueError: no", ("ValueError", "no")),
        ("_OTHER", "something broke", ("Error", "something broke")),
        ("_OTHER", "", ("Error", "")),
    ] {
        for dress in DIALECTS {
            let events =
                events_of(&[dress(agent(1, "a").with("error.type", error_type).status(StatusCode::Error, status))]);
            let error = only(&events, "error");
            assert_eq!(
                (error["error_type"].as_str().unwrap(), error["message"].as_str().unwrap()),
                told,
                "{error_type} {status}"
            );
            assert_eq!(error.get("traceback"), None);
            assert_eq!(only(&events, "agent_end")["outcome"], "failed");
        }
    }
}

#[test]
fn error_type_without_a_status_is_a_failure_too() {
    let told = run(same, same, |tool| tool.with("error.type", "TimeoutError"));
    assert_eq!(told, around("tool_result a t TimeoutError", &["agent_end a success"]));
    let told = run(same, same, |tool| tool.with("error.type", "  "));
    assert_eq!(told, around("tool_result a t", &["agent_end a success"]));
}

#[test]
fn a_status_alone_is_a_failure_of_unknown_class_or_of_the_one_that_it_names() {
    for (message, told) in [
        ("", "Error"),
        ("it broke", "it broke"),
        ("note: it broke", "note: it broke"),
        ("ValueError: it broke", "ValueError: it broke"),
        ("shop.errors.ClosedError: it broke: twice", "ClosedError: it broke: twice"),
    ] {
        let told_here = run(same, same, |tool| tool.status(StatusCode::Error, message));
        assert_eq!(told_here, around(&format!("tool_result a t {told}"), &["agent_end a success"]), "{message}");
    }
}

#[test]
fn an_exception_named_other_is_found_in_its_stack_trace() {
    let other = |trace: &str| {
        texts(&[("exception.type", "_OTHER"), ("exception.message", "no"), ("exception.stacktrace", trace)])
    };
    for (trace, told) in [
        ("Traceback\n  File \"a.py\"\npydantic_ai.exceptions.ModelRetry: no", "tool_result a t ModelRetry: no"),
        ("Traceback\n  File \"a.py\"\npydantic_ai.exceptions.CallDeferred: no", "tool_result a t CallDeferred"),
        ("Traceback\n  File \"a.py\"\nshop.Closed: no\nand more lines", "tool_result a t Closed: no"),
        ("at nothing that we know", "tool_result a t no"),
    ] {
        let told_here = run(same, same, |tool| tool.event("exception", other(trace)).status(StatusCode::Error, "no"));
        assert_eq!(told_here, around(told, &["agent_end a success"]), "{trace}");
    }
}

#[test]
fn an_exception_that_was_only_noted_on_a_span_that_went_well_is_none() {
    for status in [StatusCode::Unset, StatusCode::Ok] {
        let noted = |span: Span<'static>| {
            span.notes("ValueError", "tried again").status(status, "").with("final_result", "done")
        };
        assert_eq!(run(same, noted, noted), around("tool_result a t", &["agent_end a success"]));
        assert_eq!(run(pydantic_ai, noted, noted), around("tool_result a t", &["agent_end a success"]));
    }
    let escaped =
        texts(&[("exception.type", "ValueError"), ("exception.message", "no"), ("exception.escaped", "True")]);
    let told = run(same, |span| span.event("exception", escaped.clone()), same);
    assert_eq!(told, around("tool_result a t", &["error a ValueError", "agent_end a failed"]));
}

#[test]
fn of_several_exceptions_on_a_span_the_last_counts() {
    let told = run(same, same, |tool| tool.raises("KeyError", "first").raises("ValueError", "last"));
    assert_eq!(told, around("tool_result a t ValueError: last", &["agent_end a success"]));
}

#[test]
fn names_of_the_user_s_own_come_before_the_built_in_ones() {
    let told = |name: &str, class: Class, spelled: &str| {
        let config = Config::new().with_exception(name, class).unwrap();
        let raises = |span: Span<'static>| span.raises(spelled, "no");
        story(&events_with(&[raises(agent(1, "a")), raises(tool(2, "t").under(1))], &config))[2..].to_vec()
    };
    let steered = ["tool_result a t Closed", "agent_end a cancelled Closed"];
    assert_eq!(told("shop.errors.Closed", Class::ControlFlow, "shop.errors.Closed"), steered);
    assert_eq!(told("Closed", Class::ControlFlow, "shop.errors.Closed"), steered);
    assert_eq!(told("shop.*", Class::ControlFlow, "shop.errors.Closed"), steered);
    let failed = ["tool_result a t Closed: no", "error a Closed", "agent_end a failed"];
    assert_eq!(told("shop.*", Class::ControlFlow, "shopping.Closed"), failed);
    assert_eq!(told("other.Closed", Class::ControlFlow, "shop.Closed"), failed);
    assert_eq!(
        told("pydantic_ai.exceptions.CallDeferred", Class::Failure, "pydantic_ai.exceptions.CallDeferred"),
        ["tool_result a t CallDeferred: no", "error a CallDeferred", "agent_end a failed"]
    );
    let cancelled = told("shop.*", Class::Cancellation, "shop.Closed");
    assert!(
        cancelled.iter().all(|line| !line.starts_with("error")) && cancelled[1].starts_with("agent_end a cancelled"),
        "{cancelled:?}"
    );
    let retried = told("shop.*", Class::ToolFailure, "shop.Closed");
    assert!(retried.iter().all(|line| !line.starts_with("error ")), "{retried:?}");
    assert_eq!(retried[0], "tool_result a t Closed: no");
    for never in ["", "*", "a..b", "two words", ".Closed", "Closed."] {
        assert!(Config::new().with_exception(never, Class::Failure).is_err(), "{never:?}");
    }
}

#[test]
fn a_model_call_that_failed_has_no_answer_and_its_run_fails_by_the_same_error() {
    for dress in DIALECTS {
        let raises = |span: Span<'static>| span.raises("pydantic_ai.exceptions.ModelHTTPError", "status 500");
        let spans =
            [dress(raises(agent(1, "a"))), dress(raises(model(2, "m").under(1).with("gen_ai.usage.input_tokens", 3)))];
        let events = events_of(&spans);
        assert_eq!(
            story(&events)[2..],
            ["model_response a ModelHTTPError: status 500", "error a ModelHTTPError", "agent_end a failed"]
        );
        assert_eq!(events[2].get("content"), None);
    }
}

#[test]
fn a_run_that_ends_in_a_retry_has_failed_without_an_error_event() {
    for spelled in
        ["pydantic_ai.exceptions.ModelRetry", "ModelRetry", "ToolRetryError", "ToolFailedError", "ToolFailed"]
    {
        let events = events_of(&[agent(1, "a").raises(spelled, "again")]);
        assert_eq!(story(&events).last().map(String::as_str), Some("agent_end a failed"), "{spelled}");
        assert!(events.iter().all(|event| event["type"] != "error"), "{spelled}");
    }
}
