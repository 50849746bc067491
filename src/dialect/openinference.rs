//! OpenInference, the conventions of Arize Phoenix.
//!
//! Emitted by: the `openinference-instrumentation-*` packages for Python and JavaScript, and span processors that put its
//! keys on top of native spans (Strands, Pydantic AI, Agent Framework, OpenLLMetry). Detected by: `openinference.span.kind`,
//! unless the span has a native mark and another scope: then its own dialect gives the kind, and the keys here fill in.
//! Agent: kind AGENT, and the constructs that `frameworks` lists: LangGraph graphs, crews and flows, LlamaIndex workflows,
//! DSPy's loops. Model: LLM. Tool: TOOL, RETRIEVER, RERANKER. Hook: graph nodes, flow methods, workflow steps, GUARDRAIL,
//! EVALUATOR. Session: `session.id`, else the metadata. Errors: `exception` events, status; a `ToolMessage` of status
//! `error`, `is_error`. Known gaps: tools often lack the call's id; LangChain writes a lone argument bare; a paused OpenAI
//! Agents, Agno or CrewAI run looks like one that succeeded.

mod frameworks;

use serde_json::Value as Json;

use super::flattened::unflatten;
use super::langgraph::{self, RunMetadata};
use super::{About, Dialect, Fact, Kind, Reading, Recognized, payload, python_literal};
use crate::span::{Span, StatusCode};
use frameworks::Emitter;

const NAME: &str = "openinference";
const SPAN_KIND: &str = "openinference.span.kind";
const INPUT: &str = "input.value";
const OUTPUT: &str = "output.value";
const METADATA: &str = "metadata";
const INPUT_MESSAGES: &str = "llm.input_messages";
const OUTPUT_MESSAGES: &str = "llm.output_messages";
const TOOLS: &str = "llm.tools";
const MODEL_NAME: &str = "llm.model_name";
const PARAMETERS: &str = "llm.invocation_parameters";
const DOCUMENTS: &str = "retrieval.documents";
/// A span event without attributes, at the first token of a stream.
const FIRST_TOKEN: &str = "First Token Stream Event";
/// What stands in place of content that is not captured.
const REDACTED: &str = "__REDACTED__";

/// Marks of dialects that know their own spans better than the processor that put this one's keys on top.
const NATIVE_MARKS: [&str; 3] = ["gen_ai.operation.name", "ai.operationId", "mastra.span.type"];
/// Metadata with one of these is the processor's copy of the span's other attributes.
const COPIES: [&str; 2] = ["gen_ai.operation.name", "gen_ai.system"];
/// Where a call has no id, Google ADK writes this.
const NO_CALL_ID: &str = "<not specified>";
/// Frameworks stand here where nobody knows the provider.
const NO_PROVIDERS: [&str; 6] = ["langchain", "langgraph", "crewai", "agno", "strands-agents", "gcp.vertex.agent"];

pub(super) struct OpenInference;

impl Dialect for OpenInference {
    fn about(&self) -> &'static About {
        &About {
            name: NAME,
            emitted_by: "OpenInference for LangChain and LangGraph, CrewAI, LlamaIndex, OpenAI Agents, smolagents, Agno, DSPy, \
                         Google ADK, Haystack, AutoGen, Claude Agent SDK and the provider SDKs; on top of Strands, Pydantic AI \
                         and others",
            verified: "langchain 0.1.80 (LangGraph 0.2.76, 1.2.24), openai 0.1.66, openai-agents 2.6.0, crewai 1.1.21, \
                       llama-index 4.6.1, google-adk 1.0.5, smolagents 0.1.43, agno 1.0.15, dspy 0.1.48, strands-agents 0.1.12; \
                       JavaScript: langchain 4.1.1",
            gaps: "many tools lack the call's id; ReAct tools of CrewAI show with its event listener alone; a paused run of \
                   OpenAI Agents or Agno looks like a success; ADK 2 puts all calls of a run on one span",
        }
    }

    fn keys(&self) -> &'static [(Fact, &'static [&'static str])] {
        &[
            (Fact::AgentName, &["gen_ai.agent.name", "agent.name", "graph.node.name"]),
            (Fact::RunId, &["agno.run.id"]),
            (Fact::ConversationId, &["session.id"]),
            (Fact::Goal, &["agent.goal"]),
            (Fact::RequestModel, &["llm.request.model_name", "gen_ai.request.model"]),
            (Fact::ResponseModel, &["llm.response.model_name"]),
            (Fact::Provider, &["llm.provider", "llm.system"]),
            (Fact::FinishReasons, &["llm.finish_reason"]),
            // Google ADK's own counts know that thoughts are answered tokens.
            (Fact::InputTokens, &["gen_ai.usage.input_tokens", "llm.token_count.prompt"]),
            (Fact::OutputTokens, &["gen_ai.usage.output_tokens", "llm.token_count.completion"]),
            (Fact::CacheReadTokens, &["llm.token_count.prompt_details.cache_read"]),
            (Fact::CacheWriteTokens, &["llm.token_count.prompt_details.cache_write"]),
            (Fact::ReasoningTokens, &["llm.token_count.completion_details.reasoning"]),
            (Fact::Cost, &["llm.cost.total"]),
            (Fact::ToolName, &["gen_ai.tool.name", "tool.name"]),
            (Fact::ToolCallId, &["tool.id", "gen_ai.tool.call.id", "tool.call_id", "tool_call.id"]),
            (Fact::HookName, &["flow.node.name"]),
        ]
    }

    fn recognize(&self, span: &Span<'_>) -> Option<Recognized> {
        let kind = span.attributes.text(SPAN_KIND)?;
        let emitter = Emitter::of(span);
        if emitter.is_none() && NATIVE_MARKS.iter().any(|mark| span.attributes.get(mark).is_some()) {
            return None;
        }
        Some(frameworks::recognize(span, emitter, kind))
    }

    fn read<'s>(&self, span: &'s Span<'_>, reading: &mut Reading<'s>) {
        if span.attributes.get(SPAN_KIND).is_none() {
            return;
        }
        let emitter = Emitter::of(span);
        reading.framework = reading.framework.or_else(|| emitter?.framework);
        drop_placeholders(reading);
        let metadata = RunMetadata::new(span.attributes.get(METADATA).map(|value| value.parse_json()));
        if let Some(session) = metadata.session() {
            reading.add(Fact::ConversationId, session, METADATA);
        }
        let is_copy = || COPIES.iter().any(|key| metadata.text(key).is_some());
        if let Some(application) = metadata.without_own_keys().or_else(|| is_copy().then_some(Json::Null)) {
            reading.remove(Fact::Metadata);
            reading.add(Fact::Metadata, application, METADATA);
        }
        if reading.dialect == NAME {
            read_graph(span, emitter, &metadata, reading);
        }
        match reading.kind {
            Kind::Agent => read_agent(span, emitter, reading),
            // Any chain can turn out to be a graph, by its nodes.
            Kind::Transparent if emitter.is_some_and(|emitter| emitter.is_langchain) => {
                read_agent(span, emitter, reading)
            }
            Kind::Model => read_model(span, emitter, &metadata, reading),
            Kind::Tool => read_tool(span, reading),
            Kind::Hook => read_hook(span, emitter, reading),
            Kind::Human | Kind::Transparent => {}
        }
    }
}

fn drop_placeholders(reading: &mut Reading<'_>) {
    let placeholders: [(Fact, &[&str]); 2] = [(Fact::ToolCallId, &[NO_CALL_ID]), (Fact::Provider, &NO_PROVIDERS)];
    for (fact, texts) in placeholders {
        if reading.text(fact).is_some_and(|text| texts.contains(&text.as_ref())) {
            reading.remove(fact);
        }
    }
}

/// An input or output, JSON parsed; nothing where content is not captured. A number in plain text stays text.
fn value_of(span: &Span<'_>, key: &str) -> Option<Json> {
    let value = span.attributes.get(key)?;
    let Some(text) = value.as_str().filter(|text| *text != REDACTED) else {
        return value.as_str().is_none().then(|| value.to_json());
    };
    let mime_type = key.trim_end_matches("value").to_owned() + "mime_type";
    let is_json = span.attributes.text(&mime_type) == Some("application/json");
    Some(if is_json || text.starts_with(['{', '[']) { value.parse_json() } else { Json::from(text) })
}

/// What the run's place in a graph says: whose call it is, where it stopped for a person, what goes on.
fn read_graph(span: &Span<'_>, emitter: Option<&Emitter>, metadata: &RunMetadata, reading: &mut Reading<'_>) {
    if let Some(namespace) = metadata.text("langgraph_checkpoint_ns") {
        reading.add(Fact::CheckpointNamespace, namespace, METADATA);
    }
    reading.add(Fact::Interrupts, langgraph::interrupts(span), "exception");
    reading.add(Fact::Waits, frameworks::pause(span), "exception");
    match reading.kind {
        Kind::Agent | Kind::Transparent if emitter.is_some_and(|emitter| emitter.is_langchain) => {
            reading.add(Fact::AgentName, metadata.graph_name(&span.name), "span name");
        }
        Kind::Model | Kind::Tool | Kind::Hook => {
            if let Some(name) = metadata.text("lc_agent_name") {
                reading.add(Fact::AgentName, name, METADATA);
            }
        }
        _ => {}
    }
}

fn read_agent(span: &Span<'_>, emitter: Option<&Emitter>, reading: &mut Reading<'_>) {
    if let Some(name) = frameworks::agent_name(span, emitter) {
        reading.add(Fact::AgentName, name.text, name.source);
        reading.is_named_by_class = name.is_generic;
    }
    let input = value_of(span, INPUT).unwrap_or_default();
    if let Some(answer) = langgraph::resume_value(&input) {
        reading.add(Fact::ResumeValue, answer, INPUT);
        reading.goes_on_without_goal = true;
    }
    if let Some(goal) = payload::goal(input).filter(|_| !reading.goes_on_without_goal) {
        reading.add(Fact::Goal, goal, INPUT);
    }
    let output = value_of(span, OUTPUT).unwrap_or_default();
    if let Some(name) = frameworks::deferral(span, emitter, &output) {
        reading.add(Fact::Deferral, name, OUTPUT);
    }
    if let Some(summary) = payload::summary(output) {
        reading.add(Fact::Summary, summary, OUTPUT);
    }
}

fn read_model(span: &Span<'_>, emitter: Option<&Emitter>, metadata: &RunMetadata, reading: &mut Reading<'_>) {
    let parameters = span.attributes.get(PARAMETERS).map(|value| value.parse_json()).unwrap_or_default();
    let input = value_of(span, INPUT).unwrap_or_default();
    let output = value_of(span, OUTPUT).unwrap_or_default();

    let asked = fuller(messages(span, INPUT_MESSAGES), payload::request(input.clone()), emitter);
    let answered = fuller(messages(span, OUTPUT_MESSAGES), payload::answer(output.clone()), emitter);
    let answered = without_calls_of(answered, &asked);
    let has_answer = !answered.is_empty() || reading.has(Fact::OutputTokens);
    for (fact, messages, source) in
        [(Fact::InputMessages, asked, INPUT_MESSAGES), (Fact::OutputMessages, answered, OUTPUT_MESSAGES)]
    {
        if !messages.is_empty() {
            reading.add(fact, messages, source);
        }
    }
    let system = ["system_instruction", "instructions"].iter().find_map(|key| parameters.get(*key)).cloned();
    reading.add(Fact::SystemInstructions, system, PARAMETERS);
    reading.add(Fact::ToolDefinitions, tools(span), TOOLS);
    reading.add(Fact::FinishReasons, payload::finish_reason(&output), OUTPUT);
    reading.add(Fact::ResponseId, output.get("id").filter(|id| id.is_string()).cloned(), OUTPUT);

    let named = span.attributes.text(MODEL_NAME).map(Json::from);
    let asked_model =
        ["model", "model_name"].iter().find_map(|key| parameters.get(*key)).filter(|name| name.is_string());
    let asked_model = asked_model.cloned().or_else(|| metadata.text("ls_model_name").map(Json::from));
    reading.add(Fact::RequestModel, asked_model, PARAMETERS);
    reading.add(Fact::RequestModel, named.clone(), MODEL_NAME);
    if has_answer && span.status.code != StatusCode::Error {
        reading.add(Fact::ResponseModel, payload::model(&output), OUTPUT);
        reading.add(Fact::ResponseModel, named, MODEL_NAME);
    }
    // As the official adapter names it: the class of the model is all that is known.
    if emitter.is_some_and(|emitter| emitter.is_langchain) {
        reading.add(Fact::RequestModel, span.name.as_ref(), "span name");
    }
    if let Some(first) = span.events.iter().find(|event| event.name == FIRST_TOKEN) {
        reading.add(Fact::Streaming, true, FIRST_TOKEN);
        let seconds = first.time.saturating_sub(span.start) as f64 / 1e9;
        reading.add(Fact::TimeToFirstChunk, seconds, FIRST_TOKEN);
    }
}

/// Messages of flattened keys, in the form of chat completions.
fn messages(span: &Span<'_>, prefix: &str) -> Vec<Json> {
    match unflatten(span, prefix) {
        Some(Json::Array(entries)) => entries.into_iter().filter_map(payload::flattened_message).collect(),
        _ => Vec::new(),
    }
}

/// The flattened messages, or the raw ones where the flattened lost something that those have: entries, a text, the id of a
/// call.
fn fuller(flattened: Vec<Json>, raw: Vec<Json>, emitter: Option<&Emitter>) -> Vec<Json> {
    let is_whole = |message: &Json| {
        let calls = message["tool_calls"].as_array();
        let content = &message["content"];
        calls.is_none_or(|calls| calls.iter().all(|call| call["id"].is_string()))
            && (calls.is_some() || !content.is_null())
            && !(content == "" && calls.is_none() && emitter.is_some_and(|emitter| emitter.loses_calls))
    };
    let lost = flattened.len() < raw.len() || !flattened.iter().all(is_whole);
    let mut messages = if lost && raw.len() >= flattened.len() { raw } else { flattened };
    // Instructions that nobody gave.
    messages.retain(|message| message["role"] != "system" || !message["content"].is_null());
    messages
}

/// An answer makes no call that its request knows already: such a one is left over from an earlier answer, on a span that
/// several calls were written to.
fn without_calls_of(mut answered: Vec<Json>, asked: &[Json]) -> Vec<Json> {
    let known: Vec<&Json> =
        asked.iter().filter_map(|message| message["tool_calls"].as_array()).flatten().map(|call| &call["id"]).collect();
    for message in &mut answered {
        if let Some(calls) = message.get_mut("tool_calls").and_then(Json::as_array_mut) {
            calls.retain(|call| !call["id"].is_string() || !known.contains(&&call["id"]));
        }
    }
    answered
}

/// The tools of a request: one JSON schema each, or a name and a description; CrewAI writes all in one text.
fn tools(span: &Span<'_>) -> Option<Json> {
    if let Some(Json::Array(tools)) = span.attributes.get(TOOLS).map(|value| value.parse_json()) {
        return Some(Json::Array(tools));
    }
    let Some(Json::Array(entries)) = unflatten(span, TOOLS) else { return None };
    let tools = entries.into_iter().filter_map(|mut entry| {
        let tool = entry.get_mut("tool")?.take();
        Some(match tool["json_schema"].as_str() {
            Some(schema) => crate::span::parse_json_text(schema),
            None => tool,
        })
    });
    Some(Json::Array(tools.collect()))
}

fn read_tool(span: &Span<'_>, reading: &mut Reading<'_>) {
    let (name, kind) = frameworks::tool_name(span);
    reading.add(Fact::ToolName, name, "span name");
    reading.add(Fact::ToolKind, kind, SPAN_KIND);
    if let Some(input) = value_of(span, INPUT).filter(|_| kind != Some(frameworks::HANDOFF)) {
        let parameters = span.attributes.get("tool.parameters").map(|value| value.parse_json()).unwrap_or_default();
        reading.add(Fact::ToolInput, payload::arguments(input, &parameters), INPUT);
    }
    if let Some(documents) = unflatten(span, DOCUMENTS) {
        reading.add(Fact::ToolOutput, documents, DOCUMENTS);
    }
    let Some(output) = value_of(span, OUTPUT) else { return };
    let result = payload::tool_result(output);
    reading.add(Fact::ToolCallId, result.call_id, OUTPUT);
    if result.is_error || span.attributes.text("gen_ai.tool.status") == Some("error") {
        reading.add(Fact::ErrorMessage, super::messages::text_of(&result.content), OUTPUT);
    }
    reading.add(Fact::ToolOutput, result.content, OUTPUT);
}

fn read_hook(span: &Span<'_>, emitter: Option<&Emitter>, reading: &mut Reading<'_>) {
    let (name, trigger) = frameworks::hook(span, emitter);
    reading.add(Fact::HookName, name, "span name");
    reading.add(Fact::HookTrigger, trigger, SPAN_KIND);
    reading.owner_is_agent = trigger == frameworks::GRAPH_NODE;
    let (input, output) = (value_of(span, INPUT), value_of(span, OUTPUT));
    for repr in [&input, &output].into_iter().flatten().filter_map(|value| value["ev"].as_str().or(value.as_str())) {
        if let Some(name) = python_literal::field(repr, "current_agent_name").filter(Json::is_string) {
            reading.add(Fact::AgentName, name, "current_agent_name of the step's event");
        }
    }
    reading.add(Fact::HandedCalls, input.as_ref().and_then(payload::handed_calls), INPUT);
    reading.add(Fact::ToolInput, input.map(payload::handed), INPUT);
    reading.add(Fact::ToolOutput, output, OUTPUT);
}
