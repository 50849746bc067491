//! What `input.value` and `output.value` hold, out of the wrappers that each framework puts around it.

use serde_json::{Map, Value as Json, json};

use super::messages::{self, take_member};
use super::{langchain, python_literal};

/// Roles of messages as a framework calls them, and what it makes of them when it sends them.
const ROLES: [(&str, &str); 3] = [("tool-call", "assistant"), ("tool-response", "user"), ("model", "assistant")];

/// One flattened message in the form of chat completions.
pub(super) fn flattened_message(mut entry: Json) -> Option<Json> {
    let Json::Object(mut fields) = entry.get_mut("message")?.take() else { return None };
    let mut message = Map::new();
    if let Some(role) = fields.get("role").and_then(Json::as_str) {
        let sent = ROLES.iter().find(|(name, _)| *name == role).map_or(role, |(_, sent)| sent);
        message.insert("role".into(), sent.into());
    }
    let parts = match fields.shift_remove("contents") {
        Some(Json::Array(parts)) => parts.into_iter().filter_map(flattened_part).collect(),
        _ => Vec::new(),
    };
    if let Some(content) = fields.shift_remove("content").filter(|_| parts.is_empty()) {
        message.insert("content".into(), content);
    } else if !parts.is_empty() {
        message.insert("content".into(), parts.into());
    }
    let mut calls = match fields.shift_remove("tool_calls") {
        Some(Json::Array(calls)) => calls.into_iter().filter_map(flattened_call).collect(),
        _ => Vec::new(),
    };
    if let Some(name) = fields.shift_remove("function_call_name") {
        calls.push(json!({"type": "tool_call", "name": name, "arguments": fields.shift_remove("function_call_arguments_json")}));
    }
    if !calls.is_empty() {
        message.insert("tool_calls".into(), calls.into());
    }
    for key in ["tool_call_id", "finish_reason"] {
        message.extend(fields.shift_remove(key).map(|value| (key.to_owned(), value)));
    }
    (!message.is_empty()).then_some(Json::Object(message))
}

fn flattened_part(mut part: Json) -> Option<Json> {
    let Json::Object(mut part) = part.get_mut("message_content")?.take() else { return None };
    if let Some(url) = part.shift_remove("image").and_then(|image| image.pointer("/image/url").cloned()) {
        let bytes = url.as_str().and_then(|url| url.strip_prefix("data:")?.split_once(','));
        let member = bytes.map_or(("url", url.clone()), |(_, bytes)| ("data", Json::from(bytes)));
        part.insert(member.0.into(), member.1);
    }
    Some(Json::Object(part))
}

fn flattened_call(mut call: Json) -> Option<Json> {
    let call = call.get_mut("tool_call")?.take();
    let function = &call["function"];
    // CrewAI's listener quotes the name.
    let name = function["name"].as_str().map(|name| name.trim_matches('\''));
    // No arguments are left out.
    let arguments = function.get("arguments").cloned().or_else(|| Some(json!({})));
    let mut members = Map::from_iter([("type".to_owned(), Json::from("tool_call"))]);
    for (key, value) in [("id", call.get("id").cloned()), ("name", name.map(Json::from)), ("arguments", arguments)] {
        members.extend(value.map(|value| (key.to_owned(), value)));
    }
    Some(Json::Object(members))
}

/// What a model was sent, by the raw input of its span.
pub(super) fn request(input: Json) -> Vec<Json> {
    let messages = match input {
        Json::Object(mut members) => {
            let instructions = members.shift_remove("instructions").filter(Json::is_string);
            let sent = ["messages", "input"].iter().find_map(|key| members.shift_remove(*key));
            let mut sent = sent.map(entries).unwrap_or_default();
            if let Some(instructions) = instructions {
                sent.insert(0, json!({"role": "system", "content": instructions}));
            }
            sent
        }
        Json::Array(items) => entries(Json::Array(items)),
        _ => Vec::new(),
    };
    whole(messages)
}

/// What it answered, by the raw output.
pub(super) fn answer(output: Json) -> Vec<Json> {
    let items = match &output {
        Json::Array(calls) if !calls.is_empty() && calls.iter().all(|call| call["function"].is_object()) => {
            vec![json!({"role": "assistant", "tool_calls": calls})]
        }
        Json::Array(items) => items.clone(),
        _ => ["choices", "generations", "output", "messages"]
            .iter()
            .find_map(|key| output.get(*key))
            .map_or_else(|| vec![output.clone()], |items| entries(items.clone())),
    };
    let messages = items.into_iter().map(|item| match item {
        Json::String(text) => json!({"role": "assistant", "content": text}),
        mut item => match (
            item.get("message").is_some(),
            item.get("text").is_some() && item.get("type") != Some(&json!("message")),
        ) {
            (true, _) => take_member(&mut item, "message"),
            (_, true) => json!({"role": "assistant", "content": take_member(&mut item, "text")}),
            _ => item,
        },
    });
    whole(messages.collect())
}

/// A list; of a batch the only one.
fn entries(items: Json) -> Vec<Json> {
    match items {
        Json::Array(mut items) if items.len() == 1 && items[0].is_array() => {
            items.pop().map(entries).unwrap_or_default()
        }
        Json::Array(items) => items,
        text => vec![text],
    }
}

/// The messages if every one of them is one: data of another shape, cut or written as text, is none.
fn whole(messages: Vec<Json>) -> Vec<Json> {
    let messages: Vec<Json> = messages.into_iter().map(langchain::chat_message).collect();
    let is_message = |message: &Json| {
        let is_item = message["type"].as_str().is_some_and(messages::is_item);
        let has_role =
            message["role"].is_string() && (message.get("content").is_some() || message.get("tool_calls").is_some());
        has_role || is_item
    };
    if messages.iter().all(is_message) { messages } else { Vec::new() }
}

/// Why the model stopped, as the provider's answer says it.
pub(super) fn finish_reason(output: &Json) -> Option<Json> {
    let places = [
        "/choices/0/finish_reason",
        "/generations/0/0/generation_info/finish_reason",
        "/generations/0/0/message/kwargs/response_metadata/finish_reason",
    ];
    places.iter().find_map(|place| output.pointer(place)).filter(|reason| reason.is_string()).cloned()
}

/// The model that answered, as the provider's answer says it.
pub(super) fn model(output: &Json) -> Option<Json> {
    let places = [
        "/model",
        "/generations/0/0/message/kwargs/response_metadata/model_name",
        "/generations/0/0/message/kwargs/response_metadata/model",
        "/model_version",
    ];
    places.iter().find_map(|place| output.pointer(place)).filter(|model| model.is_string()).cloned()
}

/// Members of an input that are the question by themselves.
const QUESTIONS: [&str; 7] = ["task", "user_msg", "message", "question", "query", "prompt", "input"];
/// Members that hold the input proper.
const WRAPPERS: [&str; 3] = ["input_args", "kwargs", "inputs"];

/// What a run was asked.
pub(super) fn goal(mut input: Json) -> Option<Json> {
    if let Json::Object(members) = &mut input {
        without_objects(members);
    }
    let Json::Object(members) = &input else {
        return (!input.is_null()).then_some(input);
    };
    // The state that a workflow starts with, or a command that one goes on by, asks nothing.
    if members.contains_key("init_state") || members.contains_key("goto") {
        return None;
    }
    if members.get("messages").is_some_and(Json::is_array) {
        return langchain::last_text(&input, "user").map(Json::from);
    }
    if let Some(goal) = input.pointer("/agent/goal") {
        return Some(goal.clone());
    }
    if let Some(inner) = WRAPPERS.iter().find_map(|key| members.get(*key)).filter(|inner| inner.is_object()) {
        return goal(inner.clone());
    }
    let question = QUESTIONS.iter().find_map(|key| members.get(*key)).filter(|question| question.is_string());
    let only = members.values().next().filter(|value| members.len() == 1 && value.is_string());
    question.or(only).cloned().or_else(|| (!members.is_empty()).then(|| Json::from(input.to_string())))
}

/// What a run gave.
pub(super) fn summary(output: Json) -> Option<Json> {
    match &output {
        Json::Null => None,
        Json::String(text) if text.starts_with("StopEvent(") => repr_text(text).map(Json::from),
        Json::Object(members) => {
            let raw = members.get("raw").and_then(Json::as_str).map(str::to_owned);
            let text = raw.or_else(|| langchain::last_text(&output, "assistant"));
            let text = text.or_else(|| gemini_text(members.get("content")?)).map(Json::from);
            // The state of a graph whose model said nothing, a paused one for example, is no answer.
            let is_state = members.get("messages").is_some_and(Json::is_array);
            text.or_else(|| (!is_state).then(|| Json::from(output.to_string())))
        }
        Json::Array(_) => Some(Json::from(output.to_string())),
        _ => Some(output),
    }
}

/// The text of an answer of LlamaIndex, which is there as a `repr` alone and often cut.
fn repr_text(repr: &str) -> Option<String> {
    let (_, after) = repr.split_once("block_type='text'")?;
    python_literal::field(after, "text")?.as_str().map(str::to_owned)
}

fn gemini_text(content: &Json) -> Option<String> {
    let texts: Vec<&str> = content["parts"].as_array()?.iter().filter_map(|part| part["text"].as_str()).collect();
    (!texts.is_empty()).then(|| texts.join("\n"))
}

/// The arguments that the model sent, out of what the tool was called with.
pub(super) fn arguments(input: Json, parameters: &Json) -> Json {
    let mut members = match input {
        Json::Object(members) => members,
        Json::String(text) if text.starts_with("{'") => {
            return python_literal::parse(&text).unwrap_or(Json::String(text));
        }
        other => return other,
    };
    let is_call = members.keys().all(|key| matches!(key.as_str(), "args" | "kwargs" | "sanitize_inputs_outputs"));
    if let (true, Some(Json::Object(_))) = (is_call, members.get("kwargs")) {
        let by_position = members.shift_remove("args");
        if let Some(Json::Object(by_name)) = members.shift_remove("kwargs") {
            members = by_name;
        }
        if let (Some(Json::Array(values)), Json::Object(parameters)) = (by_position, parameters) {
            members.extend(parameters.keys().cloned().zip(values));
        }
    }
    without_objects(&mut members);
    Json::Object(members)
}

/// Contexts, functions and the like are handed in by the framework.
fn without_objects(members: &mut Map<String, Json>) {
    let is_object = |value: &Json| value.as_str().is_some_and(|text| text.starts_with('<') && text.contains(" at 0x"));
    members.retain(|_, value| !is_object(value));
}

/// What a hook was handed: of a step with its context the event.
pub(super) fn handed(input: Json) -> Json {
    match input {
        Json::Object(mut members) if members.contains_key("ev") => {
            without_objects(&mut members);
            if members.len() == 1 { members.shift_remove("ev").unwrap_or_default() } else { Json::Object(members) }
        }
        other => other,
    }
}

/// The calls that a step was handed: LangGraph's nodes get a list, or one beside the state; LlamaIndex's steps an event.
pub(super) fn handed_calls(input: &Json) -> Option<Json> {
    let calls: Vec<Json> = match (input, input["ev"].as_str()) {
        (Json::Array(calls), _) => calls.iter().filter(|call| call["type"] == "tool_call").cloned().collect(),
        (_, Some(event)) if event.starts_with("ToolCall(") => {
            let field = |name| python_literal::field(event, name);
            let (id, name, arguments) = (field("tool_id"), field("tool_name"), field("tool_kwargs"));
            vec![json!({"type": "tool_call", "id": id, "name": name, "arguments": arguments})]
        }
        _ => ["tool_call", "lg_tool_call"].iter().filter_map(|key| input.get(*key)).cloned().collect(),
    };
    (!calls.is_empty()).then_some(Json::Array(calls))
}

/// What a tool gave, and what its envelope says of the call.
#[derive(Default)]
pub(super) struct ToolResult {
    pub content: Json,
    pub call_id: Option<Json>,
    pub is_error: bool,
}

/// A tool's result out of the envelopes of LangChain, LlamaIndex and Google ADK.
pub(super) fn tool_result(output: Json) -> ToolResult {
    let inner = output.get("output").filter(|_| output.as_object().is_some_and(|members| members.len() == 1));
    if let Some(answer) = langchain::tool_answer(inner.unwrap_or(&output)) {
        let call_id = answer.call_id.map(Json::from);
        return ToolResult { content: answer.content.clone(), call_id, is_error: answer.failed };
    }
    if let (Some(raw), Some(is_error)) = (output.get("raw_output"), output.get("is_error").and_then(Json::as_bool)) {
        return ToolResult { content: raw.clone(), is_error, ..ToolResult::default() };
    }
    if let (Some(response), Some(_), Some(3)) =
        (output.get("response"), output.get("name"), output.as_object().map(Map::len))
    {
        return ToolResult { content: response.clone(), call_id: output.get("id").cloned(), is_error: false };
    }
    ToolResult { content: output, ..ToolResult::default() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments_lose_what_the_framework_added() {
        let schema = json!({"city": {"type": "string"}, "days": {"type": "integer"}});
        let told = |input| arguments(input, &schema);
        assert_eq!(
            told(json!({"args": ["Paris"], "kwargs": {"days": 2}, "sanitize_inputs_outputs": true})),
            json!({"days": 2, "city": "Paris"})
        );
        assert_eq!(
            told(json!({"kwargs": {"a": 1, "ctx": "<workflows.context.context.Context object at 0x7fc65dd737d0>"}})),
            json!({"a": 1})
        );
        assert_eq!(told(json!({"kwargs": "own argument of the tool"})), json!({"kwargs": "own argument of the tool"}));
        assert_eq!(told(json!("{'city': 'Rome'}")), json!({"city": "Rome"}));
        assert_eq!(told(json!("{'city': 'Ro")), json!("{'city': 'Ro"));
    }

    #[test]
    fn raw_answers_of_every_provider_are_messages() {
        let call = json!({"type": "function_call", "call_id": "c1", "name": "t", "arguments": "{}"});
        assert_eq!(
            answer(json!({"choices": [{"message": {"role": "assistant", "content": "hi"}}]})),
            [json!({"role": "assistant", "content": "hi"})]
        );
        assert_eq!(answer(json!({"output": [call], "usage": {}})), std::slice::from_ref(&call));
        let function = json!({"id": "c1", "type": "function", "function": {"name": "t", "arguments": "{}"}});
        assert_eq!(answer(json!([function])), [json!({"role": "assistant", "tool_calls": [function]})]);
        assert_eq!(answer(json!(["hi"])), [json!({"role": "assistant", "content": "hi"})]);
        assert_eq!(answer(json!({"rows": 3})), [] as [Json; 0]);
        assert_eq!(answer(json!(null)), [] as [Json; 0]);
        assert_eq!(request(json!({"messages": ["ChatMessage(role=..."]})), [] as [Json; 0]);
    }
}
