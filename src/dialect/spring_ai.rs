//! Spring AI.
//!
//! Emitted by: Spring AI 1 and 2 through Micrometer. Not verified: read in its documentation and sources only.
//! Detected by: `spring.ai.kind`; its model calls keep the semantic conventions and are read by them.
//! Agent: `chat_client`, which has no name. Tool: `tool_call`. Advisors are none. Session: the chat client's conversation id.
//! Errors: `exception` events, `error.type` since 2.1.
//! Known gaps: the id of a tool call; messages (they go to the log).

use super::{About, Dialect, Fact, Kind, Reading, Recognized};
use crate::span::Span;

const NAME: &str = "spring_ai";

const KINDS: &[(&str, Kind, &str)] =
    &[("chat_client", Kind::Agent, "a call of the chat client"), ("tool_call", Kind::Tool, "a tool call")];

pub(super) struct SpringAi;

impl Dialect for SpringAi {
    fn about(&self) -> &'static About {
        &About {
            name: NAME,
            emitted_by: "Spring AI 1 and 2, through Micrometer",
            verified: "not verified: from documentation and sources",
            gaps: "the id of a tool call; messages",
        }
    }

    fn keys(&self) -> &'static [(Fact, &'static [&'static str])] {
        &[
            (Fact::ConversationId, &["spring.ai.chat.client.conversation.id"]),
            (Fact::ToolName, &["spring.ai.tool.definition.name"]),
            (Fact::ToolInput, &["spring.ai.tool.call.arguments"]),
            (Fact::ToolOutput, &["spring.ai.tool.call.result"]),
        ]
    }

    fn recognize(&self, span: &Span<'_>) -> Option<Recognized> {
        let kind = span.attributes.text("spring.ai.kind")?;
        Some(Recognized::by_name(KINDS, kind, "an advisor or other machinery of Spring AI"))
    }

    fn read<'s>(&self, _span: &'s Span<'_>, reading: &mut Reading<'s>) {
        if reading.dialect == NAME {
            reading.framework = Some(NAME);
        }
    }
}
