//! Microsoft Agent Framework.
//!
//! Emitted by: `agent-framework` 1.x for Python; the framework for .NET and `Microsoft.Extensions.AI` as far as their
//! sources tell. Detected by: scope `agent_framework` or `Experimental.Microsoft.…`, `microsoft.agent_framework` as
//! provider, or the names of its workflow spans.
//! Agent: operation `invoke_agent`. Model: `chat`. Tool: `execute_tool`; the MCP request within is the same call. Hook:
//! `executor.process`, a step of a workflow; the workflow itself, its edges and messages are none. Session:
//! `gen_ai.conversation.id`. Errors: `exception` events, `error.type`, on .NET the status alone.
//! Known gaps: a call that waits for an approval has no tool span, and the run after it looks like a run of its own; the
//! id of a service's conversation is there only if the application uses one.

use serde_json::{Value as Json, json};

use super::{About, Dialect, Fact, Kind, Reading, Recognized};
use crate::span::{Span, parse_json_text};

const SYSTEM: &str = "microsoft.agent_framework";
/// What stands in the place of names and ids that are not known.
const UNKNOWN: &str = "unknown";
/// The part of an answer that asks a person whether a call may be made.
const APPROVAL: &str = "function_approval_request";

const OPERATIONS: &[(&str, Kind, &str)] = &[
    ("invoke_agent", Kind::Agent, "operation invoke_agent"),
    ("chat", Kind::Model, "operation chat"),
    ("execute_tool", Kind::Tool, "operation execute_tool"),
    ("create_agent", Kind::Transparent, "create_agent is setup, not a run"),
    ("orchestrate_tools", Kind::Transparent, "the loop around calls of the model and tools"),
    ("embeddings", Kind::Transparent, "embeddings give no event"),
];

/// Spans of workflows have no operation; their names start with these words.
const WORKFLOW_SPANS: &[(&str, Kind, &str)] = &[
    ("workflow.build", Kind::Transparent, "workflow.build is setup, not a run"),
    ("workflow.run", Kind::Transparent, "a workflow around agents is none itself"),
    ("workflow.session", Kind::Transparent, "a workflow around agents is none itself"),
    ("workflow_invoke", Kind::Transparent, "a workflow around agents is none itself"),
    ("executor.process", Kind::Hook, "a step of a workflow"),
    ("edge_group.process", Kind::Transparent, "the way of a message between steps"),
    ("message.send", Kind::Transparent, "the way of a message between steps"),
];

pub(super) struct AgentFramework;

impl Dialect for AgentFramework {
    fn about(&self) -> &'static About {
        &About {
            name: "agent_framework",
            emitted_by: "Microsoft Agent Framework for Python; for .NET, and Microsoft.Extensions.AI, unverified",
            verified: "agent-framework-core 1.23",
            gaps: "no span of a call that waits for an approval; the run after it looks like a run of its own",
        }
    }

    fn keys(&self) -> &'static [(Fact, &'static [&'static str])] {
        &[(Fact::HookName, &["executor.id"]), (Fact::ToolName, &["gen_ai.tool.name", "agent_framework.function.name"])]
    }

    fn recognize(&self, span: &Span<'_>) -> Option<Recognized> {
        if !is_agent_framework(span) {
            return None;
        }
        let (table, name) = match span.attributes.text("gen_ai.operation.name") {
            Some(operation) => (OPERATIONS, operation),
            None => (WORKFLOW_SPANS, workflow_span(span)),
        };
        Some(Recognized::by_name(table, name, "machinery of Agent Framework"))
    }

    fn read<'s>(&self, span: &'s Span<'_>, reading: &mut Reading<'s>) {
        if !is_agent_framework(span) {
            return;
        }
        reading.framework = Some("agent_framework");
        if reading.text(Fact::Provider).as_deref() == Some(SYSTEM) {
            reading.remove(Fact::Provider);
        }
        for fact in [Fact::RequestModel, Fact::ToolCallId, Fact::AgentName] {
            if reading.text(fact).as_deref() == Some(UNKNOWN) {
                reading.remove(fact);
            }
        }
        match reading.kind {
            Kind::Agent => read_run(reading),
            // Arguments that there are none of are Python's `None`.
            Kind::Tool if reading.text(Fact::ToolInput).as_deref() == Some("None") => reading.remove(Fact::ToolInput),
            Kind::Hook => reading.add(Fact::HookTrigger, "workflow_step", "executor.process"),
            _ => {}
        }
    }
}

fn is_agent_framework(span: &Span<'_>) -> bool {
    let scope = span.scope.name.as_str();
    scope == "agent_framework"
        || scope.starts_with("agent_framework.")
        || scope.starts_with("Experimental.Microsoft.Agents")
        || scope.starts_with("Experimental.Microsoft.Extensions.AI")
        || scope.starts_with("Microsoft.Agents.AI")
        || span.attributes.text("gen_ai.provider.name") == Some(SYSTEM)
        || span.attributes.text("gen_ai.system") == Some(SYSTEM)
        || (span.attributes.get("executor.id").is_some() && workflow_span(span) == "executor.process")
        || (span.attributes.get("workflow.id").is_some() && workflow_span(span).starts_with("workflow."))
}

fn workflow_span<'s>(span: &'s Span<'_>) -> &'s str {
    span.name.split(' ').next().unwrap_or_default()
}

/// An answer that asks for an approval is a stop for a person, under the id of the request.
fn read_run(reading: &mut Reading<'_>) {
    let answers = reading.json(Fact::OutputMessages).unwrap_or_default();
    let parts = answers.as_array().into_iter().flatten().filter_map(|message| message["parts"].as_array()).flatten();
    let wait = |part: &Json| {
        let call = &part["function_call"];
        let arguments = call["arguments"].as_str().map_or_else(|| call["arguments"].clone(), parse_json_text);
        json!({"id": part["id"], "prompt": {"name": call["name"], "arguments": arguments}})
    };
    let waits: Vec<Json> = parts.filter(|part| part["type"] == APPROVAL).map(wait).collect();
    if !waits.is_empty() {
        reading.add(Fact::Waits, waits, "answer that asks for an approval");
    }
}
