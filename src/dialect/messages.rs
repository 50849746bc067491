//! Messages, content blocks, system instructions and tool definitions: many spellings in, one form out.
//!
//! In: the semantic conventions' `{role, parts}` (1.37 and later), chat completions' `{role, content, tool_calls}`, plain
//! text. Out: the form of the Failproof contract, `{role, content}` with a text or a list of blocks.

use serde_json::{Map, Value as Json, json};

/// A list of messages in the contract's form.
pub(crate) fn normalize_messages(messages: Json) -> Vec<Json> {
    match messages {
        Json::Array(items) => items.into_iter().filter_map(normalize_message).collect(),
        Json::Object(mut object) => match object.remove("messages") {
            Some(Json::Array(items)) => items.into_iter().filter_map(normalize_message).collect(),
            Some(other) => normalize_messages(other),
            None => normalize_message(Json::Object(object)).into_iter().collect(),
        },
        Json::Null => Vec::new(),
        text => normalize_message(text).into_iter().collect(),
    }
}

/// The content of a model's answer: its blocks, or its text.
pub(crate) fn normalize_answer(messages: Json) -> Option<Json> {
    let contents = normalize_messages(messages)
        .into_iter()
        .filter_map(|mut message| message.as_object_mut().and_then(|message| message.shift_remove("content")));
    let mut contents: Vec<Json> = contents.collect();
    if contents.len() <= 1 {
        return contents.pop();
    }
    let blocks = contents.into_iter().flat_map(|content| match content {
        Json::Array(blocks) => blocks,
        text => vec![json!({"type": "text", "text": text})],
    });
    Some(Json::Array(blocks.collect()))
}

/// The role of a model's answer.
pub(crate) fn answer_role(messages: &Json) -> Option<&str> {
    let message = messages.as_array().map_or(Some(messages), |items| items.first())?;
    message.get("role")?.as_str().filter(|role| !role.trim().is_empty()).map(own_role)
}

/// The text of system instructions, whether they come as text or as parts.
pub(crate) fn instructions_text(instructions: &Json) -> Option<String> {
    let text = match instructions {
        Json::String(text) => text.clone(),
        Json::Array(parts) => {
            let texts: Vec<String> = parts.iter().filter_map(instructions_text).collect();
            texts.join("\n\n")
        }
        Json::Object(part) => part.get("content").or_else(|| part.get("text")).and_then(instructions_text)?,
        _ => return None,
    };
    (!text.trim().is_empty()).then_some(text)
}

/// The system instructions that stand among the messages.
pub(crate) fn system_of_messages(messages: &[Json]) -> Option<String> {
    let texts: Vec<String> = messages
        .iter()
        .filter(|message| matches!(message["role"].as_str(), Some("system" | "developer")))
        .filter_map(|message| text_of(&message["content"]))
        .collect();
    (!texts.is_empty()).then(|| texts.join("\n\n"))
}

/// The text of a message's content; of blocks the text ones, a line each.
pub(crate) fn text_of(content: &Json) -> Option<String> {
    let text = match content {
        Json::String(text) => text.clone(),
        Json::Array(blocks) => {
            let texts: Vec<&str> = blocks.iter().filter_map(|block| block["text"].as_str()).collect();
            texts.join("\n")
        }
        _ => return None,
    };
    (!text.trim().is_empty()).then_some(text)
}

/// The text of the last message of a user; a question that is a text is one.
pub(crate) fn last_question(asked: Json) -> Option<String> {
    let messages = normalize_messages(asked);
    messages.iter().rev().find(|message| message["role"] == "user").and_then(|message| text_of(&message["content"]))
}

/// Tools as `{name, description, input_schema}`.
pub(crate) fn normalize_tools(tools: Json) -> Vec<Json> {
    let Json::Array(tools) = tools else { return Vec::new() };
    tools.into_iter().flat_map(declarations).filter_map(normalize_tool).collect()
}

/// Gemini's interface has the tools of a kind in one entry.
fn declarations(mut tool: Json) -> Vec<Json> {
    for key in ["functionDeclarations", "function_declarations"] {
        if let Some(Json::Array(tools)) = tool.get_mut(key).map(Json::take) {
            return tools;
        }
    }
    vec![tool]
}

/// Keys under which a tool's schema stands.
const SCHEMA_KEYS: [&str; 5] = ["input_schema", "parameters", "inputSchema", "parameters_json_schema", "json_schema"];

fn normalize_tool(tool: Json) -> Option<Json> {
    let tool = match tool {
        Json::String(text) => match crate::span::parse_json_text(&text) {
            Json::Object(tool) => return normalize_tool(Json::Object(tool)),
            _ => return Some(json!({ "name": text })),
        },
        Json::Object(mut tool) => match tool.remove("function") {
            Some(Json::Object(function)) => function,
            _ => tool,
        },
        _ => return None,
    };
    let mut out = Map::new();
    out.insert("name".into(), tool.get("name").filter(|name| name.is_string())?.clone());
    if let Some(description) = tool.get("description").filter(|description| description.is_string()) {
        out.insert("description".into(), description.clone());
    }
    if let Some(schema) = SCHEMA_KEYS.iter().find_map(|key| tool.get(*key)).filter(|schema| schema.is_object()) {
        out.insert("input_schema".into(), schema.clone());
    }
    Some(Json::Object(out))
}

/// Items of OpenAI's Responses API that are no messages but stand among them, and whose they are.
const ITEMS: [(&str, &str); 5] = [
    ("function_call", "assistant"),
    ("custom_tool_call", "assistant"),
    ("reasoning", "assistant"),
    ("function_call_output", "tool"),
    ("custom_tool_call_output", "tool"),
];

/// Whether it is the type of an item that stands among messages.
pub(super) fn is_item(kind: &str) -> bool {
    ITEMS.iter().any(|(name, _)| *name == kind)
}

fn normalize_message(message: Json) -> Option<Json> {
    let mut message = match message {
        Json::Object(message) => message,
        Json::Null => return None,
        text => return Some(json!({"role": "user", "content": plain_text(text)})),
    };
    let kind = message.get("type").and_then(Json::as_str);
    let item = ITEMS.iter().find(|(name, _)| Some(*name) == kind && !message.contains_key("role"));
    if let Some((_, role)) = item {
        return Some(json!({"role": role, "content": [normalize_part(Json::Object(message))]}));
    }
    let role = match message.get("role").and_then(Json::as_str) {
        Some(role) if !role.trim().is_empty() => own_role(role).to_owned(),
        _ => "assistant".to_owned(),
    };
    let content = match (message.remove("parts"), message.remove("content")) {
        (Some(Json::Array(parts)), _) | (_, Some(Json::Array(parts))) => {
            Json::Array(parts.into_iter().map(normalize_part).collect())
        }
        (_, Some(content)) => plain_text(content),
        _ => Json::Null,
    };
    let calls = match message.remove("tool_calls") {
        Some(Json::Array(calls)) => calls.into_iter().map(normalize_part).collect(),
        _ => Vec::new(),
    };
    let content = match (role.as_str(), message.remove("tool_call_id").or_else(|| message.remove("id"))) {
        ("tool", Some(id)) => {
            let answers_already =
                content.as_array().is_some_and(|blocks| blocks.iter().any(|block| block["type"] == "tool_result"));
            if answers_already {
                content
            } else {
                json!([{"type": "tool_result", "tool_use_id": id, "content": content}])
            }
        }
        _ if calls.is_empty() => content,
        _ => {
            let mut blocks = match content {
                Json::Array(blocks) => blocks,
                Json::String(text) if !text.is_empty() => vec![json!({"type": "text", "text": text})],
                _ => Vec::new(),
            };
            blocks.extend(calls);
            Json::Array(blocks)
        }
    };
    let content = if content.is_null() { Json::Array(Vec::new()) } else { content };
    Some(json!({"role": role, "content": content}))
}

/// Google's interfaces call the assistant a model.
fn own_role(role: &str) -> &str {
    if role == "model" { "assistant" } else { role }
}

fn plain_text(content: Json) -> Json {
    match content {
        text @ (Json::String(_) | Json::Null) => text,
        other => Json::String(other.to_string()),
    }
}

/// Parts without a type: the one member that they have names it (Gemini's and Genkit's interfaces).
const NAMED_BY_MEMBER: &[(&str, &str)] = &[
    ("functionCall", "tool_call"),
    ("function_call", "tool_call"),
    ("toolRequest", "tool_call"),
    ("functionResponse", "tool_call_response"),
    ("function_response", "tool_call_response"),
    ("toolResponse", "tool_call_response"),
    ("inlineData", "blob"),
    ("inline_data", "blob"),
    ("fileData", "uri"),
    ("file_data", "uri"),
    ("media", "media"),
    ("reasoning", "thinking"),
];

/// One part of a message as a block of the contract.
fn normalize_part(part: Json) -> Json {
    let mut part = match part {
        Json::Object(part) => part,
        other => return json!({"type": "text", "text": plain_text(other)}),
    };
    if let Some(Json::Object(function)) = part.remove("function") {
        part.extend(function);
        part.insert("type".into(), "tool_call".into());
    }
    if !part.contains_key("type") {
        for (member, kind) in NAMED_BY_MEMBER {
            match part.remove(*member) {
                Some(Json::Object(inner)) => part = inner,
                Some(text) => drop(part.insert("content".into(), text)),
                None => continue,
            }
            part.insert("type".into(), (*kind).into());
            break;
        }
    }
    let kind = part.get("type").and_then(Json::as_str).unwrap_or("text").to_owned();
    match kind.as_str() {
        "text" | "input_text" | "output_text" => block("text", [("text", take(&mut part, &["content", "text"]))]),
        "thinking" | "reasoning" => {
            block("thinking", [("thinking", take(&mut part, &["content", "thinking", "text", "reasoning"]))])
        }
        "tool_call" | "tool_use" | "tool-call" | "function_call" | "custom_tool_call" | "server_tool_call" => {
            let arguments = take(&mut part, &["arguments", "input", "args"]).map(parsed);
            let id = take_id(&mut part, &["tool_call_id", "call_id", "toolCallId", "ref", "id"]);
            block("tool_use", [("id", id), ("name", take(&mut part, &["name", "toolName"])), ("input", arguments)])
        }
        "tool_call_response"
        | "tool_result"
        | "tool-result"
        | "function_call_output"
        | "custom_tool_call_output"
        | "server_tool_call_response" => {
            let id = take_id(&mut part, &["tool_use_id", "tool_call_id", "call_id", "toolCallId", "ref", "id"]);
            let result = take(&mut part, &["result", "response", "content", "output"]).map(untyped);
            block("tool_result", [("tool_use_id", id), ("content", result)])
        }
        _ => media(&kind, part),
    }
}

/// What the Vercel AI SDK wraps a tool's result in, from its version 5 on.
const RESULT_TYPES: [&str; 5] = ["text", "json", "error-text", "error-json", "content"];

/// A result without the envelope `{type, value}` of the Vercel AI SDK.
fn untyped(mut result: Json) -> Json {
    let is_wrapped = result.as_object().is_some_and(|members| {
        let kind = members.get("type").and_then(Json::as_str);
        members.len() == 2 && members.contains_key("value") && kind.is_some_and(|kind| RESULT_TYPES.contains(&kind))
    });
    if is_wrapped { result.get_mut("value").map(Json::take).unwrap_or_default() } else { result }
}

/// Media and whatever else: its type, its mime type and where it is or how big, never the bytes.
fn media(kind: &str, mut part: Map<String, Json>) -> Json {
    let uri = take(&mut part, &["uri", "url", "file_id", "fileUri", "file_uri"])
        .filter(|uri| uri.as_str().is_none_or(|uri| !uri.starts_with("data:")));
    let mime_type = take(&mut part, &["mime_type", "media_type", "mimeType", "mediaType", "contentType"]);
    let modality = take(&mut part, &["modality"]);
    let encoded = take(&mut part, &["content", "data", "source", "image_url"]);
    // Base64: four characters for three bytes.
    let size = encoded.as_ref().and_then(Json::as_str).map(|text| Json::from(text.trim_end_matches('=').len() * 3 / 4));
    block(kind, [("modality", modality), ("mime_type", mime_type), ("uri", uri), ("size", size)])
}

fn block<const N: usize>(kind: &str, members: [(&str, Option<Json>); N]) -> Json {
    let mut block = Map::new();
    block.insert("type".into(), kind.into());
    block.extend(members.into_iter().filter_map(|(key, value)| Some((key.to_owned(), value?))));
    Json::Object(block)
}

fn take(part: &mut Map<String, Json>, keys: &[&str]) -> Option<Json> {
    keys.iter().find_map(|key| part.remove(*key)).filter(|value| !value.is_null())
}

/// Takes a member out of what may be an object; null if it is none, or has no such member. (`value["key"]` that can be
/// changed panics on anything but an object.)
pub(super) fn take_member(value: &mut Json, key: &str) -> Json {
    value.get_mut(key).map(Json::take).unwrap_or_default()
}

/// The id of a call; a blank one is none.
fn take_id(part: &mut Map<String, Json>, keys: &[&str]) -> Option<Json> {
    take(part, keys).filter(|id| id.as_str().is_none_or(|id| !id.trim().is_empty()))
}

fn parsed(value: Json) -> Json {
    match value {
        Json::String(text) => crate::span::parse_json_text(&text),
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_of_the_semantic_conventions_become_blocks() {
        let messages = json!([
            {"role": "user", "parts": [{"type": "text", "content": "How many?"}, {"type": "uri", "modality": "image", "uri": "https://example.com/bolt.png"}]},
            {"role": "assistant", "parts": [
                {"type": "thinking", "content": "look"},
                {"type": "tool_call", "id": "c1", "name": "stock", "arguments": "{\"item\":\"bolt\"}"}], "finish_reason": "tool_call"},
            {"role": "tool", "parts": [{"type": "tool_call_response", "id": "c1", "response": 12}]},
            {"role": "user", "parts": [{"type": "blob", "mime_type": "image/png", "content": "AAAA"}]},
        ]);
        assert_eq!(
            Json::Array(normalize_messages(messages)),
            json!([
                {"role": "user", "content": [{"type": "text", "text": "How many?"}, {"type": "uri", "modality": "image", "uri": "https://example.com/bolt.png"}]},
                {"role": "assistant", "content": [{"type": "thinking", "thinking": "look"}, {"type": "tool_use", "id": "c1", "name": "stock", "input": {"item": "bolt"}}]},
                {"role": "tool", "content": [{"type": "tool_result", "tool_use_id": "c1", "content": 12}]},
                {"role": "user", "content": [{"type": "blob", "mime_type": "image/png", "size": 3}]},
            ])
        );
    }

    #[test]
    fn chat_completions_become_blocks() {
        let messages = json!([
            {"role": "system", "content": "Be terse."},
            {"role": "assistant", "content": null, "tool_calls": [{"id": "c1", "type": "function", "function": {"name": "stock", "arguments": "{}"}}]},
            {"role": "tool", "tool_call_id": "c1", "content": "12"},
        ]);
        assert_eq!(
            Json::Array(normalize_messages(messages)),
            json!([
                {"role": "system", "content": "Be terse."},
                {"role": "assistant", "content": [{"type": "tool_use", "id": "c1", "name": "stock", "input": {}}]},
                {"role": "tool", "content": [{"type": "tool_result", "tool_use_id": "c1", "content": "12"}]},
            ])
        );
    }

    #[test]
    fn parts_that_their_one_member_names_become_blocks() {
        let messages = json!([
            {"role": "user", "parts": [{"text": "How many?"}, {"inlineData": {"mimeType": "image/png", "data": "AAAA"}}]},
            {"role": "model", "parts": [{"functionCall": {"id": "c1", "name": "stock", "args": {"item": "bolt"}}}]},
            {"role": "user", "parts": [{"functionResponse": {"id": "c1", "name": "stock", "response": {"output": 12}}}]},
            {"role": "model", "content": [{"reasoning": "look"}, {"toolRequest": {"name": "stock", "ref": "c2", "input": {}}}]},
            {"role": "tool", "content": [{"toolResponse": {"name": "stock", "ref": "c2", "output": 12}}]},
            {"role": "tool", "content": [{"type": "tool-result", "toolCallId": "c3", "toolName": "stock", "output": {"type": "json", "value": 12}}]},
        ]);
        assert_eq!(
            Json::Array(normalize_messages(messages)),
            json!([
                {"role": "user", "content": [{"type": "text", "text": "How many?"}, {"type": "blob", "mime_type": "image/png", "size": 3}]},
                {"role": "assistant", "content": [{"type": "tool_use", "id": "c1", "name": "stock", "input": {"item": "bolt"}}]},
                {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "c1", "content": {"output": 12}}]},
                {"role": "assistant", "content": [{"type": "thinking", "thinking": "look"}, {"type": "tool_use", "id": "c2", "name": "stock", "input": {}}]},
                {"role": "tool", "content": [{"type": "tool_result", "tool_use_id": "c2", "content": 12}]},
                {"role": "tool", "content": [{"type": "tool_result", "tool_use_id": "c3", "content": 12}]},
            ])
        );
    }

    #[test]
    fn tools_come_out_in_one_form() {
        let tools = json!([
            {"type": "function", "name": "a", "description": "A", "parameters": {"type": "object"}},
            {"type": "function", "function": {"name": "b", "parameters": {"type": "object"}}},
            "c",
        ]);
        assert_eq!(
            Json::Array(normalize_tools(tools)),
            json!([
                {"name": "a", "description": "A", "input_schema": {"type": "object"}},
                {"name": "b", "input_schema": {"type": "object"}},
                {"name": "c"},
            ])
        );
    }
}
