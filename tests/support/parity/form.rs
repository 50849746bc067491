//! One form for what the official adapter and we say in different ones, so that the rest can be compared.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::framework_form;

/// Values by field.
pub(super) type Form = BTreeMap<String, Value>;

/// What brings the events of one adapter, and ours of the same run, into one form.
pub(super) struct Forms {
    pub official: fn(&Value) -> Form,
    pub ours: fn(&Value) -> Form,
}

/// The forms for what an adapter told: the one of Pydantic AI has its own way to tell of messages.
pub(super) fn forms(told: &[Value]) -> Forms {
    if told.iter().any(|event| event["framework"] == "pydantic_ai") {
        Forms { official, ours }
    } else {
        Forms { official: framework_form::official, ours: framework_form::ours }
    }
}

/// Fields of identity and origin, the same for all types.
const COMMON: [&str; 4] = ["session_id", "agent_id", "framework", "framework_version"];
/// Never alike: compared in another way, or saying something of the one who tells.
const APART: [&str; 6] = ["timestamp", "type", "environment", "integration_version", "request_id", "duration_ms"];
/// The extras that the official adapter has; ours are more.
const EXTRAS: [&str; 12] = [
    "fw_conversation_id",
    "fw_incomplete",
    "fw_messages_omitted",
    "fw_metadata",
    "fw_model",
    "fw_provider",
    "fw_provider_response_id",
    "fw_run_id",
    "fw_run_step",
    "fw_streaming",
    "fw_tool_kind",
    "fw_truncated",
];

fn official(event: &Value) -> Form {
    form(event, |name, value| match name {
        // What the adapter calls the system is the provider.
        "system" => Some(("fw_provider", value.clone())),
        "messages" => Some((name, list(value, |message| list(&message["parts"], official_part)).into())),
        "content" => Some((name, list(value, official_part).into())),
        _ => Some((name, value.clone())),
    })
}

fn ours(event: &Value) -> Form {
    form(event, |name, value| match name {
        "system" => None,
        "messages" => Some((name, list(value, |message| our_parts(&message["content"])).into())),
        "content" => Some((name, our_parts(value).into())),
        _ if name.starts_with("fw_") && !EXTRAS.contains(&name) => None,
        _ => Some((name, value.clone())),
    })
}

fn form<'e>(event: &'e Value, convert: impl Fn(&'e str, &Value) -> Option<(&'e str, Value)>) -> Form {
    let kind = event["type"].as_str().unwrap_or_default();
    let mut form = Form::new();
    for (name, value) in event.as_object().into_iter().flatten().filter(|(name, _)| !APART.contains(&name.as_str())) {
        let Some((name, value)) = convert(name, value) else { continue };
        let value = match name {
            "tools" => list(&value, |tool| vec![json!([tool["name"], tool["description"]])]).into(),
            // Frames above the framework are those of whoever listens.
            "traceback" => value.as_str().and_then(|text| text.trim_end().lines().last()).into(),
            _ => value,
        };
        let name = if COMMON.contains(&name) { name.to_owned() } else { format!("{kind}.{name}") };
        // No parts are the same as none.
        if value != json!([]) {
            form.insert(name, value);
        }
    }
    form
}

pub(super) fn list(value: &Value, convert: impl Fn(&Value) -> Vec<Value>) -> Vec<Value> {
    value.as_array().into_iter().flatten().flat_map(convert).collect()
}

fn official_part(part: &Value) -> Vec<Value> {
    let (kind, id, content) = (part["part_kind"].as_str().unwrap_or_default(), &part["tool_call_id"], &part["content"]);
    let has_id = id.is_string();
    match kind {
        _ if content.is_null() => vec![],
        "thinking" => vec![json!(["thinking", content])],
        _ if kind.ends_with("tool-call") => vec![json!(["tool_use", id, parsed(content)])],
        _ if kind.ends_with("tool-return") || (has_id && kind == "retry-prompt") => {
            vec![json!(["tool_result", id, content])]
        }
        "user-prompt" if content.is_array() => list(content, |item| vec![said(item)]),
        _ => vec![said(content)],
    }
}

/// A text, or something to look at or to hear.
fn said(item: &Value) -> Value {
    match item.as_str().or(item["content"].as_str()) {
        Some(text) => json!(["text", text]),
        None if item["url"].is_string() => json!(["media", item["url"]]),
        None if item["data"].is_string() => json!(["media"]),
        None => json!(["text", item]),
    }
}

fn our_parts(content: &Value) -> Vec<Value> {
    match content {
        Value::String(text) => vec![json!(["text", text])],
        blocks => list(blocks, our_part),
    }
}

fn our_part(block: &Value) -> Vec<Value> {
    match block["type"].as_str().unwrap_or_default() {
        "tool_use" if block.get("input").is_some() => vec![json!(["tool_use", block["id"], block["input"]])],
        "tool_result" if block.get("content").is_some() => {
            vec![json!(["tool_result", block["tool_use_id"], block["content"]])]
        }
        "thinking" if block.get("thinking").is_some() => vec![json!(["thinking", block["thinking"]])],
        "text" if block.get("text").is_some() => vec![json!(["text", block["text"]])],
        "tool_use" | "tool_result" | "thinking" | "text" => vec![],
        _ if block["uri"].is_string() => vec![json!(["media", block["uri"]])],
        _ => vec![json!(["media"])],
    }
}

/// Arguments that came as text, as streams bring them.
pub(super) fn parsed(arguments: &Value) -> Value {
    arguments.as_str().and_then(|text| serde_json::from_str(text).ok()).unwrap_or_else(|| arguments.clone())
}
