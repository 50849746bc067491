//! LangSmith's export of its runs as spans.
//!
//! Emitted by: `langsmith` for Python and JavaScript with tracing to OpenTelemetry on: LangChain, LangGraph and functions
//! under `traceable`; applications that set `langsmith.span.kind` by hand. Detected by: `langsmith.span.kind`. Agent: the
//! run of a graph, and the outermost chain unless it is named after a part (`RunnableSequence`). Model: `llm`. Tool: `tool`,
//! `retriever`. Hook: the nodes of a graph. Session: metadata (`langsmith.trace.session_*` is the project). Errors: one
//! text with the exception's `repr` and its stack trace, whatever its class; a `ToolMessage` of status `error`. Known
//! gaps: below another tracer's span the outermost chain can't be told from any other; a cancelled run has status OK.

use serde_json::{Map, Value as Json};

use super::langgraph::{self, GraphRole, RunMetadata};
use super::messages::text_of;
use super::{About, Dialect, Fact, Kind, Reading, Recognized, langchain, payload};
use crate::span::{Span, StatusCode};

const NAME: &str = "langsmith";
const SPAN_KIND: &str = "langsmith.span.kind";
const METADATA: &str = "langsmith.metadata.";
const INPUT: &str = "gen_ai.prompt";
const OUTPUT: &str = "gen_ai.completion";
/// Both hold LangChain's count of tokens; the second is JavaScript's.
const USAGE: [&str; 2] = ["langsmith.metadata.usage_metadata", "langsmith.usage_metadata"];
/// What stands for the provider where the model's name does not tell.
const NO_PROVIDER: &str = "langchain";
/// Metadata that LangSmith adds itself starts so.
const OWN_METADATA: [&str; 4] = ["LANGSMITH_", "LANGCHAIN_", "revision_id", "usage_metadata"];

/// What each type of run stands for; a chain depends on more.
const KINDS: &[(&str, Kind, &str)] = &[
    ("llm", Kind::Model, "run of type llm"),
    ("tool", Kind::Tool, "run of type tool"),
    ("retriever", Kind::Tool, "run of type retriever"),
    ("agent", Kind::Agent, "called an agent by hand"),
    ("embedding", Kind::Transparent, "embeddings give no event"),
    ("prompt", Kind::Transparent, "a prompt is no call"),
    ("parser", Kind::Transparent, "a parser is no call"),
];

pub(super) struct LangSmith;

impl Dialect for LangSmith {
    fn about(&self) -> &'static About {
        &About {
            name: NAME,
            emitted_by: "LangSmith's OpenTelemetry mode for LangChain, LangGraph and `traceable`, Python and JavaScript",
            verified: "langsmith 0.15.1 (LangGraph 1.2.24); JavaScript: langsmith 0.12.0",
            gaps: "the outermost chain is taken for the agent, unless a span of another tracer stands around it; spans \
                   of LangChain.js do not reach OpenTelemetry",
        }
    }

    fn keys(&self) -> &'static [(Fact, &'static [&'static str])] {
        &[
            (
                Fact::ConversationId,
                &[
                    "langsmith.metadata.session_id",
                    "langsmith.metadata.conversation_id",
                    "langsmith.metadata.thread_id",
                ],
            ),
            (Fact::CheckpointNamespace, &["langsmith.metadata.langgraph_checkpoint_ns"]),
            (Fact::RequestModel, &["gen_ai.request.model", "langsmith.metadata.ls_model_name"]),
            (Fact::Provider, &["langsmith.metadata.ls_provider"]),
            (Fact::Streaming, &["langsmith.request.streaming"]),
            (Fact::ToolName, &["gen_ai.tool.name", "langsmith.trace.name"]),
            (Fact::ToolCallId, &["gen_ai.tool.call.id", "langsmith.metadata.tool_call_id"]),
        ]
    }

    fn recognize(&self, span: &Span<'_>) -> Option<Recognized> {
        let run_type = span.attributes.text(SPAN_KIND)?;
        let known = KINDS.iter().find(|(name, ..)| name.eq_ignore_ascii_case(run_type));
        let (kind, rule) = match known {
            Some((_, kind, rule)) => (*kind, *rule),
            None => chain(span),
        };
        Some(Recognized { kind, rule })
    }

    fn read<'s>(&self, span: &'s Span<'_>, reading: &mut Reading<'s>) {
        if reading.dialect != NAME {
            return;
        }
        let metadata = metadata(span);
        reading.framework = reading.framework.or(Some(framework(span, &metadata)));
        if reading.text(Fact::Provider).is_some_and(|provider| provider == NO_PROVIDER) {
            reading.remove(Fact::Provider);
        }
        // What every run was handed is not what a model was sent.
        for (fact, key) in [(Fact::InputMessages, INPUT), (Fact::OutputMessages, OUTPUT)] {
            if reading.facts().any(|(known, found)| known == fact && found.source == key) {
                reading.remove(fact);
            }
        }
        reading.add(Fact::Interrupts, langgraph::interrupts(span), "exception");
        match reading.kind {
            Kind::Agent => read_agent(span, &metadata, reading),
            // Any chain can turn out to be a graph, by its nodes.
            Kind::Transparent if is_chain(span) => read_agent(span, &metadata, reading),
            Kind::Model => read_model(span, &metadata, reading),
            Kind::Tool => read_tool(span, reading),
            Kind::Hook => read_hook(span, reading),
            Kind::Human | Kind::Transparent => {}
        }
        if let (Kind::Model | Kind::Tool | Kind::Hook, Some(agent)) = (reading.kind, metadata.text("lc_agent_name")) {
            reading.add(Fact::AgentName, agent, "langsmith.metadata.lc_agent_name");
        }
    }
}

fn is_chain(span: &Span<'_>) -> bool {
    let is_other = |run_type: &str| KINDS.iter().any(|(name, ..)| name.eq_ignore_ascii_case(run_type));
    span.attributes.text(SPAN_KIND).is_some_and(|run_type| !is_other(run_type))
}

fn chain(span: &Span<'_>) -> (Kind, &'static str) {
    let hands_down_to_itself = span.resource.attributes.text("telemetry.sdk.language") == Some("nodejs");
    let metadata = metadata(span);
    match metadata.role(&span.name, hands_down_to_itself) {
        _ if langchain::is_part(&span.name) => (Kind::Transparent, "a part of a chain"),
        GraphRole::Graph => (Kind::Agent, "the run of a graph"),
        GraphRole::Node => (Kind::Hook, "the run of a graph's node"),
        GraphRole::Other if metadata.text("langgraph_node").is_some() => {
            (Kind::Transparent, "machinery of a graph's node")
        }
        GraphRole::Other if span.parent.is_none() => (Kind::Agent, "the outermost chain"),
        GraphRole::Other => (Kind::Transparent, "a chain within a chain"),
    }
}

/// A run's metadata, an attribute each.
fn metadata(span: &Span<'_>) -> RunMetadata {
    let own = |key: &str| OWN_METADATA.iter().any(|start| key.starts_with(start));
    let members: Map<_, _> = span
        .attributes
        .iter()
        .filter_map(|(key, value)| Some((key.strip_prefix(METADATA)?, value)))
        .filter(|(key, _)| !own(key))
        .map(|(key, value)| (key.to_owned(), value.to_json()))
        .collect();
    RunMetadata::new(Some(Json::Object(members)))
}

fn framework(span: &Span<'_>, metadata: &RunMetadata) -> &'static str {
    let is_langchain = ["ls_integration", "langgraph_node", "lc_agent_name", "lc_versions"];
    let is_serialized = span.attributes.get("gen_ai.serialized.name").is_some();
    let is_langchain = is_serialized || is_langchain.iter().any(|key| metadata.text(key).is_some());
    if is_langchain { "langchain" } else { NAME }
}

/// An input or output without the wrapper that values get that are no object; an empty one stands for none.
fn value_of(span: &Span<'_>, key: &str) -> Option<Json> {
    let value = span.attributes.get(key)?.parse_json();
    let Json::Object(mut members) = value else { return Some(value) };
    if members.is_empty() {
        return None;
    }
    let wrapper = members.keys().next().filter(|_| members.len() == 1).cloned();
    match wrapper.filter(|name| matches!(name.as_str(), "output" | "outputs" | "documents")) {
        Some(name) => members.shift_remove(&name),
        None => Some(Json::Object(members)),
    }
}

fn read_agent(span: &Span<'_>, metadata: &RunMetadata, reading: &mut Reading<'_>) {
    reading.add(Fact::AgentName, metadata.graph_name(&span.name), "span name");
    if let Some(own) = metadata.without_own_keys() {
        reading.add(Fact::Metadata, own, METADATA);
    }
    let input = value_of(span, INPUT).unwrap_or_default();
    let command = if input["input"].is_object() { &input["input"] } else { &input };
    if let Some(answer) = langgraph::resume_value(command) {
        reading.add(Fact::ResumeValue, answer, INPUT);
        reading.goes_on_without_goal = true;
    }
    if let Some(goal) = payload::goal(input).filter(|_| !reading.goes_on_without_goal) {
        reading.add(Fact::Goal, goal, INPUT);
    }
    if let Some(summary) = value_of(span, OUTPUT).and_then(payload::summary) {
        reading.add(Fact::Summary, summary, OUTPUT);
    }
}

fn read_model(span: &Span<'_>, metadata: &RunMetadata, reading: &mut Reading<'_>) {
    let input = value_of(span, INPUT).unwrap_or_default();
    let output = value_of(span, OUTPUT).unwrap_or_default();
    for key in ["tools", "functions"] {
        reading.add(Fact::ToolDefinitions, input.get(key).filter(|tools| tools.is_array()).cloned(), INPUT);
    }
    reading.add(Fact::ResponseModel, payload::model(&output), OUTPUT);
    reading.add(Fact::FinishReasons, payload::finish_reason(&output), OUTPUT);
    let (asked, answered) = (payload::request(input), payload::answer(output));
    reading.add(Fact::FinishReasons, answered.first().map(|answer| answer["finish_reason"].clone()), OUTPUT);
    if !asked.is_empty() {
        reading.add(Fact::InputMessages, asked, INPUT);
    }
    if !answered.is_empty() {
        reading.add(Fact::OutputMessages, answered, OUTPUT);
    }
    let usage = USAGE.iter().find_map(|key| span.attributes.get(key)).map(|usage| usage.parse_json());
    for (fact, place) in [
        (Fact::InputTokens, "/input_tokens"),
        (Fact::OutputTokens, "/output_tokens"),
        (Fact::CacheReadTokens, "/input_token_details/cache_read"),
        (Fact::CacheWriteTokens, "/input_token_details/cache_creation"),
        (Fact::ReasoningTokens, "/output_token_details/reasoning"),
        (Fact::Cost, "/total_cost"),
    ] {
        reading.add(fact, usage.as_ref().and_then(|usage| usage.pointer(place)).cloned(), USAGE[0]);
    }
    // As the official adapter names it: the class of the model is all that is known.
    if metadata.text("ls_model_type").is_some() {
        reading.add(Fact::RequestModel, span.name.as_ref(), "span name");
    }
}

fn read_tool(span: &Span<'_>, reading: &mut Reading<'_>) {
    let is_retriever = span.attributes.text(SPAN_KIND).is_some_and(|kind| kind.eq_ignore_ascii_case("retriever"));
    if is_retriever {
        reading.remove(Fact::ToolName);
        // As the official adapter names them.
        reading.add(Fact::ToolName, format!("retriever:{}", span.name), "span name");
        reading.add(Fact::ToolKind, "retriever", SPAN_KIND);
    }
    reading.add(Fact::ToolName, span.name.as_ref(), "span name");
    let input =
        span.attributes.get(INPUT).map(|input| payload::arguments(called_with(input.parse_json()), &Json::Null));
    reading.add(Fact::ToolInput, input, INPUT);
    let Some(output) = value_of(span, OUTPUT).filter(|_| span.status.code != StatusCode::Error) else { return };
    let result = payload::tool_result(output);
    reading.add(Fact::ToolCallId, result.call_id, OUTPUT);
    if result.is_error {
        reading.add(Fact::ErrorMessage, text_of(&result.content), OUTPUT);
    }
    reading.add(Fact::ToolOutput, result.content, OUTPUT);
}

/// Where the arguments are known as one text alone, that stands as the only member `input`.
fn called_with(input: Json) -> Json {
    match input.get("input").and_then(Json::as_str).filter(|_| input.as_object().is_some_and(|it| it.len() == 1)) {
        Some(text) if text.starts_with("{'") => Json::from(text),
        Some(text) if text.starts_with('{') => crate::span::parse_json_text(text),
        _ => input,
    }
}

fn read_hook(span: &Span<'_>, reading: &mut Reading<'_>) {
    reading.add(Fact::HookName, span.name.as_ref(), "span name");
    reading.add(Fact::HookTrigger, "graph_node", SPAN_KIND);
    reading.owner_is_agent = true;
    reading.add(Fact::ToolInput, value_of(span, INPUT), INPUT);
    reading.add(Fact::ToolOutput, value_of(span, OUTPUT), OUTPUT);
}
