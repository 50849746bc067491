//! Codex, the coding agent.
//!
//! Emitted by: Codex CLI (`codex exec`, the terminal, the app server), through `tracing-opentelemetry`; hundreds of spans
//! for a turn.
//! Detected by: service `codex…`, or a target `codex_…`.
//! Agent: `session_task.turn`, one turn; it has the name of the service. Model: `try_run_sampling_request`, one for each
//! attempt, with the `handle_responses` inside that has the usage. Tool: the span with a call's id and the phase
//! `dispatch`; the event `codex.tool_result` inside knows how it ended. Session: `conversation.id`.
//! Errors: `success` of that event, `aborted`.
//! Known gaps: all content (its logs have some of it); a command that exits with an error is a success; how a turn ended;
//! a call's duration includes the tools that ran until its stream was drained.

use super::{About, Dialect, Fact, Kind, Reading, Recognized};
use crate::span::{Span, SpanEvent, Value};

const NAME: &str = "codex";
const USAGE: &str = "gen_ai.usage.input_tokens";
const TOOL_RESULT: &str = "codex.tool_result";

pub(super) struct Codex;

impl Dialect for Codex {
    fn about(&self) -> &'static About {
        &About {
            name: NAME,
            emitted_by: "Codex CLI",
            verified: "Codex 0.171.0",
            gaps: "all content; failed commands and failed turns look like successes",
        }
    }

    fn keys(&self) -> &'static [(Fact, &'static [&'static str])] {
        &[
            (Fact::ConversationId, &["conversation.id"]),
            (Fact::CacheWriteTokens, &["gen_ai.usage.cache_write.input_tokens"]),
            (Fact::ReasoningTokens, &["codex.usage.reasoning_output_tokens"]),
        ]
    }

    fn recognize(&self, span: &Span<'_>) -> Option<Recognized> {
        let is_ours = |key: &str| span.attributes.text(key).is_some_and(|target| target.starts_with("codex_"));
        let service = span.resource.attributes.text("service.name").unwrap_or_default();
        if !service.starts_with(NAME) && !is_ours("target") && !is_ours("code.module.name") {
            return None;
        }
        let (kind, rule) = match span.name.as_ref() {
            "session_task.turn" => (Kind::Agent, "session_task.turn is a turn"),
            "try_run_sampling_request" => (Kind::Model, "an attempt to ask the model"),
            "handle_responses" if span.attributes.get(USAGE).is_some() => {
                (Kind::Model, "the usage of a call of a model")
            }
            _ if span.attributes.text("codex.tool.phase") == Some("dispatch") => {
                (Kind::Tool, "the dispatch of a tool call")
            }
            _ if tool_result(span).is_some() => (Kind::Tool, "the stage of a tool call that knows its result"),
            _ => (Kind::Transparent, "Codex's machinery"),
        };
        Some(Recognized { kind, rule })
    }

    fn read<'s>(&self, span: &'s Span<'_>, reading: &mut Reading<'s>) {
        if reading.dialect != NAME {
            return;
        }
        reading.framework = Some(NAME);
        let program = span.resource.attributes.text("service.name").unwrap_or(NAME);
        reading.add(Fact::AgentName, program, "service.name");
        let noted = span.events.iter().find_map(|event| event.attributes.text("conversation.id"));
        reading.add(Fact::ConversationId, noted, "span event");
        match reading.kind {
            Kind::Agent => {
                reading.add(Fact::RunId, span.attributes.text("turn.id"), "turn.id");
                read_usage(span, reading);
                reading.add(Fact::RequestModel, span.attributes.text("model"), "model");
            }
            Kind::Model => {
                reading.add(Fact::RequestModel, span.attributes.text("model"), "model");
                reading.add(Fact::Streaming, true, "Codex streams every answer");
            }
            Kind::Tool => read_tool(span, reading),
            _ => {}
        }
    }
}

/// The turn's own sum; its calls' usage goes first.
fn read_usage<'s>(span: &'s Span<'_>, reading: &mut Reading<'s>) {
    for (fact, key) in [
        (Fact::InputTokens, "codex.turn.token_usage.input_tokens"),
        (Fact::OutputTokens, "codex.turn.token_usage.output_tokens"),
        (Fact::CacheReadTokens, "codex.turn.token_usage.cached_input_tokens"),
        (Fact::CacheWriteTokens, "codex.turn.token_usage.cache_write_input_tokens"),
    ] {
        reading.add(fact, span.attributes.get(key).and_then(Value::as_i64), key);
    }
}

fn read_tool<'s>(span: &'s Span<'_>, reading: &mut Reading<'s>) {
    let result = tool_result(span);
    reading.is_stage = result.is_some() && span.attributes.get("codex.tool.phase").is_none();
    let text = |key: &str| span.attributes.text(key).or_else(|| result?.attributes.text(key));
    reading.add(Fact::ToolName, text("tool_name"), "tool_name");
    reading.add(Fact::ToolCallId, text("call_id"), "call_id");
    if span.attributes.get("aborted").and_then(Value::as_bool) == Some(true) {
        reading.add(Fact::ErrorType, "TurnAborted", "aborted");
    }
    let succeeded = result.and_then(|result| result.attributes.get("success")?.as_bool());
    if succeeded == Some(false) {
        reading.add(Fact::ErrorType, "Error", "success of codex.tool_result");
    }
}

/// The event that tells how a tool call ended; its name is the place in the source that wrote it.
fn tool_result<'e, 's>(span: &'e Span<'s>) -> Option<&'e SpanEvent<'s>> {
    span.events.iter().find(|event| event.attributes.text("event.name") == Some(TOOL_RESULT))
}
