//! Gemini CLI.
//!
//! Emitted by: Gemini CLI with traces enabled; most of it stands on a span only at its end.
//! Detected by: scope `gemini-cli`.
//! Agent: `user_prompt`, which only the interactive mode has; `agent_call` is a sub-agent, inside the tool that started
//! it. Without either the calls are joined by their session. Model: `llm_call`. Tool: `tool_call`. Session:
//! `gen_ai.conversation.id`. Errors: status and `exception` events; a tool's own failure stands in its output.
//! What every operation was given and gave stands in `gen_ai.input.messages` and `gen_ai.output.messages`, cut at 10,000
//! characters: messages of a model call (in Gemini's own form), request and response of a tool.
//! Known gaps: a turn is several traces; finish reasons, cached tokens and the model that answered (its logs have them).

use serde_json::Value as Json;

use super::{About, Dialect, Fact, Kind, Reading, Recognized};
use crate::span::{Span, Value};

const NAME: &str = "gemini_cli";
const SCOPE: &str = "gemini-cli";
const OPERATION: &str = "gen_ai.operation.name";
const INPUT: &str = "gen_ai.input.messages";
const OUTPUT: &str = "gen_ai.output.messages";

const OPERATIONS: &[(&str, Kind, &str)] = &[
    ("user_prompt", Kind::Agent, "operation user_prompt"),
    ("agent_call", Kind::Agent, "operation agent_call"),
    ("llm_call", Kind::Model, "operation llm_call"),
    ("tool_call", Kind::Tool, "operation tool_call"),
    ("system_prompt", Kind::Transparent, "a turn that goes on with the results of its tools"),
];

pub(super) struct GeminiCli;

impl Dialect for GeminiCli {
    fn about(&self) -> &'static About {
        &About {
            name: NAME,
            emitted_by: "Gemini CLI with traces enabled",
            verified: "Gemini CLI 0.61.0",
            gaps: "one turn is several traces, without a span of its own in `-p` mode; finish reasons; cached tokens",
        }
    }

    fn keys(&self) -> &'static [(Fact, &'static [&'static str])] {
        &[(Fact::ToolCallId, &["gen_ai.tool.call_id"])]
    }

    fn recognize(&self, span: &Span<'_>) -> Option<Recognized> {
        if span.scope.name != SCOPE {
            return None;
        }
        // Operation and span have one name; the attribute is set at the end.
        let operation = span.attributes.text(OPERATION).unwrap_or(&span.name);
        if operation == "llm_call" && is_embedding(span) {
            return Some(Recognized { kind: Kind::Transparent, rule: "embeddings give no event" });
        }
        Some(Recognized::by_name(OPERATIONS, operation, "Gemini CLI's machinery"))
    }

    fn read<'s>(&self, span: &'s Span<'_>, reading: &mut Reading<'s>) {
        if reading.dialect != NAME {
            return;
        }
        reading.framework = Some(NAME);
        match reading.kind {
            Kind::Agent => read_run(span, reading),
            Kind::Tool => read_tool(span, reading),
            _ => {}
        }
        reading.add(Fact::AgentName, SCOPE, "the program");
    }
}

/// A call for embeddings has a model and nothing else of a request.
fn is_embedding(span: &Span<'_>) -> bool {
    let of_request = ["gen_ai.prompt.name", "gen_ai.system_instructions", "gen_ai.usage.input_tokens"];
    span.attributes.get(INPUT).is_some() && !of_request.iter().any(|key| span.attributes.get(key).is_some())
}

fn read_run<'s>(span: &'s Span<'_>, reading: &mut Reading<'s>) {
    let input = span.attributes.get(INPUT).map(Value::parse_json).unwrap_or_default();
    let output = span.attributes.get(OUTPUT).map(Value::parse_json).unwrap_or_default();
    for fact in [Fact::InputMessages, Fact::OutputMessages] {
        reading.remove(fact);
    }
    if span.name == "agent_call" {
        // The program's own name stands where the sub-agent's should.
        if let Some(name) = input["agent_name"].as_str().filter(|name| !name.trim().is_empty()) {
            reading.remove(Fact::AgentName);
            reading.remove(Fact::AgentDescription);
            reading.add(Fact::AgentName, name, INPUT);
        }
        let task = ["prompt", "objective", "query", "task"].iter().find_map(|key| input.get(*key));
        reading.add(Fact::Goal, task.cloned().unwrap_or(input), INPUT);
        let answer = ["llmContent", "returnDisplay"].iter().find_map(|key| output.get(*key));
        reading.add(Fact::Summary, answer.map_or(output.clone(), text_of_parts), OUTPUT);
    } else {
        reading.add(Fact::Goal, text_of_parts(&input), INPUT);
    }
}

/// Gemini's interface takes a text, a part, or a list of both; other things stay what they are.
fn text_of_parts(parts: &Json) -> Json {
    let text = |part: &Json| part.as_str().or_else(|| part["text"].as_str()).map(str::to_owned);
    let texts = match parts {
        Json::Array(parts) => parts.iter().filter_map(text).collect::<Vec<_>>(),
        part => text(part).into_iter().collect(),
    };
    if texts.is_empty() { parts.clone() } else { Json::String(texts.join("\n")) }
}

fn read_tool<'s>(span: &'s Span<'_>, reading: &mut Reading<'s>) {
    for fact in [Fact::InputMessages, Fact::OutputMessages] {
        reading.remove(fact);
    }
    let input = span.attributes.get(INPUT).map(Value::parse_json).unwrap_or_default();
    reading.add(Fact::ToolInput, input.get("args").cloned().unwrap_or(input), INPUT);
    let Some(output) = span.attributes.get(OUTPUT) else { return };
    let output = output.parse_json();
    let response = &output["response"];
    let given = &response["responseParts"][0]["functionResponse"]["response"];
    let shown = || response.get("resultDisplay").filter(|shown| !shown.is_null());
    let result = given.get("output").or(given.is_object().then_some(given)).or_else(shown);
    // The text of an output that was cut starts with its status all the same.
    let cut = output.as_str().unwrap_or_default();
    let has_status =
        |status: &str| output["status"] == status || cut.starts_with(&format!("{{\"status\":\"{status}\""));
    if has_status("error") {
        reading.add(Fact::ErrorType, response["errorType"].as_str().unwrap_or("Error"), OUTPUT);
        let message = given["error"].as_str().or_else(|| shown()?.as_str());
        reading.add(Fact::ErrorMessage, message, OUTPUT);
    }
    if has_status("cancelled") {
        reading.add(Fact::ErrorType, "AbortError", OUTPUT);
        return;
    }
    reading.add(Fact::ToolOutput, result.cloned().unwrap_or(output), OUTPUT);
}
