//! Langfuse's own observations.
//!
//! Emitted by: the Langfuse SDKs for Python and JavaScript: `observe`, their LangChain callback, their OpenAI client; and
//! what else writes `langfuse.observation.*`. Detected by: `langfuse.observation.type`. Agent: type agent, unless LangGraph's
//! metadata makes it a node or a part of one; the runs of LangGraph; LangChain's outermost chain. Model: generation. Tool:
//! tool, retriever. Hook: guardrail, evaluator, the nodes of LangGraph. Session: `session.id`. Errors: level ERROR and
//! `status_message`: never a type, nor a stack trace. Known gaps: a tool lacks the call's id, and the names of arguments
//! that were handed in by position; a streamed answer's chunks are not told.

use serde_json::{Map, Value as Json, json};

use super::langgraph::{self, GraphRole, RunMetadata};
use super::messages::{take_member, text_of};
use super::{About, Dialect, Fact, Kind, Reading, Recognized, langchain, payload};
use crate::event::parse_timestamp;
use crate::span::Span;

const NAME: &str = "langfuse";
const TYPE: &str = "langfuse.observation.type";
const INPUT: &str = "langfuse.observation.input";
const OUTPUT: &str = "langfuse.observation.output";
const METADATA: &str = "langfuse.observation.metadata.";
const MODEL: &str = "langfuse.observation.model.name";
const USAGE: &str = "langfuse.observation.usage_details";
const COST: &str = "langfuse.observation.cost_details";
const LEVEL: &str = "langfuse.observation.level";
const STATUS_MESSAGE: &str = "langfuse.observation.status_message";
const FIRST_TOKEN: &str = "langfuse.observation.completion_start_time";

/// What each type of observation stands for; of one that is not listed LangChain's metadata tells.
const KINDS: &[(&str, Kind, &str)] = &[
    ("generation", Kind::Model, "observation of type generation"),
    ("tool", Kind::Tool, "observation of type tool"),
    ("retriever", Kind::Tool, "observation of type retriever"),
    ("guardrail", Kind::Hook, "observation of type guardrail"),
    ("evaluator", Kind::Hook, "observation of type evaluator"),
    ("embedding", Kind::Transparent, "embeddings give no event"),
    ("event", Kind::Transparent, "an event is no call"),
];

/// The texts of exceptions by which LangGraph steers; their types are not told.
const STEERING: [(&str, &str); 2] = [("(Interrupt(", "GraphInterrupt"), ("Command(", "ParentCommand")];

pub(super) struct Langfuse;

impl Dialect for Langfuse {
    fn about(&self) -> &'static About {
        &About {
            name: NAME,
            emitted_by: "the Langfuse SDKs: `observe`, the LangChain callback, the OpenAI client",
            verified: "langfuse 5.0.4 (OpenAI, LangGraph 1.2.24)",
            gaps: "errors have neither a type nor a stack trace, so that an exception without a text is taken for a \
                   cancellation below LangChain; a tool's span lacks the call's id and the names of \
                   arguments that were handed in by position",
        }
    }

    fn keys(&self) -> &'static [(Fact, &'static [&'static str])] {
        &[(Fact::ConversationId, &["session.id", "langfuse.session.id"]), (Fact::RequestModel, &[MODEL])]
    }

    fn recognize(&self, span: &Span<'_>) -> Option<Recognized> {
        let observed = span.attributes.text(TYPE)?;
        let known = KINDS.iter().find(|(name, ..)| *name == observed);
        let (kind, rule) = match known {
            Some((_, kind, rule)) => (*kind, *rule),
            None => chain(span, observed == "agent"),
        };
        Some(Recognized { kind, rule })
    }

    fn read<'s>(&self, span: &'s Span<'_>, reading: &mut Reading<'s>) {
        if span.attributes.get(TYPE).is_none() {
            return;
        }
        let metadata = metadata(span);
        let is_langchain = metadata.text("langgraph_node").or(metadata.text("ls_integration")).is_some();
        reading.framework = reading.framework.or(Some(if is_langchain { "langchain" } else { NAME }));
        if let Some(session) = metadata.session() {
            reading.add(Fact::ConversationId, session, METADATA);
        }
        if let Some(namespace) = metadata.text("langgraph_checkpoint_ns") {
            reading.add(Fact::CheckpointNamespace, namespace, METADATA);
        }
        read_end(span, is_langchain, reading);
        match reading.kind {
            Kind::Agent => read_agent(span, &metadata, reading),
            // Any chain can turn out to be a graph, by its nodes.
            Kind::Transparent if is_langchain => read_agent(span, &metadata, reading),
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

fn chain(span: &Span<'_>, is_agent: bool) -> (Kind, &'static str) {
    let metadata = metadata(span);
    let is_root = || span.attributes.get("langfuse.observation.metadata.is_langchain_root").is_some();
    match metadata.role(&span.name, false) {
        GraphRole::Graph => (Kind::Agent, "the run of a graph"),
        GraphRole::Node => (Kind::Hook, "the run of a graph's node"),
        GraphRole::Other if metadata.text("langgraph_node").is_some() => {
            (Kind::Transparent, "machinery of a graph's node")
        }
        GraphRole::Other if is_agent => (Kind::Agent, "observation of type agent"),
        GraphRole::Other if is_root() && !langchain::is_part(&span.name) => (Kind::Agent, "the outermost chain"),
        GraphRole::Other => (Kind::Transparent, "a type that stands for nothing of its own"),
    }
}

/// The metadata of an observation, an attribute each: text as it is or, since version 5, all values as JSON.
fn metadata(span: &Span<'_>) -> RunMetadata {
    let members = span.attributes.iter().filter_map(|(key, value)| {
        let key = key.strip_prefix(METADATA)?;
        Some((key.to_owned(), value.parse_json()))
    });
    RunMetadata::new(Some(Json::Object(members.collect())))
}

/// An input or output; a number in plain text stays text.
fn value_of(span: &Span<'_>, key: &str) -> Option<Json> {
    let value = span.attributes.get(key)?;
    let is_json = value.as_str().is_none_or(|text| text.starts_with(['{', '[', '"']));
    Some(if is_json { value.parse_json() } else { value.to_json() }).filter(|value| !value.is_null())
}

/// How it ended, if not well.
///
/// An exception without a text leaves nothing at all: below LangChain a cancelled task or a stream that was given up.
fn read_end(span: &Span<'_>, is_langchain: bool, reading: &mut Reading<'_>) {
    let is_error = span.attributes.text(LEVEL) == Some("ERROR");
    let Some(message) = span.attributes.text(STATUS_MESSAGE) else {
        reading.add(Fact::ErrorType, (is_error && is_langchain).then_some("CancelledError"), STATUS_MESSAGE);
        return;
    };
    if let Some((_, class)) = STEERING.iter().find(|(start, _)| message.starts_with(start)) {
        reading.add(Fact::Deferral, *class, STATUS_MESSAGE);
        if message.starts_with(STEERING[0].0) {
            reading.add(Fact::Interrupts, langgraph::stops(message), STATUS_MESSAGE);
        }
    } else if is_error {
        reading.add(Fact::ErrorMessage, message, STATUS_MESSAGE);
    }
}

fn read_agent(span: &Span<'_>, metadata: &RunMetadata, reading: &mut Reading<'_>) {
    reading.add(Fact::AgentName, metadata.graph_name(&span.name), "span name");
    let input = value_of(span, INPUT).map(called_with).unwrap_or_default();
    if let Some(answer) = langgraph::resume_value(&input) {
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

/// What a function under `observe` was called with: `{args, kwargs}`, of which one is often empty.
///
/// The names of arguments by position are not known: a lone one is told bare, which is how it is found among the calls of
/// the model.
fn called_with(input: Json) -> Json {
    let Json::Object(mut members) = input else { return input };
    let is_call = members.len() == 2
        && members.get("args").is_some_and(Json::is_array)
        && members.get("kwargs").is_some_and(Json::is_object);
    if !is_call {
        return Json::Object(members);
    }
    let positional = match members.shift_remove("args") {
        Some(Json::Array(values)) => values.into_iter().filter(|value| !is_function(value)).collect(),
        _ => Vec::new(),
    };
    let named = members.shift_remove("kwargs").unwrap_or_default();
    match (positional.as_slice(), named.as_object().is_none_or(Map::is_empty)) {
        ([], _) => named,
        ([only], true) => only.clone(),
        _ => {
            let mut all = Map::from_iter([("args".to_owned(), Json::Array(positional))]);
            all.extend(named.as_object().cloned().unwrap_or_default());
            Json::Object(all)
        }
    }
}

/// How a function that was handed in is written.
fn is_function(value: &Json) -> bool {
    value.as_object().is_some_and(|members| members.contains_key("__wrapped__"))
        || value.as_str().is_some_and(|text| text.starts_with("<function "))
}

fn read_model(span: &Span<'_>, metadata: &RunMetadata, reading: &mut Reading<'_>) {
    let mut input = value_of(span, INPUT).unwrap_or_default();
    let output = value_of(span, OUTPUT).unwrap_or_default();
    let (tools, asked) = tools_and_messages(&mut input);
    reading.add(Fact::ToolDefinitions, tools, INPUT);
    reading.add(Fact::FinishReasons, payload::finish_reason(&output), OUTPUT);
    let asked = payload::request(asked);
    let answered = match output {
        Json::String(text) => vec![json!({"role": "assistant", "content": text})],
        output => payload::answer(output),
    };
    if !answered.is_empty() {
        // The model's name is that of the answer once there is one.
        reading.add(Fact::ResponseModel, span.attributes.text(MODEL).map(Json::from), MODEL);
        reading.add(Fact::OutputMessages, answered, OUTPUT);
    }
    if !asked.is_empty() {
        reading.add(Fact::InputMessages, asked, INPUT);
    }
    reading.add(Fact::Provider, metadata.text("ls_provider"), METADATA);
    // As the official adapter names it: the class of the model is all that is known.
    if metadata.text("ls_model_type").is_some() {
        reading.add(Fact::RequestModel, metadata.text("ls_model_name").unwrap_or(&span.name), "span name");
    }
    let usage = span.attributes.get(USAGE).map(|usage| usage.parse_json()).unwrap_or_default();
    for (fact, count) in tokens(&usage) {
        reading.add(fact, count, USAGE);
    }
    let cost = span.attributes.get(COST).map(|cost| cost.parse_json()).unwrap_or_default();
    reading.add(Fact::Cost, cost.get("total").filter(|total| total.as_f64() != Some(0.0)).cloned(), COST);
    let first = span.attributes.text(FIRST_TOKEN).and_then(|text| {
        let text = text.trim_matches('"').replace("+00:00", "Z");
        parse_timestamp(&text)?.checked_sub(span.start)
    });
    if let Some(first) = first {
        reading.add(Fact::Streaming, true, FIRST_TOKEN);
        reading.add(Fact::TimeToFirstChunk, first as f64 / 1e9, FIRST_TOKEN);
    }
}

/// The OpenAI client hands in messages, alone or beside the tools; the LangChain callback puts each tool behind the messages
/// as one of role `tool`, its content no text.
fn tools_and_messages(input: &mut Json) -> (Option<Json>, Json) {
    if let Json::Array(messages) = input {
        let is_tool = |message: &mut Json| message["role"] == "tool" && message["content"].is_object();
        let tools: Vec<Json> =
            messages.extract_if(.., is_tool).map(|mut tool| take_member(&mut tool, "content")).collect();
        return ((!tools.is_empty()).then(|| tools.into()), input.take());
    }
    (input.get("tools").filter(|tools| tools.is_array()).cloned(), input.take())
}

/// Tokens as a provider counts them, or in Langfuse's own buckets, of which each counts what no other does.
fn tokens(usage: &Json) -> Vec<(Fact, Json)> {
    let count = |keys: &[&str]| keys.iter().find_map(|key| usage.pointer(key)?.as_i64());
    let cache_read = count(&[
        "/prompt_tokens_details/cached_tokens",
        "/input_tokens_details/cached_tokens",
        "/input_cache_read",
        "/input_cached_tokens",
        "/cache_read_input_tokens",
    ]);
    let cache_write =
        count(&["/input_cache_creation", "/input_tokens_details/cache_write_tokens", "/cache_creation_input_tokens"]);
    let reasoning = count(&[
        "/completion_tokens_details/reasoning_tokens",
        "/output_tokens_details/reasoning_tokens",
        "/output_reasoning",
        "/output_reasoning_tokens",
    ]);
    let total = count(&["/total", "/total_tokens"]);
    let (input, output) = (
        count(&["/prompt_tokens", "/input_tokens", "/input"]),
        count(&["/completion_tokens", "/output_tokens", "/output"]),
    );
    // Anthropic's counts leave out the cache too.
    let leaves_out = usage.get("input").is_some() || usage.get("cache_read_input_tokens").is_some();
    let is_all = total.is_some() && total == input.zip(output).map(|(input, output)| input.saturating_add(output));
    let in_buckets = leaves_out && !is_all;
    let rest = |start: &str| -> i64 {
        let is_part = |key: &str| key.starts_with(start) && !key.contains("priority");
        let members = usage.as_object().into_iter().flatten().filter(|(key, _)| is_part(key));
        members.filter_map(|(_, value)| value.as_i64()).fold(0, i64::saturating_add)
    };
    let with = |own: Option<i64>, more: i64| own.map(|own| if in_buckets { own.saturating_add(more) } else { own });
    let cached = rest("input_c").saturating_add(rest("cache_"));
    let answered = if usage.get("output").is_some() { rest("output_") } else { 0 };
    [
        (Fact::InputTokens, with(input, cached)),
        (Fact::OutputTokens, with(output, answered)),
        (Fact::CacheReadTokens, cache_read),
        (Fact::CacheWriteTokens, cache_write),
        (Fact::ReasoningTokens, reasoning),
    ]
    .into_iter()
    .filter_map(|(fact, count)| Some((fact, Json::from(count?))))
    .collect()
}

fn read_tool(span: &Span<'_>, reading: &mut Reading<'_>) {
    if span.attributes.text(TYPE) == Some("retriever") {
        // As the official adapter names them.
        reading.add(Fact::ToolName, format!("retriever:{}", span.name), "span name");
        reading.add(Fact::ToolKind, "retriever", TYPE);
    }
    reading.add(Fact::ToolName, span.name.as_ref(), "span name");
    let call_id = span.attributes.get("langfuse.observation.metadata.tool_call_id").map(|id| id.parse_json());
    reading.add(Fact::ToolCallId, call_id, METADATA);
    let input = value_of(span, INPUT).map(|input| payload::arguments(called_with(input), &Json::Null));
    reading.add(Fact::ToolInput, input, INPUT);
    let Some(output) = value_of(span, OUTPUT) else { return };
    let result = payload::tool_result(output);
    reading.add(Fact::ToolCallId, result.call_id, OUTPUT);
    if result.is_error {
        reading.add(Fact::ErrorMessage, text_of(&result.content), OUTPUT);
    }
    reading.add(Fact::ToolOutput, result.content, OUTPUT);
}

fn read_hook(span: &Span<'_>, reading: &mut Reading<'_>) {
    let trigger = match span.attributes.text(TYPE) {
        Some("guardrail") => "guardrail",
        Some("evaluator") => "evaluator",
        _ => "graph_node",
    };
    reading.owner_is_agent = trigger == "graph_node";
    reading.add(Fact::HookName, span.name.as_ref(), "span name");
    reading.add(Fact::HookTrigger, trigger, TYPE);
    reading.add(Fact::ToolInput, value_of(span, INPUT).map(called_with), INPUT);
    reading.add(Fact::ToolOutput, value_of(span, OUTPUT), OUTPUT);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buckets_that_leave_each_other_out_are_summed() {
        let told = |usage: Json| -> Vec<i64> {
            let count = |wanted| tokens(&usage).into_iter().find(|(fact, _)| *fact == wanted)?.1.as_i64();
            [Fact::InputTokens, Fact::OutputTokens, Fact::CacheReadTokens].map(|fact| count(fact).unwrap_or(-1)).into()
        };
        let of_langchain = json!({"input": 8, "output": 5, "total": 19, "input_cache_read": 4, "output_reasoning": 2});
        assert_eq!(told(of_langchain), [12, 7, 4]);
        assert_eq!(told(json!({"input": 12, "output": 7, "total": 19, "input_cached_tokens": 4})), [12, 7, 4]);
        let of_openai =
            json!({"prompt_tokens": 12, "completion_tokens": 7, "prompt_tokens_details": {"cached_tokens": 4}});
        assert_eq!(told(of_openai), [12, 7, 4]);
        let of_anthropic = json!({"input_tokens": 8, "output_tokens": 7, "cache_read_input_tokens": 4});
        assert_eq!(told(of_anthropic), [12, 7, 4]);
        assert_eq!(told(json!("cut {")), [-1, -1, -1]);
    }

    #[test]
    fn what_a_function_was_called_with_is_told_without_its_wrapper() {
        let told = |args, kwargs| called_with(json!({"args": args, "kwargs": kwargs}));
        assert_eq!(told(json!([]), json!({"city": "Paris"})), json!({"city": "Paris"}));
        assert_eq!(told(json!(["Paris", "<function f at 0x1>"]), json!({})), json!("Paris"));
        assert_eq!(told(json!(["Paris"]), json!({"days": 2})), json!({"args": ["Paris"], "days": 2}));
        assert_eq!(called_with(json!({"args": 1, "b": 2})), json!({"args": 1, "b": 2}));
    }
}
