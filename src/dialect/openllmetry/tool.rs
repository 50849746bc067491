//! What went into a tool and what came out of it, out of what each framework's spans wrap it in.

use serde_json::{Value as Json, json};

use super::super::{Fact, Reading, langchain, python_literal};
use super::{ENTITY_NAME, INPUTS, OUTPUTS, content, entity, is_retriever, parsed, replace, unwrapped};
use crate::span::Span;

pub(super) fn read<'s>(span: &'s Span<'_>, reading: &mut Reading<'s>) {
    if is_retriever(span) {
        let name = format!("retriever:{}", entity(span).unwrap_or_default());
        replace(reading, Fact::ToolName, name, "the retriever's class");
    }
    let given = reading.json(Fact::ToolInput).unwrap_or_else(|| content(span, INPUTS));
    let given_call = given["kwargs"]["tool_call_id"].as_str().map(str::to_owned);
    let sent = arguments(given);
    if !sent.is_null() {
        replace(reading, Fact::ToolInput, sent, "arguments within the input");
    }
    let returned = reading.json(Fact::ToolOutput).unwrap_or_else(|| content(span, OUTPUTS));
    let result = ToolResult::read(&returned, reading.framework);
    if let Some(name) = result.name {
        // The JavaScript package names the tool's class.
        replace(reading, Fact::ToolName, name, "name within the result");
    }
    if let Some(name) = entity(span) {
        reading.add(Fact::ToolName, name, ENTITY_NAME);
    }
    if let Some(id) = result.call_id.map(str::to_owned).or(given_call) {
        reading.add(Fact::ToolCallId, id, "tool_call_id within the input or the result");
    }
    if let Some(error) = result.error {
        reading.add(Fact::ErrorMessage, error, "the result says that it is an error");
    }
    match result.content {
        Json::Null => reading.remove(Fact::ToolOutput),
        content => replace(reading, Fact::ToolOutput, content, "content within the result"),
    }
}

/// The arguments as the model sent them, out of what the frameworks wrap them in.
pub(super) fn arguments(given: Json) -> Json {
    let Json::Object(wrapper) = &given else { return given };
    if let Some(text) = wrapper.get("input_str") {
        // Python's writing of the arguments; beside it, in newer versions, the arguments.
        let inputs = wrapper.get("inputs").filter(|inputs| inputs.is_object()).cloned();
        let literal = || text.as_str().and_then(python_literal::parse).filter(Json::is_object);
        return inputs.or_else(literal).unwrap_or_else(|| text.clone());
    }
    if let (true, Some(arguments)) = (wrapper.contains_key("tool_name"), wrapper.get("arguments")) {
        return arguments.clone();
    }
    if let (Some(query), true) = (wrapper.get("query"), wrapper.contains_key("kwargs")) {
        return json!({ "query": query });
    }
    if let Some(query) = wrapper.get("str_or_query_bundle").or(wrapper.get("query_bundle")) {
        return json!({ "query": query.get("query_str").unwrap_or(query) });
    }
    let is_call = wrapper.keys().all(|key| matches!(key.as_str(), "args" | "kwargs"));
    let by_name = wrapper.get("kwargs").filter(|kwargs| kwargs.as_object().is_some_and(|kwargs| !kwargs.is_empty()));
    match (by_name, wrapper.get("args").and_then(Json::as_array).map(Vec::as_slice)) {
        (Some(by_name), None | Some([])) if is_call => by_name.clone(),
        (None, Some([only])) if is_call => parsed(only.clone()),
        (None, None | Some([])) if is_call => json!({}),
        _ => given,
    }
}

/// What a tool gave, out of what the frameworks wrap it in.
struct ToolResult<'j> {
    content: Json,
    name: Option<&'j str>,
    call_id: Option<&'j str>,
    error: Option<Json>,
}

impl<'j> ToolResult<'j> {
    fn read(returned: &'j Json, framework: Option<&str>) -> Self {
        match framework {
            Some("langchain") => Self::of_langchain(returned),
            Some("llama_index") => Self::of_llama_index(returned),
            Some("agno") => Self::of_agno(returned),
            Some("mcp") => Self::of_mcp(returned),
            _ => Self::plain(returned.clone()),
        }
    }

    fn plain(content: Json) -> Self {
        ToolResult { content, name: None, call_id: None, error: None }
    }

    fn of_langchain(returned: &'j Json) -> Self {
        let output = unwrapped(returned, "output");
        let Some(answer) = langchain::tool_answer(output) else {
            return Self::plain(unwrapped(output, "documents").clone());
        };
        let error = answer.failed.then(|| answer.content.clone());
        ToolResult { content: answer.content.clone(), name: answer.name, call_id: answer.call_id, error }
    }

    /// The step that calls a tool gives the call's id and the tool's output; the tool itself only the latter.
    fn of_llama_index(returned: &'j Json) -> Self {
        let output = returned.get("tool_output").unwrap_or(returned);
        let blocks = || {
            let texts = output["blocks"].as_array()?.iter().filter_map(|block| block["text"].as_str());
            Some(Json::from(texts.collect::<Vec<_>>().join("\n")))
        };
        let content = output.get("raw_output").filter(|raw| !raw.is_null()).cloned().or_else(blocks);
        let error = (output["is_error"] == true).then(|| content.clone()).flatten();
        ToolResult {
            content: content.unwrap_or_else(|| output.clone()),
            name: output["tool_name"].as_str(),
            call_id: returned["tool_id"].as_str(),
            error,
        }
    }

    /// The text of a dataclass: `status='success' result='…' error=None …`.
    fn of_agno(returned: &'j Json) -> Self {
        let Some(text) = returned.as_str().filter(|text| text.starts_with("status=")) else {
            return Self::plain(returned.clone());
        };
        let failed = python_literal::field(text, "status") == Some("failure".into());
        let error = python_literal::field(text, "error").filter(|error| failed && !error.is_null());
        let content = match python_literal::field(text, "result") {
            Some(result) => result,
            None if failed => Json::Null,
            None => returned.clone(),
        };
        ToolResult { content, name: None, call_id: None, error: error.or_else(|| failed.then(|| "".into())) }
    }

    fn of_mcp(returned: &'j Json) -> Self {
        let result = unwrapped(returned, "result").clone();
        let error = (returned["is_error"] == true).then(|| result.clone());
        ToolResult { content: result, name: None, call_id: None, error }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments_come_out_of_every_wrapper() {
        for (given, sent) in [
            (
                json!({"input_str": "{'city': 'Paris'}", "inputs": {"city": "Paris"}, "kwargs": {}}),
                json!({"city": "Paris"}),
            ),
            (json!({"input_str": "{'city': \"L'Aquila\"}", "tags": []}), json!({"city": "L'Aquila"})),
            (json!({"input_str": "plain", "inputs": null}), json!("plain")),
            (json!({"tool_name": "t", "arguments": {"city": "Paris"}}), json!({"city": "Paris"})),
            (json!({"args": ["{\"city\":\"Paris\"}"]}), json!({"city": "Paris"})),
            (json!({"kwargs": {"city": "Paris"}}), json!({"city": "Paris"})),
            (json!({"args": [], "kwargs": {}}), json!({})),
            (json!({"query_bundle": {"query_str": "what?"}}), json!({"query": "what?"})),
            // A tool's own arguments of such names, and what a limit cut.
            (json!({"kwargs": {"a": 1}, "city": "Paris"}), json!({"kwargs": {"a": 1}, "city": "Paris"})),
            (json!("{\"input_str\": \"{'ci"), json!("{\"input_str\": \"{'ci")),
        ] {
            assert_eq!(arguments(given), sent);
        }
    }

    #[test]
    fn failures_that_only_results_tell_are_found() {
        let read = |returned: Json, framework| {
            let result = ToolResult::read(&returned, Some(framework));
            (result.content, result.error)
        };
        let message = json!({"output": {"type": "tool", "content": "no", "tool_call_id": "c1", "status": "error"}});
        assert_eq!(read(message, "langchain"), (json!("no"), Some(json!("no"))));
        let failed = json!("status='failure' result=None error=\"can't\" files=None");
        assert_eq!(read(failed, "agno"), (Json::Null, Some(json!("can't"))));
        let cut = json!("status='success' result='sunny in Par");
        assert_eq!(read(cut.clone(), "agno"), (cut, None));
        let output = json!({"tool_id": "c1", "tool_output": {"raw_output": "no", "is_error": true}});
        assert_eq!(read(output, "llama_index"), (json!("no"), Some(json!("no"))));
        assert_eq!(read(json!({"result": "no", "is_error": true}), "mcp"), (json!("no"), Some(json!("no"))));
        assert_eq!(
            read(json!("{\"output\": {\"lc\": 1, \"kwa"), "langchain"),
            (json!("{\"output\": {\"lc\": 1, \"kwa"), None)
        );
    }
}
