//! The GenAI semantic conventions from 1.27 to the newest, and one call seen twice.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod support;

use opentelemetry_failproof::span::{Span, SpanEvent, Value};
use serde_json::{Value as Json, json};
use support::spans::*;

fn list(items: &[&str]) -> Value<'static> {
    Value::Array(items.iter().map(|item| Value::from((*item).to_owned())).collect())
}

/// The request and the response of one model call of an agent.
fn exchange(call: Span<'static>) -> (Json, Json) {
    let events = events_of(&[agent(1, "a"), call.under(1)]);
    (only(&events, "model_request").clone(), only(&events, "model_response").clone())
}

fn pick(event: &Json, fields: &[&str]) -> Json {
    fields
        .iter()
        .filter_map(|field| Some(((*field).to_owned(), event.get(field)?.clone())))
        .collect::<serde_json::Map<_, _>>()
        .into()
}

/// Three messages and their answer, in the contract's form: what each era has to give.
fn expected_messages() -> Json {
    json!([
        {"role": "system", "content": "Be terse."},
        {"role": "user", "content": "How many bolts?"},
        {"role": "assistant", "content": [{"type": "tool_use", "id": "c1", "name": "stock", "input": {"item": "bolt"}}]},
        {"role": "tool", "content": [{"type": "tool_result", "tool_use_id": "c1", "content": "12"}]},
    ])
}

#[test]
fn version_1_27_holds_its_messages_in_two_attributes() {
    let call = model(2, "gpt-4o")
        .with("gen_ai.system", "openai")
        .with("gen_ai.response.model", "gpt-4o-2024-08-06")
        .with("gen_ai.response.id", "chatcmpl-1")
        .with("gen_ai.response.finish_reasons", list(&["stop"]))
        .with("gen_ai.usage.input_tokens", 20)
        .with("gen_ai.usage.output_tokens", 4)
        .with("gen_ai.prompt", r#"[{"role":"user","content":"How many bolts?"}]"#)
        .with("gen_ai.completion", r#"[{"role":"assistant","content":"Twelve."}]"#);
    let (request, response) = exchange(call);
    assert_eq!(
        pick(&request, &["model", "messages", "system", "request_id", "fw_provider", "fw_run_step"]),
        json!({"model": "gpt-4o", "messages": [{"role": "user", "content": "How many bolts?"}], "request_id": "0000000000000002", "fw_provider": "openai", "fw_run_step": 1})
    );
    assert_eq!(
        pick(
            &response,
            &[
                "model",
                "stop_reason",
                "input_tokens",
                "output_tokens",
                "content",
                "role",
                "request_id",
                "error",
                "duration_ms",
                "usage",
                "fw_provider_response_id"
            ]
        ),
        json!({
            "model": "gpt-4o-2024-08-06", "stop_reason": "stop", "input_tokens": 20, "output_tokens": 4, "content": "Twelve.", "role": "assistant",
            "request_id": "0000000000000002", "duration_ms": 996,
            "usage": {"input_tokens": 20, "output_tokens": 4, "total_tokens": 24, "requests": 1}, "fw_provider_response_id": "chatcmpl-1",
        })
    );
}

#[test]
fn the_oldest_names_of_token_counts_are_read() {
    let (_, response) =
        exchange(model(2, "m").with("gen_ai.usage.prompt_tokens", 20).with("gen_ai.usage.completion_tokens", "4"));
    assert_eq!(pick(&response, &["input_tokens", "output_tokens"]), json!({"input_tokens": 20, "output_tokens": 4}));
}

#[test]
fn a_text_that_is_no_json_is_a_message_of_the_user_and_of_the_assistant() {
    let (request, response) =
        exchange(model(2, "m").with("gen_ai.prompt", "How many?").with("gen_ai.completion", "Twelve."));
    assert_eq!(request["messages"], json!([{"role": "user", "content": "How many?"}]));
    assert_eq!(pick(&response, &["content", "role"]), json!({"content": "Twelve.", "role": "assistant"}));
    // Cut by the SDK's limit for lengths: text, not nothing.
    let (request, _) = exchange(model(2, "m").with("gen_ai.input.messages", r#"[{"role":"user","parts":[{"ty"#));
    assert_eq!(request["messages"], json!([{"role": "user", "content": r#"[{"role":"user","parts":[{"ty"#}]));
}

#[test]
fn versions_1_28_to_1_36_hold_a_message_in_each_span_event() {
    let call_of_tool =
        r#"[{"id":"c1","type":"function","function":{"name":"stock","arguments":"{\"item\":\"bolt\"}"}}]"#;
    let call = model(2, "m")
        .with("gen_ai.system", "openai")
        .event("gen_ai.system.message", texts(&[("gen_ai.system", "openai"), ("content", "Be terse.")]))
        .event("gen_ai.user.message", texts(&[("gen_ai.system", "openai"), ("content", "How many bolts?")]))
        .event("gen_ai.assistant.message", texts(&[("role", "assistant"), ("tool_calls", call_of_tool)]))
        .event("gen_ai.tool.message", texts(&[("id", "c1"), ("content", "12")]))
        .event(
            "gen_ai.choice",
            texts(&[
                ("index", "0"),
                ("finish_reason", "stop"),
                ("message", r#"{"role":"assistant","content":"Twelve."}"#),
            ]),
        );
    let (request, response) = exchange(call);
    assert_eq!(request["messages"], expected_messages());
    assert_eq!(request["system"], "Be terse.");
    assert_eq!(
        pick(&response, &["stop_reason", "content", "role"]),
        json!({"stop_reason": "stop", "content": "Twelve.", "role": "assistant"})
    );
}

#[test]
fn events_in_one_attribute_hold_the_same() {
    let body = |name: &str, body: &str| (name.to_owned(), texts(&[("gen_ai.event.content", body)]));
    let call = [
        body("gen_ai.system.message", r#"{"content":"Be terse."}"#),
        body("gen_ai.user.message", r#"{"role":"user","content":"How many bolts?"}"#),
        body(
            "gen_ai.choice",
            r#"{"index":0,"finish_reason":"length","message":{"role":"assistant","content":"Twel"}}"#,
        ),
    ];
    let call = call.into_iter().fold(model(2, "m"), |span, (name, attributes)| span.event(&name, attributes));
    let (request, response) = exchange(call);
    assert_eq!(request["messages"], json!(expected_messages().as_array().unwrap()[..2]));
    assert_eq!(pick(&response, &["stop_reason", "content"]), json!({"stop_reason": "length", "content": "Twel"}));
}

#[test]
fn an_answer_of_several_choices_keeps_them_all() {
    let choice = |text: &str| texts(&[("finish_reason", "stop"), ("message", &format!("{{\"content\":\"{text}\"}}"))]);
    let (_, response) =
        exchange(model(2, "m").event("gen_ai.choice", choice("One.")).event("gen_ai.choice", choice("Two.")));
    assert_eq!(response["content"], json!([{"type": "text", "text": "One."}, {"type": "text", "text": "Two."}]));
}

const INPUT_1_37: &str = r#"[
    {"role":"user","parts":[{"type":"text","content":"How many bolts?"},{"type":"uri","modality":"image","mime_type":"image/png","uri":"https://example.com/bolt.png"}]},
    {"role":"assistant","parts":[{"type":"reasoning","content":"look"},{"type":"tool_call","id":"c1","name":"stock","arguments":{"item":"bolt"}}]},
    {"role":"tool","parts":[{"type":"tool_call_response","id":"c1","response":{"count":12}}]},
    {"role":"user","parts":[{"type":"blob","modality":"image","mime_type":"image/png","content":"QUJDRA=="},{"type":"compaction","id":"k"}]}]"#;
const OUTPUT_1_37: &str =
    r#"[{"role":"assistant","parts":[{"type":"text","content":"Twelve."}],"finish_reason":"stop"}]"#;

fn check_1_37(call: Span<'static>) {
    let (request, response) = exchange(call);
    assert_eq!(
        request["messages"],
        json!([
            {"role": "user", "content": [{"type": "text", "text": "How many bolts?"}, {"type": "uri", "modality": "image", "mime_type": "image/png", "uri": "https://example.com/bolt.png"}]},
            {"role": "assistant", "content": [{"type": "thinking", "thinking": "look"}, {"type": "tool_use", "id": "c1", "name": "stock", "input": {"item": "bolt"}}]},
            {"role": "tool", "content": [{"type": "tool_result", "tool_use_id": "c1", "content": {"count": 12}}]},
            {"role": "user", "content": [{"type": "blob", "modality": "image", "mime_type": "image/png", "size": 4}, {"type": "compaction"}]},
        ])
    );
    assert_eq!(
        pick(&request, &["system", "fw_provider"]),
        json!({"system": "Be terse.\n\nBe right.", "fw_provider": "anthropic"})
    );
    assert_eq!(
        pick(&response, &["stop_reason", "content", "role"]),
        json!({"stop_reason": "stop", "content": [{"type": "text", "text": "Twelve."}], "role": "assistant"})
    );
}

#[test]
fn since_version_1_37_messages_are_attributes_or_details_of_one_event() {
    const SYSTEM: &str = r#"[{"type":"text","content":"Be terse."},{"type":"text","content":"Be right."}]"#;
    let fields = [
        ("gen_ai.input.messages", INPUT_1_37),
        ("gen_ai.output.messages", OUTPUT_1_37),
        ("gen_ai.system_instructions", SYSTEM),
    ];
    let call = || model(2, "m").with("gen_ai.provider.name", "anthropic").with("gen_ai.system", "az.ai.openai");
    check_1_37(fields.iter().fold(call(), |span, (key, value)| span.with(key, *value)));
    check_1_37(call().event("gen_ai.client.inference.operation.details", texts(&fields)));
}

#[test]
fn messages_as_lists_of_attributes_are_those_of_json_text() {
    let text = |text: &str| Value::from(text.to_owned());
    let part = Value::Map(vec![("type".into(), text("text")), ("content".into(), text("How many?"))]);
    let message = Value::Map(vec![("role".into(), text("user")), ("parts".into(), Value::Array(vec![part]))]);
    let (request, _) = exchange(model(2, "m").with("gen_ai.input.messages", Value::Array(vec![message])));
    assert_eq!(request["messages"], json!([{"role": "user", "content": [{"type": "text", "text": "How many?"}]}]));
}

#[test]
fn instructions_as_plain_text_and_a_system_message_among_the_others_are_the_system() {
    let (request, _) = exchange(model(2, "m").with("gen_ai.system_instructions", "Be terse."));
    assert_eq!(request["system"], "Be terse.");
    let messages = r#"[{"role":"system","parts":[{"type":"text","content":"Be terse."}]},{"role":"user","parts":[]}]"#;
    let (request, _) = exchange(model(2, "m").with("gen_ai.input.messages", messages));
    assert_eq!(request["system"], "Be terse.");
}

#[test]
fn results_of_tools_stand_under_any_of_their_names() {
    for key in ["response", "result", "content"] {
        let messages = format!(r#"[{{"role":"user","parts":[{{"type":"tool_call_response","id":"c1","{key}":12}}]}}]"#);
        let (request, _) = exchange(model(2, "m").with("gen_ai.input.messages", messages));
        assert_eq!(
            request["messages"][0]["content"],
            json!([{"type": "tool_result", "tool_use_id": "c1", "content": 12}]),
            "{key}"
        );
    }
}

#[test]
fn a_call_without_any_content_gives_valid_events() {
    let (request, response) = exchange(model(2, "m"));
    assert_eq!(pick(&request, &["model", "messages", "system", "tools"]), json!({"model": "m"}));
    assert_eq!(
        pick(&response, &["content", "stop_reason", "input_tokens", "usage", "role"]),
        json!({"role": "assistant"})
    );
}

#[test]
fn finish_reasons_come_as_a_list_as_json_text_or_as_text() {
    for reasons in [list(&["tool_calls", "stop"]), Value::from(r#"["tool_calls"]"#), Value::from("tool_calls")] {
        let (_, response) = exchange(model(2, "m").with("gen_ai.response.finish_reasons", reasons));
        assert_eq!(response["stop_reason"], "tool_calls");
    }
    for nothing in [list(&[]), list(&[" "]), Value::from("[]"), Value::from(""), Value::Int(7)] {
        let (_, response) = exchange(model(2, "m").with("gen_ai.response.finish_reasons", nothing));
        assert_eq!(response.get("stop_reason"), None);
    }
}

#[test]
fn definitions_of_tools_come_in_many_forms_and_leave_in_one() {
    let expected = json!([{"name": "stock", "description": "how many", "input_schema": {"type": "object"}}]);
    for definitions in [
        r#"[{"type":"function","name":"stock","description":"how many","parameters":{"type":"object"}}]"#,
        r#"[{"type":"function","function":{"name":"stock","description":"how many","parameters":{"type":"object"}}}]"#,
        r#"[{"name":"stock","description":"how many","input_schema":{"type":"object"}}]"#,
        r#"[{"name":"stock","description":"how many","inputSchema":{"type":"object"}}]"#,
    ] {
        let (request, _) = exchange(model(2, "m").with("gen_ai.tool.definitions", definitions));
        assert_eq!(request["tools"], expected, "{definitions}");
    }
    // Attributes that are lists of JSON texts.
    let (request, _) = exchange(model(2, "m").with(
        "gen_ai.tool.definitions",
        list(&[r#"{"name":"stock","description":"how many","parameters":{"type":"object"}}"#]),
    ));
    assert_eq!(request["tools"], expected);
    for nothing in ["[]", "no list", "[1]", r#"[{"description":"nameless"}]"#] {
        let (request, _) = exchange(model(2, "m").with("gen_ai.tool.definitions", nothing));
        assert_eq!(request.get("tools"), None, "{nothing}");
    }
}

#[test]
fn a_stream_rides_on_the_response_and_gives_no_event_a_token() {
    let mut call =
        model(2, "m").with("gen_ai.request.stream", true).with("gen_ai.response.time_to_first_chunk", 0.1234);
    for _ in 0..50 {
        call.events.push(SpanEvent {
            name: "gen_ai.content.completion.chunk".into(),
            time: NOW + 5 * MS,
            ..SpanEvent::default()
        });
    }
    let events = events_of(&[agent(1, "a"), call.under(1)]);
    assert_eq!(story(&events), ["agent_start a", "model_request a", "model_response a", "agent_end a success"]);
    assert_eq!(pick(&events[2], &["fw_ttft_ms", "fw_streaming"]), json!({"fw_ttft_ms": 123, "fw_streaming": true}));
}

#[test]
fn numbers_out_of_range_are_left_out_and_never_clamped() {
    for (tokens, written) in [
        (Value::Int(0), Some(0)),
        (Value::Int(4_294_967_295), Some(4_294_967_295_u64)),
        (Value::Int(4_294_967_296), None),
        (Value::Int(-1), None),
        (Value::Double(1.5), None),
        (Value::Double(2.0), Some(2)),
        (Value::from("many"), None),
    ] {
        let (_, response) = exchange(model(2, "m").with("gen_ai.usage.input_tokens", tokens.clone()));
        assert_eq!(response.get("input_tokens").and_then(Json::as_u64), written, "{tokens:?}");
    }
}
