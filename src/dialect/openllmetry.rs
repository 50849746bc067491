//! OpenLLMetry, the instrumentations and the SDK of Traceloop, in their newer and their older shape.
//!
//! Emitted by: `opentelemetry-instrumentation-{langchain,crewai,llamaindex,agno,openai-agents,mcp,…}` of Traceloop,
//! `traceloop-sdk`, `@traceloop/*`. Detected by: `traceloop.span.kind`, `llm.request.type`, or the scope of one of these
//! packages; `traceloop.workflow.name` and the association properties stand on everybody's spans and detect nothing.
//! Agent: kind `agent` and `workflow`, operation `invoke_agent`; LangGraph tells each run twice, a nested one by two spans
//! beside each other. Model: operation `chat`, or `llm.request.type`. Tool: kind `tool`, `execute_tool`,
//! `vector_db_retrieve`, LlamaIndex's tasks with a tool's name. Hook: LangGraph's nodes. Session: `gen_ai.conversation.id`,
//! the association properties. Messages: `gen_ai.input.messages`, or `gen_ai.prompt.N.*`. Errors: `exception` events,
//! `error.type`; failures that only a result tells: LangChain's `status`, LlamaIndex's and MCP's `is_error`, Agno's text.
//! Known gaps: see [`About::gaps`]. Source: packages 0.62.4 and 0.40.14, read and run.

mod tool;

use serde_json::Value as Json;

use super::flattened::unflatten;
use super::genai::framework_of_scope;
use super::langgraph::{GraphRole, RunMetadata};
use super::{About, Dialect, Fact, Kind, Reading, Recognized, langchain, langgraph};
use crate::span::Span;

const SPAN_KIND: &str = "traceloop.span.kind";
const REQUEST_TYPE: &str = "llm.request.type";
const OPERATION: &str = "gen_ai.operation.name";
const ENTITY_NAME: &str = "traceloop.entity.name";
/// What went into everything that is no model; the last is where the Collector's `genainormalizer` moves the first to.
const INPUTS: [&str; 3] = ["traceloop.entity.input", "gen_ai.task.input", "gen_ai.input.messages"];
/// What came out of it.
const OUTPUTS: [&str; 3] = ["traceloop.entity.output", "gen_ai.task.output", "gen_ai.output.messages"];
const WORKFLOW_NAME: &str = "traceloop.workflow.name";
/// The metadata of LangChain's runs stands below it.
const ASSOCIATION: &str = "traceloop.association.properties";
/// The agent that LangChain runs, on its span and on all spans within.
const LC_AGENT: &str = "traceloop.association.properties.lc_agent_name";
const LC_VERSIONS: &str = "traceloop.association.properties.lc_versions";
/// The class of the middleware whose hook was called.
const MIDDLEWARE: &str = "gen_ai.task.kind";
/// What the newer shape writes where it does not know the model.
const UNKNOWN_MODEL: &str = "unknown";
/// The first chunk of a streamed answer is the first of these.
const CHUNK_EVENTS: [&str; 2] = ["gen_ai.content.completion.chunk", "llm.content.completion.chunk"];
/// What LlamaIndex's spans call a workflow that runs within another one: its method.
const RUN: &str = "run";
/// CrewAI calls a crew so that has no name of its own.
const UNNAMED_CREW: &str = "crew";

pub(super) struct OpenLlmetry;

type Row = (&'static str, Kind, &'static str);

/// What each operation stands for, whatever the span's kind.
const OPERATIONS: &[Row] = &[
    ("chat", Kind::Model, "operation chat"),
    ("text_completion", Kind::Model, "operation text_completion"),
    ("generate_content", Kind::Model, "operation generate_content"),
    ("execute_tool", Kind::Tool, "operation execute_tool"),
    ("vector_db_retrieve", Kind::Tool, "a retriever"),
    ("create_agent", Kind::Transparent, "create_agent is setup, not a run"),
    ("goto", Kind::Transparent, "goto is a graph's routing"),
    ("handoff", Kind::Transparent, "a handoff: the next agent's own span tells it"),
    ("embeddings", Kind::Transparent, "embeddings give no event"),
    ("rerank", Kind::Transparent, "a rerank gives no event"),
];

/// What each kind of span stands for; a workflow or a task needs a closer look.
const SPAN_KINDS: &[Row] =
    &[("agent", Kind::Agent, "traceloop.span.kind agent"), ("tool", Kind::Tool, "traceloop.span.kind tool")];

/// What each type of request stood for in the older shape.
const REQUEST_TYPES: &[Row] = &[
    ("chat", Kind::Model, "llm.request.type chat"),
    ("completion", Kind::Model, "llm.request.type completion"),
    ("embedding", Kind::Transparent, "embeddings give no event"),
    ("rerank", Kind::Transparent, "a rerank gives no event"),
];

/// Frameworks whose spans can come without any of Traceloop's keys.
const FRAMEWORKS: [&str; 5] = ["langchain", "crewai", "llama_index", "agno", "mcp"];

/// How the spans of each kind end.
const NAME_ENDINGS: [(&str, &str); 5] =
    [(".workflow", "workflow"), (".task", "task"), (".agent", "agent"), (".tool", "tool"), (".team", "workflow")];

/// How spans start that are named for their operation.
const NAME_STARTS: [&str; 5] = ["invoke_agent ", "execute_task ", "execute_tool ", "vector_db_retrieve ", "workflow "];

/// How the spans of LangChain's models end, after the model's class.
const ENDINGS_OF_REQUESTS: [&str; 2] = [".chat", ".completion"];

/// What LlamaIndex calls the classes that run a tool.
const TOOL_CLASSES: &str = "Tool";

impl Dialect for OpenLlmetry {
    fn about(&self) -> &'static About {
        &About {
            name: "openllmetry",
            emitted_by: "OpenLLMetry (Traceloop): its Python and JavaScript instrumentations and SDKs",
            verified: "Python 0.62.4 and 0.40.14, JavaScript 0.27.0",
            gaps: "CrewAI: tools, flows, asynchronous crews; LlamaIndex: names of agents and steps, failures, stops for a person; \
                   Agno and OpenAI Agents: failures of runs; LangGraph before 0.5x: subgraphs; JavaScript LangChain: every span is a trace of its own",
        }
    }

    fn keys(&self) -> &'static [(Fact, &'static [&'static str])] {
        &[
            (Fact::AgentName, &["gen_ai.agent.name", LC_AGENT, "crewai.crew.name", "agno.team.name"]),
            (
                Fact::ConversationId,
                &[
                    "gen_ai.conversation.id",
                    "traceloop.association.properties.session_id",
                    "traceloop.association.properties.thread_id",
                    "traceloop.association.properties.conversation_id",
                    "traceloop.association.properties.chat_id",
                ],
            ),
            (Fact::RunId, &["agno.run.id"]),
            (Fact::Goal, &["crewai.agent.goal"]),
            (Fact::Summary, &["crewai.crew.result"]),
            (Fact::RequestModel, &["gen_ai.request.model", "traceloop.association.properties.ls_model_name"]),
            (
                Fact::Provider,
                &["traceloop.association.properties.ls_provider", "gen_ai.provider.name", "gen_ai.system"],
            ),
            (Fact::Streaming, &["gen_ai.is_streaming", "llm.is_streaming"]),
            (Fact::ToolName, &["gen_ai.tool.name", "tool.name"]),
            (Fact::ToolInput, &["gen_ai.tool.call.arguments", "tool.arguments"]),
        ]
    }

    fn recognize(&self, span: &Span<'_>) -> Option<Recognized> {
        let text = |key| span.attributes.text(key);
        let framework = framework_of_scope(&span.scope.name).filter(|name| FRAMEWORKS.contains(name));
        let (span_kind, request_type) = (text(SPAN_KIND), text(REQUEST_TYPE));
        let is_official = span.scope.name.starts_with("opentelemetry.instrumentation.genai.");
        if is_official || (span_kind.is_none() && request_type.is_none() && framework.is_none()) {
            return None;
        }
        let look_up = |rows: &[Row], value: Option<&str>| {
            rows.iter().find(|row| Some(row.0) == value).map(|(_, kind, rule)| Recognized { kind: *kind, rule })
        };
        let operation = text(OPERATION);
        // The Collector's `genainormalizer` can take the kind away, and makes an agent of every task.
        let by_name = || NAME_ENDINGS.iter().find(|(ending, _)| span.name.ends_with(ending)).map(|(_, kind)| *kind);
        let span_kind =
            span_kind.or_else(|| operation.filter(|name| name.starts_with("invoke_")).and_then(|_| by_name()));
        let found = look_up(OPERATIONS, operation).or_else(|| look_up(SPAN_KINDS, span_kind));
        let found = found.or_else(|| look_up(REQUEST_TYPES, request_type));
        Some(found.unwrap_or_else(|| match (span_kind, operation) {
            (Some("workflow"), _) => workflow(span),
            (Some("task"), _) | (_, Some("execute_task")) => task(span),
            (None, Some("invoke_agent")) => Recognized { kind: Kind::Agent, rule: "operation invoke_agent" },
            _ => Recognized { kind: Kind::Transparent, rule: "OpenLLMetry's machinery" },
        }))
    }

    fn read<'s>(&self, span: &'s Span<'_>, reading: &mut Reading<'s>) {
        if reading.dialect != self.about().name {
            return;
        }
        reading.framework = framework_of_scope(&span.scope.name);
        if reading.framework == Some("langchain") {
            read_run(span, reading);
        }
        match reading.kind {
            Kind::Agent => read_agent(span, reading),
            Kind::Model => read_request(span, reading),
            Kind::Tool => tool::read(span, reading),
            Kind::Hook | Kind::Transparent => read_step(span, reading),
            Kind::Human => {}
        }
    }
}

/// A workflow is what runs outermost: an agent, unless it is only a part of one or stands around several.
fn workflow(span: &Span<'_>) -> Recognized {
    let (kind, rule) = match entity(span) {
        _ if framework_of_scope(&span.scope.name) == Some("openai_agents") => {
            (Kind::Transparent, "the workflow around the agents is none itself")
        }
        _ if is_retriever(span) => (Kind::Tool, "a retriever"),
        Some(name) if langchain::is_part(name) => (Kind::Transparent, "a part run by itself is no agent"),
        _ => (Kind::Agent, "traceloop.span.kind workflow"),
    };
    Recognized { kind, rule }
}

/// Tasks are whatever else runs: graph nodes, nested agents, LlamaIndex's tool calls, and much that stands for nothing.
fn task(span: &Span<'_>) -> Recognized {
    let text = |key| span.attributes.text(key);
    let name = entity(span);
    let (kind, rule) = match framework_of_scope(&span.scope.name) {
        Some("langchain") if text(MIDDLEWARE).is_some() => (Kind::Hook, "a hook of a middleware"),
        Some("langchain") => match metadata(span).role(name.unwrap_or_default(), false) {
            GraphRole::Graph => (Kind::Agent, "a graph within a graph"),
            GraphRole::Node => (Kind::Hook, "a graph's node"),
            GraphRole::Other => (Kind::Transparent, "a chain that stands for nothing of its own"),
        },
        _ if is_retriever(span) => (Kind::Tool, "a retriever"),
        Some("llama_index") if name == Some(RUN) => (Kind::Agent, "a workflow's run within another one"),
        Some("llama_index") if text("tool.name").is_some() => (Kind::Tool, "a task with a tool's name"),
        Some("llama_index") if name.is_some_and(|name| name.ends_with(TOOL_CLASSES)) && ran_tool(span) => {
            (Kind::Tool, "a tool's class, and the tool's name in its result")
        }
        _ => (Kind::Transparent, "a task that stands for nothing of its own"),
    };
    Recognized { kind, rule }
}

/// The metadata of a LangChain run: attributes of its own, or, in the older shape, a part of what went into it.
fn metadata(span: &Span<'_>) -> RunMetadata {
    let has_own = span.attributes.iter().any(|(key, _)| key.starts_with(ASSOCIATION));
    RunMetadata::new(if has_own {
        unflatten(span, ASSOCIATION)
    } else {
        content(span, INPUTS).get("metadata").cloned()
    })
}

/// LangChain names the operation, LlamaIndex only the class.
fn is_retriever(span: &Span<'_>) -> bool {
    span.attributes.text(OPERATION) == Some("vector_db_retrieve")
        || (framework_of_scope(&span.scope.name) == Some("llama_index")
            && entity(span).is_some_and(|name| name.ends_with("Retriever")))
}

fn ran_tool(span: &Span<'_>) -> bool {
    content(span, OUTPUTS)["tool_name"].is_string()
}

/// What the span is about: its entity, its task or its workflow, without the kind that some frameworks add to it.
fn entity<'s>(span: &'s Span<'_>) -> Option<&'s str> {
    let named = [ENTITY_NAME, "gen_ai.task.name"].iter().find_map(|key| span.attributes.text(key));
    named.or_else(|| Some(span.name.as_ref())).map(without_kind).filter(|name| !name.trim().is_empty())
}

/// Spans are named for their kind too: `X.task` in the older shape, `execute_task X` in the newer.
fn without_kind(name: &str) -> &str {
    let rest = NAME_ENDINGS.iter().find_map(|(ending, _)| name.strip_suffix(ending));
    rest.or_else(|| NAME_STARTS.iter().find_map(|start| name.strip_prefix(start))).unwrap_or(name)
}

/// What stands on every run of LangChain.
fn read_run<'s>(span: &'s Span<'_>, reading: &mut Reading<'s>) {
    // Whose call it is, should the spans around it be lost.
    if let Some(workflow) = span.attributes.text(WORKFLOW_NAME).filter(|name| !langchain::is_part(name)) {
        reading.add(Fact::AgentName, workflow, WORKFLOW_NAME);
    }
    let metadata = metadata(span);
    if let Some(session) = metadata.session() {
        reading.add(Fact::ConversationId, session, "metadata of the run");
    }
    if let Some(namespace) = metadata.text("langgraph_checkpoint_ns") {
        reading.add(Fact::CheckpointNamespace, namespace, "metadata of the run");
    }
    if let Some(stops) = langgraph::interrupts(span) {
        reading.add(Fact::Interrupts, stops, "exception");
    }
}

fn read_agent<'s>(span: &'s Span<'_>, reading: &mut Reading<'s>) {
    let text = |key| span.attributes.text(key);
    let (span_kind, input, output) = (text(SPAN_KIND), content(span, INPUTS), content(span, OUTPUTS));
    let state = unwrapped(&output, "outputs");
    let name = match reading.framework {
        Some("crewai") => text("crewai.crew.name").or(text("gen_ai.agent.name")).or(text("crewai.agent.role")),
        Some("agno") => text("agno.team.name").or(text("gen_ai.agent.name")),
        // The JavaScript package names the class of the graph and nothing else.
        Some("langchain") => text("gen_ai.agent.name").or_else(|| langchain::last_author(state)),
        Some("llama_index") => None,
        _ => text("gen_ai.agent.name"),
    };
    let unnamed = if span_kind.is_none() && reading.framework == Some("crewai") { Some(UNNAMED_CREW) } else { None };
    if let Some(name) = name.or(unnamed).or_else(|| entity(span)) {
        replace(reading, Fact::AgentName, name, "name of the agent, or what the span is about");
    }
    if reading.framework == Some("langchain") {
        // The graph's call is told by a span of that name, all others are of the chain that it started.
        reading.tells_again = !span.name.starts_with("invoke_agent ");
        if let Some(run) = text("gen_ai.agent.id").or(text("gen_ai.task.id")).filter(|_| reading.tells_again) {
            reading.add(Fact::RunId, run, "gen_ai.agent.id of the chain");
        }
    }
    if let Some(answer) = langgraph::resume_value(unwrapped(&input, "inputs")) {
        reading.add(Fact::ResumeValue, answer, "input of the run");
    }
    // Only the steps know more than the class of an agent; those of an `AgentWorkflow` name several.
    let is_class = |name: &str| name.ends_with("Agent") || name == RUN;
    reading.is_named_by_class = reading.framework == Some("llama_index") && entity(span).is_some_and(is_class);
    // The first streamed answer ends its span and all around it; what follows hangs below them all the same.
    reading.ends_early = reading.framework == Some("llama_index");
    if let Some(goal) = goal(unwrapped(&input, "inputs")) {
        reading.add(Fact::Goal, goal, "input of the run");
    }
    if let Some(summary) = langchain::last_text(state, "assistant").map(Json::from).or_else(|| plain(state)) {
        reading.add(Fact::Summary, summary, "output of the run");
    }
}

/// What a run was asked: the last user text of its messages, its only argument, or all of its input. A resumed run was
/// asked nothing.
fn goal(input: &Json) -> Option<Json> {
    if let Some(asked) = langchain::last_text(input, "user") {
        return Some(asked.into());
    }
    let is_command = input.get("resume").is_some() && input.get("goto").is_some();
    plain(&tool::arguments(input.clone())).filter(|_| !is_command)
}

/// Text, also the only one of an object; anything else but nothing as it is.
fn plain(value: &Json) -> Option<Json> {
    match value {
        Json::Null => None,
        Json::Object(members) if members.contains_key("messages") => None,
        Json::Object(members) => match members.values().next() {
            None => None,
            Some(only @ Json::String(_)) if members.len() == 1 => Some(only.clone()),
            Some(_) => Some(value.clone()),
        },
        Json::String(text) if text.trim().is_empty() => None,
        other => Some(other.clone()),
    }
}

fn read_request<'s>(span: &'s Span<'_>, reading: &mut Reading<'s>) {
    let text = |key| span.attributes.text(key);
    for fact in [Fact::RequestModel, Fact::ResponseModel] {
        if reading.text(fact).is_some_and(|model| model == UNKNOWN_MODEL) {
            reading.remove(fact);
        }
    }
    if let Some(model) = text("traceloop.association.properties.ls_model_name") {
        reading.add(Fact::RequestModel, model, "ls_model_name");
    }
    let class = ENDINGS_OF_REQUESTS.iter().find_map(|ending| span.name.strip_suffix(ending));
    match reading.framework {
        // As LangChain's own callbacks do: a model without a name goes by its class.
        Some("langchain") => class.into_iter().for_each(|class| reading.add(Fact::RequestModel, class, "span name")),
        Some("llama_index") => {
            let answered_by = reading.text(Fact::ResponseModel).map(|model| model.into_owned());
            answered_by.into_iter().for_each(|model| reading.add(Fact::RequestModel, model, "gen_ai.response.model"));
        }
        _ => {}
    }
    let is_framework = |name: &str| ["langchain", "langgraph", "base_component", "crewai", "agno"].contains(&name);
    if reading.text(Fact::Provider).is_some_and(|provider| is_framework(&provider.to_lowercase())) {
        reading.remove(Fact::Provider);
    }
    let versions = json_of(span, LC_VERSIONS);
    if let Some(version) = versions["langchain-core"].as_str().or(versions["langchain"].as_str()) {
        reading.add(Fact::FrameworkVersion, version, LC_VERSIONS);
    }
    if let Some(chunk) = span.events.iter().find(|event| CHUNK_EVENTS.contains(&event.name.as_ref())) {
        let seconds = chunk.time.saturating_sub(span.start) as f64 / 1e9;
        reading.add(Fact::TimeToFirstChunk, seconds, "first chunk's event");
    }
    read_flattened(span, reading);
}

/// The older shape: messages and tools in one attribute for each of their fields.
fn read_flattened<'s>(span: &'s Span<'_>, reading: &mut Reading<'s>) {
    for (fact, prefix) in [(Fact::InputMessages, "gen_ai.prompt"), (Fact::OutputMessages, "gen_ai.completion")] {
        let Some(Json::Array(mut messages)) = unflatten(span, prefix) else { continue };
        for message in &mut messages {
            repair_message(message);
        }
        if let Some(reason) = messages.first().and_then(|message| message.get("finish_reason")) {
            reading.add(Fact::FinishReasons, reason.clone(), "gen_ai.completion.N.finish_reason");
        }
        reading.add(fact, messages, prefix);
    }
    if let Some(Json::Array(mut tools)) = unflatten(span, "llm.request.functions") {
        for tool in &mut tools {
            if let Some(parameters) = tool.get_mut("parameters") {
                *parameters = parsed(parameters.take());
            }
        }
        reading.add(Fact::ToolDefinitions, tools, "llm.request.functions.N");
    }
}

/// Content can be a list of parts, or a text that was written as JSON twice; calls have no type.
fn repair_message(message: &mut Json) {
    if let Some(content) = message.get_mut("content").filter(|content| content.is_string()) {
        let inner = parsed(content.clone());
        let is_parts = inner.as_array().is_some_and(|parts| parts.iter().all(Json::is_object));
        if inner.is_string() || is_parts {
            *content = inner;
        }
    }
    for call in message.get_mut("tool_calls").and_then(Json::as_array_mut).into_iter().flatten() {
        if let Some(call) = call.as_object_mut() {
            call.insert("type".into(), "tool_call".into());
        }
    }
}

/// Graph nodes, and chains that are only there to be told apart by their name.
fn read_step<'s>(span: &'s Span<'_>, reading: &mut Reading<'s>) {
    // A middleware's hook within the node that is there for it, a chain beside the call of its graph.
    let is_chain = reading.kind == Kind::Transparent && reading.framework == Some("langchain");
    reading.tells_again = is_chain || span.attributes.get(MIDDLEWARE).is_some();
    if let Some(name) = entity(span) {
        reading.add(Fact::HookName, name, "what the span is about");
    }
    if reading.kind != Kind::Hook {
        reading.remove(Fact::AgentName);
        let name = match reading.framework {
            // A step says whose it is.
            Some("llama_index") => {
                let output = content(span, OUTPUTS);
                unwrapped(&output, "result")["current_agent_name"].as_str().map(str::to_owned)
            }
            // A chain can turn out to be a graph, by its nodes.
            _ => entity(span).map(str::to_owned),
        };
        if let Some(name) = name {
            reading.add(Fact::AgentName, name, "what the span is about");
        }
        return;
    }
    reading.owner_is_agent = !reading.tells_again;
    reading.add(Fact::HookTrigger, "graph_node", "every hook of LangGraph");
    for (fact, keys, wrapper) in [(Fact::ToolInput, INPUTS, "inputs"), (Fact::ToolOutput, OUTPUTS, "outputs")] {
        let value = content(span, keys);
        reading.add(fact, unwrapped(&value, wrapper).clone(), "input and output of the node");
    }
}

/// What a wrapper holds; what is not wrapped, itself.
fn unwrapped<'j>(value: &'j Json, wrapper: &str) -> &'j Json {
    value.get(wrapper).unwrap_or(value)
}

fn content(span: &Span<'_>, keys: [&str; 3]) -> Json {
    keys.iter().find_map(|key| span.attributes.get(key)).map(|value| value.parse_json()).unwrap_or_default()
}

fn json_of(span: &Span<'_>, key: &str) -> Json {
    span.attributes.get(key).map(|value| value.parse_json()).unwrap_or_default()
}

fn parsed(value: Json) -> Json {
    match value {
        Json::String(text) => crate::span::parse_json_text(&text),
        other => other,
    }
}

fn replace(reading: &mut Reading<'_>, fact: Fact, value: impl Into<Json>, source: &'static str) {
    reading.remove(fact);
    reading.add(fact, value, source);
}
