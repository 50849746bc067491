//! LlamaIndex's own instrumentation.
//!
//! Emitted by: `llama-index-observability-otel`. Detected by: scope `llamaindex.opentelemetry.tracer`; a span's name is
//! `Class.method`.
//! Agent: `run` of a workflow, `FunctionAgent` among them; its name stands in the events of its steps. Model: the calls of
//! a language model. Tool: `call` and `acall` of a tool, and retrievers. Hook: the steps of a workflow. Session: none.
//! Messages: span events `LLMChatStartEvent`, `LLMChatEndEvent`, …; all else is Python's `repr`, cut at 200 characters.
//! Errors: `exception` events; `SpanCancelledEvent`, whatever the status; `WaitingForEvent` is a stop for a person.
//! Known gaps: no session; no answer and tokens of streamed calls, which agents make by default; what a tool gave, where no
//! later request tells it; turns of the agents of an `AgentWorkflow`; the question of a stop.

use serde_json::{Map, Value as Json, json};

use super::messages::take_member;
use super::{About, Dialect, Fact, Kind, Reading, Recognized, python_literal};
use crate::span::{Attributes, Span, SpanEvent};

const SCOPE: &str = "llamaindex.opentelemetry.tracer";
const STEP_EVENT: &str = "llamaindex.step.input_event";
const STEP_INPUT: &str = "llamaindex.step.input_summary";
const STEP_OUTPUT: &str = "step.output";
const CANCELLED: &str = "SpanCancelledEvent";
/// Events that a call of a model starts with, and those that it ends with.
const STARTS: [&str; 2] = ["LLMChatStartEvent", "LLMCompletionStartEvent"];
const ENDS: [&str; 4] =
    ["LLMChatEndEvent", "LLMCompletionEndEvent", "LLMChatInProgressEvent", "LLMCompletionInProgressEvent"];

/// What a method is, of whatever class. The tags of a step stand on all spans below it, so that they tell nothing.
const METHODS: &[(&str, Kind, &str)] = &[
    ("run", Kind::Agent, "run of a workflow"),
    ("chat", Kind::Model, "call of a model"),
    ("achat", Kind::Model, "call of a model"),
    ("stream_chat", Kind::Model, "call of a model"),
    ("astream_chat", Kind::Model, "call of a model"),
    ("complete", Kind::Model, "call of a model"),
    ("acomplete", Kind::Model, "call of a model"),
    ("stream_complete", Kind::Model, "call of a model"),
    ("astream_complete", Kind::Model, "call of a model"),
    ("call", Kind::Tool, "call of a tool"),
    ("acall", Kind::Tool, "call of a tool"),
    ("retrieve", Kind::Tool, "call of a retriever"),
    ("aretrieve", Kind::Tool, "call of a retriever"),
];

/// Classes of the library whose methods are none of the above, by the end of their names.
const MACHINERY: [&str; 12] = [
    "Engine",
    "Pipeline",
    "Parser",
    "Splitter",
    "Program",
    "Embedding",
    "Retriever",
    "Synthesizer",
    "Refine",
    "Summarize",
    "Postprocessor",
    "Extractor",
];

/// Classes whose methods are steps even if they gave nothing.
const WORKFLOWS: [&str; 3] = ["Agent", "Workflow", "Flow"];

pub(super) struct LlamaIndex;

impl Dialect for LlamaIndex {
    fn about(&self) -> &'static About {
        &About {
            name: "llama_index",
            emitted_by: "LlamaIndex through llama-index-observability-otel",
            verified: "llama-index-core 0.14.25 with llama-index-observability-otel 0.7",
            gaps: "no session; answers and tokens of streamed calls; turns of an AgentWorkflow's agents; long texts are cut",
        }
    }

    fn keys(&self) -> &'static [(Fact, &'static [&'static str])] {
        &[]
    }

    fn recognize(&self, span: &Span<'_>) -> Option<Recognized> {
        if span.scope.name != SCOPE {
            return None;
        }
        let (class, method) = class_and_method(&span.name);
        let asks_model = STARTS.iter().any(|name| event(span, name).is_some());
        if asks_model {
            return Some(Recognized { kind: Kind::Model, rule: "events of a model's call" });
        }
        if is_step(span, class, method) {
            return Some(Recognized { kind: Kind::Hook, rule: "step of a workflow" });
        }
        let is_machinery = |kind: Kind| match kind {
            Kind::Agent | Kind::Model => MACHINERY.iter().any(|ending| class.ends_with(ending)),
            _ => false,
        };
        let known = Recognized::by_name(METHODS, method, "machinery of LlamaIndex");
        Some(match is_machinery(known.kind) {
            true => Recognized { kind: Kind::Transparent, rule: "machinery of LlamaIndex" },
            false => known,
        })
    }

    fn read<'s>(&self, span: &'s Span<'_>, reading: &mut Reading<'s>) {
        if span.scope.name != SCOPE {
            return;
        }
        reading.framework = Some("llama_index");
        if event(span, CANCELLED).is_some() {
            reading.add(Fact::ErrorType, "CancelledError", CANCELLED);
        }
        match reading.kind {
            Kind::Agent => read_run(span, reading),
            Kind::Model => read_request(span, reading),
            Kind::Tool => read_tool(span, reading),
            Kind::Hook => read_step(span, reading),
            Kind::Human | Kind::Transparent => {}
        }
        let waits = event(span, "exception").and_then(|event| event.text("exception.type"));
        if waits.is_some_and(|class| class.ends_with("WaitingForEvent")) {
            reading.add(Fact::Waits, json!([{}]), "exception WaitingForEvent");
        }
    }
}

/// `module.<locals>.Class.method` without what stands before the class.
fn class_and_method(name: &str) -> (&str, &str) {
    let (path, method) = name.rsplit_once('.').unwrap_or(("", name));
    (path.rsplit('.').next().unwrap_or(path), method)
}

fn event<'s>(span: &'s Span<'_>, name: &str) -> Option<&'s Attributes<'s>> {
    span.events.iter().rev().find(|event| event.name == name).map(|event: &SpanEvent<'_>| &event.attributes)
}

/// A step is known by what it gave or by its class. One that failed or was cancelled gave nothing: then it is what no other
/// rule knows.
fn is_step(span: &Span<'_>, class: &str, method: &str) -> bool {
    if span.attributes.get(STEP_EVENT).is_none() || method == "run" || method.starts_with('_') {
        return false;
    }
    let is_known = METHODS.iter().any(|(name, ..)| *name == method);
    let ends_with = |endings: &[&str]| endings.iter().any(|ending| class.ends_with(ending));
    event(span, STEP_OUTPUT).is_some()
        || (!is_known && ends_with(&WORKFLOWS))
        || (!is_known
            && !ends_with(&MACHINERY)
            && (event(span, "SpanDropEvent").is_some() || event(span, CANCELLED).is_some()))
}

fn read_run<'s>(span: &'s Span<'_>, reading: &mut Reading<'s>) {
    let (class, _) = class_and_method(&span.name);
    reading.is_named_by_class = class.ends_with("Agent");
    reading.add(Fact::AgentName, class, "class of the span");
    let Some(output) = event(span, "workflow.output").and_then(|event| event.text("output")) else { return };
    // The result of an agent holds messages; that of another workflow can be anything.
    let result = match output.contains("(result=AgentOutput(") {
        true => python_literal::field(output, "text"),
        false => python_literal::field(output, "result"),
    };
    if let Some(result) = result {
        reading.add(Fact::Summary, result, "span event workflow.output");
    }
}

fn read_step<'s>(span: &'s Span<'_>, reading: &mut Reading<'s>) {
    let (_, method) = class_and_method(&span.name);
    let input = span.attributes.text(STEP_INPUT).unwrap_or_default();
    let output = event(span, STEP_OUTPUT).and_then(|event| event.text("output"));
    reading.add(Fact::HookName, method, "method of the span");
    reading.add(Fact::HookTrigger, "workflow_step", "step of a workflow");
    reading.add(Fact::ToolInput, input, STEP_INPUT);
    if let Some(output) = output {
        reading.add(Fact::ToolOutput, output, "span event step.output");
    }
    let named = [input, output.unwrap_or_default()]
        .into_iter()
        .find_map(|text| python_literal::field(text, "current_agent_name"));
    if let Some(name) = named.filter(Json::is_string) {
        reading.add(Fact::AgentName, name, "current_agent_name of the step");
    }
}

fn read_tool<'s>(span: &'s Span<'_>, reading: &mut Reading<'s>) {
    let (class, method) = class_and_method(&span.name);
    if method.ends_with("retrieve") {
        read_retriever(span, class, reading);
        return;
    }
    if span.attributes.text(STEP_EVENT) != Some("ToolCall") {
        return;
    }
    let call = span.attributes.text(STEP_INPUT).unwrap_or_default();
    for (fact, name) in [(Fact::ToolName, "tool_name"), (Fact::ToolInput, "tool_kwargs"), (Fact::ToolCallId, "tool_id")]
    {
        if let Some(value) = python_literal::field(call, name) {
            reading.add(fact, value, STEP_INPUT);
        }
    }
}

fn read_retriever<'s>(span: &'s Span<'_>, class: &str, reading: &mut Reading<'s>) {
    reading.add(Fact::ToolName, class, "class of the span");
    reading.add(Fact::ToolKind, "retriever", "method of the span");
    let query = event(span, "RetrievalStartEvent")
        .and_then(|event| event.text("str_or_query_bundle.query_str").or_else(|| event.text("str_or_query_bundle")));
    if let Some(query) = query {
        reading.add(Fact::ToolInput, json!({ "query": query }), "span event RetrievalStartEvent");
    }
    if let Some(Json::Array(nodes)) =
        event(span, "RetrievalEndEvent").and_then(|event| event.get("nodes")).map(|nodes| nodes.parse_json())
    {
        let documents: Vec<Json> = nodes
            .into_iter()
            .map(|found| json!({"id": found["node"]["id_"], "score": found["score"], "text": found["node"]["text"]}))
            .collect();
        reading.add(Fact::ToolOutput, documents, "span event RetrievalEndEvent");
    }
}

fn read_request<'s>(span: &'s Span<'_>, reading: &mut Reading<'s>) {
    if let Some(start) = STARTS.iter().find_map(|name| event(span, name)) {
        let asked = match start.get("messages").map(|messages| messages.parse_json()) {
            Some(Json::Array(messages)) => Json::Array(messages.into_iter().map(message).collect()),
            _ => start.text("prompt").map(Json::from).unwrap_or_default(),
        };
        reading.add(Fact::InputMessages, asked, "span event of the request");
        let tools = start.get("additional_kwargs.tools").map(|tools| tools.parse_json());
        reading.add(Fact::ToolDefinitions, tools.unwrap_or_default(), "span event of the request");
        let model = ["model_dict.model_name", "model_dict.model"].iter().find_map(|key| start.text(key));
        reading.add(Fact::RequestModel, model, "span event of the request");
    }
    if let Some(end) = ENDS.iter().find_map(|name| event(span, name)) {
        read_answer(end, reading);
    }
}

fn read_answer(end: &Attributes<'_>, reading: &mut Reading<'_>) {
    let parsed = |key: &str| end.get(key).map(|value| value.parse_json());
    let answer = match parsed("response.message.blocks") {
        Some(blocks) => {
            let calls = parsed("response.message.additional_kwargs.tool_calls");
            let calls = calls.map(|calls| json!({ "tool_calls": calls })).unwrap_or_default();
            Some(message(json!({"role": "assistant", "blocks": blocks, "additional_kwargs": calls})))
        }
        None => end.text("response.text").map(|text| json!({"role": "assistant", "content": text})),
    };
    reading.add(Fact::OutputMessages, answer.map(|answer| json!([answer])), "span event of the answer");
    let count = |names: &[&str]| names.iter().find_map(|name| end.get(&format!("response.raw.{name}"))?.as_i64());
    for (fact, names) in [
        (Fact::InputTokens, ["usage.prompt_tokens", "usage.input_tokens", "usage_metadata.prompt_token_count"]),
        (
            Fact::OutputTokens,
            ["usage.completion_tokens", "usage.output_tokens", "usage_metadata.candidates_token_count"],
        ),
    ] {
        reading.add(fact, count(&names), "span event of the answer");
    }
    for (fact, key) in [(Fact::ResponseModel, "response.raw.model"), (Fact::ResponseId, "response.raw.id")] {
        reading.add(fact, end.text(key), "span event of the answer");
    }
}

/// A message as LlamaIndex has it: blocks, and what the provider's form has beside them.
fn message(mut message: Json) -> Json {
    let mut take = |name: &str| message.get_mut(name).map(Json::take).unwrap_or_default();
    let mut extra = take("additional_kwargs");
    let mut out = Map::new();
    out.insert("role".into(), take("role"));
    let content = match take("blocks") {
        Json::Array(mut blocks) => match blocks.as_mut_slice() {
            [only] if only["block_type"] == "text" => take_member(only, "text"),
            _ => blocks.into_iter().map(block).collect(),
        },
        _ => Json::Null,
    };
    out.insert("content".into(), content);
    for member in ["tool_calls", "tool_call_id"] {
        match extra.get_mut(member).map(Json::take) {
            // Some integrations keep their provider's own objects here.
            Some(Json::Array(calls)) if !calls.iter().all(Json::is_object) => {}
            Some(value) if !value.is_null() => drop(out.insert(member.into(), value)),
            _ => {}
        }
    }
    Json::Object(out)
}

fn block(mut block: Json) -> Json {
    match block["block_type"].as_str() {
        Some("text") => json!({"type": "text", "text": take_member(&mut block, "text")}),
        Some("thinking") => json!({"type": "thinking", "thinking": take_member(&mut block, "content")}),
        Some("tool_call") => {
            json!({"type": "tool_use", "id": take_member(&mut block, "tool_call_id"), "name": take_member(&mut block, "tool_name"), "input": take_member(&mut block, "tool_kwargs")})
        }
        Some(kind) => {
            json!({"type": kind, "mime_type": block.get(format!("{kind}_mimetype")), "url": block.get("url")})
        }
        None => block,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_taken_apart_wherever_the_class_was_written() {
        assert_eq!(class_and_method("main.<locals>.MyFlow.first"), ("MyFlow", "first"));
        assert_eq!(class_and_method("FunctionAgent.run"), ("FunctionAgent", "run"));
        assert_eq!(class_and_method("step"), ("", "step"));
    }

    #[test]
    fn what_a_cut_text_still_says_is_read() {
        let cut = "ToolCall(tool_name='look_up', tool_kwargs={'query': 'a very long que...";
        assert_eq!(python_literal::field(cut, "tool_name"), Some(json!("look_up")));
        assert_eq!(python_literal::field(cut, "tool_kwargs"), None);
        assert_eq!(python_literal::field(cut, "tool_id"), None);
    }
}
