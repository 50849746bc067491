//! Mastra.
//!
//! Emitted by: `@mastra/otel-exporter`, also for the backends that stand on it. It converts spans when they end.
//! Detected by: `mastra.span.type`.
//! Agent: `agent_run`, and `workflow_run` with its steps as hooks. Model: `model_inference`; where older versions have none,
//! the `model_generation` that says it is a `chat`. Tool: `tool_call`, `mcp_tool_call`, `provider_tool_call`; a sub-agent is
//! the tool `agent-<key>` with a run inside. Session: `gen_ai.conversation.id` (the thread), else the run's metadata.
//! Errors: `exception` events on runs and tools; a failed model call has status OK and `error` for its finish reason.
//! The messages that a call was sent and its calls of tools stand on the `model_step` around it.
//! Known gaps: times in whole milliseconds; a suspended workflow looks like an ended one.

use serde_json::{Value as Json, json};

use super::messages::{last_question, normalize_messages, text_of};
use super::{About, Dialect, Fact, Kind, Reading, Recognized};
use crate::span::Span;

const NAME: &str = "mastra";
const SPAN_TYPE: &str = "mastra.span.type";
const STEP: &str = "model_step";
const RUN_OUTPUTS: [&str; 2] = ["mastra.agent_run.output", "mastra.workflow_run.output"];
const RUN_INPUTS: [&str; 2] = ["mastra.agent_run.input", "mastra.workflow_run.input"];

const TYPES: &[(&str, Kind, &str)] = &[
    ("agent_run", Kind::Agent, "an agent's run"),
    ("workflow_run", Kind::Agent, "a workflow's run"),
    ("workflow_step", Kind::Hook, "a workflow's step"),
    ("model_inference", Kind::Model, "a call of a model"),
    ("tool_call", Kind::Tool, "a tool call"),
    ("mcp_tool_call", Kind::Tool, "a tool call by MCP"),
    ("provider_tool_call", Kind::Tool, "a tool call at the provider"),
    (STEP, Kind::Transparent, "the step around a call of a model"),
];

pub(super) struct Mastra;

impl Dialect for Mastra {
    fn about(&self) -> &'static About {
        &About {
            name: NAME,
            emitted_by: "Mastra's OpenTelemetry exporter",
            verified: "@mastra/core 1.71; @mastra/otel-exporter 1.4.0",
            gaps: "nothing before a span's end; times in whole milliseconds; why a call of a model failed",
        }
    }

    fn keys(&self) -> &'static [(Fact, &'static [&'static str])] {
        &[
            (
                Fact::ConversationId,
                &[
                    "gen_ai.conversation.id",
                    "mastra.metadata.sessionId",
                    "mastra.metadata.session_id",
                    "mastra.metadata.threadId",
                    "mastra.metadata.thread_id",
                    "mastra.metadata.conversationId",
                    "mastra.metadata.chatId",
                ],
            ),
            (Fact::RunId, &["mastra.metadata.runId"]),
            (Fact::InputMessages, &["gen_ai.input.messages", "mastra.model_step.input"]),
            (Fact::HookName, &["mastra.workflow_step.step_id"]),
            (Fact::ToolInput, &["gen_ai.tool.call.arguments", "mastra.workflow_step.input"]),
            (Fact::ToolOutput, &["gen_ai.tool.call.result", "mastra.workflow_step.output"]),
        ]
    }

    fn recognize(&self, span: &Span<'_>) -> Option<Recognized> {
        let span_type = span.attributes.text(SPAN_TYPE)?;
        // One span of a model call is the one that its usage and messages stand on.
        if span_type == "model_generation" && span.attributes.text("gen_ai.operation.name") == Some("chat") {
            return Some(Recognized { kind: Kind::Model, rule: "a generation that is the call of a model itself" });
        }
        Some(Recognized::by_name(TYPES, span_type, "Mastra's machinery"))
    }

    fn read<'s>(&self, span: &'s Span<'_>, reading: &mut Reading<'s>) {
        if reading.dialect != NAME {
            return;
        }
        reading.framework = Some(NAME);
        match reading.kind {
            Kind::Agent => read_run(span, reading),
            Kind::Model => read_call(reading),
            Kind::Hook => reading.add(Fact::HookTrigger, "workflow_step", SPAN_TYPE),
            _ if span.attributes.text(SPAN_TYPE) == Some(STEP) => read_step(span, reading),
            _ => {}
        }
    }
}

fn read_run<'s>(span: &'s Span<'_>, reading: &mut Reading<'s>) {
    let first =
        |keys: [&'static str; 2]| keys.into_iter().find_map(|key| Some((key, span.attributes.get(key)?.parse_json())));
    if let Some((key, asked)) = first(RUN_INPUTS) {
        let goal = match &asked {
            // A list of messages, or what a workflow was given.
            Json::Array(_) => last_question(asked.clone()),
            Json::Object(members) if members.contains_key("messages") => last_question(asked.clone()),
            _ => None,
        };
        reading.add(Fact::Goal, goal.map_or(asked, Json::String), key);
    }
    if let Some((key, answer)) = first(RUN_OUTPUTS) {
        if answer["status"] == "aborted" {
            reading.add(Fact::ErrorType, "AbortError", key);
            return;
        }
        let summary = match &answer {
            Json::Object(answer) => match (answer.get("object"), answer.get("text")) {
                (Some(object), _) if !object.is_null() => Some(object.clone()),
                (_, Some(Json::String(text))) => Some(Json::String(text.clone())),
                _ => None,
            },
            _ => None,
        };
        reading.add(Fact::Summary, summary.unwrap_or(answer), key);
    }
}

fn read_call(reading: &mut Reading<'_>) {
    let answer = reading.json(Fact::OutputMessages).map(normalize_messages).unwrap_or_default();
    let says_something = |message: &Json| {
        let blocks = message["content"].as_array();
        text_of(&message["content"]).is_some()
            || blocks.is_some_and(|blocks| blocks.iter().any(|block| block["type"] != "text"))
    };
    // An answer that only calls tools is told as an empty text; the step around it knows the calls.
    if !answer.iter().any(says_something) {
        reading.remove(Fact::OutputMessages);
    }
    let reasons = reading.json(Fact::FinishReasons).unwrap_or_default();
    if reasons.get(0).or(Some(&reasons)).and_then(Json::as_str) == Some("error") {
        reading.add(Fact::ErrorType, "Error", "finish reason error");
    }
}

/// The step tells what its call was sent and what it answered.
fn read_step<'s>(span: &'s Span<'_>, reading: &mut Reading<'s>) {
    reading.frames_call = true;
    let Some(Json::Object(answer)) = span.attributes.get("mastra.model_step.output").map(|value| value.parse_json())
    else {
        return;
    };
    let mut content = Vec::new();
    if let Some(Json::String(text)) = answer.get("text").filter(|text| text.as_str() != Some("")) {
        content.push(json!({"type": "text", "text": text}));
    }
    for call in answer.get("toolCalls").and_then(Json::as_array).into_iter().flatten() {
        if let Json::Object(call) = call {
            let mut call = call.clone();
            call.insert("type".into(), "tool-call".into());
            content.push(Json::Object(call));
        }
    }
    if !content.is_empty() {
        reading.add(
            Fact::OutputMessages,
            json!([{"role": "assistant", "content": content}]),
            "mastra.model_step.output",
        );
    }
}
