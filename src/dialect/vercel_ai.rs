//! The Vercel AI SDK.
//!
//! Emitted by: `ai` 4 to 6 and the `LegacyOpenTelemetry` of 7 (scope `ai`, or the application's own tracer), and the
//! `OpenTelemetry` of `@ai-sdk/otel` for 7 (scope `gen_ai`, in the semantic conventions).
//! Detected by: `ai.operationId`; scope `gen_ai` with an operation.
//! Agent: `ai.generateText`, `ai.streamText`, `ai.generateObject`, `ai.streamObject`; `invoke_agent`. Its name is the
//! telemetry's `functionId`; the span's own name is the model's. Model: the same with `.doGenerate` or `.doStream`, one for
//! each attempt; `chat`. Tool: `ai.toolCall`; `execute_tool`. Session: whatever the application called it in its telemetry
//! metadata (4 to 6) or its runtime context (7). Errors: `exception` events; an abort ends the span without a word.
//! Known gaps: tools without `execute` have no span; cached tokens are not among the input tokens of some providers in 5.

use serde_json::{Map, Value as Json, json};

use super::messages::last_question;
use super::reading::Completion;
use super::{About, Dialect, Fact, Kind, Reading, Recognized};
use crate::event::UNNAMED_AGENT;
use crate::span::{Span, Value};

pub(super) struct VercelAi;

const OPERATION_ID: &str = "ai.operationId";
/// The scope of version 7; it has no version of its own.
const SEMCONV_SCOPE: &str = "gen_ai";
const FRAMEWORK: &str = "vercel_ai";

/// What each `ai.operationId` stands for; one that is not listed is an embedding, a ranking, speech and the like.
const OPERATIONS: &[(&str, Kind, &str)] = &[
    ("ai.generateText", Kind::Agent, "ai.operationId names a generation"),
    ("ai.streamText", Kind::Agent, "ai.operationId names a generation"),
    ("ai.generateObject", Kind::Agent, "ai.operationId names a generation"),
    ("ai.streamObject", Kind::Agent, "ai.operationId names a generation"),
    ("ai.generateText.doGenerate", Kind::Model, "ai.operationId names a call of a model"),
    ("ai.streamText.doStream", Kind::Model, "ai.operationId names a call of a model"),
    ("ai.generateObject.doGenerate", Kind::Model, "ai.operationId names a call of a model"),
    ("ai.streamObject.doStream", Kind::Model, "ai.operationId names a call of a model"),
    ("ai.toolCall", Kind::Tool, "ai.operationId names a tool call"),
];

/// The operations of version 7 in the semantic conventions.
const SEMCONV_OPERATIONS: &[(&str, Kind, &str)] = &[
    ("invoke_agent", Kind::Agent, "operation invoke_agent"),
    ("chat", Kind::Model, "operation chat"),
    ("execute_tool", Kind::Tool, "operation execute_tool"),
];

/// Where a run says that it came to its end, whether or not content is recorded: one that was aborted has none of these.
/// `streamObject` gives its usage only.
const END_MARKS: [&str; 5] = [
    "ai.response.finishReason",
    "gen_ai.response.finish_reasons",
    "ai.usage.outputTokens",
    "ai.usage.completionTokens",
    "gen_ai.usage.output_tokens",
];

impl Dialect for VercelAi {
    fn about(&self) -> &'static About {
        &About {
            name: "vercel_ai",
            emitted_by: "Vercel AI SDK 4 to 7: its own telemetry, version 7's legacy telemetry and its `@ai-sdk/otel`",
            verified: "ai 4.3, 5.0, 6.0, 7.0; @ai-sdk/otel 1.0",
            gaps: "calls of tools that the client executes stand in the model's answer alone; a session needs metadata or runtime context",
        }
    }

    fn keys(&self) -> &'static [(Fact, &'static [&'static str])] {
        &[
            (
                Fact::AgentName,
                &[
                    "gen_ai.agent.name",
                    "ai.telemetry.functionId",
                    "ai.telemetry.metadata.agentName",
                    "ai.telemetry.metadata.agent_name",
                ],
            ),
            (
                Fact::ConversationId,
                &[
                    "gen_ai.conversation.id",
                    "ai.telemetry.metadata.sessionId",
                    "ai.telemetry.metadata.session_id",
                    "ai.telemetry.metadata.conversationId",
                    "ai.telemetry.metadata.conversation_id",
                    "ai.telemetry.metadata.threadId",
                    "ai.telemetry.metadata.thread_id",
                    "ai.telemetry.metadata.chatId",
                    "ai.telemetry.metadata.chat_id",
                    "ai.settings.context.sessionId",
                    "ai.settings.context.session_id",
                    "ai.settings.context.conversationId",
                    "ai.settings.context.conversation_id",
                    "ai.settings.context.threadId",
                    "ai.settings.context.thread_id",
                    "ai.settings.context.chatId",
                    "ai.settings.context.chat_id",
                    "session.id",
                ],
            ),
            (Fact::RequestModel, &["gen_ai.request.model", "ai.model.id"]),
            (Fact::ResponseModel, &["gen_ai.response.model", "ai.response.model"]),
            (Fact::ResponseId, &["gen_ai.response.id", "ai.response.id"]),
            (Fact::Provider, &["gen_ai.provider.name", "ai.model.provider", "gen_ai.system"]),
            (Fact::InputMessages, &["gen_ai.input.messages", "ai.prompt.messages"]),
            (Fact::FinishReasons, &["gen_ai.response.finish_reasons", "ai.response.finishReason"]),
            (Fact::InputTokens, &["gen_ai.usage.input_tokens", "ai.usage.inputTokens", "ai.usage.promptTokens"]),
            (Fact::OutputTokens, &["gen_ai.usage.output_tokens", "ai.usage.outputTokens", "ai.usage.completionTokens"]),
            (
                Fact::CacheReadTokens,
                &[
                    "gen_ai.usage.cache_read.input_tokens",
                    "ai.usage.inputTokenDetails.cacheReadTokens",
                    "ai.usage.cachedInputTokens",
                ],
            ),
            (
                Fact::CacheWriteTokens,
                &["gen_ai.usage.cache_creation.input_tokens", "ai.usage.inputTokenDetails.cacheWriteTokens"],
            ),
            (Fact::ReasoningTokens, &["ai.usage.outputTokenDetails.reasoningTokens", "ai.usage.reasoningTokens"]),
            (Fact::ToolName, &["gen_ai.tool.name", "ai.toolCall.name"]),
            (Fact::ToolCallId, &["gen_ai.tool.call.id", "ai.toolCall.id"]),
            (Fact::ToolInput, &["gen_ai.tool.call.arguments", "ai.toolCall.args"]),
            (Fact::ToolOutput, &["gen_ai.tool.call.result", "ai.toolCall.result"]),
        ]
    }

    fn recognize(&self, span: &Span<'_>) -> Option<Recognized> {
        if let Some(id) = span.attributes.text(OPERATION_ID) {
            return Some(of_operation_id(id));
        }
        let operation = span.attributes.text("gen_ai.operation.name")?;
        if span.scope.name != SEMCONV_SCOPE {
            return None;
        }
        Some(Recognized::by_name(SEMCONV_OPERATIONS, operation, "an operation that stands for nothing of its own"))
    }

    fn read<'s>(&self, span: &'s Span<'_>, reading: &mut Reading<'s>) {
        let operation_id = span.attributes.text(OPERATION_ID);
        if operation_id.is_none() && reading.dialect != self.about().name {
            return;
        }
        reading.framework = reading.framework.or(Some(FRAMEWORK));
        if reading.kind == Kind::Agent {
            // Without a functionId the run has no name: the span is named after the model.
            reading.add(Fact::AgentName, UNNAMED_AGENT, "no functionId");
            let ended = END_MARKS.iter().any(|key| span.attributes.get(key).is_some());
            reading.completion = match (ended, span.dropped_attributes) {
                (true, _) => Completion::Reached,
                (false, 0) => Completion::NotReached,
                // The mark can have been lost to a limit.
                (false, _) => Completion::Unmarked,
            };
        }
        // A stream that broke off with an error has no exception, and before version 7 no status either.
        if reading.text(Fact::FinishReasons).as_deref() == Some("error") {
            reading.add(Fact::ErrorType, "Error", "finish reason error");
        }
        if operation_id.is_none() {
            return;
        }
        read_provider(reading);
        match reading.kind {
            Kind::Agent => read_run(span, reading),
            Kind::Model => read_call(span, reading),
            Kind::Tool => reading.add(Fact::ToolKind, "function", "every tool that has a span"),
            _ => {}
        }
    }
}

/// What an `ai.operationId` stands for.
pub(super) fn of_operation_id(id: &str) -> Recognized {
    Recognized::by_name(OPERATIONS, id, "an ai.operationId that stands for nothing of its own")
}

/// `openai.chat` is the provider and its interface.
fn read_provider(reading: &mut Reading<'_>) {
    let provider = reading.text(Fact::Provider).and_then(|it| it.split_once('.').map(|(name, _)| name.to_owned()));
    if let Some(provider) = provider.filter(|provider| !provider.is_empty()) {
        reading.remove(Fact::Provider);
        reading.add(Fact::Provider, provider, "provider without its interface");
    }
}

fn read_run<'s>(span: &'s Span<'_>, reading: &mut Reading<'s>) {
    match span.attributes.get("ai.prompt").map(Value::parse_json) {
        Some(Json::Object(mut prompt)) => {
            let asked = prompt.remove("prompt").filter(|prompt| !prompt.is_null());
            let asked = asked.or_else(|| prompt.remove("messages")).unwrap_or_default();
            if let Some(goal) = last_question(asked) {
                reading.add(Fact::Goal, goal, "ai.prompt");
            }
        }
        // JSON that was cut in the middle.
        Some(Json::String(text)) => reading.add(Fact::Goal, text, "ai.prompt"),
        _ => {}
    }
    let answer = ["ai.response.text", "ai.response.object"];
    if let Some((key, text)) = answer.into_iter().find_map(|key| Some((key, span.attributes.text(key)?))) {
        reading.add(Fact::Summary, text, key);
    }
}

fn read_call<'s>(span: &'s Span<'_>, reading: &mut Reading<'s>) {
    let streams = span.attributes.text(OPERATION_ID).is_some_and(|id| id.ends_with(".doStream"));
    reading.add(Fact::Streaming, streams, OPERATION_ID);
    // Text has the one, objects have the other.
    for key in ["ai.response.msToFirstChunk", "ai.stream.msToFirstChunk"] {
        let seconds = span.attributes.get(key).and_then(Value::as_f64).map(|millis| millis / 1_000.0);
        reading.add(Fact::TimeToFirstChunk, seconds, key);
    }
    if let Some(Value::Array(tools)) = span.attributes.get("ai.prompt.tools") {
        let tools: Vec<Json> = tools.iter().map(Value::parse_json).filter(Json::is_object).collect();
        reading.add(Fact::ToolDefinitions, tools, "ai.prompt.tools");
    }
    let content = answer(span);
    if !content.is_empty() {
        reading.add(Fact::OutputMessages, json!([{"role": "assistant", "content": content}]), "ai.response.*");
    }
}

/// The answer of a model: its reasoning, its text or object, its calls of tools.
fn answer(span: &Span<'_>) -> Vec<Json> {
    let text = |key| span.attributes.text(key);
    let mut content = Vec::new();
    if let Some(reasoning) = text("ai.response.reasoning") {
        content.push(json!({"type": "reasoning", "text": reasoning}));
    }
    if let Some(text) = text("ai.response.text").or_else(|| text("ai.response.object")) {
        content.push(json!({"type": "text", "text": text}));
    }
    if let Some(Json::Array(calls)) = span.attributes.get("ai.response.toolCalls").map(Value::parse_json) {
        content.extend(calls.into_iter().filter_map(|call| match call {
            // Version 4 has a type of its own, 5 and 6 none at all.
            Json::Object(call) => Some(Json::Object(with_type(call))),
            _ => None,
        }));
    }
    content
}

fn with_type(mut call: Map<String, Json>) -> Map<String, Json> {
    call.insert("type".into(), "tool-call".into());
    call
}
