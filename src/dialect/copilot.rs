//! GitHub Copilot.
//!
//! Emitted by: Copilot Chat in VS Code and the Copilot CLI. Not verified: read in their documentation and sources only.
//! Detected by: service `copilot-chat` or `github-copilot` with an operation.
//! Agent: `invoke_agent`; a sub-agent's is inside the tool `runSubagent`. Model: `chat`. Tool: `execute_tool`. Hook:
//! `execute_hook`. Session: `gen_ai.conversation.id`. Errors: `error.type`; `copilot_chat.canceled`.
//! Known gaps: a run of the Copilot CLI inside VS Code has two agent spans, one of each program.

use super::{About, Dialect, Fact, Kind, Reading, Recognized};
use crate::span::{Span, Value};

const NAME: &str = "copilot";
const SERVICES: [&str; 2] = ["copilot-chat", "github-copilot"];

const OPERATIONS: &[(&str, Kind, &str)] = &[
    ("invoke_agent", Kind::Agent, "operation invoke_agent"),
    ("chat", Kind::Model, "operation chat"),
    ("execute_tool", Kind::Tool, "operation execute_tool"),
    ("execute_hook", Kind::Hook, "operation execute_hook"),
];

pub(super) struct Copilot;

impl Dialect for Copilot {
    fn about(&self) -> &'static About {
        &About {
            name: NAME,
            emitted_by: "GitHub Copilot Chat and CLI",
            verified: "not verified: from documentation and sources",
            gaps: "a CLI run inside VS Code is told by two agent spans",
        }
    }

    fn keys(&self) -> &'static [(Fact, &'static [&'static str])] {
        &[
            (Fact::ConversationId, &["gen_ai.conversation.id", "copilot_chat.chat_session_id"]),
            (Fact::Goal, &["copilot_chat.user_request"]),
        ]
    }

    fn recognize(&self, span: &Span<'_>) -> Option<Recognized> {
        let service = span.resource.attributes.text("service.name")?;
        let operation = span.attributes.text("gen_ai.operation.name")?;
        SERVICES
            .contains(&service)
            .then(|| Recognized::by_name(OPERATIONS, operation, "an operation that stands for nothing of its own"))
    }

    fn read<'s>(&self, span: &'s Span<'_>, reading: &mut Reading<'s>) {
        if reading.dialect != NAME {
            return;
        }
        reading.framework = Some(NAME);
        if let (Kind::Hook, Some(hook)) = (reading.kind, span.name.strip_prefix("execute_hook ")) {
            reading.add(Fact::HookName, hook, "span name");
            reading.add(Fact::HookTrigger, hook, "span name");
        }
        if span.attributes.get("copilot_chat.canceled").and_then(Value::as_bool) == Some(true) {
            reading.add(Fact::ErrorType, "AbortError", "copilot_chat.canceled");
        }
    }
}
