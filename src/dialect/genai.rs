//! The GenAI semantic conventions of OpenTelemetry, from 1.27 to the newest.
//!
//! Emitted by: every instrumentation that keeps them, and the Collector's `genainormalizer` processor. Detected by:
//! `gen_ai.operation.name`. Agent: `invoke_agent`, `invoke_workflow`. Model: `chat`, `generate_content`,
//! `text_completion`. Tool: `execute_tool`, `retrieval`, the memory operations. Session: `gen_ai.conversation.id`.
//! Messages: attributes since 1.37, span events from 1.26 to 1.36. Errors: `exception` events, `error.type`.
//! Known gaps: whether a run without an error really came to its end.

use serde_json::{Map, Value as Json, json};

use super::{About, Dialect, Fact, Kind, Reading, Recognized, langchain, langgraph, python_literal};
use crate::span::{Span, SpanEvent};

pub(super) struct GenAi;

const AGENT_NAME: &str = "gen_ai.agent.name";

/// What each value of `gen_ai.operation.name` stands for; one that is not listed stands for nothing of its own.
const OPERATIONS: &[(&str, Kind, &str)] = &[
    ("chat", Kind::Model, "operation chat"),
    ("generate_content", Kind::Model, "operation generate_content"),
    ("text_completion", Kind::Model, "operation text_completion"),
    ("invoke_agent", Kind::Agent, "operation invoke_agent"),
    ("invoke_workflow", Kind::Agent, "operation invoke_workflow"),
    ("execute_tool", Kind::Tool, "operation execute_tool"),
    ("retrieval", Kind::Tool, "operation retrieval"),
    ("create_memory", Kind::Tool, "memory operation"),
    ("update_memory", Kind::Tool, "memory operation"),
    ("upsert_memory", Kind::Tool, "memory operation"),
    ("search_memory", Kind::Tool, "memory operation"),
    ("delete_memory", Kind::Tool, "memory operation"),
    ("create_agent", Kind::Transparent, "create_agent is setup, not a run"),
    ("embeddings", Kind::Transparent, "embeddings give no event"),
];

/// Scopes whose workflow is only what stands around its agents. OpenAI Agents: the official package, the retired one of
/// the contrib repository, which calls the workflow an agent without a name, and Traceloop's by way of `genainormalizer`.
const WORKFLOWS_AROUND_AGENTS: &[(&str, &str)] = &[
    ("opentelemetry.instrumentation.genai.openai_agents", "invoke_workflow"),
    ("opentelemetry.instrumentation.openai_agents", "invoke_agent"),
    ("opentelemetry.instrumentation.openai_agents", "invoke_workflow"),
];

/// What instrumentations write for an agent's name where they do not know it.
const PLACEHOLDER_AGENTS: [&str; 2] = ["OpenAI Agent", "unknown"];

/// Scopes of instrumentations start so; the framework follows.
const INSTRUMENTATIONS: [&str; 4] = [
    "opentelemetry.instrumentation.genai.",
    "opentelemetry.instrumentation.",
    "@traceloop/instrumentation-",
    "@opentelemetry/instrumentation-",
];

/// Frameworks and clients by what instrumentations call them.
const FRAMEWORKS: &[(&str, &str)] = &[
    ("langchain", "langchain"),
    ("openai", "openai"),
    ("openai_v2", "openai"),
    ("openai_agents", "openai_agents"),
    ("llamaindex", "llama_index"),
    ("llama_index", "llama_index"),
    ("crewai", "crewai"),
    ("agno", "agno"),
    ("smolagents", "smolagents"),
    ("dspy", "dspy"),
    ("haystack", "haystack"),
    ("mcp", "mcp"),
    ("anthropic", "anthropic"),
    ("bedrock", "bedrock"),
    ("claude_agent_sdk", "claude_agent_sdk"),
    ("google_genai", "google_genai"),
    ("google_generativeai", "google_genai"),
    ("vertexai", "vertexai"),
    ("cohere", "cohere"),
    ("groq", "groq"),
    ("mistralai", "mistralai"),
    ("ollama", "ollama"),
    ("together", "together"),
];

/// The framework that an instrumentation's scope names.
pub(super) fn framework_of_scope(scope: &str) -> Option<&'static str> {
    let rest = INSTRUMENTATIONS.iter().find_map(|prefix| scope.strip_prefix(prefix))?;
    let named = rest.split('.').next().unwrap_or(rest);
    FRAMEWORKS.iter().find(|(name, _)| *name == named).map(|(_, framework)| *framework)
}

/// Span names start with the operation; what follows names its object.
const NAMED_BY_SPAN: &[(Kind, Fact, &[&str])] = &[
    (Kind::Agent, Fact::AgentName, &["invoke_agent ", "invoke_workflow "]),
    (Kind::Model, Fact::RequestModel, &["chat ", "generate_content ", "text_completion "]),
    (Kind::Tool, Fact::ToolName, &["execute_tool ", "retrieval ", ""]),
];

impl Dialect for GenAi {
    fn about(&self) -> &'static About {
        &About {
            name: "genai",
            emitted_by: "anything that keeps the GenAI semantic conventions, 1.27 and later",
            verified: "semantic conventions 1.27 to 1.42",
            gaps: "a run that was cancelled without an exception looks like a success",
        }
    }

    fn keys(&self) -> &'static [(Fact, &'static [&'static str])] {
        &[
            (Fact::AgentName, &[AGENT_NAME, "gen_ai.workflow.name"]),
            (Fact::AgentDescription, &["gen_ai.agent.description"]),
            (Fact::ConversationId, &["gen_ai.conversation.id"]),
            (Fact::RequestModel, &["gen_ai.request.model"]),
            (Fact::ResponseModel, &["gen_ai.response.model"]),
            (Fact::Provider, &["gen_ai.provider.name", "gen_ai.system"]),
            (Fact::InputMessages, &["gen_ai.input.messages", "gen_ai.prompt"]),
            (Fact::OutputMessages, &["gen_ai.output.messages", "gen_ai.completion"]),
            (Fact::SystemInstructions, &["gen_ai.system_instructions"]),
            (Fact::ToolDefinitions, &["gen_ai.tool.definitions"]),
            (Fact::FinishReasons, &["gen_ai.response.finish_reasons", "gen_ai.response.finish_reason"]),
            (Fact::ResponseId, &["gen_ai.response.id"]),
            (Fact::InputTokens, &["gen_ai.usage.input_tokens", "gen_ai.usage.prompt_tokens"]),
            (Fact::OutputTokens, &["gen_ai.usage.output_tokens", "gen_ai.usage.completion_tokens"]),
            (
                Fact::CacheReadTokens,
                &[
                    "gen_ai.usage.cache_read.input_tokens",
                    "gen_ai.usage.cache_read_input_tokens",
                    "gen_ai.usage.input_cached_tokens",
                    "gen_ai.usage.details.cache_read_tokens",
                ],
            ),
            (
                Fact::CacheWriteTokens,
                &[
                    "gen_ai.usage.cache_creation.input_tokens",
                    "gen_ai.usage.cache_creation_input_tokens",
                    "gen_ai.usage.cache_write_input_tokens",
                    "gen_ai.usage.details.cache_write_tokens",
                ],
            ),
            (
                Fact::ReasoningTokens,
                &[
                    "gen_ai.usage.reasoning.output_tokens",
                    "gen_ai.usage.reasoning_tokens",
                    "gen_ai.usage.details.reasoning_tokens",
                ],
            ),
            (Fact::Cost, &["gen_ai.usage.cost"]),
            (
                Fact::TimeToFirstChunk,
                &["gen_ai.response.time_to_first_chunk", "gen_ai.client.operation.time_to_first_chunk"],
            ),
            (Fact::Streaming, &["gen_ai.request.stream", "gen_ai.is_streaming"]),
            (Fact::ToolName, &["gen_ai.tool.name", "gen_ai.data_source.id"]),
            (Fact::ToolCallId, &["gen_ai.tool.call.id"]),
            (
                Fact::ToolInput,
                &["gen_ai.tool.call.arguments", "gen_ai.retrieval.query.text", "gen_ai.memory.query.text"],
            ),
            (Fact::ToolOutput, &["gen_ai.tool.call.result", "gen_ai.retrieval.documents", "gen_ai.memory.records"]),
            (Fact::ToolKind, &["gen_ai.tool.type"]),
        ]
    }

    fn recognize(&self, span: &Span<'_>) -> Option<Recognized> {
        let Some(operation) = span.attributes.text("gen_ai.operation.name") else {
            let answered = span.attributes.get("gen_ai.response.model").or(span.attributes.get("gen_ai.request.model"));
            let provider = span.attributes.get("gen_ai.provider.name").or(span.attributes.get("gen_ai.system"));
            return answered
                .and(provider)
                .map(|_| Recognized { kind: Kind::Model, rule: "a model and its provider, no operation" });
        };
        let is_around = WORKFLOWS_AROUND_AGENTS.contains(&(span.scope.name.as_str(), operation));
        if is_around && span.attributes.text(AGENT_NAME).is_none() {
            return Some(Recognized { kind: Kind::Transparent, rule: "the workflow around the agents is none itself" });
        }
        let workflow = span.attributes.text("gen_ai.workflow.name").filter(|_| operation == "invoke_workflow");
        if workflow.is_some_and(langchain::is_part) {
            return Some(Recognized { kind: Kind::Transparent, rule: "a part run by itself is no agent" });
        }
        if let Some(recognized) = renamed_chain(span, operation) {
            return Some(recognized);
        }
        let known = OPERATIONS.iter().find(|(name, ..)| *name == operation);
        Some(known.map_or(
            Recognized { kind: Kind::Transparent, rule: "an operation that stands for nothing of its own" },
            |(_, kind, rule)| Recognized { kind: *kind, rule },
        ))
    }

    fn read<'s>(&self, span: &'s Span<'_>, reading: &mut Reading<'s>) {
        if !span.events.is_empty() {
            read_message_events(span, reading);
        }
        if reading.text(Fact::AgentName).is_some_and(|name| PLACEHOLDER_AGENTS.contains(&name.as_ref())) {
            reading.remove(Fact::AgentName);
        }
        if span.attributes.get("gen_ai.operation.name").is_none() {
            return;
        }
        reading.framework = reading.framework.or_else(|| framework_of_scope(&span.scope.name));
        if let Some(stops) = langgraph::interrupts(span) {
            reading.add(Fact::Interrupts, stops, "error.type and status");
        }
        if reading.framework == Some("openai_agents") {
            repair_answer(reading);
        }
        for (kind, fact, prefixes) in NAMED_BY_SPAN {
            if reading.kind == *kind && !reading.has(*fact) {
                let name = prefixes.iter().find_map(|prefix| span.name.strip_prefix(prefix));
                if let Some(name) = name.filter(|name| !name.trim().is_empty()) {
                    reading.add(*fact, name, "span name");
                }
            }
        }
        if matches!(reading.kind, Kind::Agent) {
            read_answer(reading);
        }
    }
}

/// The Collector's `genainormalizer` calls every chain of OpenInference an agent, and every prompt a completion. An agent
/// is what has a name of its own, or is called one, or runs outermost.
fn renamed_chain(span: &Span<'_>, operation: &str) -> Option<Recognized> {
    if !span.scope.name.starts_with("openinference.instrumentation.") {
        return None;
    }
    let is_agent = || {
        let is_named = span.attributes.text(AGENT_NAME).is_some() || span.name.to_lowercase().contains("agent");
        is_named || span.parent.is_none()
    };
    let is_call = || span.attributes.text("gen_ai.request.model").is_some();
    match operation {
        "invoke_agent" if !is_agent() => Some(Recognized { kind: Kind::Transparent, rule: "a chain called an agent" }),
        "text_completion" if !is_call() => Some(Recognized { kind: Kind::Transparent, rule: "a prompt is no call" }),
        _ => None,
    }
}

/// The retired package for OpenAI Agents writes what the model gave as Python does, within a text.
fn repair_answer(reading: &mut Reading<'_>) {
    let Some(Json::Array(mut messages)) = reading.json(Fact::OutputMessages) else { return };
    let parts = messages.iter_mut().filter_map(|message| message.get_mut("parts")?.as_array_mut()).flatten();
    let mut repaired = false;
    for part in parts {
        let item = part["content"].as_str().filter(|text| text.starts_with("{'")).and_then(python_literal::parse);
        let Some(item) = item else { continue };
        let texts = item["content"].as_array().into_iter().flatten().filter_map(|content| content["text"].as_str());
        *part = match item["type"].as_str() {
            Some("function_call") => {
                json!({"type": "tool_call", "id": item["call_id"], "name": item["name"], "arguments": item["arguments"]})
            }
            Some("message") => json!({"type": "text", "content": texts.collect::<Vec<_>>().join("\n")}),
            _ => continue,
        };
        repaired = true;
    }
    if repaired {
        reading.remove(Fact::OutputMessages);
        reading.add(Fact::OutputMessages, messages, "gen_ai.output.messages");
    }
}

/// An agent span can carry the messages of the whole run: the question and the answer of it.
fn read_answer(reading: &mut Reading<'_>) {
    use super::messages::{normalize_answer, normalize_messages, text_of};
    let asked = reading.json(Fact::InputMessages).map(normalize_messages).unwrap_or_default();
    let question = asked.iter().rev().find(|message| message["role"] == "user");
    if let Some(text) = question.and_then(|message| text_of(&message["content"])) {
        reading.add(Fact::Goal, text, "last user text of the input messages");
    }
    let answer = reading.json(Fact::OutputMessages).and_then(normalize_answer);
    if let Some(text) = answer.as_ref().and_then(text_of) {
        reading.add(Fact::Summary, text, "text of the output messages");
    }
}

/// Messages as span events: one for each message (1.28 to 1.36), two blobs (1.26), or one with all details (1.37).
fn read_message_events<'s>(span: &'s Span<'_>, reading: &mut Reading<'s>) {
    let (mut asked, mut answered) = (Vec::new(), Vec::new());
    for event in &span.events {
        match event.name.as_ref() {
            "gen_ai.system.message" => asked.push(message_of(event, "system")),
            "gen_ai.user.message" => asked.push(message_of(event, "user")),
            "gen_ai.assistant.message" => asked.push(message_of(event, "assistant")),
            "gen_ai.tool.message" => asked.push(message_of(event, "tool")),
            "gen_ai.choice" => answered.push(message_of(event, "assistant")),
            "gen_ai.content.prompt" | "gen_ai.content.completion" | "gen_ai.client.inference.operation.details" => {
                for (fact, keys) in [
                    (Fact::InputMessages, ["gen_ai.input.messages", "gen_ai.prompt"]),
                    (Fact::OutputMessages, ["gen_ai.output.messages", "gen_ai.completion"]),
                    (Fact::SystemInstructions, ["gen_ai.system_instructions", ""]),
                    (Fact::ToolDefinitions, ["gen_ai.tool.definitions", ""]),
                ] {
                    if let Some(value) = keys.iter().find_map(|key| event.attributes.get(key)) {
                        reading.add(fact, value.parse_json(), "span event");
                    }
                }
            }
            _ => {}
        }
    }
    if !asked.is_empty() {
        reading.add(Fact::InputMessages, asked, "span events gen_ai.*.message");
    }
    if !answered.is_empty() {
        reading.add(Fact::OutputMessages, answered, "span event gen_ai.choice");
    }
}

/// One message of one event: its fields are attributes, or members of one attribute or of `message`.
fn message_of(event: &SpanEvent<'_>, default_role: &str) -> Json {
    let mut message = Map::new();
    message.insert("role".into(), default_role.into());
    let attributes = event.attributes.iter().filter(|(key, _)| !key.starts_with("gen_ai."));
    for (key, value) in attributes {
        // An id or a text that looks like a number stays what it is.
        let value = if matches!(key, "message" | "tool_calls") { value.parse_json() } else { value.to_json() };
        message.insert(key.to_owned(), value);
    }
    let body = event.attributes.get("gen_ai.event.content").map(|content| content.parse_json());
    for nested in [body, message.shift_remove("message")].into_iter().flatten() {
        match nested {
            Json::Object(members) => message.extend(members),
            text => drop(message.insert("content".into(), text)),
        }
    }
    if let Some(Json::Object(members)) = message.shift_remove("message") {
        message.extend(members);
    }
    json!(message)
}
