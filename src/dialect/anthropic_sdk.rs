//! Anthropic's own SDKs, which trace their calls by themselves.
//!
//! Emitted by: `@anthropic-ai/sdk` 1.14 (and its siblings for Python and Go) whenever a tracer provider is there.
//! Detected by: scopes `com.anthropic.sdk.*`, and `com.anthropic.claude-platform` for the server's half.
//! Agent: `anthropic.messages.tool_runner` (`invoke_agent`), which has no name. Model: `chat`. Tool: `execute_tool`.
//! Session: none. Errors: status and `error.type`, without an exception.
//! Known gaps: messages and results unless the content mode says so; a failed tool's error has no text.

use super::{About, Dialect, Fact, Kind, Reading, Recognized};
use crate::span::Span;

const NAME: &str = "anthropic_sdk";
const FRAMEWORK: &str = "anthropic";
const SCOPES: [&str; 2] = ["com.anthropic.sdk.", "com.anthropic.claude-platform"];

const OPERATIONS: &[(&str, Kind, &str)] = &[
    ("invoke_agent", Kind::Agent, "operation invoke_agent"),
    ("chat", Kind::Model, "operation chat"),
    ("execute_tool", Kind::Tool, "operation execute_tool"),
];

pub(super) struct AnthropicSdk;

impl Dialect for AnthropicSdk {
    fn about(&self) -> &'static About {
        &About {
            name: NAME,
            emitted_by: "Anthropic's SDK for TypeScript (and its siblings), by itself",
            verified: "@anthropic-ai/sdk 1.14.0",
            gaps: "the name of an agent; the session; the text of a tool's error",
        }
    }

    fn keys(&self) -> &'static [(Fact, &'static [&'static str])] {
        &[
            (Fact::FinishReasons, &["anthropic.message.stop_reason"]),
            (Fact::ToolOutput, &["gen_ai.tool.call.result", "anthropic.tool_result.content"]),
            (Fact::CacheWriteTokens, &["gen_ai.usage.cache_write.input_tokens"]),
        ]
    }

    fn recognize(&self, span: &Span<'_>) -> Option<Recognized> {
        if !SCOPES.iter().any(|scope| span.scope.name.starts_with(scope)) {
            return None;
        }
        let operation = span.attributes.text("gen_ai.operation.name").unwrap_or_default();
        Some(Recognized::by_name(OPERATIONS, operation, "an operation that stands for nothing of its own"))
    }

    fn read<'s>(&self, _span: &'s Span<'_>, reading: &mut Reading<'s>) {
        if reading.dialect == NAME {
            reading.framework = Some(FRAMEWORK);
        }
    }
}
