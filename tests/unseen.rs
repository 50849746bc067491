//! Agents without a span of their own, and calls that are told twice side by side or by their stages.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod support;

use opentelemetry_failproof::Policy;
use opentelemetry_failproof::span::Span;
use opentelemetry_failproof::trace::Mapping;
use serde_json::Value as Json;
use support::spans::*;

fn of_type<'e>(events: &'e [Json], kind: &str) -> Vec<&'e Json> {
    events.iter().filter(|event| event["type"] == kind).collect()
}

#[test]
fn an_agent_that_only_its_calls_name_is_made_under_the_tool_that_runs_it() {
    let spans = [
        agent(1, "outer"),
        model(2, "m").under(1).with("gen_ai.agent.name", "outer"),
        tool(3, "delegate").under(1),
        model(4, "m").under(3).with("gen_ai.agent.name", "inner"),
        tool(5, "stock").under(3),
    ];
    let events = events_of(&spans);
    support::invariants::check(&support::lines(&spans, &Mapping::default(), Policy::default())).unwrap();
    let starts = of_type(&events, "agent_start");
    assert_eq!(starts.len(), 2);
    assert_eq!((&starts[1]["agent_id"], &starts[1]["parent_id"]), (&"inner".into(), &"outer".into()));
    let agent_of = |tool: &str| {
        of_type(&events, "tool_use").into_iter().find(|event| event["tool_name"] == tool).unwrap()["agent_id"].clone()
    };
    assert_eq!((agent_of("delegate"), agent_of("stock")), ("outer".into(), "inner".into()));
}

#[test]
fn a_call_that_names_no_agent_is_that_of_its_siblings() {
    let named = |id| model(id, "m").under(1).with("gen_ai.agent.name", "weather");
    let events = events_of(&[span(1, "GET /"), named(2), tool(3, "stock").under(1)]);
    assert_eq!(of_type(&events, "agent_start").len(), 1);
    let two = events_of(&[
        span(1, "GET /"),
        named(2),
        model(3, "m").under(1).with("gen_ai.agent.name", "other"),
        tool(4, "stock").under(1),
    ]);
    assert_eq!(of_type(&two, "agent_start").len(), 3, "two names: nobody knows whose call it is");
}

#[test]
fn a_call_told_twice_side_by_side_is_one() {
    let call = |id, parent| tool(id, "stock").under(parent).with("gen_ai.tool.call.id", "c1");
    let told_again = |id| Span { name: "Tool.execute".into(), ..call(id, 2) };
    let twice = [agent(1, "outer"), span(2, "resolve").under(1), call(3, 1), told_again(4)];
    assert_eq!(of_type(&events_of(&twice), "tool_use").len(), 1);
    let alike = [agent(1, "outer"), span(2, "resolve").under(1), call(3, 1), call(4, 2)];
    assert_eq!(of_type(&events_of(&alike), "tool_use").len(), 2, "an id that is used twice");
    let others = [agent(1, "outer"), call(2, 1), tool(3, "stock").under(1).with("gen_ai.tool.call.id", "c2")];
    assert_eq!(of_type(&events_of(&others), "tool_use").len(), 2);
}
