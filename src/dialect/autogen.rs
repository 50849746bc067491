//! AutoGen.
//!
//! Emitted by: `autogen-core` and `autogen-agentchat` 0.7. Detected by: scope `autogen-core`, the scope of a runtime
//! (`autogen SingleThreadedAgentRuntime`), or `autogen` as system.
//! Agent: operation `invoke_agent`. Model: none has a span. Tool: `execute_tool`. A team has no span, and its messages
//! between agents are none. Session: the team, which stands in the id of its agents; a single agent has none. Errors: `exception` events, twice.
//! Known gaps: no model calls, tokens, messages, arguments, results; a cancelled run looks like a
//! success.

use super::{About, Dialect, Fact, Kind, Reading, Recognized};
use crate::span::Span;

const SYSTEM: &str = "autogen";
const SCOPE: &str = "autogen-core";
/// The key of agents that are the only one of their kind: no session.
const DEFAULT_KEY: &str = "default";
/// Scopes of runtimes, and names of their spans, start so.
const MESSAGING: &str = "autogen ";

const OPERATIONS: &[(&str, Kind, &str)] = &[
    ("invoke_agent", Kind::Agent, "operation invoke_agent"),
    ("execute_tool", Kind::Tool, "operation execute_tool"),
    ("create_agent", Kind::Transparent, "create_agent is setup, not a run"),
];

pub(super) struct AutoGen;

impl Dialect for AutoGen {
    fn about(&self) -> &'static About {
        &About {
            name: "autogen",
            emitted_by: "AutoGen's own spans: agents and tools",
            verified: "autogen-agentchat 0.7.5",
            gaps: "no model calls, tokens or content; a session for teams alone; a cancelled run looks like a success",
        }
    }

    fn keys(&self) -> &'static [(Fact, &'static [&'static str])] {
        &[]
    }

    fn recognize(&self, span: &Span<'_>) -> Option<Recognized> {
        if !is_autogen(span) {
            return None;
        }
        let operation = span.attributes.text("gen_ai.operation.name").unwrap_or_default();
        Some(Recognized::by_name(OPERATIONS, operation, "messages between agents"))
    }

    fn read<'s>(&self, span: &'s Span<'_>, reading: &mut Reading<'s>) {
        if !is_autogen(span) {
            return;
        }
        reading.framework = Some("autogen");
        // An agent of a team is `name_<team>/<team>`, and each turn of a team is a trace of its own.
        let team = span.attributes.text("gen_ai.agent.id").and_then(|id| id.rsplit_once('/')).map(|(_, key)| key);
        if let Some(team) = team.filter(|team| *team != DEFAULT_KEY) {
            reading.add(Fact::ConversationId, team, "key of gen_ai.agent.id");
        }
    }
}

fn is_autogen(span: &Span<'_>) -> bool {
    let is_messaging = span.scope.name.starts_with(MESSAGING)
        || (span.name.starts_with(MESSAGING) && span.attributes.get("messaging.operation").is_some());
    is_messaging || span.scope.name == SCOPE || span.attributes.text("gen_ai.system") == Some(SYSTEM)
}
