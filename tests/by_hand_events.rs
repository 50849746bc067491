//! Events said by hand as span events `failproof.<type>`, and the environment that all events carry.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod support;

use std::process::Command;

use opentelemetry_failproof::event::EventType;
use opentelemetry_failproof::span::{Attributes, Value};
use opentelemetry_failproof::{Config, ConfigError};
use serde_json::{Value as Json, json};
use support::spans::*;

fn text(text: &str) -> Value<'static> {
    Value::from(text.to_owned())
}

type Said = (&'static str, Vec<(&'static str, Value<'static>)>, Json);

/// Of every type the fields as attributes, and as they are to stand on the event.
#[rustfmt::skip]
fn all_types() -> Vec<Said> {
    let texts = |items: &[&str]| Value::Array(items.iter().map(|item| text(item)).collect());
    vec![
        ("agent_start", vec![("goal", text("g")), ("parent_id", text("boss"))], json!({"goal": "g", "parent_id": "boss"})),
        ("agent_end", vec![("outcome", text("failed")), ("summary", text("s")), ("usage", text("{\"requests\":1}"))], json!({"outcome": "failed", "summary": "s", "usage": {"requests": 1}})),
        ("agent_pause", vec![("pause_id", text("p")), ("reason", text("r")), ("user_id", text("u"))], json!({"pause_id": "p", "reason": "r", "user_id": "u"})),
        ("agent_resume", vec![("pause_id", text("p")), ("duration_ms", Value::Int(5))], json!({"pause_id": "p", "duration_ms": 5})),
        ("tool_use", vec![("tool_name", text("t")), ("tool_call_id", text("c")), ("input", text("{\"a\":[1]}"))], json!({"tool_name": "t", "tool_call_id": "c", "input": {"a": [1]}})),
        ("tool_result", vec![("tool_name", text("t")), ("tool_call_id", text("c")), ("output", Value::Int(12)), ("error", text("E: x")), ("duration_ms", text("7"))], json!({"tool_name": "t", "tool_call_id": "c", "output": 12, "error": "E: x", "duration_ms": 7})),
        ("model_request", vec![("model", text("m")), ("messages", text("[{\"role\":\"user\",\"content\":\"hi\"}]")), ("system", text("[s]")), ("tools", text("[{\"name\":\"t\"}]")), ("request_id", text("r"))], json!({"model": "m", "messages": [{"role": "user", "content": "hi"}], "system": "[s]", "tools": [{"name": "t"}], "request_id": "r"})),
        ("model_response", vec![("model", text("m")), ("stop_reason", text("stop")), ("input_tokens", Value::Int(1)), ("output_tokens", Value::Double(2.0)), ("content", text("hi")), ("role", text("assistant")), ("request_id", text("r")), ("duration_ms", Value::Int(3))], json!({"model": "m", "stop_reason": "stop", "input_tokens": 1, "output_tokens": 2, "content": "hi", "role": "assistant", "request_id": "r", "duration_ms": 3})),
        ("hook_triggered", vec![("hook_name", text("h")), ("hook_id", text("i")), ("trigger_event", text("guardrail")), ("input", text("in"))], json!({"hook_name": "h", "hook_id": "i", "trigger_event": "guardrail", "input": "in"})),
        ("hook_completed", vec![("hook_name", text("h")), ("hook_id", text("i")), ("outcome", text("paused")), ("output", Value::Bool(true))], json!({"hook_name": "h", "hook_id": "i", "outcome": "paused", "output": true})),
        ("error", vec![("error_type", text("E")), ("message", text("m")), ("traceback", text("t"))], json!({"error_type": "E", "message": "m", "traceback": "t"})),
        ("human_wait", vec![("input_id", text("i")), ("prompt", text("12")), ("options", texts(&["yes", "no"]))], json!({"input_id": "i", "prompt": "12", "options": ["yes", "no"]})),
        ("human_input", vec![("input_id", text("i")), ("response", text("yes")), ("duration_ms", Value::Int(4_294_967_295))], json!({"input_id": "i", "response": "yes", "duration_ms": 4_294_967_295_u64})),
        ("human_pause", vec![("reason", text("r"))], json!({"reason": "r"})),
        ("human_interrupt", vec![("at_step", Value::Int(2))], json!({"at_step": 2})),
    ]
}

/// The events of an agent on which these are said, without the agent's own start and end.
fn said(events: &[(&str, Attributes<'static>)]) -> Vec<Json> {
    let inventory = events.iter().fold(agent(1, "inventory"), |span, (kind, attributes)| {
        span.event(&format!("failproof.{kind}"), attributes.clone())
    });
    let mut events = events_of(&[inventory]);
    assert_eq!(
        (events.remove(0)["type"].as_str(), events.pop().unwrap()["type"].as_str()),
        (Some("agent_start"), Some("agent_end"))
    );
    events
}

fn attributes(fields: &[(&str, Value<'static>)]) -> Attributes<'static> {
    fields.iter().map(|(key, value)| ((*key).to_owned(), value.clone())).collect()
}

#[test]
fn every_type_can_be_said_by_a_span_event_at_its_time() {
    let types = all_types();
    assert!(types.iter().map(|(name, ..)| *name).eq(EventType::ALL.map(EventType::name)));
    for (kind, fields, expected) in types {
        let [event] = said(&[(kind, attributes(&fields))]).try_into().unwrap();
        for (name, value) in expected.as_object().unwrap() {
            assert_eq!(&event[name], value, "{kind}.{name}");
        }
        let identity =
            ["type", "agent_id", "timestamp", "environment", "fw_span_id"].map(|name| event[name].as_str().unwrap());
        assert_eq!(identity, [kind, "inventory", "2026-01-02T03:04:06.178901Z", "dev", "0000000000000001"]);
    }
}

#[test]
fn a_bad_field_is_left_out_and_the_rest_stays() {
    let bad = [
        ("duration_ms", Value::Int(-1)),
        ("duration_ms", Value::Int(4_294_967_296)),
        ("duration_ms", Value::Double(0.5)),
        ("duration_ms", text("soon")),
        ("error", Value::Int(7)),
        ("error", Value::Bool(true)),
    ];
    for (field, value) in bad {
        let fields = attributes(&[
            ("tool_name", text("t")),
            ("tool_call_id", text("c")),
            (field, value.clone()),
            ("output", text("ok")),
        ]);
        let [event] = said(&[("tool_result", fields)])
            .try_into()
            .unwrap_or_else(|events| panic!("{field} {value:?}: {events:?}"));
        assert_eq!((&event["tool_name"], &event["output"]), (&json!("t"), &json!("ok")));
        assert_eq!(event.get(field), None, "{value:?}");
    }
}

#[test]
fn an_event_whose_required_field_is_missing_or_bad_is_left_out_and_the_others_stay() {
    let pause = || ("human_pause", texts(&[("reason", "lunch")]));
    for (kind, fields, _) in all_types() {
        let event_type = EventType::from_name(kind).unwrap();
        for required in event_type.required() {
            for value in [None, Some(text(" ")), Some(Value::Int(1)), Some(Value::Array(vec![]))] {
                // An error's message may be blank.
                if required.name() == "message" && value == Some(text(" ")) {
                    continue;
                }
                let others = fields.iter().filter(|(name, _)| *name != required.name()).cloned();
                let fields: Vec<_> = others.chain(value.clone().map(|value| (required.name(), value))).collect();
                let events = said(&[pause(), (kind, attributes(&fields)), pause()]);
                assert_eq!(story(&events), ["human_pause inventory"; 2], "{kind}.{} {value:?}", required.name());
            }
        }
    }
}

#[test]
fn a_span_event_of_no_type_is_none() {
    for name in
        ["failproof.", "failproof.tool", "failproof.agent_id", "tool_use", "Failproof.tool_use", "failproof.tool_use.x"]
    {
        let span = agent(1, "inventory").event(name, texts(&[("tool_name", "t"), ("tool_call_id", "c")]));
        assert_eq!(story_of(&[span]), ["agent_start inventory", "agent_end inventory success"], "{name}");
    }
}

#[test]
fn what_a_type_does_not_declare_is_an_extra_and_overwrites_nothing() {
    let fields = [
        ("session_id", "x"),
        ("agent_id", "x"),
        ("type", "x"),
        ("environment", "x"),
        ("timestamp", "x"),
        ("framework", "x"),
        ("order", "7"),
        ("fw_node", "n"),
    ];
    let [event] = said(&[("human_pause", texts(&fields))]).try_into().unwrap();
    assert_eq!(story(std::slice::from_ref(&event)), ["human_pause inventory"]);
    assert_eq!(
        (&event["environment"], &event["fw_order"], &event["fw_node"]),
        (&json!("dev"), &json!("7"), &json!("n"))
    );
    assert_ne!(event["timestamp"], "x");
}

#[test]
fn an_event_said_on_a_span_below_an_agent_is_of_that_agent_and_without_one_of_an_agent_made_for_it() {
    let request = span(2, "GET /").event("failproof.human_pause", texts(&[("reason", "lunch")]));
    assert_eq!(
        story_of(&[agent(1, "a"), request.clone().under(1)]),
        ["agent_start a", "human_pause a", "agent_end a success"]
    );
    let events = events_of(&[request]);
    assert_eq!(story(&events), ["agent_start main", "human_pause main", "agent_end main success"]);
    assert_eq!(events[0]["fw_synthetic"], true);
}

#[test]
fn an_event_said_before_or_after_its_agent_is_moved_to_its_start_or_end() {
    let pause = texts(&[("reason", "lunch")]);
    for (start, end, time) in [(600, 900, "06.278901"), (100, 400, "06.078901")] {
        let events = events_of(&[agent(1, "a").event("failproof.human_pause", pause.clone()).between(start, end)]);
        assert_eq!(story(&events), ["agent_start a", "human_pause a", "agent_end a success"]);
        assert_eq!(events[1]["timestamp"], format!("2026-01-02T03:04:{time}Z"));
    }
}

fn environment_of(resource: &[(&'static str, &'static str)], config: &Config) -> String {
    let events = events_with(&[agent(1, "a").resource(resource), tool(2, "t").under(1).resource(resource)], config);
    let environment = &events[0]["environment"];
    assert!(events.iter().all(|event| event["environment"] == *environment));
    environment.as_str().unwrap().to_owned()
}

#[test]
fn the_environment_is_what_is_configured_else_the_resource_s_else_dev() {
    const STABLE: (&str, &str) = ("deployment.environment.name", "prod");
    const OLDER: (&str, &str) = ("deployment.environment", "older");
    let nothing = Config::new();
    assert_eq!(environment_of(&[], &nothing), "dev");
    assert_eq!(environment_of(&[OLDER], &nothing), "older");
    assert_eq!(environment_of(&[OLDER, STABLE], &nothing), "prod");
    assert_eq!(environment_of(&[("deployment.environment.name", " \t"), OLDER], &nothing), "older");
    assert_eq!(environment_of(&[("deployment.environment.name", " prod ")], &nothing), "prod");
    assert_eq!(environment_of(&[STABLE], &Config::new().with_environment(" staging ").unwrap()), "staging");
}

#[test]
fn an_environment_with_a_comma_is_refused_where_it_is_configured_and_dev_where_it_is_found() {
    assert_eq!(Config::new().with_environment("a,b").unwrap_err(), ConfigError::Comma("a,b".into()));
    assert_eq!(Config::new().with_environment(" ").unwrap_err(), ConfigError::Blank("environment"));
    for key in ["deployment.environment.name", "deployment.environment"] {
        assert_eq!(environment_of(&[(key, "a,b")], &Config::new()), "dev");
    }
    let configured = Config::new().with_environment("prod").unwrap();
    assert_eq!(environment_of(&[("deployment.environment.name", "a,b")], &configured), "prod");
}

#[test]
fn the_variable_names_the_environment_unless_it_is_blank_or_holds_a_comma() {
    for (variable, expected) in [("from-variable", "from-variable"), (" ", "dev"), ("", "dev"), ("a,b", "dev")] {
        let mut child = Command::new(std::env::current_exe().unwrap());
        child
            .args(["--exact", "a_child_says_its_environment", "--ignored", "--nocapture"])
            .env("AGENTEYE_ENVIRONMENT", variable);
        let output = child.output().unwrap();
        let said = String::from_utf8_lossy(&output.stdout);
        assert!(said.contains(&format!("environment: {expected};")), "{variable:?}: {said}");
    }
}

#[test]
#[ignore = "run by the_variable_names_the_environment_unless_it_is_blank_or_holds_a_comma"]
fn a_child_says_its_environment() {
    println!("environment: {};", environment_of(&[], &Config::from_env()));
    assert_eq!(environment_of(&[("deployment.environment.name", "prod")], &Config::from_env()), "prod");
}
