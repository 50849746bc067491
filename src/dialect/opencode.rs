//! opencode, the coding agent.
//!
//! Emitted by: `opencode` with `experimental.openTelemetry` and an OTLP endpoint: the spans of its own functions (Effect)
//! and, among them, those of the Vercel AI SDK.
//! Detected by: scope or service `opencode`.
//! Agent: `SessionPrompt.prompt`, one turn; also the one of a subagent inside the tool that started it. Model and tool: as
//! the Vercel AI SDK writes them, but its `ai.streamText` is one step of a turn here, not a run. `Tool.execute` tells of a
//! tool call a second time. Session: `session.id`. Errors: `exception` events.
//! Known gaps: which agent of its configuration took the turn; a failure of a model that opencode reports to its user does
//! not fail the turn's span; the title of a session is made by a model call of the turn.

use super::vercel_ai::of_operation_id;
use super::{About, Dialect, Fact, Kind, Reading, Recognized};
use crate::span::Span;

const NAME: &str = "opencode";
const TURN: &str = "SessionPrompt.prompt";
const TOOL: &str = "Tool.execute";

pub(super) struct OpenCode;

impl Dialect for OpenCode {
    fn about(&self) -> &'static About {
        &About {
            name: NAME,
            emitted_by: "opencode with `experimental.openTelemetry`",
            verified: "opencode 1.18.33",
            gaps: "the name of a subagent; a turn that ended in an error which opencode reports to its user looks like a success",
        }
    }

    fn keys(&self) -> &'static [(Fact, &'static [&'static str])] {
        &[
            (Fact::ConversationId, &["session.id", "ai.telemetry.metadata.sessionId"]),
            (Fact::ToolName, &["ai.toolCall.name", "tool.name"]),
            (Fact::ToolCallId, &["ai.toolCall.id", "tool.call_id"]),
        ]
    }

    fn recognize(&self, span: &Span<'_>) -> Option<Recognized> {
        if span.scope.name != NAME && span.resource.attributes.text("service.name") != Some(NAME) {
            return None;
        }
        if let Some(id) = span.attributes.text("ai.operationId") {
            let of_sdk = of_operation_id(id);
            return Some(match of_sdk.kind {
                Kind::Agent => Recognized { kind: Kind::Transparent, rule: "a step of the turn, not a run" },
                _ => of_sdk,
            });
        }
        let (kind, rule) = match span.name.as_ref() {
            TURN => (Kind::Agent, "SessionPrompt.prompt is a turn"),
            TOOL => (Kind::Tool, "Tool.execute is a tool call"),
            _ => (Kind::Transparent, "a function of opencode"),
        };
        Some(Recognized { kind, rule })
    }

    fn read<'s>(&self, _span: &'s Span<'_>, reading: &mut Reading<'s>) {
        if reading.dialect != NAME {
            return;
        }
        reading.framework = Some(NAME);
        // `functionId` is the same for every call and names no agent.
        reading.remove(Fact::AgentName);
        reading.add(Fact::AgentName, NAME, "the program");
    }
}
