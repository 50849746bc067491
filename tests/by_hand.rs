//! What is said by hand: attributes and span events `failproof.*`, on any span, from any language.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod support;

use opentelemetry_failproof::span::{Span, Value};
use opentelemetry_failproof::{Config, ConfigError};
use serde_json::{Value as Json, json};
use support::spans::*;

fn sessions(spans: &[Span<'_>]) -> Vec<String> {
    let mut sessions: Vec<String> =
        events_of(spans).iter().map(|event| event["session_id"].as_str().unwrap().to_owned()).collect();
    sessions.dedup();
    sessions
}

#[test]
fn a_session_said_on_a_span_or_above_it_or_on_the_resource_is_the_session() {
    let inventory = || agent(2, "inventory").under(1).with("gen_ai.conversation.id", "conversation");
    let call = tool(3, "stock").under(2);
    for spans in [
        [span(1, "GET /"), inventory().with("failproof.session_id", "chat-42"), call.clone()],
        [span(1, "GET /").with("failproof.session_id", "chat-42"), inventory(), call.clone()],
        [span(1, "GET /"), inventory().resource(&[("failproof.session_id", "chat-42")]), call.clone()],
        [
            span(1, "GET /").with("failproof.session_id", "far"),
            inventory().with("failproof.session_id", " chat-42\n"),
            call.clone(),
        ],
        [
            span(1, "GET /").with("failproof.session_id", "chat-42"),
            inventory().resource(&[("failproof.session_id", "far")]),
            call.clone(),
        ],
        [
            span(1, "GET /"),
            inventory().with("failproof.session_id", "old").with("failproof.session_id", "chat-42"),
            call.clone(),
        ],
    ] {
        assert_eq!(sessions(&spans), ["chat-42"]);
    }
    let calls = [span(1, "GET /").with("failproof.session_id", "chat-42"), model(2, "m").under(1), call];
    assert_eq!(sessions(&calls), ["chat-42"]);
}

#[test]
fn a_pinned_session_comes_before_all_and_keeps_the_tree_of_agents() {
    let spans = [
        agent(1, "outer").with("failproof.session_id", "said"),
        agent(2, "inner").under(1).with("failproof.session_id", "another"),
    ];
    let events = events_with(&spans, &Config::new().with_session_id("pinned").unwrap());
    assert!(events.iter().all(|event| event["session_id"] == "pinned"));
    assert_eq!(events[1]["parent_id"], "outer", "one session: the nearest enclosing agent is the parent");
}

#[test]
fn a_nested_run_that_says_the_session_of_its_tree_stays_in_the_tree() {
    let inner = || agent(2, "inner").under(1).with("failproof.session_id", "chat-42");
    for outer in [
        agent(1, "outer").with("failproof.session_id", "chat-42"),
        agent(1, "outer").with("gen_ai.conversation.id", "chat-42"),
        agent(1, "outer").resource(&[("failproof.session_id", "chat-42")]),
    ] {
        let events = events_of(&[outer.clone(), inner()]);
        assert!(events.iter().all(|event| event["session_id"] == "chat-42"));
        assert_eq!(events[1]["parent_id"], "outer", "{outer:?}");
    }
}

#[test]
fn a_session_that_is_blank_or_no_text_is_not_said() {
    let generated = format!("{:032x}", 1);
    for nothing in [Value::from(""), Value::from(" \u{a0}\t"), Value::from(7), Value::from(true)] {
        assert_eq!(sessions(&[agent(1, "inventory").with("failproof.session_id", nothing.clone())]), [&*generated]);
        let conversing =
            agent(1, "inventory").with("failproof.session_id", nothing).with("gen_ai.conversation.id", "c");
        assert_eq!(sessions(&[conversing]), ["c"]);
    }
    assert_eq!(Config::new().with_session_id(" \n").unwrap_err(), ConfigError::Blank("session id"));
}

#[test]
fn a_session_id_has_at_most_512_characters() {
    for (length, kept) in [(511, 511), (512, 512), (513, 512)] {
        let spans = [agent(1, "inventory").with("failproof.session_id", "é".repeat(length))];
        assert_eq!(sessions(&spans), ["é".repeat(kept)]);
    }
}

#[test]
fn a_name_makes_the_span_an_agent_with_its_goal_summary_and_outcome() {
    let crew = span(1, "job")
        .with("failproof.agent_id", "  stock   keeper ")
        .with("failproof.goal", "count the bolts")
        .with("failproof.summary", "12")
        .with("failproof.outcome", "success");
    let events = events_of(&[crew, span(2, "GET /").under(1), tool(3, "stock").under(2)]);
    assert_eq!(
        story(&events),
        [
            "agent_start stock keeper",
            "tool_use stock keeper stock",
            "tool_result stock keeper stock",
            "agent_end stock keeper success"
        ]
    );
    assert_eq!(
        (&events[0]["goal"], &events[0]["fw_agent_id"]),
        (&json!("count the bolts"), &json!("  stock   keeper "))
    );
    assert_eq!(events[3]["summary"], "12");
}

#[test]
fn an_outcome_said_by_hand_is_one_of_three_words_and_a_failure_is_never_lost() {
    for (said, outcome) in [
        ("success", "success"),
        ("failed", "failed"),
        ("cancelled", "cancelled"),
        ("failure", "failed"),
        ("error", "failed"),
        ("timeout", "failed"),
        ("rejected", "failed"),
        (" FAILED ", "failed"),
        ("canceled", "cancelled"),
        ("done", "success"),
    ] {
        let events = events_of(&[span(1, "job").with("failproof.agent_id", "a").with("failproof.outcome", said)]);
        assert_eq!(only(&events, "agent_end")["outcome"], outcome, "{said:?}");
    }
}

#[test]
fn an_outcome_said_by_hand_comes_before_what_the_span_s_status_says() {
    let job = span(1, "job").with("failproof.agent_id", "a").raises("ValueError", "no");
    assert_eq!(story_of(std::slice::from_ref(&job)), ["agent_start a", "error a ValueError", "agent_end a failed"]);
    assert_eq!(story_of(&[job.with("failproof.outcome", "success")]), ["agent_start a", "agent_end a success"]);
}

#[test]
fn copies_of_a_name_that_baggage_made_are_no_further_agents() {
    let named = |span: Span<'static>| span.with("failproof.agent_id", "inventory");
    let spans = [
        named(span(1, "job")),
        named(span(2, "GET /").under(1)),
        named(model(3, "m").under(2)),
        named(tool(4, "stock").under(2)),
        named(span(5, "SELECT").under(4)),
        named(agent(6, "helper").under(4)),
        named(model(7, "m").under(6)),
    ];
    let events = events_of(&spans);
    assert_eq!(
        story(&events),
        [
            "agent_start inventory",
            "model_request inventory",
            "tool_use inventory stock",
            "agent_start helper",
            "model_request helper",
            "model_response helper",
            "agent_end helper success",
            "tool_result inventory stock",
            "model_response inventory",
            "agent_end inventory success",
        ]
    );
    assert_eq!(events[3]["parent_id"], "inventory");
}

#[test]
fn a_name_on_calls_that_no_agent_encloses_names_the_agent_made_for_them() {
    let by_attribute = |span: Span<'static>| span.with("failproof.agent_id", "shop");
    let by_resource = |span: Span<'static>| span.resource(&[("failproof.agent_id", "shop")]);
    let below_nobody = |named: &dyn Fn(Span<'static>) -> Span<'static>| [named(model(1, "m")), named(tool(2, "stock"))];
    for spans in [below_nobody(&by_attribute), below_nobody(&by_resource)] {
        let events = events_of(&spans);
        assert_eq!(
            story(&events),
            [
                "agent_start shop",
                "model_request shop",
                "tool_use shop stock",
                "tool_result shop stock",
                "model_response shop",
                "agent_end shop success"
            ]
        );
        assert_eq!((&events[0]["fw_synthetic"], &events[5]["fw_synthetic"]), (&json!(true), &json!(true)));
    }
}

#[test]
fn a_kind_said_by_hand_makes_anything_of_a_span_that_nobody_knows() {
    for (kind, expected) in [
        ("agent", vec!["agent_start plan", "agent_end plan success"]),
        ("model", vec!["agent_start main", "model_request main", "model_response main", "agent_end main success"]),
        ("tool", vec!["agent_start main", "tool_use main plan", "tool_result main plan", "agent_end main success"]),
        (
            "hook",
            vec![
                "agent_start main",
                "hook_triggered main plan",
                "hook_completed main plan success",
                "agent_end main success",
            ],
        ),
        (
            "human",
            vec![
                "agent_start main",
                "human_wait main",
                "agent_pause main",
                "agent_resume main",
                "human_input main",
                "agent_end main success",
            ],
        ),
        ("none", vec![]),
        ("banana", vec![]),
        ("Agent", vec![]),
    ] {
        let events = events_of(&[span(1, "plan").with("failproof.kind", kind)]);
        assert_eq!(story(&events), expected, "{kind}");
        let ids = ["request_id", "tool_call_id", "hook_id", "input_id", "pause_id"]
            .map(|id| events.iter().map(move |event| event[id].clone()));
        assert!(ids.into_iter().flatten().filter(|id| !id.is_null()).all(|id| id == "0000000000000001"));
    }
}

#[test]
fn a_tool_or_hook_by_hand_has_a_name_however_blank_its_span_s_is() {
    for (kind, field) in [("tool", "tool_name"), ("hook", "hook_name")] {
        for name in ["", " ", "\t"] {
            let events = events_of(&[agent(1, "a"), span(2, name).under(1).with("failproof.kind", kind)]);
            let names: Vec<&Json> = events[1..3].iter().map(|event| &event[field]).collect();
            assert!(
                names.iter().all(|name| name.as_str().is_some_and(|name| !name.trim().is_empty())),
                "{kind} {name:?}: {names:?}"
            );
        }
    }
}

#[test]
fn a_kind_said_by_hand_comes_before_what_a_dialect_says() {
    let under = |kind: &str| {
        story_of(&[agent(1, "a"), tool(2, "stock").under(1).with("failproof.kind", kind), model(3, "m").under(2)])
    };
    let call = ["model_request", "model_response"];
    let wrapped = |agent: &str| call.map(|kind| format!("{kind} {agent}"));
    let around = |before: &[&str], agent: &str, after: &[&str]| {
        let texts = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>();
        [
            vec!["agent_start a".to_owned()],
            texts(before),
            wrapped(agent).to_vec(),
            texts(after),
            vec!["agent_end a success".to_owned()],
        ]
        .concat()
    };
    assert_eq!(under("none"), around(&[], "a", &[]));
    assert_eq!(under("banana"), around(&["tool_use a stock"], "a", &["tool_result a stock"]));
    assert_eq!(
        under("agent"),
        around(&["agent_start execute_tool stock"], "execute_tool stock", &["agent_end execute_tool stock success"])
    );
    assert_eq!(
        under("hook"),
        around(&["hook_triggered a execute_tool stock"], "a", &["hook_completed a execute_tool stock success"])
    );
    assert_eq!(under("human"), around(&["human_wait a", "agent_pause a"], "a", &["agent_resume a", "human_input a"]));
    // A model call inside a model call is that same call.
    assert_eq!(under("model"), around(&[], "a", &[]));
    let silenced = [agent(1, "a").with("failproof.kind", "none"), tool(2, "stock").under(1)];
    assert_eq!(story_of(&silenced)[0], "agent_start main");
}

#[test]
fn a_nested_run_with_a_session_of_its_own_by_hand_is_a_tree_of_its_own() {
    let spans = [
        agent(1, "outer").with("failproof.session_id", "one"),
        tool(2, "ask").under(1),
        agent(3, "inner").under(2).with("failproof.session_id", "two"),
        tool(4, "stock").under(3),
        agent(5, "innermost").under(4),
    ];
    let events = events_of(&spans);
    let of = |session: &str| {
        story(&events.iter().filter(|event| event["session_id"] == session).cloned().collect::<Vec<_>>())
    };
    assert_eq!(
        of("one"),
        ["agent_start outer", "tool_use outer ask", "tool_result outer ask", "agent_end outer success"]
    );
    assert_eq!(
        of("two"),
        [
            "agent_start inner",
            "tool_use inner stock",
            "agent_start innermost",
            "agent_end innermost success",
            "tool_result inner stock",
            "agent_end inner success"
        ]
    );
    let parents: Vec<&Json> =
        events.iter().filter(|event| event["type"] == "agent_start").map(|event| &event["parent_id"]).collect();
    assert_eq!(parents, [&Json::Null, &Json::Null, &json!("inner")]);
}

#[test]
fn a_session_that_baggage_copies_below_a_run_splits_nothing() {
    let said = |span: Span<'static>| span.with("failproof.session_id", "one");
    let events = events_of(&[
        said(span(1, "GET /")),
        agent(2, "outer").under(1),
        said(tool(3, "ask").under(2)),
        said(agent(4, "inner").under(3)),
    ]);
    assert!(events.iter().all(|event| event["session_id"] == "one"));
    assert_eq!(events[2]["parent_id"], "outer");
}

#[test]
fn a_name_around_the_framework_s_own_run_of_that_name_is_one_agent() {
    let run = agent(3, "inventory").scope("pydantic-ai", "2.68.0").with("gen_ai.agent.call.id", "run-1");
    for run in [run.clone().with("final_result", "12"), run.clone(), run.raises("ValueError", "no")] {
        let around = [
            span(1, "job").with("failproof.agent_id", "inventory").with("failproof.goal", "count"),
            span(2, "retry").under(1),
        ];
        let events =
            events_of(&[around[0].clone(), around[1].clone(), run.clone().under(2), tool(4, "stock").under(3)]);
        let kinds: Vec<&Json> = events.iter().map(|event| &event["type"]).filter(|kind| **kind != "error").collect();
        assert_eq!(kinds, ["agent_start", "tool_use", "tool_result", "agent_end"]);
        let (start, end) = (only(&events, "agent_start"), only(&events, "agent_end"));
        assert_eq!(
            (&start["goal"], &start["fw_run_id"], &start["framework"]),
            (&json!("count"), &json!("run-1"), &json!("pydantic_ai"))
        );
        let alone = events_of(&[run, tool(4, "stock").under(3)]);
        assert_eq!(end["outcome"], only(&alone, "agent_end")["outcome"]);
        assert_eq!(end["summary"], only(&alone, "agent_end")["summary"]);
        assert_eq!(events.iter().any(|event| event["type"] == "error"), end["outcome"] == "failed");
    }
}
