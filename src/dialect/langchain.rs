//! LangChain's messages as JSON, whoever serialized them: `{lc, id, kwargs}` as LangChain does, `{type, data}` as older
//! versions do, the fields themselves, or the short forms that an application may hand in.

use serde_json::{Map, Value as Json, json};

use super::messages::{normalize_messages, text_of};

/// Roles by what LangChain calls the types and classes of its messages.
const ROLES: &[(&str, &[&str])] = &[
    ("user", &["human", "user", "HumanMessage", "HumanMessageChunk"]),
    ("assistant", &["ai", "assistant", "AIMessage", "AIMessageChunk"]),
    ("system", &["system", "developer", "SystemMessage", "SystemMessageChunk"]),
    ("tool", &["tool", "function", "ToolMessage", "ToolMessageChunk", "FunctionMessage"]),
];

/// How the classes of parts are called that a LangChain or LlamaIndex application can also run by themselves: pipes,
/// prompts, parsers, indices. They have no goal and decide nothing.
const PARTS_START: &[&str] = &["Runnable", "ChannelWrite", "ChannelRead", "Prompt"];
const PARTS_END: &[&str] = &[
    "PromptTemplate",
    "OutputParser",
    "Lambda",
    "Splitter",
    "NodeParser",
    "Embedding",
    "Embeddings",
    "Index",
    "Retriever",
    "Reader",
    "Extractor",
    "Synthesizer",
    "Postprocessor",
    "Store",
    "Refine",
    "Accumulate",
];

/// Whether a run is named after the class of such a part.
pub(super) fn is_part(name: &str) -> bool {
    let class = name.split(['<', '[']).next().unwrap_or(name);
    PARTS_START.iter().any(|start| class.starts_with(start)) || PARTS_END.iter().any(|end| class.ends_with(end))
}

/// What a tool gave, as the message that takes it to the model says it.
pub(super) struct ToolAnswer<'j> {
    pub content: &'j Json,
    pub call_id: Option<&'j str>,
    pub name: Option<&'j str>,
    /// The tool raised, and the text of what it raised went to the model.
    pub failed: bool,
}

/// The tool message in what a tool returned: the value itself, or the last one of the update of a `Command`.
pub(super) fn tool_answer(value: &Json) -> Option<ToolAnswer<'_>> {
    if let Some(messages) = value["update"]["messages"].as_array() {
        return messages.iter().rev().find_map(tool_answer);
    }
    let fields = fields(value)?;
    let call_id = fields.get("tool_call_id").and_then(Json::as_str);
    if role(value, fields) != Some("tool") && call_id.is_none() {
        return None;
    }
    Some(ToolAnswer {
        content: fields.get("content")?,
        call_id,
        name: fields.get("name").and_then(Json::as_str),
        failed: fields.get("status").and_then(Json::as_str) == Some("error"),
    })
}

/// The text of the last message of a role, in a graph's state or input.
pub(super) fn last_text(state: &Json, of_role: &str) -> Option<String> {
    let messages = match state {
        Json::Array(_) => state,
        _ => &state["messages"],
    };
    let last = messages.as_array()?.iter().rev().map(in_chat_form).find(|message| message["role"] == of_role)?;
    let message = normalize_messages(json!([last])).pop()?;
    text_of(&message["content"])
}

/// The name that the last answer in a graph's state carries: its agent's.
pub(super) fn last_author(state: &Json) -> Option<&str> {
    let answers = state["messages"].as_array()?.iter().rev().filter_map(|message| Some((message, fields(message)?)));
    answers.into_iter().find(|(message, fields)| role(message, fields) == Some("assistant"))?.1.get("name")?.as_str()
}

/// A whole message, its calls too, in the form of chat completions; what is no message of LangChain's stays as it is.
pub(super) fn chat_message(message: Json) -> Json {
    let Some(fields) = fields(&message).filter(|fields| fields.contains_key("content")) else { return message };
    let Some(role) = role(&message, fields) else { return message };
    let list = |fields: &Map<String, Json>| match fields.get("tool_calls") {
        Some(Json::Array(calls)) => calls.clone(),
        _ => Vec::new(),
    };
    let mut calls = list(fields);
    if calls.is_empty() {
        calls = fields.get("additional_kwargs").and_then(Json::as_object).map(list).unwrap_or_default();
    }
    let mut content = fields.get("content").cloned().unwrap_or_default();
    if let (Json::Array(parts), false) = (&mut content, calls.is_empty()) {
        // Some providers tell a call among the parts too.
        parts.retain(|part| !matches!(part["type"].as_str(), Some("tool_use" | "tool_call" | "function_call")));
    }
    let finish_reason = fields.get("response_metadata").and_then(|metadata| metadata.get("finish_reason"));
    let mut chat = Map::new();
    chat.insert("role".into(), role.into());
    chat.insert("content".into(), content);
    chat.extend((!calls.is_empty()).then(|| ("tool_calls".to_owned(), calls.into())));
    for (key, value) in [("tool_call_id", fields.get("tool_call_id")), ("finish_reason", finish_reason)] {
        chat.extend(value.filter(|value| value.is_string()).map(|value| (key.to_owned(), value.clone())));
    }
    Json::Object(chat)
}

/// A message as chat completions write it.
fn in_chat_form(message: &Json) -> Json {
    if let Some([role, content]) = message.as_array().map(Vec::as_slice) {
        return json!({"role": role.as_str().map(role_of), "content": content});
    }
    if message.is_string() {
        return json!({"role": "user", "content": message});
    }
    let Some(fields) = fields(message) else { return Json::Null };
    json!({"role": role(message, fields), "content": fields.get("content")})
}

/// A message's own fields.
fn fields(message: &Json) -> Option<&Map<String, Json>> {
    let object = message.as_object()?;
    let inner = ["kwargs", "data"].iter().find_map(|key| object.get(*key)?.as_object());
    Some(inner.filter(|_| object.contains_key("type")).unwrap_or(object))
}

fn role<'j>(message: &'j Json, fields: &'j Map<String, Json>) -> Option<&'j str> {
    let class = message["id"].as_array().and_then(|id| id.last()).and_then(Json::as_str);
    let named = fields.get("role").or_else(|| fields.get("type")).and_then(Json::as_str);
    let outer = message["type"].as_str().filter(|kind| *kind != "constructor");
    class.or(named).or(outer).map(role_of)
}

fn role_of(name: &str) -> &str {
    ROLES.iter().find(|(_, names)| names.contains(&name)).map_or(name, |(role, _)| role)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_form_of_a_message_is_read() {
        for message in [
            json!(["user", "hi"]),
            json!("hi"),
            json!({"role": "user", "content": "hi"}),
            json!({"type": "human", "content": [{"type": "text", "text": "hi"}]}),
            json!({"type": "human", "data": {"content": "hi"}}),
            json!({"lc": 1, "type": "constructor", "id": ["langchain_core", "messages", "HumanMessage"], "kwargs": {"content": "hi"}}),
        ] {
            let state = json!({"messages": [message, {"type": "ai", "content": "", "name": "bot"}]});
            assert_eq!(last_text(&state, "user").as_deref(), Some("hi"), "{state}");
            assert_eq!(last_author(&state), Some("bot"));
        }
        assert_eq!(last_text(&json!({"messages": [null, 3, []]}), "user"), None);
    }

    #[test]
    fn a_command_answers_with_its_last_tool_message() {
        let message = json!({"type": "tool", "content": "done", "tool_call_id": "c1", "status": "error"});
        let command = json!({"graph": null, "update": {"messages": [message]}, "goto": []});
        let answer = tool_answer(&command)
            .map(|answer| (answer.content.clone(), answer.call_id.map(str::to_owned), answer.failed));
        assert_eq!(answer, Some((json!("done"), Some("c1".to_owned()), true)));
        assert!(tool_answer(&json!({"content": "a tool's own result"})).is_none());
        assert!(tool_answer(&json!("text")).is_none());
    }

    #[test]
    fn a_call_among_the_parts_is_told_once() {
        let message = json!({"lc": 1, "type": "constructor", "id": ["x", "AIMessageChunk"], "kwargs": {
            "content": [{"type": "text", "text": "a"}, {"type": "tool_use", "id": "c1", "name": "t", "input": {}}],
            "tool_calls": [{"name": "t", "args": {}, "id": "c1", "type": "tool_call"}]}});
        let call = json!({"name": "t", "args": {}, "id": "c1", "type": "tool_call"});
        assert_eq!(
            chat_message(message),
            json!({"role": "assistant", "content": [{"type": "text", "text": "a"}], "tool_calls": [call]})
        );
    }
}
