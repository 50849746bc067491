//! The form of what the official adapters of LangGraph, CrewAI and LlamaIndex and we say alike.

use serde_json::{Value, json};

use super::form::{Form, list, parsed};

/// What is compared of each type. Inputs and outputs of hooks have as many forms as there are states of a program.
#[rustfmt::skip]
const FIELDS: [(&str, &[&str]); 13] = [
    ("agent_start", &["goal", "parent_id"]),
    ("agent_end", &["outcome", "summary"]),
    ("agent_pause", &["pause_id"]),
    ("agent_resume", &["pause_id"]),
    ("tool_use", &["tool_name", "tool_call_id", "input"]),
    ("tool_result", &["tool_name", "tool_call_id", "output", "error"]),
    ("model_request", &["model", "messages", "tools"]),
    ("model_response", &["model", "stop_reason", "input_tokens", "output_tokens", "content", "role", "error", "usage"]),
    ("hook_triggered", &["hook_name", "trigger_event"]),
    ("hook_completed", &["hook_name", "outcome", "error"]),
    ("error", &["error_type", "message", "traceback"]),
    ("human_wait", &["input_id", "prompt", "options"]),
    ("human_input", &["input_id", "response"]),
];

pub(super) fn official(event: &Value) -> Form {
    form(event, |name, value| match name {
        "messages" => list(value, official_message).into(),
        "tools" => list(value, |tool| vec![json!([tool["function"]["name"], tool["function"]["description"]])]).into(),
        "usage" => official_usage(value),
        _ => value.clone(),
    })
}

pub(super) fn ours(event: &Value) -> Form {
    // The adapters leave the instructions among the messages, and so do some spans.
    let among = list(&event["messages"], |message| vec![message["role"].clone()]).contains(&"system".into());
    let instructions = event["system"].as_str().filter(|_| !among).map(|text| json!(["system", text]));
    form(event, |name, value| match name {
        "messages" => instructions.iter().cloned().chain(list(value, our_message)).collect::<Vec<_>>().into(),
        // The adapters leave the calls out of the content.
        "content" => our_text(value).into(),
        "tools" => list(value, |tool| vec![json!([tool["name"], tool["description"]])]).into(),
        "usage" => counts(["input_tokens", "output_tokens", "total_tokens"].map(|name| &value[name])),
        _ => value.clone(),
    })
}

fn form(event: &Value, convert: impl Fn(&str, &Value) -> Value) -> Form {
    let kind = event["type"].as_str().unwrap_or_default();
    let (_, fields) = FIELDS.iter().find(|(name, _)| *name == kind).expect("no adapter tells of another type");
    let common = ["session_id", "agent_id"].map(|name| (name.to_owned(), event[name].clone()));
    let said = fields.iter().filter_map(|name| {
        let value = match *name {
            // Frames above the framework are those of whoever listens.
            "traceback" => event[*name].as_str()?.trim_end().lines().last().into(),
            name => convert(name, event.get(name)?),
        };
        // No parts and no text are the same as none; and so is a usage of neither tokens in nor out.
        let is_nothing = value == json!([]) || value == "" || value == json!([null, null, null]);
        (!is_nothing).then(|| (format!("{kind}.{name}"), value))
    });
    common.into_iter().chain(said).collect()
}

fn official_message(message: &Value) -> Vec<Value> {
    let (role, text) = (&message["role"], our_text(&message["content"]));
    let calls = list(&message["tool_calls"], |call| {
        let function = if call["function"].is_object() { &call["function"] } else { call };
        let input = function.get("args").or(function.get("arguments")).unwrap_or(&Value::Null);
        vec![json!(["tool_use", function["name"], parsed(input)])]
    });
    said(role, &text).into_iter().chain(calls).collect()
}

fn our_message(message: &Value) -> Vec<Value> {
    let blocks = list(&message["content"], |block| match block["type"].as_str() {
        Some("tool_use") => vec![json!(["tool_use", block["name"], block["input"]])],
        Some("tool_result") => said(&message["role"], &our_text(&block["content"])),
        _ => vec![],
    });
    said(&message["role"], &our_text(&message["content"])).into_iter().chain(blocks).collect()
}

fn said(role: &Value, text: &str) -> Vec<Value> {
    if text.is_empty() { vec![] } else { vec![json!([role, text])] }
}

/// The texts of a content, one after the other.
fn our_text(content: &Value) -> String {
    match content {
        Value::String(text) => text.clone(),
        blocks => list(blocks, |block| block.get("text").cloned().into_iter().collect())
            .iter()
            .filter_map(Value::as_str)
            .collect(),
    }
}

/// LlamaIndex hands on what the provider calls them.
fn official_usage(usage: &Value) -> Value {
    let either = |name: &str, other: &str| usage.get(name).or(usage.get(other)).cloned().unwrap_or_default();
    let (input, output) = (either("input_tokens", "prompt_tokens"), either("output_tokens", "completion_tokens"));
    counts([&input, &output, &usage["total_tokens"]])
}

fn counts(counts: [&Value; 3]) -> Value {
    json!(counts)
}
