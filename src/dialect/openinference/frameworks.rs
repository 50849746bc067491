//! Which package wrote a span, and what its spans stand for where the span's kind does not say.

use serde_json::{Value as Json, json};

use super::super::langgraph::{GraphRole, RunMetadata};
use super::{INPUT, METADATA};
use crate::dialect::{Kind, Recognized};
use crate::span::Span;

/// A package that instruments a framework.
pub(super) struct Emitter {
    /// What its scopes end with, in Python and in JavaScript.
    scopes: &'static [&'static str],
    /// The framework's name on events; none for the clients of providers.
    pub framework: Option<&'static str>,
    /// Its spans that are something else than their kind says; the first that fits counts.
    shapes: &'static [Shape],
    /// The agent's name, if it stands under a key that others use for other things.
    name_key: Option<&'static str>,
    /// Whether its chains can be graphs, and its models are called as their class.
    pub is_langchain: bool,
    /// Whether an answer without text may be one whose calls were lost on the way.
    pub loses_calls: bool,
}

struct Shape {
    kinds: &'static [&'static str],
    test: Test,
    kind: Kind,
    rule: &'static str,
}

enum Test {
    Has(&'static str),
    Lacks(&'static str),
    NameStarts(&'static [&'static str]),
    NameEnds(&'static [&'static str]),
    NameHas(&'static str),
    /// The place in a graph that the metadata tells.
    Graph(GraphRole),
    /// Below a node of a graph.
    InGraph,
    /// The input hands an event to a step of a workflow.
    TakesEvent,
}

const PYTHON: &str = "openinference.instrumentation.";
const JAVASCRIPT: &str = "@arizeai/openinference-instrumentation-";

pub(super) const GRAPH_NODE: &str = "graph_node";
pub(super) const HANDOFF: &str = "handoff";
const HANDOFF_PREFIX: &str = "handoff to ";

const CHAIN: &[&str] = &["CHAIN"];
const AGENT: &[&str] = &["AGENT"];
const LLM: &[&str] = &["LLM"];
const CHAIN_OR_AGENT: &[&str] = &["CHAIN", "AGENT"];

const fn shape(kinds: &'static [&'static str], test: Test, kind: Kind, rule: &'static str) -> Shape {
    Shape { kinds, test, kind, rule }
}

const PLAIN: Emitter =
    Emitter { scopes: &[], framework: None, shapes: &[], name_key: None, is_langchain: false, loses_calls: false };

/// LangChain's kind AGENT means a name with "agent" in it, whatever has that name.
const LANGCHAIN: &[Shape] = &[
    shape(AGENT, Test::Has("tool.name"), Kind::Tool, "a tool with an agent's name"),
    shape(AGENT, Test::Has("llm.invocation_parameters"), Kind::Model, "a model with an agent's name"),
    shape(AGENT, Test::Has("retrieval.documents.0.document.content"), Kind::Tool, "a retriever with an agent's name"),
    shape(CHAIN_OR_AGENT, Test::Graph(GraphRole::Graph), Kind::Agent, "the run of a graph"),
    shape(CHAIN_OR_AGENT, Test::Graph(GraphRole::Node), Kind::Hook, "the run of a graph's node"),
    shape(AGENT, Test::InGraph, Kind::Transparent, "machinery of a graph's node"),
    shape(AGENT, Test::NameStarts(&["Runnable", "ChannelWrite"]), Kind::Transparent, "a part of a chain"),
    shape(AGENT, Test::NameHas("<"), Kind::Transparent, "a part of a chain"),
    shape(AGENT, Test::NameEnds(&["Parser", "Prompt", "PromptTemplate"]), Kind::Transparent, "a part of a chain"),
];

const CREWAI: &[Shape] = &[
    shape(CHAIN, Test::Has("flow.node.name"), Kind::Hook, "a method of a flow"),
    shape(CHAIN, Test::Has("flow_id"), Kind::Agent, "the kickoff of a flow"),
    shape(CHAIN, Test::NameEnds(&[".kickoff"]), Kind::Agent, "the kickoff of a crew"),
];

const LLAMA_INDEX: &[Shape] = &[
    shape(LLM, Test::NameEnds(&["._prepare_chat_with_tools"]), Kind::Transparent, "prepares a request, asks no model"),
    shape(
        CHAIN,
        Test::NameEnds(&["Pipeline.run", "Pipeline.arun"]),
        Kind::Transparent,
        "a pipeline has no goal of its own",
    ),
    shape(CHAIN, Test::NameEnds(&[".run"]), Kind::Agent, "the run of a workflow"),
    shape(CHAIN, Test::NameEnds(AGENT_STEPS), Kind::Hook, "a step of an agent's workflow"),
    shape(CHAIN, Test::TakesEvent, Kind::Hook, "a step of a workflow"),
    // An agent of the time before workflows tells every layer of a run.
    shape(
        AGENT,
        Test::NameEnds(&[".chat", ".achat", ".stream_chat", ".astream_chat", ".run"]),
        Kind::Agent,
        "an agent's run",
    ),
    shape(AGENT, Test::NameHas("."), Kind::Transparent, "a layer of an agent's run"),
];

/// The steps of LlamaIndex's own agents, whatever class they are called on.
const AGENT_STEPS: &[&str] =
    &[".init_run", ".setup_agent", ".run_agent_step", ".parse_agent_output", ".call_tool", ".aggregate_tool_results"];

const AGNO: &[Shape] = &[
    shape(CHAIN, Test::Has("agno.workflow.steps_count"), Kind::Agent, "the run of a workflow"),
    shape(CHAIN, Test::Has("agno.workflow.id"), Kind::Agent, "the run of a workflow"),
    shape(CHAIN, Test::Has("agno.step.type"), Kind::Hook, "a step of a workflow"),
];

/// DSPy's modules that call a model until they are done; the others are programs without a goal of their own.
const DSPY: &[Shape] = &[shape(
    CHAIN,
    Test::NameStarts(&["ReAct.", "CodeAct.", "Avatar.", "RLM."]),
    Kind::Agent,
    "a module that loops over tools",
)];

const EMITTERS: &[Emitter] = &[
    Emitter { scopes: &["langchain"], framework: Some("langchain"), shapes: LANGCHAIN, is_langchain: true, ..PLAIN },
    Emitter {
        scopes: &["crewai"],
        framework: Some("crewai"),
        shapes: CREWAI,
        name_key: Some("graph.node.id"),
        ..PLAIN
    },
    Emitter { scopes: &["llama_index"], framework: Some("llama_index"), shapes: LLAMA_INDEX, ..PLAIN },
    Emitter {
        scopes: &["openai_agents", "openai-agents"],
        framework: Some("openai_agents"),
        shapes: &[shape(AGENT, Test::Lacks("agent.name"), Kind::Transparent, "the trace around the runs is no agent")],
        loses_calls: true,
        ..PLAIN
    },
    Emitter { scopes: &["smolagents"], framework: Some("smolagents"), ..PLAIN },
    Emitter { scopes: &["agno"], framework: Some("agno"), shapes: AGNO, ..PLAIN },
    Emitter { scopes: &["dspy"], framework: Some("dspy"), shapes: DSPY, ..PLAIN },
    Emitter { scopes: &["google_adk", "google-adk"], framework: Some("google_adk"), ..PLAIN },
    Emitter {
        scopes: &["haystack"],
        framework: Some("haystack"),
        shapes: &[shape(CHAIN, Test::NameStarts(&["Agent.run"]), Kind::Agent, "the run of Haystack's agent")],
        ..PLAIN
    },
    Emitter { scopes: &["autogen", "autogen_agentchat"], framework: Some("autogen"), ..PLAIN },
    Emitter { scopes: &["claude_agent_sdk", "claude-agent-sdk"], framework: Some("claude_agent_sdk"), ..PLAIN },
    Emitter { scopes: &["beeai"], framework: Some("beeai"), ..PLAIN },
    Emitter { scopes: &["vercel"], framework: Some("vercel_ai"), ..PLAIN },
    // Clients of providers, and whatever comes.
    Emitter { scopes: &[""], ..PLAIN },
];

/// What each kind of span stands for.
const KINDS: &[(&str, Kind, &str)] = &[
    ("AGENT", Kind::Agent, "span kind AGENT"),
    ("LLM", Kind::Model, "span kind LLM"),
    ("TOOL", Kind::Tool, "span kind TOOL"),
    ("RETRIEVER", Kind::Tool, "span kind RETRIEVER"),
    ("RERANKER", Kind::Tool, "span kind RERANKER"),
    ("GUARDRAIL", Kind::Hook, "span kind GUARDRAIL"),
    ("EVALUATOR", Kind::Hook, "span kind EVALUATOR"),
    ("EMBEDDING", Kind::Transparent, "embeddings give no event"),
];

impl Emitter {
    /// The package behind a span's scope; `None`: the scope is not OpenInference's.
    pub fn of(span: &Span<'_>) -> Option<&'static Emitter> {
        let scope = span.scope.name.as_str();
        let tail = scope.strip_prefix(PYTHON).or_else(|| scope.strip_prefix(JAVASCRIPT))?;
        let package = tail.split('.').next().unwrap_or(tail);
        EMITTERS.iter().find(|emitter| emitter.scopes.iter().any(|scope| scope.is_empty() || *scope == package))
    }
}

/// What a span stands for.
pub(super) fn recognize(span: &Span<'_>, emitter: Option<&Emitter>, kind: &str) -> Recognized {
    let shapes = emitter.map_or(&[][..], |emitter| emitter.shapes);
    if let Some(shape) = shapes.iter().find(|shape| shape.kinds.contains(&kind) && shape.test.fits(span)) {
        return Recognized { kind: shape.kind, rule: shape.rule };
    }
    let known = KINDS.iter().find(|(name, ..)| *name == kind);
    known.map_or(
        Recognized { kind: Kind::Transparent, rule: "a span kind that stands for nothing of its own" },
        |(_, kind, rule)| Recognized { kind: *kind, rule },
    )
}

impl Test {
    fn fits(&self, span: &Span<'_>) -> bool {
        let metadata = || RunMetadata::new(span.attributes.get(METADATA).map(|value| value.parse_json()));
        match self {
            Test::Has(key) => span.attributes.get(key).is_some(),
            Test::Lacks(key) => span.attributes.get(key).is_none(),
            Test::NameStarts(starts) => starts.iter().any(|start| span.name.starts_with(start)),
            Test::NameEnds(ends) => ends.iter().any(|end| span.name.ends_with(end)),
            Test::NameHas(part) => span.name.contains(part),
            Test::Graph(role) => metadata().role(&span.name, span.scope.name.starts_with(JAVASCRIPT)) == *role,
            Test::InGraph => metadata().text("langgraph_node").is_some(),
            Test::TakesEvent => takes_event(span),
        }
    }
}

/// A step takes its context and an event, or an event alone; a value without a literal is told by its class.
fn takes_event(span: &Span<'_>) -> bool {
    let Some(Json::Object(arguments)) = span.attributes.get(INPUT).map(|value| value.parse_json()) else {
        return false;
    };
    let is_event = |value: &Json| {
        let class = value.as_str().and_then(|text| text.split_once('(')).map(|(class, _)| class);
        class.is_some_and(|class| class.ends_with("Event") && class.chars().all(char::is_alphanumeric))
    };
    let is_context = |value: &Json| value.as_str().is_some_and(|text| text.starts_with("<workflows."));
    arguments.contains_key("ev") || arguments.values().any(|value| is_event(value) || is_context(value))
}

/// A name, where it stood, and whether it is that of a class.
pub(super) struct Name<'s> {
    pub text: &'s str,
    pub source: &'static str,
    pub is_generic: bool,
}

/// LlamaIndex's run of several agents: each of its steps names the one whose turn it is.
const TEAM: &str = "AgentWorkflow";
/// What stands around the name of an agent in the name of its span.
const AROUND_AGENTS: &[(&str, &str)] = &[
    ("agent_run [", "]"),
    ("invoke_agent ", ""),
    ("ClaudeAgentSDK.", ""),
    ("", "._execute_core"),
    ("", ".execute"),
    ("", ".kickoff"),
    ("", ".run"),
    ("", ".arun"),
    ("", ".continue_run"),
    ("", ".acontinue_run"),
    ("", ".run_stream"),
    ("", ".on_messages_stream"),
    ("", ".forward"),
    ("", ".aforward"),
    ("", ".chat"),
    ("", ".achat"),
    ("", ".stream_chat"),
    ("", ".astream_chat"),
];

/// The agent's name, if its framework has a key for it, or its span's name.
pub(super) fn agent_name<'s>(span: &'s Span<'_>, emitter: Option<&Emitter>) -> Option<Name<'s>> {
    let key = emitter.and_then(|emitter| emitter.name_key);
    if let Some((source, text)) = key.and_then(|key| Some((key, span.attributes.text(key)?))) {
        return Some(Name { text: text.trim(), source, is_generic: false });
    }
    let text = within(&span.name, AROUND_AGENTS);
    let is_generic = text != TEAM && emitter.is_some_and(|emitter| emitter.framework == Some("llama_index"));
    Some(Name { text, source: "span name", is_generic })
}

/// What stands around the name of a tool in the name of its span.
const AROUND_TOOLS: &[(&str, &str)] = &[
    ("execute_tool ", ""),
    ("", ".run"),
    ("", "._run"),
    ("", ".__call__"),
    ("", ".acall"),
    ("", ".call"),
    ("", ".retrieve"),
    ("", "._retrieve"),
    ("", ".aretrieve"),
    ("", "._aretrieve"),
    ("", ".forward"),
];

/// A tool's name by its span's, and what sort of tool it is.
pub(super) fn tool_name(span: &Span<'_>) -> (String, Option<&'static str>) {
    let name = within(&span.name, AROUND_TOOLS);
    match span.attributes.text(super::SPAN_KIND) {
        // As the official adapters name them.
        Some("RETRIEVER") => (format!("retriever:{name}"), Some("retriever")),
        Some("RERANKER") => (name.to_owned(), Some("reranker")),
        _ if span.name.starts_with(HANDOFF_PREFIX) => (span.name.to_string(), Some(HANDOFF)),
        _ => (name.to_owned(), None),
    }
}

fn within<'n>(name: &'n str, around: &[(&str, &str)]) -> &'n str {
    let inner = around.iter().find_map(|(start, end)| name.strip_prefix(start)?.strip_suffix(end));
    inner.filter(|inner| !inner.trim().is_empty()).unwrap_or(name)
}

/// A hook's name by its span's, and what triggers it.
pub(super) fn hook<'s>(span: &'s Span<'_>, emitter: Option<&Emitter>) -> (&'s str, &'static str) {
    let name = span.name.as_ref();
    match (span.attributes.text(super::SPAN_KIND), emitter.and_then(|emitter| emitter.framework)) {
        (Some("GUARDRAIL"), _) => (name, "guardrail"),
        (Some("EVALUATOR"), _) => (name, "evaluator"),
        (_, Some("langchain")) => (name, GRAPH_NODE),
        (_, Some("crewai")) => (name, "flow_method"),
        // `Class.step`
        _ => (name.rsplit_once('.').map_or(name, |(_, step)| step), "workflow_step"),
    }
}

/// Exceptions that stop a run for a person and tell nothing of the question.
const PAUSES: [&str; 2] =
    ["workflows.runtime.types.results.WaitingForEvent", "crewai.flow.async_feedback.types.HumanFeedbackPending"];

/// The stop for a person that ended the span, see `Fact::Waits`.
pub(super) fn pause(span: &Span<'_>) -> Option<Json> {
    let classes = span.events.iter().filter_map(|event| event.attributes.text("exception.type"));
    classes.into_iter().any(|class| PAUSES.contains(&class)).then(|| json!([{}]))
}

/// The exception by which a flow waits for a person: the flow's own span has its text alone, as if it were a result.
pub(super) fn deferral(span: &Span<'_>, emitter: Option<&Emitter>, output: &Json) -> Option<&'static str> {
    let is_flow =
        emitter.is_some_and(|emitter| emitter.framework == Some("crewai")) && span.attributes.get("flow_id").is_some();
    let waits = output.as_str().is_some_and(|text| text.starts_with("Human feedback pending for flow "));
    (is_flow && waits).then_some("HumanFeedbackPending")
}
