//! MLflow Tracing.
//!
//! Emitted by: `mlflow` and `mlflow-tracing` with an OTLP endpoint: `mlflow.trace`, `mlflow.start_span` and the autologging
//! of some thirty frameworks. Detected by: `mlflow.spanType`; all values are JSON within text. Agent: AGENT, unless it is
//! the workflow around the agents of OpenAI Agents; the runs of LangGraph; LangChain's outermost chain. Model: CHAT_MODEL, LLM.
//! Tool: TOOL, RETRIEVER, RERANKER, MEMORY. Hook: GUARDRAIL, EVALUATOR, the nodes of LangGraph. Session: `session.id`
//! on the root, `mlflow.trace.session`, LangChain's metadata. Errors: `exception` events, status. Known gaps: a tool lacks the call's id,
//! LangChain's excepted.

use serde_json::{Value as Json, json};

use super::langgraph::{self, GraphRole, RunMetadata};
use super::messages::text_of;
use super::{About, Dialect, Fact, Kind, Reading, Recognized, langchain, payload};
use crate::span::{Span, StatusCode};

const NAME: &str = "mlflow";
const SPAN_TYPE: &str = "mlflow.spanType";
const INPUT: &str = "mlflow.spanInputs";
const OUTPUT: &str = "mlflow.spanOutputs";
const USAGE: &str = "mlflow.chat.tokenUsage";
const SESSIONS: [&str; 3] = ["session.id", "mlflow.trace.session", "mlflow.traceTag.group_id"];
/// LangChain's runs bring their metadata along.
const METADATA: &str = "metadata";
/// Where the autologging of frameworks puts the name of an agent.
const NAMES: [&str; 3] = ["name", "role", "agent_name"];
/// Runs of OpenAI Agents' loop: its agents stand within.
const AROUND_AGENTS: [&str; 2] = ["AgentRunner.run", "AgentRunner.run_streamed"];

/// What each type of span stands for; of one that is not listed LangChain's metadata tells.
const KINDS: &[(&str, Kind, &str)] = &[
    ("CHAT_MODEL", Kind::Model, "span of type CHAT_MODEL"),
    ("LLM", Kind::Model, "span of type LLM"),
    ("TOOL", Kind::Tool, "span of type TOOL"),
    ("RETRIEVER", Kind::Tool, "span of type RETRIEVER"),
    ("RERANKER", Kind::Tool, "span of type RERANKER"),
    ("MEMORY", Kind::Tool, "span of type MEMORY"),
    ("GUARDRAIL", Kind::Hook, "span of type GUARDRAIL"),
    ("EVALUATOR", Kind::Hook, "span of type EVALUATOR"),
];

pub(super) struct Mlflow;

impl Dialect for Mlflow {
    fn about(&self) -> &'static About {
        &About {
            name: NAME,
            emitted_by: "MLflow Tracing: `mlflow.trace`, and its autologging of LangChain, OpenAI, OpenAI Agents and others",
            verified: "mlflow 3.17.2 (OpenAI, LangGraph 1.2.24)",
            gaps: "a tool's span lacks the call's id, LangChain's excepted; the session is on the root alone, and only if the application set it",
        }
    }

    fn keys(&self) -> &'static [(Fact, &'static [&'static str])] {
        // The values are JSON within text: none of them can be taken as it is.
        &[]
    }

    fn recognize(&self, span: &Span<'_>) -> Option<Recognized> {
        let span_type = json_of(span, SPAN_TYPE)?;
        let span_type = span_type.as_str()?;
        let known = KINDS.iter().find(|(name, ..)| *name == span_type);
        let (kind, rule) = match known {
            Some((_, kind, rule)) => (*kind, *rule),
            None if span_type == "AGENT" && is_around_agents(span) => {
                (Kind::Transparent, "the workflow around the agents is none itself")
            }
            None => chain(span, span_type == "AGENT"),
        };
        Some(Recognized { kind, rule })
    }

    fn read<'s>(&self, span: &'s Span<'_>, reading: &mut Reading<'s>) {
        if span.attributes.get(SPAN_TYPE).is_none() {
            return;
        }
        let is_langchain = span.attributes.get(METADATA).is_some();
        reading.framework = reading.framework.or(Some(if is_langchain { "langchain" } else { NAME }));
        let metadata = metadata(span);
        for key in SESSIONS {
            let session = json_of(span, key).filter(Json::is_string);
            reading.add(Fact::ConversationId, session.or(span.attributes.get(key).map(|id| id.to_json())), key);
        }
        if let Some(session) = metadata.session() {
            reading.add(Fact::ConversationId, session, METADATA);
        }
        if let Some(namespace) = metadata.text("langgraph_checkpoint_ns") {
            reading.add(Fact::CheckpointNamespace, namespace, METADATA);
        }
        reading.add(Fact::Interrupts, langgraph::interrupts(span), "exception");
        match reading.kind {
            Kind::Agent => read_agent(span, &metadata, reading),
            Kind::Transparent if span.attributes.get(METADATA).is_some() => read_agent(span, &metadata, reading),
            Kind::Model => read_model(span, &metadata, reading),
            Kind::Tool => read_tool(span, reading),
            Kind::Hook => read_hook(span, reading),
            Kind::Human | Kind::Transparent => {}
        }
        if let (Kind::Model | Kind::Tool | Kind::Hook, Some(agent)) = (reading.kind, metadata.text("lc_agent_name")) {
            reading.add(Fact::AgentName, agent, METADATA);
        }
    }
}

/// An attribute's JSON; a number in quotes is text.
fn json_of(span: &Span<'_>, key: &str) -> Option<Json> {
    span.attributes.get(key).map(|value| value.parse_json()).filter(|value| !value.is_null())
}

fn metadata(span: &Span<'_>) -> RunMetadata {
    RunMetadata::new(json_of(span, METADATA))
}

/// The loop of OpenAI Agents, and a trace of it, which has an input of no text.
fn is_around_agents(span: &Span<'_>) -> bool {
    AROUND_AGENTS.contains(&span.name.as_ref()) || json_of(span, INPUT) == Some(json!(""))
}

fn chain(span: &Span<'_>, is_agent: bool) -> (Kind, &'static str) {
    let metadata = metadata(span);
    let is_langchain = || span.attributes.get(METADATA).is_some();
    match metadata.role(&span.name, false) {
        GraphRole::Graph => (Kind::Agent, "the run of a graph"),
        GraphRole::Node => (Kind::Hook, "the run of a graph's node"),
        GraphRole::Other if is_agent => (Kind::Agent, "span of type AGENT"),
        GraphRole::Other if langchain::is_part(&span.name) || metadata.text("langgraph_node").is_some() => {
            (Kind::Transparent, "a part of a chain")
        }
        GraphRole::Other if is_langchain() && span.parent.is_none() => (Kind::Agent, "the outermost chain"),
        GraphRole::Other => (Kind::Transparent, "a type that stands for nothing of its own"),
    }
}

fn read_agent(span: &Span<'_>, metadata: &RunMetadata, reading: &mut Reading<'_>) {
    // A method's name is none of the agent: its own may be beside it.
    if span.name.contains('.') {
        for key in NAMES {
            reading.add(Fact::AgentName, json_of(span, key).filter(Json::is_string), key);
        }
    }
    reading.add(Fact::AgentName, metadata.graph_name(&span.name), "span name");
    let input = json_of(span, INPUT).unwrap_or_default();
    if let Some(answer) = langgraph::resume_value(&input) {
        reading.add(Fact::ResumeValue, answer, INPUT);
        reading.goes_on_without_goal = true;
    }
    // Messages alone are the state of a graph.
    let input = if input.is_array() { json!({"messages": input}) } else { input };
    if let Some(goal) = payload::goal(input).filter(|_| !reading.goes_on_without_goal) {
        reading.add(Fact::Goal, goal, INPUT);
    }
    if let Some(summary) = json_of(span, OUTPUT).and_then(payload::summary) {
        reading.add(Fact::Summary, summary, OUTPUT);
    }
}

fn read_model(span: &Span<'_>, metadata: &RunMetadata, reading: &mut Reading<'_>) {
    let input = json_of(span, INPUT).unwrap_or_default();
    let output = json_of(span, OUTPUT).unwrap_or_default();
    let text = |value: Option<Json>| value.filter(Json::is_string);
    let (named, asked) = (text(json_of(span, "mlflow.llm.model")), text(input.get("model").cloned()));
    reading.add(Fact::RequestModel, asked.or_else(|| text(json_of(span, "model"))).or_else(|| named.clone()), INPUT);
    // As the official adapter names it: the class of the model is all that is known.
    if metadata.text("ls_model_type").is_some() {
        reading.add(Fact::RequestModel, metadata.text("ls_model_name").unwrap_or(&span.name), "span name");
    }
    let has_answer = !output.is_null() && span.status.code != StatusCode::Error;
    reading.add(Fact::ResponseModel, payload::model(&output).or(named).filter(|_| has_answer), "mlflow.llm.model");
    reading.add(Fact::Provider, text(json_of(span, "mlflow.llm.provider")), "mlflow.llm.provider");
    reading.add(Fact::ToolDefinitions, json_of(span, "mlflow.chat.tools"), "mlflow.chat.tools");
    reading.add(Fact::ToolDefinitions, input.get("tools").filter(|tools| tools.is_array()).cloned(), INPUT);
    reading.add(Fact::SystemInstructions, text(input.get("system").cloned()), INPUT);
    reading.add(Fact::ResponseId, text(output.get("id").cloned()), OUTPUT);
    reading.add(Fact::FinishReasons, payload::finish_reason(&output), OUTPUT);
    reading.add(Fact::FinishReasons, text(output.get("stop_reason").cloned()), OUTPUT);
    reading.add(Fact::Streaming, input.get("stream").filter(|stream| stream.is_boolean()).cloned(), INPUT);

    let reasoning = ["completion_tokens_details", "output_tokens_details"]
        .iter()
        .find_map(|details| output.get("usage")?.get(*details)?.get("reasoning_tokens"));
    reading.add(Fact::ReasoningTokens, reasoning.cloned(), OUTPUT);
    let usage = json_of(span, USAGE).unwrap_or_default();
    for (fact, member) in [
        (Fact::InputTokens, "input_tokens"),
        (Fact::OutputTokens, "output_tokens"),
        (Fact::CacheReadTokens, "cache_read_input_tokens"),
        (Fact::CacheWriteTokens, "cache_creation_input_tokens"),
    ] {
        reading.add(fact, usage.get(member).cloned(), USAGE);
    }
    let cost = json_of(span, "mlflow.llm.cost").and_then(|cost| cost.get("total_cost").cloned());
    reading.add(Fact::Cost, cost, "mlflow.llm.cost");
    let (asked, answered) = (payload::request(input), payload::answer(output));
    reading.add(Fact::FinishReasons, answered.first().map(|answer| answer["finish_reason"].clone()), OUTPUT);
    if !asked.is_empty() {
        reading.add(Fact::InputMessages, asked, INPUT);
    }
    if !answered.is_empty() {
        reading.add(Fact::OutputMessages, answered, OUTPUT);
    }
}

fn read_tool(span: &Span<'_>, reading: &mut Reading<'_>) {
    match json_of(span, SPAN_TYPE).as_ref().and_then(Json::as_str) {
        // As the official adapter names them.
        Some("RETRIEVER") => {
            reading.add(Fact::ToolName, format!("retriever:{}", span.name), "span name");
            reading.add(Fact::ToolKind, "retriever", SPAN_TYPE);
        }
        _ => reading.add(Fact::ToolName, span.name.as_ref(), "span name"),
    }
    reading.add(Fact::ToolCallId, json_of(span, "tool_call_id").filter(Json::is_string), "tool_call_id");
    reading.add(Fact::ToolInput, json_of(span, INPUT).map(|input| payload::arguments(input, &Json::Null)), INPUT);
    let Some(output) = json_of(span, OUTPUT) else { return };
    let result = payload::tool_result(output);
    reading.add(Fact::ToolCallId, result.call_id, OUTPUT);
    if result.is_error {
        reading.add(Fact::ErrorMessage, text_of(&result.content), OUTPUT);
    }
    reading.add(Fact::ToolOutput, result.content, OUTPUT);
}

fn read_hook(span: &Span<'_>, reading: &mut Reading<'_>) {
    let span_type = json_of(span, SPAN_TYPE).unwrap_or_default();
    let trigger = match span_type.as_str() {
        Some("GUARDRAIL") => "guardrail",
        Some("EVALUATOR") => "evaluator",
        _ => "graph_node",
    };
    reading.owner_is_agent = trigger == "graph_node";
    reading.add(Fact::HookName, span.name.as_ref(), "span name");
    reading.add(Fact::HookTrigger, trigger, SPAN_TYPE);
    reading.add(Fact::ToolCallId, json_of(span, "tool_call_id").filter(Json::is_string), "tool_call_id");
    reading.add(Fact::ToolInput, json_of(span, INPUT), INPUT);
    reading.add(Fact::ToolOutput, json_of(span, OUTPUT), OUTPUT);
}
