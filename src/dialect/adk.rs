//! Google's Agent Development Kit.
//!
//! Emitted by: `google-adk` 1.x and 2.x for Python; the relatives for Go, Java and Rust as far as their sources tell.
//! Detected by: scope `gcp.vertex.agent`, or attributes `gcp.vertex.agent.*`.
//! Agent: `invoke_agent` (`agent_run [name]` until 1.2) and `invoke_workflow`, which tells the same run once more where an
//! agent of its name is within. Model: `generate_content`, `call_llm` with the one or the other within. Tool:
//! `execute_tool`, except the one that merges the results of parallel calls. Hook: `invoke_node`. Session:
//! `gen_ai.conversation.id`, `gcp.vertex.agent.session_id`. Errors: `exception` events, on the tool twice; an error code of
//! the model's answer. A tool that wants to be confirmed is no failure, a pending result is a result.
//! Known gaps: without the opt-in 2.x has no content on spans; no id on a failed tool; the confirmed call and the
//! continued run look like others; a cancelled run looks like a success.

use serde_json::{Value as Json, json};

use super::{About, Dialect, Fact, Kind, Reading, Recognized};
use crate::span::Span;

const SCOPE: &str = "gcp.vertex.agent";
/// Attributes that nobody else writes.
const MARKS: [&str; 4] = [
    "gcp.vertex.agent.invocation_id",
    "gcp.vertex.agent.event_id",
    "gcp.vertex.agent.session_id",
    "gcp.vertex.agent.llm_request",
];
const REQUEST: &str = "gcp.vertex.agent.llm_request";
const RESPONSE: &str = "gcp.vertex.agent.llm_response";
const TOOL_RESPONSE: &str = "gcp.vertex.agent.tool_response";
/// What stands in the place of ids and results that are not there.
const NOT_SPECIFIED: &str = "<not specified>";
/// What stands in the place of content that is not captured.
const NO_CONTENT: &str = "{}";
/// The result of a call that a person has to confirm first (`FunctionTool`).
const WANTS_CONFIRMATION: &str = "This tool call requires confirmation, please approve or reject.";

/// What each operation stands for; where there is none, the span's name up to its object takes its place.
const OPERATIONS: &[(&str, Kind, &str)] = &[
    ("invoke_agent", Kind::Agent, "operation invoke_agent"),
    ("invoke_workflow", Kind::Agent, "operation invoke_workflow"),
    ("agent_run", Kind::Agent, "agent_run of ADK 1.2"),
    ("agent.execute", Kind::Agent, "agent.execute of adk-rust"),
    ("generate_content", Kind::Model, "operation generate_content"),
    ("call_llm", Kind::Model, "call_llm of ADK 1"),
    ("execute_tool", Kind::Tool, "operation execute_tool"),
    ("invoke_node", Kind::Hook, "operation invoke_node"),
    ("invocation", Kind::Transparent, "the invocation around the agent"),
];

pub(super) struct Adk;

impl Dialect for Adk {
    fn about(&self) -> &'static About {
        &About {
            name: "adk",
            emitted_by: "Google ADK for Python, 1.x and 2.x; for Go, Java and Rust unverified",
            verified: "google-adk 1.2, 1.18, 2.13",
            gaps: "2.x has no content without its opt-in; no id of a failed call; a cancelled run looks like a success",
        }
    }

    fn keys(&self) -> &'static [(Fact, &'static [&'static str])] {
        &[
            (Fact::AgentName, &["gen_ai.agent.name", "gen_ai.workflow.name", "agent.name"]),
            (Fact::ConversationId, &["gen_ai.conversation.id", "gcp.vertex.agent.session_id"]),
            (Fact::ToolName, &["gen_ai.tool.name", "tool.name"]),
            (Fact::ToolCallId, &["gen_ai.tool.call.id", "gen_ai.tool_call.id"]),
            (Fact::ToolInput, &["gen_ai.tool.call.arguments", "gcp.vertex.agent.tool_call_args"]),
            (Fact::ToolOutput, &["gen_ai.tool.call.result", TOOL_RESPONSE]),
        ]
    }

    fn recognize(&self, span: &Span<'_>) -> Option<Recognized> {
        if !is_adk(span) {
            return None;
        }
        let is_merge =
            span.name.contains("(merged") || span.attributes.text("gen_ai.tool.name") == Some("(merged tools)");
        if is_merge {
            return Some(Recognized { kind: Kind::Transparent, rule: "results of parallel calls, merged: no call" });
        }
        let by_name = span.name.split(' ').next().unwrap_or_default();
        let operation = span.attributes.text("gen_ai.operation.name").unwrap_or(by_name);
        Some(Recognized::by_name(OPERATIONS, operation, "machinery of ADK"))
    }

    fn read<'s>(&self, span: &'s Span<'_>, reading: &mut Reading<'s>) {
        if !is_adk(span) {
            return;
        }
        reading.framework = Some("google_adk");
        if reading.text(Fact::Provider).as_deref() == Some(SCOPE) {
            reading.remove(Fact::Provider);
        }
        match reading.kind {
            Kind::Agent => {
                reading.tells_again = true;
                if let Some(name) = named(span, "agent_run [", "]") {
                    reading.add(Fact::AgentName, name, "span name");
                }
            }
            Kind::Model => read_request(span, reading),
            Kind::Tool => read_tool(span, reading),
            Kind::Hook => {
                reading.add(Fact::HookTrigger, "graph_node", "operation invoke_node");
                if let Some(name) = named(span, "invoke_node ", "") {
                    reading.add(Fact::HookName, name, "span name");
                }
            }
            Kind::Human | Kind::Transparent => {}
        }
    }
}

fn is_adk(span: &Span<'_>) -> bool {
    span.scope.name == SCOPE || MARKS.iter().any(|mark| span.attributes.get(mark).is_some())
}

fn named<'s>(span: &'s Span<'_>, prefix: &str, suffix: &str) -> Option<&'s str> {
    span.name.strip_prefix(prefix)?.strip_suffix(suffix).filter(|name| !name.trim().is_empty())
}

fn read_request<'s>(span: &'s Span<'_>, reading: &mut Reading<'s>) {
    let parsed = |key| span.attributes.get(key).map(|value| value.parse_json()).filter(Json::is_object);
    if let Some(mut request) = parsed(REQUEST) {
        reading.add(Fact::InputMessages, take(&mut request, &["contents"]).unwrap_or_default(), REQUEST);
        let mut config = take(&mut request, &["config"]).unwrap_or_default();
        if let Some(instructions) = take(&mut config, &["system_instruction", "systemInstruction"]) {
            // Text, or contents with parts.
            let instructions = instructions.get("parts").cloned().unwrap_or(instructions);
            reading.add(Fact::SystemInstructions, instructions, REQUEST);
        }
        reading.add(Fact::ToolDefinitions, take(&mut config, &["tools"]).unwrap_or_default(), REQUEST);
        reading.add(Fact::RequestModel, take(&mut request, &["model"]).unwrap_or_default(), REQUEST);
    }
    if let Some(response) = parsed(RESPONSE) {
        read_response(response, reading);
    }
}

fn read_response(mut response: Json, reading: &mut Reading<'_>) {
    reading.add(
        Fact::ResponseModel,
        take(&mut response, &["model_version", "modelVersion"]).unwrap_or_default(),
        RESPONSE,
    );
    if let Some(usage) = take(&mut response, &["usage_metadata", "usageMetadata"]) {
        let count = |names: [&str; 2]| names.iter().find_map(|name| usage[*name].as_i64());
        let thoughts = count(["thoughts_token_count", "thoughtsTokenCount"]);
        let answered = count(["candidates_token_count", "candidatesTokenCount"]);
        for (fact, tokens) in [
            (Fact::InputTokens, count(["prompt_token_count", "promptTokenCount"])),
            (Fact::OutputTokens, answered.map(|tokens| tokens.saturating_add(thoughts.unwrap_or(0)))),
            (Fact::CacheReadTokens, count(["cached_content_token_count", "cachedContentTokenCount"])),
            (Fact::ReasoningTokens, thoughts),
        ] {
            reading.add(fact, tokens, RESPONSE);
        }
    }
    if let Some(reason) = take(&mut response, &["finish_reason", "finishReason"]) {
        reading.add(Fact::FinishReasons, reason.as_str().map(str::to_lowercase), RESPONSE);
    }
    match take(&mut response, &["content"]) {
        Some(mut answer) => {
            if let Some(members) = answer.as_object_mut() {
                members.insert("role".into(), "assistant".into());
            }
            reading.add(Fact::OutputMessages, json!([answer]), RESPONSE);
        }
        // An answer without content tells what went wrong at the model.
        None => {
            reading.add(
                Fact::ErrorType,
                take(&mut response, &["error_code", "errorCode"]).unwrap_or_default(),
                RESPONSE,
            );
            let message = take(&mut response, &["error_message", "errorMessage"]);
            reading.add(Fact::ErrorMessage, message.unwrap_or_default(), RESPONSE);
        }
    }
}

fn read_tool<'s>(span: &'s Span<'_>, reading: &mut Reading<'s>) {
    if reading.text(Fact::ToolCallId).as_deref() == Some(NOT_SPECIFIED) {
        reading.remove(Fact::ToolCallId);
    }
    // No tool's result is empty: what it gives that is no object is put into one.
    if span.attributes.text(TOOL_RESPONSE) == Some(NO_CONTENT) {
        reading.remove(Fact::ToolOutput);
        if reading.text(Fact::ToolInput).as_deref() == Some(NO_CONTENT) {
            reading.remove(Fact::ToolInput);
        }
    }
    let Some(output) = reading.json(Fact::ToolOutput) else { return };
    if output["error"] == WANTS_CONFIRMATION {
        reading.add(Fact::Deferral, "ToolConfirmation", "result that asks for a confirmation");
        reading.add(Fact::Waits, json!([{"prompt": WANTS_CONFIRMATION}]), "result that asks for a confirmation");
    }
    reading.remove(Fact::ToolOutput);
    reading.add(Fact::ToolOutput, own_result(output), "result, taken out of the object around it");
}

/// What the tool gave: ADK puts whatever is no object into one with the only member `result`.
fn own_result(mut response: Json) -> Json {
    let is_wrapped = response.as_object().is_some_and(|members| members.len() == 1);
    match response.get_mut("result") {
        Some(result) if is_wrapped && result == NOT_SPECIFIED => Json::Null,
        Some(result) if is_wrapped && !result.is_object() => result.take(),
        _ => response,
    }
}

fn take(value: &mut Json, names: &[&str]) -> Option<Json> {
    let members = value.as_object_mut()?;
    names.iter().find_map(|name| members.shift_remove(*name)).filter(|value| !value.is_null())
}

#[cfg(test)]
mod tests {
    use super::super::read;
    use super::*;
    use crate::otlp::file::read_file;

    fn facts(name: &str, attributes: &[(&str, &str)], wanted: &[Fact]) -> Vec<Option<Json>> {
        let attributes: Vec<Json> =
            attributes.iter().map(|(key, text)| json!({"key": key, "value": {"stringValue": text}})).collect();
        let span = json!({"traceId": "0af7651916cd43dd8448eb211c80319c", "spanId": "b7ad6b7169203331", "name": name,
            "startTimeUnixNano": "1", "endTimeUnixNano": "2", "attributes": attributes});
        let file = json!({"resourceSpans": [{"scopeSpans": [{"scope": {"name": SCOPE}, "spans": [span]}]}]});
        let contents = read_file(file.to_string().as_bytes());
        let reading = contents.spans.first().and_then(read);
        wanted.iter().map(|fact| reading.as_ref().and_then(|reading| reading.json(*fact))).collect()
    }

    #[test]
    fn a_request_that_was_cut_keeps_what_the_attributes_say() {
        let attributes = [("gen_ai.request.model", "m"), (REQUEST, r#"{"model": "m", "contents": [{"parts": [{"te"#)];
        let wanted = [Fact::RequestModel, Fact::InputMessages];
        assert_eq!(facts("call_llm", &attributes, &wanted), [Some(json!("m")), None]);
    }

    #[test]
    fn content_that_is_not_captured_is_no_empty_object() {
        let off = [("gcp.vertex.agent.tool_call_args", "{}"), (TOOL_RESPONSE, "{}")];
        let wanted = [Fact::ToolInput, Fact::ToolOutput];
        assert_eq!(facts("execute_tool now", &off, &wanted), [None, None]);
        let on = [("gcp.vertex.agent.tool_call_args", "{}"), (TOOL_RESPONSE, r#"{"result": 3}"#)];
        assert_eq!(facts("execute_tool now", &on, &wanted), [Some(json!({})), Some(json!(3))]);
    }

    #[test]
    fn a_run_of_old_has_its_name_in_the_spans_name() {
        assert_eq!(facts("agent_run [planner]", &[], &[Fact::AgentName]), [Some(json!("planner"))]);
    }
}
