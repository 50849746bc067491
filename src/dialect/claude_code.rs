//! Claude Code, and the Claude Agent SDK, which runs it.
//!
//! Emitted by: Claude Code with its enhanced telemetry (beta).
//! Detected by: scope `com.anthropic.claude_code.tracing`, or `span.type` beside a name `claude_code.…`.
//! Agent: `interaction`, one prompt and all that it leads to; it has the name of the service. A sub-agent has no span: its
//! calls name it, and hang under the tool that started it, which they can outlive. Model: `llm_request`. Tool: `tool`;
//! `tool.execution` is the stage of it that knows how it ended. Human: `tool.blocked_on_user`, if it was a person that
//! decided. Hook: `hook`. Session: `session.id`; a sub-agent's `gen_ai.conversation.id` is its own. Errors: status,
//! `success`, `error`.
//! Known gaps: the model's answers (its logs have them), a tool's input beyond what its details flag opens; content is
//! redacted by default; what a person rejected looks like a tool without a result.

use serde_json::{Map, Value as Json, json};

use super::{About, Dialect, Fact, Kind, Reading, Recognized};
use crate::span::{Span, Value};

const NAME: &str = "claude_code";
const PROGRAM: &str = "claude-code";
const SCOPE: &str = "com.anthropic.claude_code.tracing";
const SPAN_TYPE: &str = "span.type";
const SOURCE: &str = "source";
/// What a query's source starts with when a sub-agent asks.
const SUB_AGENT: &str = "agent.";
/// What stands where content is not recorded.
const REDACTED: [&str; 2] = ["<REDACTED>", "[REDACTED]"];

const TYPES: &[(&str, Kind, &str)] = &[
    ("interaction", Kind::Agent, "an interaction"),
    ("llm_request", Kind::Model, "a request to a model"),
    ("tool", Kind::Tool, "a tool call"),
    ("tool.execution", Kind::Tool, "the stage of a tool call that runs it"),
    ("hook", Kind::Hook, "a hook"),
];

/// What is told of a tool's input, and its names in that input.
const INPUT_DETAILS: &[(&str, &str)] = &[
    ("full_command", "command"),
    ("file_path", "file_path"),
    ("subagent_type", "subagent_type"),
    ("skill_name", "skill"),
    ("url", "url"),
];

pub(super) struct ClaudeCode;

impl Dialect for ClaudeCode {
    fn about(&self) -> &'static About {
        &About {
            name: NAME,
            emitted_by: "Claude Code and the Claude Agent SDK, with enhanced telemetry",
            verified: "Claude Code 2.1.332",
            gaps: "the model's answers; most of a tool's input; what a person rejected looks like a tool without a result",
        }
    }

    fn keys(&self) -> &'static [(Fact, &'static [&'static str])] {
        &[
            (Fact::ConversationId, &["session.id", "gen_ai.conversation.id"]),
            (Fact::CacheWriteTokens, &["gen_ai.usage.cache_write.input_tokens"]),
        ]
    }

    fn recognize(&self, span: &Span<'_>) -> Option<Recognized> {
        let span_type = span.attributes.text(SPAN_TYPE);
        if span.scope.name != SCOPE && !(span_type.is_some() && span.name.starts_with("claude_code.")) {
            return None;
        }
        let span_type = span_type.or_else(|| span.name.strip_prefix("claude_code.")).unwrap_or_default();
        if span_type == "tool.blocked_on_user" && span.attributes.text(SOURCE).is_some_and(|by| by.starts_with("user"))
        {
            return Some(Recognized { kind: Kind::Human, rule: "a person decided whether a tool may run" });
        }
        Some(Recognized::by_name(TYPES, span_type, "Claude Code's machinery"))
    }

    fn read<'s>(&self, span: &'s Span<'_>, reading: &mut Reading<'s>) {
        if reading.dialect != NAME {
            return;
        }
        reading.framework = Some(NAME);
        reading.add(Fact::AgentName, agent_name(span), "service.name, or the source of the query");
        match reading.kind {
            Kind::Agent => reading.add(Fact::Goal, content(span, "user_prompt"), "user_prompt"),
            Kind::Model => read_request(span, reading),
            Kind::Tool => read_tool(span, reading),
            Kind::Hook => {
                reading.add(Fact::HookName, span.attributes.text("hook_name"), "hook_name");
                reading.add(Fact::HookTrigger, span.attributes.text("hook_event"), "hook_event");
            }
            Kind::Human => {
                reading.add(Fact::Prompt, "permission", "span.type");
                reading.add(Fact::ToolOutput, span.attributes.text("decision"), "decision");
            }
            Kind::Transparent => {}
        }
    }
}

/// `agent.builtin.general-purpose` is a sub-agent, everything else the program itself.
fn agent_name<'s>(span: &'s Span<'_>) -> &'s str {
    let source = span.attributes.text("query_source_safe").and_then(|source| source.strip_prefix(SUB_AGENT));
    if let Some(name) = source.map(|source| source.rsplit('.').next().unwrap_or(source)) {
        return name;
    }
    if span.attributes.text("agent_id").is_some() {
        return "subagent";
    }
    span.resource.attributes.text("service.name").unwrap_or(PROGRAM)
}

fn content<'s>(span: &'s Span<'_>, key: &str) -> Option<&'s str> {
    span.attributes.text(key).filter(|text| !REDACTED.contains(text))
}

fn read_request<'s>(span: &'s Span<'_>, reading: &mut Reading<'s>) {
    reading.add(Fact::RequestModel, span.attributes.text("model"), "model");
    reading.add(Fact::ResponseId, span.attributes.text("request_id"), "request_id");
    reading.add(Fact::FinishReasons, span.attributes.text("stop_reason"), "stop_reason");
    if let Some(millis) = span.attributes.get("ttft_ms").and_then(Value::as_f64) {
        reading.add(Fact::TimeToFirstChunk, millis / 1_000.0, "ttft_ms");
    }
    let count = |key: &str| span.attributes.get(key).and_then(Value::as_i64);
    let (read, written) = (count("cache_read_tokens"), count("cache_creation_tokens"));
    reading.add(Fact::CacheReadTokens, read, "cache_read_tokens");
    reading.add(Fact::CacheWriteTokens, written, "cache_creation_tokens");
    // The plain count leaves out what the cache gave and took.
    let sent =
        count("input_tokens").map(|sent| sent.saturating_add(read.unwrap_or(0)).saturating_add(written.unwrap_or(0)));
    reading.add(Fact::InputTokens, sent, "input_tokens and the cache's");
    reading.add(Fact::OutputTokens, count("output_tokens"), "output_tokens");
    read_failure(span, reading);
}

fn read_tool<'s>(span: &'s Span<'_>, reading: &mut Reading<'s>) {
    reading.is_stage = span.attributes.text(SPAN_TYPE) == Some("tool.execution");
    if !reading.is_stage {
        reading.add(Fact::ToolName, span.attributes.text("tool_name"), "tool_name");
    }
    reading.add(Fact::ToolCallId, span.attributes.text("tool_use_id"), "tool_use_id");
    let details = INPUT_DETAILS.iter().filter_map(|(key, name)| Some(((*name).to_owned(), json!(content(span, key)?))));
    let input: Map<String, Json> = details.collect();
    if !input.is_empty() {
        reading.add(Fact::ToolInput, input, "details of the tool");
    }
    if let Some(event) = span.events.iter().find(|event| event.name == "tool.output") {
        let output = ["output", "content", "result"].iter().find_map(|key| event.attributes.get(key));
        reading.add(Fact::ToolOutput, output.map(Value::to_json), "span event tool.output");
    }
    read_failure(span, reading);
}

/// A failure that the span tells by attributes, whatever its status.
fn read_failure<'s>(span: &'s Span<'_>, reading: &mut Reading<'s>) {
    if span.attributes.get("success").and_then(Value::as_bool) != Some(false) {
        return;
    }
    let error_type = ["error_class", "error.type", "status_code"].iter().find_map(|key| span.attributes.text(key));
    reading.add(Fact::ErrorType, error_type.unwrap_or("Error"), "success is false");
    reading.add(Fact::ErrorMessage, content(span, "error"), "error");
}
