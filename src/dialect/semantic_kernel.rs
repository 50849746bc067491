//! Semantic Kernel.
//!
//! Emitted by: `semantic-kernel` 1.x for Python; for .NET as far as its sources tell. Detected by: a scope that starts with
//! `semantic_kernel.` or `Microsoft.SemanticKernel`.
//! Agent: operation `invoke_agent`. Model: `chat`, `text_completion`, on older .NET `chat.completions`,
//! `text.completions`. Tool: `execute_tool`, named plugin and function with a hyphen. The loop around them and the messages
//! between agents are none. Session: none. Errors: `exception` events, `error.type`, also a stringified class.
//! Known gaps: no session; the messages of calls are logs, not spans; an application that calls a function itself looks
//! like a tool call; the tokens of streamed answers only where the provider sends them.

use serde_json::{Value as Json, json};

use super::{About, Dialect, Fact, Kind, Reading, Recognized};
use crate::span::Span;

const SCOPES: [&str; 2] = ["semantic_kernel.", "Microsoft.SemanticKernel"];
/// Python's enumeration of reasons, as its text gives one.
const REASON: &str = "FinishReason.";

/// What each operation stands for; where there is none, the first word of the span's name takes its place.
const OPERATIONS: &[(&str, Kind, &str)] = &[
    ("invoke_agent", Kind::Agent, "operation invoke_agent"),
    ("chat", Kind::Model, "operation chat"),
    ("text_completion", Kind::Model, "operation text_completion"),
    ("chat.completions", Kind::Model, "operation chat.completions of .NET"),
    ("text.completions", Kind::Model, "operation text.completions of .NET"),
    ("execute_tool", Kind::Tool, "operation execute_tool"),
    ("AutoFunctionInvocationLoop", Kind::Transparent, "the loop around calls of the model and tools"),
    ("create_agent", Kind::Transparent, "create_agent is setup, not a run"),
];

pub(super) struct SemanticKernel;

impl Dialect for SemanticKernel {
    fn about(&self) -> &'static About {
        &About {
            name: "semantic_kernel",
            emitted_by: "Semantic Kernel for Python; for .NET unverified",
            verified: "semantic-kernel 1.45",
            gaps: "no session; messages of model calls; whether a model or the application called a function",
        }
    }

    fn keys(&self) -> &'static [(Fact, &'static [&'static str])] {
        &[
            (Fact::InputTokens, &["gen_ai.usage.input_tokens", "gen_ai.response.prompt_tokens"]),
            (Fact::OutputTokens, &["gen_ai.usage.output_tokens", "gen_ai.response.completion_tokens"]),
        ]
    }

    fn recognize(&self, span: &Span<'_>) -> Option<Recognized> {
        if !is_semantic_kernel(span) {
            return None;
        }
        let by_name = span.name.split(' ').next().unwrap_or_default();
        let operation = span.attributes.text("gen_ai.operation.name").unwrap_or(by_name);
        Some(Recognized::by_name(OPERATIONS, operation, "machinery of Semantic Kernel"))
    }

    fn read<'s>(&self, span: &'s Span<'_>, reading: &mut Reading<'s>) {
        if !is_semantic_kernel(span) {
            return;
        }
        reading.framework = Some("semantic_kernel");
        match reading.kind {
            Kind::Model => read_request(reading),
            Kind::Agent => {
                for fact in [Fact::InputMessages, Fact::OutputMessages] {
                    if let Some(Json::Array(messages)) = reading.json(fact) {
                        reading.remove(fact);
                        reading.add(
                            fact,
                            messages.into_iter().map(message).collect::<Vec<_>>(),
                            "messages of the span",
                        );
                    }
                }
            }
            _ => {}
        }
    }
}

fn is_semantic_kernel(span: &Span<'_>) -> bool {
    SCOPES.iter().any(|scope| span.scope.name.starts_with(scope))
}

fn read_request(reading: &mut Reading<'_>) {
    // Several choices give one text: `FinishReason.STOP,FinishReason.STOP`; .NET writes `[Stop]`.
    let reason = reading.text(Fact::FinishReasons).map(|reasons| {
        let first = reasons.trim_matches(['[', ']']).split(',').next().unwrap_or_default().trim();
        first.strip_prefix(REASON).unwrap_or(first).to_lowercase()
    });
    if let Some(reason) = reason {
        reading.remove(Fact::FinishReasons);
        if reason != "none" {
            reading.add(Fact::FinishReasons, reason, "gen_ai.response.finish_reason");
        }
    }
    for fact in [Fact::InputTokens, Fact::OutputTokens] {
        // -1 stands for a count that is not known.
        if reading.int(fact).is_some_and(|tokens| tokens < 0) {
            reading.remove(fact);
        }
    }
}

/// A message with what it holds beside its text: calls and results in the form of the contract.
fn message(mut message: Json) -> Json {
    let results = message.get_mut("tool_calls").map(Json::take);
    let Some(Json::Array(calls)) = results else { return message };
    message["tool_calls"] = calls
        .into_iter()
        .map(|call| json!({"type": "tool_call", "id": call["id"], "function": call["function"]}))
        .collect();
    message
}
