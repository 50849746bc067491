//! The GenAI semantic conventions across spans: operations, tools, calls seen twice, usage, calls without an agent.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod support;

use opentelemetry_failproof::span::{Span, SpanId, TraceId};
use serde_json::{Value as Json, json};
use support::spans::*;

const RUN: [&str; 2] = ["agent_start a", "agent_end a success"];

fn inside(lines: &[&str]) -> Vec<String> {
    [&RUN[..1], lines, &RUN[1..]].concat().into_iter().map(str::to_owned).collect()
}

#[test]
fn every_operation_stands_for_its_kind() {
    for (name, lines) in [
        ("chat", vec!["model_request a", "model_response a"]),
        ("generate_content", vec!["model_request a", "model_response a"]),
        ("text_completion", vec!["model_request a", "model_response a"]),
        ("invoke_agent", vec!["agent_start x", "agent_end x success"]),
        ("invoke_workflow", vec!["agent_start x", "agent_end x success"]),
        ("execute_tool", vec!["tool_use a x", "tool_result a x"]),
        ("retrieval", vec!["tool_use a x", "tool_result a x"]),
        ("search_memory", vec!["tool_use a search_memory x", "tool_result a search_memory x"]),
        ("create_memory", vec!["tool_use a create_memory x", "tool_result a create_memory x"]),
        ("create_agent", vec![]),
        ("embeddings", vec![]),
        ("plan", vec![]),
        ("operation_of_tomorrow", vec![]),
        ("", vec![]),
    ] {
        assert_eq!(story_of(&[agent(1, "a"), operation(2, name, "x").under(1)]), inside(&lines), "{name}");
    }
}

#[test]
fn what_gives_no_event_is_looked_through() {
    for name in ["create_agent", "embeddings", "plan", "operation_of_tomorrow", ""] {
        let spans = [agent(1, "a"), operation(2, name, "x").under(1), span(3, "GET /").under(2), tool(4, "t").under(3)];
        assert_eq!(story_of(&spans), inside(&["tool_use a t", "tool_result a t"]), "{name}");
    }
}

#[test]
fn a_workflow_and_the_agents_in_it_are_a_tree() {
    let spans = [
        operation(1, "invoke_workflow", "crew").with("gen_ai.workflow.name", "crew"),
        agent(2, "researcher").under(1),
        model(3, "m").under(2),
    ];
    let events = events_of(&spans);
    assert_eq!(
        story(&events),
        [
            "agent_start crew",
            "agent_start researcher",
            "model_request researcher",
            "model_response researcher",
            "agent_end researcher success",
            "agent_end crew success"
        ]
    );
    assert_eq!(events[1]["parent_id"], "crew");
}

#[test]
fn an_agent_without_a_name_is_called_after_its_span_or_main() {
    assert_eq!(story_of(&[operation(1, "invoke_agent", "inventory")])[0], "agent_start inventory");
    for name in ["invoke_agent", "invoke_agent ", "anything"] {
        let nameless = span(1, name).with("gen_ai.operation.name", "invoke_agent").with("gen_ai.agent.name", "");
        assert_eq!(story_of(&[nameless])[0], "agent_start main", "{name}");
    }
    let events = events_of(&[agent(1, "crew_3f9a1c2b-1111-4222-8333-444455556666_worker")]);
    assert_eq!(
        (&events[0]["agent_id"], &events[0]["fw_agent_id"]),
        (&json!("crew worker"), &json!("crew_3f9a1c2b-1111-4222-8333-444455556666_worker"))
    );
}

#[test]
fn a_tool_tells_its_input_and_output_as_they_are() {
    for (arguments, input) in [
        (r#"{"item":"bolt"}"#, json!({"item": "bolt"})),
        (r#"["bolt"]"#, json!({"value": ["bolt"]})),
        ("bolt", json!({"value": "bolt"})),
        ("12", json!({"value": 12})),
        ("null", json!({"value": null})),
        (r#"{"item":"bo"#, json!({"value": r#"{"item":"bo"#})),
    ] {
        let call = tool(2, "stock")
            .under(1)
            .with("gen_ai.tool.call.arguments", arguments)
            .with("gen_ai.tool.call.result", "[1,2]")
            .with("gen_ai.tool.type", "function");
        let events = events_of(&[agent(1, "a"), call]);
        let (used, result) = (only(&events, "tool_use"), only(&events, "tool_result"));
        assert_eq!(
            (&used["input"], &used["tool_call_id"], &used["fw_tool_kind"]),
            (&input, &json!("call-2"), &json!("function"))
        );
        assert_eq!(
            (&result["output"], &result["tool_call_id"], &result["duration_ms"]),
            (&json!([1, 2]), &json!("call-2"), &json!(996))
        );
    }
}

#[test]
fn a_retrieval_and_a_memory_query_are_tools_with_their_query() {
    let retrieval = operation(2, "retrieval", "docs")
        .under(1)
        .with("gen_ai.data_source.id", "docs")
        .with("gen_ai.retrieval.query.text", "bolts")
        .with("gen_ai.retrieval.documents", r#"[{"id":"d1","score":0.5}]"#);
    let events = events_of(&[agent(1, "a"), retrieval]);
    let used = only(&events, "tool_use");
    assert_eq!(
        (&used["tool_name"], &used["input"], &used["tool_call_id"]),
        (&json!("docs"), &json!({"value": "bolts"}), &json!("0000000000000002"))
    );
    assert_eq!(only(&events, "tool_result")["output"], json!([{"id": "d1", "score": 0.5}]));
    let memory = operation(2, "search_memory", "notes")
        .under(1)
        .with("gen_ai.memory.query.text", "bolts")
        .with("gen_ai.memory.records", r#"[{"content":"12"}]"#);
    let events = events_of(&[agent(1, "a"), memory]);
    assert_eq!(
        (&only(&events, "tool_use")["input"], &only(&events, "tool_result")["output"]),
        (&json!({"value": "bolts"}), &json!([{"content": "12"}]))
    );
}

#[test]
fn a_tool_without_a_name_or_an_id_is_named_after_its_span() {
    for (name, told) in [
        ("execute_tool stock", "stock"),
        ("stock", "stock"),
        ("execute_tool", "execute_tool"),
        ("", "tool"),
        (" ", "tool"),
    ] {
        let nameless = span(2, name)
            .under(1)
            .with("gen_ai.operation.name", "execute_tool")
            .with("gen_ai.tool.name", " ")
            .with("gen_ai.tool.call.id", "");
        let events = events_of(&[agent(1, "a"), nameless]);
        assert_eq!(
            (&events[1]["tool_name"], &events[1]["tool_call_id"]),
            (&json!(told), &json!("0000000000000002")),
            "{name:?}"
        );
    }
}

#[test]
fn a_tool_of_pydantic_ai_has_a_name_however_blank_its_span_s_is() {
    for name in ["", " ", "\t"] {
        let events = events_of(&[agent(1, "a"), tool(2, name).under(1)].map(pydantic_ai));
        let names: Vec<&Json> = events[1..3].iter().map(|event| &event["tool_name"]).collect();
        assert!(
            names.iter().all(|name| name.as_str().is_some_and(|name| !name.trim().is_empty())),
            "{name:?}: {events:#?}"
        );
    }
}

#[test]
fn a_model_call_seen_twice_is_one_pair_with_the_fields_of_both() {
    let wrapper = model(2, "m").under(1);
    let client = model(4, "m-2")
        .under(3)
        .with("gen_ai.usage.input_tokens", 20)
        .with("gen_ai.usage.output_tokens", 4)
        .with("gen_ai.response.finish_reasons", "stop");
    let events = events_of(&[agent(1, "a"), wrapper, span(3, "POST").under(2), client]);
    assert_eq!(story(&events), inside(&["model_request a", "model_response a"]));
    let (request, response, end) =
        (only(&events, "model_request"), only(&events, "model_response"), only(&events, "agent_end"));
    assert_eq!((&request["model"], &request["request_id"]), (&json!("m"), &json!("0000000000000002")));
    assert_eq!((&response["input_tokens"], &response["stop_reason"]), (&json!(20), &json!("stop")));
    assert_eq!(end["usage"], json!({"input_tokens": 20, "output_tokens": 4, "total_tokens": 24, "requests": 1}));
}

#[test]
fn a_model_call_inside_an_agent_or_a_tool_of_another_is_one_of_its_own() {
    let spans = [agent(1, "a"), model(2, "m").under(1), tool(3, "t").under(2), model(4, "m").under(3)];
    assert_eq!(
        story_of(&spans),
        inside(&[
            "model_request a",
            "tool_use a t",
            "model_request a",
            "model_response a",
            "tool_result a t",
            "model_response a"
        ])
    );
}

#[test]
fn a_tool_seen_twice_is_one_pair_and_another_tool_inside_is_not() {
    let mcp = |name: &str| {
        operation(4, "execute_tool", name)
            .under(3)
            .with("mcp.method.name", "tools/call")
            .with("gen_ai.tool.name", name)
            .with("gen_ai.tool.call.result", "12")
    };
    let around = || [agent(1, "a"), tool(2, "stock").under(1), span(3, "POST").under(2)].to_vec();
    let spans = [around(), vec![mcp("stock")]].concat();
    let events = events_of(&spans);
    assert_eq!(story(&events), inside(&["tool_use a stock", "tool_result a stock"]));
    assert_eq!((&events[2]["tool_call_id"], &events[2]["output"]), (&json!("call-2"), &json!(12)));
    let spans = [around(), vec![mcp("price")]].concat();
    assert_eq!(
        story_of(&spans),
        inside(&["tool_use a stock", "tool_use a price", "tool_result a price", "tool_result a stock"])
    );
}

#[test]
fn an_mcp_call_inside_the_tool_that_makes_it_is_that_tool() {
    let mcp =
        span(3, "tools/call stock").under(2).with("mcp.method.name", "tools/call").with("gen_ai.tool.name", "stock");
    assert_eq!(
        story_of(&[agent(1, "a"), tool(2, "stock").under(1), mcp]),
        inside(&["tool_use a stock", "tool_result a stock"])
    );
}

#[test]
fn tokens_of_a_run_are_counted_once() {
    let spends = |span: Span<'static>, input: i64, output: i64| {
        span.with("gen_ai.usage.input_tokens", input).with("gen_ai.usage.output_tokens", output)
    };
    let usage = |spans: &[Span<'static>]| only(&events_of(spans), "agent_end")["usage"].clone();
    let calls =
        [spends(model(2, "m"), 20, 4).under(1).between(2, 10), spends(model(3, "m"), 30, 6).under(1).between(20, 30)];
    let sum = json!({"input_tokens": 50, "output_tokens": 10, "total_tokens": 60, "requests": 2});
    // The agent's own count repeats that of its calls, or is more than theirs (an agent object's whole life).
    for own in [None, Some((50, 10)), Some((500, 100))] {
        let run = own.map_or(agent(1, "a"), |(input, output)| spends(agent(1, "a"), input, output));
        assert_eq!(usage(&[run, calls[0].clone(), calls[1].clone()]), sum, "{own:?}");
    }
    assert_eq!(
        usage(&[spends(agent(1, "a"), 50, 10)]),
        json!({"input_tokens": 50, "output_tokens": 10, "total_tokens": 60})
    );
    assert_eq!(usage(&[agent(1, "a")]), Json::Null);
    // Those of a nested run are its own.
    let nested = events_of(&[
        agent(1, "outer"),
        calls[0].clone(),
        agent(4, "inner").under(1),
        spends(model(5, "m"), 7, 1).under(4),
    ]);
    let usages: Vec<&Json> = nested
        .iter()
        .filter(|event| event["type"] == "agent_end")
        .map(|event| &event["usage"]["input_tokens"])
        .collect();
    assert_eq!(usages, [&json!(7), &json!(20)]);
}

#[test]
fn cached_and_reasoning_tokens_and_cost_are_kept() {
    let call = model(2, "m")
        .under(1)
        .with("gen_ai.usage.input_tokens", 20)
        .with("gen_ai.usage.cache_read.input_tokens", 15)
        .with("gen_ai.usage.cache_creation.input_tokens", 5)
        .with("gen_ai.usage.reasoning.output_tokens", 3)
        .with("gen_ai.usage.cost", 0.25)
        .with("gen_ai.response.model", "m");
    let events = events_of(&[agent(1, "a"), call]);
    let response = only(&events, "model_response");
    assert_eq!(
        response["usage"],
        json!({"input_tokens": 20, "total_tokens": 20, "cache_read_tokens": 15, "cache_write_tokens": 5, "requests": 1})
    );
    assert_eq!((&response["fw_reasoning_tokens"], &response["fw_cost_usd"]), (&json!(3), &json!(0.25)));
}

#[test]
fn calls_without_an_agent_get_one_from_the_first_to_the_last() {
    let spans = [
        span(1, "GET /"),
        model(2, "m").under(1).between(10, 20),
        tool(3, "t").under(1).between(15, 40),
        model(4, "m").between(30, 35),
    ];
    let events = events_of(&spans);
    assert_eq!(
        story(&events),
        [
            "agent_start main",
            "model_request main",
            "tool_use main t",
            "model_response main",
            "model_request main",
            "model_response main",
            "tool_result main t",
            "agent_end main success"
        ]
    );
    let times = [0, 7].map(|at| events[at]["timestamp"].as_str().unwrap().to_owned());
    assert_eq!(times, ["2026-01-02T03:04:05.688901Z", "2026-01-02T03:04:05.718901Z"]);
    assert!([0, 7].iter().all(|at| events[*at]["fw_synthetic"] == true));
    assert!(events.iter().all(|event| event["session_id"] == format!("{:032x}", 1)));
}

#[test]
fn calls_below_parents_that_never_came_are_adopted_alike() {
    let remote = |span: Span<'static>| Span { parent_is_remote: Some(true), ..span.under(99) };
    assert_eq!(story_of(&[remote(model(1, "m")), tool(2, "t").under(98)])[0], "agent_start main");
    assert_eq!(story_of(&[remote(agent(1, "a"))]), RUN);
}

#[test]
fn a_conversation_is_the_session_of_its_whole_tree_and_of_all_its_traces() {
    let in_trace = |trace: u128, span: Span<'static>| Span {
        trace_id: TraceId::from(trace),
        span_id: SpanId::from(trace as u64 * 10),
        ..span
    };
    let run = |trace| in_trace(trace, agent(1, "a").with("gen_ai.conversation.id", "chat"));
    assert!(events_of(&[run(1), run(2)]).iter().all(|event| event["session_id"] == "chat"));
    let nested = events_of(&[
        agent(1, "a").with("gen_ai.conversation.id", "chat"),
        agent(2, "b").under(1).with("gen_ai.conversation.id", "other"),
    ]);
    assert!(nested.iter().all(|event| event["session_id"] == "chat"));
    assert_eq!((&nested[1]["fw_conversation_id"], &nested[1]["parent_id"]), (&json!("other"), &json!("a")));
}

#[test]
fn the_messages_of_an_agent_are_its_goal_and_its_summary() {
    let run = agent(1, "a")
        .with("gen_ai.input.messages", r#"[{"role":"user","parts":[{"type":"text","content":"old"}]},{"role":"assistant","parts":[{"type":"text","content":"yes"}]},{"role":"user","parts":[{"type":"text","content":"How many?"}]}]"#)
        .with("gen_ai.output.messages", r#"[{"role":"assistant","parts":[{"type":"text","content":"Twelve."}],"finish_reason":"stop"}]"#);
    let events = events_of(&[run]);
    assert_eq!((&events[0]["goal"], &events[1]["summary"]), (&json!("How many?"), &json!("Twelve.")));
}

#[test]
fn every_event_can_be_found_again_in_a_trace_store() {
    let spans = [agent(1, "a").scope("my.framework", "1.2"), tool(2, "t").under(1).scope("my.framework", "1.2")];
    for (event, id) in events_of(&spans).iter().zip([1, 2, 2, 1]) {
        assert_eq!(event["fw_span_id"], format!("{id:016x}"));
        assert_eq!(
            (&event["fw_trace_id"], &event["framework"], &event["framework_version"]),
            (&json!(format!("{:032x}", 1)), &json!("my.framework"), &json!("1.2"))
        );
        assert_eq!(event["integration_version"], env!("CARGO_PKG_VERSION"));
    }
}
