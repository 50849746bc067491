//! Haystack's own tracing.
//!
//! Emitted by: `haystack-ai` 2.x and 3.x through `opentelemetry-haystack` or its own connector. Detected by: names that
//! start with `haystack.`; the scope is the application's.
//! Agent: `haystack.agent.run`; in a pipeline the `haystack.component.run` around it knows its name. Model:
//! `haystack.agent.step.llm`, `haystack.chat_generator.run`, generators as components. Tool: `haystack.agent.step.tool`, a
//! `ToolInvoker`, retrievers as components. Hook: `haystack.agent.hook` and the other components inside an agent; steps and
//! pipelines are none. Session: none. Errors: `exception` events; `haystack.tool.error` for a tool.
//! Known gaps: no session; ids of calls only by what the model answered; content only with
//! `HAYSTACK_CONTENT_TRACING_ENABLED`, tokens and the model's name with it; whether a confirmation asked a person.

use serde_json::{Value as Json, json};

use super::messages::{last_question, normalize_messages, take_member, text_of};
use super::{About, Dialect, Fact, Kind, Reading, Recognized};
use crate::span::Span;

const PREFIX: &str = "haystack.";
const COMPONENT: &str = "haystack.component.run";
const COMPONENT_TYPE: &str = "haystack.component.type";
const INPUTS: [&str; 3] = ["haystack.agent.step.llm.input", "haystack.component.input", "haystack.agent.input"];
const OUTPUTS: [&str; 3] = ["haystack.agent.step.llm.output", "haystack.component.output", "haystack.agent.output"];

const SPANS: &[(&str, Kind, &str)] = &[
    ("haystack.agent.run", Kind::Agent, "haystack.agent.run"),
    ("haystack.agent.step.llm", Kind::Model, "haystack.agent.step.llm"),
    ("haystack.chat_generator.run", Kind::Model, "haystack.chat_generator.run"),
    ("haystack.agent.step.tool", Kind::Tool, "haystack.agent.step.tool"),
    ("haystack.agent.hook", Kind::Hook, "haystack.agent.hook"),
    ("haystack.agent.hook.human_in_the_loop.strategy", Kind::Hook, "a confirmation, by whatever policy"),
    ("haystack.agent.step", Kind::Transparent, "a turn of the agent's loop"),
];

/// What a component is by the end of its class's name; others are steps of their pipeline.
const COMPONENTS: &[(&str, Kind, &str)] = &[
    ("Agent", Kind::Agent, "component of type Agent"),
    ("Generator", Kind::Model, "component that generates"),
    ("Retriever", Kind::Tool, "component that retrieves"),
    ("ToolInvoker", Kind::Tool, "component that calls tools"),
    ("Embedder", Kind::Transparent, "embeddings give no event"),
    ("", Kind::Hook, "component of a pipeline"),
];

pub(super) struct Haystack;

impl Dialect for Haystack {
    fn about(&self) -> &'static About {
        &About {
            name: "haystack",
            emitted_by: "Haystack's own tracing through opentelemetry-haystack",
            verified: "haystack-ai 3.4.1 with opentelemetry-haystack 2.0",
            gaps: "no session; without content tracing no tokens, models and ids of calls",
        }
    }

    fn keys(&self) -> &'static [(Fact, &'static [&'static str])] {
        &[
            (Fact::HookName, &["haystack.agent.hook.name", "haystack.component.name"]),
            (Fact::ToolName, &["haystack.tool.name", "haystack.component.name"]),
            (Fact::ToolCallId, &["haystack.tool.call.id"]),
            (Fact::ToolInput, &["haystack.agent.step.tool.input", "haystack.component.input"]),
            (Fact::ToolOutput, &["haystack.agent.step.tool.output", "haystack.component.output"]),
        ]
    }

    fn recognize(&self, span: &Span<'_>) -> Option<Recognized> {
        if !is_haystack(span) {
            return None;
        }
        if span.name != COMPONENT {
            return Some(Recognized::by_name(SPANS, &span.name, "machinery of Haystack"));
        }
        let class = span.attributes.text(COMPONENT_TYPE).unwrap_or_default();
        let known = COMPONENTS.iter().find(|(ending, ..)| class.ends_with(ending));
        known.map(|(_, kind, rule)| Recognized { kind: *kind, rule })
    }

    fn read<'s>(&self, span: &'s Span<'_>, reading: &mut Reading<'s>) {
        if !is_haystack(span) {
            return;
        }
        reading.framework = Some("haystack");
        match reading.kind {
            Kind::Agent => read_run(span, reading),
            Kind::Model => read_request(span, reading),
            Kind::Tool => read_tool(span, reading),
            Kind::Hook => reading.add(Fact::HookTrigger, "workflow_step", "hook or component"),
            Kind::Human | Kind::Transparent => {}
        }
    }
}

fn is_haystack(span: &Span<'_>) -> bool {
    span.name.starts_with(PREFIX)
}

fn content(span: &Span<'_>, keys: &[&str]) -> Json {
    keys.iter().find_map(|key| span.attributes.get(key)).map(|value| value.parse_json()).unwrap_or_default()
}

fn read_run<'s>(span: &'s Span<'_>, reading: &mut Reading<'s>) {
    match span.attributes.text("haystack.component.name") {
        Some(name) => reading.add(Fact::AgentName, name, "haystack.component.name"),
        None => {
            reading.is_named_by_class = true;
            reading.add(Fact::AgentName, "Agent", "class of the span");
        }
    }
    let asked = messages(take_member(&mut content(span, &INPUTS), "messages"));
    reading.add(Fact::Goal, last_question(asked), "last user text of the input");
    let answered = normalize_messages(messages(take_member(&mut content(span, &OUTPUTS), "messages")));
    if let Some(last) = answered.last().filter(|message| message["role"] == "assistant") {
        reading.add(Fact::Summary, text_of(&last["content"]), "last text of the output");
    }
}

fn read_request<'s>(span: &'s Span<'_>, reading: &mut Reading<'s>) {
    let mut input = content(span, &INPUTS);
    let asked = match input.get_mut("messages").map(Json::take) {
        Some(asked) => messages(asked),
        None => input.get_mut("prompt").map(Json::take).unwrap_or_default(),
    };
    reading.add(Fact::InputMessages, asked, "input of the span");
    if let Some(Json::Array(tools)) = input.get_mut("tools").map(Json::take) {
        let tools: Vec<Json> =
            tools.into_iter().map(|mut tool| tool.get_mut("data").map(Json::take).unwrap_or(tool)).collect();
        reading.add(Fact::ToolDefinitions, tools, "input of the span");
    }
    let mut replies = content(span, &OUTPUTS);
    let meta = match &replies["replies"][0]["meta"] {
        Json::Null => replies["meta"][0].clone(),
        meta => meta.clone(),
    };
    reading.add(Fact::OutputMessages, messages(take_member(&mut replies, "replies")), "output of the span");
    reading.add(Fact::ResponseModel, meta["model"].clone(), "meta of the reply");
    reading.add(Fact::FinishReasons, meta["finish_reason"].clone(), "meta of the reply");
    let usage = &meta["usage"];
    let count = |names: &[&str]| names.iter().find_map(|name| usage[*name].as_i64());
    let detail = |group: &str, name: &str| usage[group][name].as_i64();
    for (fact, tokens) in [
        (Fact::InputTokens, count(&["prompt_tokens", "input_tokens"])),
        (Fact::OutputTokens, count(&["completion_tokens", "output_tokens"])),
        (Fact::CacheReadTokens, detail("prompt_tokens_details", "cached_tokens")),
        (Fact::ReasoningTokens, detail("completion_tokens_details", "reasoning_tokens")),
    ] {
        reading.add(fact, tokens, "meta of the reply");
    }
}

fn read_tool<'s>(span: &'s Span<'_>, reading: &mut Reading<'s>) {
    if span.attributes.text(COMPONENT_TYPE) == Some("ToolInvoker") {
        read_invoker(span, reading);
    }
    if span.attributes.get("haystack.tool.error").and_then(|failed| failed.as_bool()) != Some(true) {
        return;
    }
    reading.add(Fact::ErrorType, "ToolInvocationError", "haystack.tool.error");
    if let Some(message) = reading.json(Fact::ToolOutput).and_then(|mut output| output.get_mut("error").map(Json::take))
    {
        reading.add(Fact::ErrorMessage, message.clone(), "output of the tool");
        reading.remove(Fact::ToolOutput);
        reading.add(Fact::ToolOutput, message, "output of the tool");
    }
}

/// Until the agent had a span for each call, one span called all tools of an answer: with one of them it is that call.
fn read_invoker<'s>(span: &'s Span<'_>, reading: &mut Reading<'s>) {
    let blocks = |value: Json, kind: &str| -> Vec<Json> {
        let blocks = normalize_messages(messages(value)).into_iter().filter_map(|mut message| {
            match take_member(&mut message, "content") {
                Json::Array(blocks) => Some(blocks),
                _ => None,
            }
        });
        blocks.flatten().filter(|block| block["type"] == kind).collect()
    };
    let calls = blocks(take_member(&mut content(span, &INPUTS), "messages"), "tool_use");
    let results = blocks(take_member(&mut content(span, &OUTPUTS), "tool_messages"), "tool_result");
    if let ([call], results) = (calls.as_slice(), results.as_slice()) {
        for fact in [Fact::ToolName, Fact::ToolInput, Fact::ToolOutput] {
            reading.remove(fact);
        }
        reading.add(Fact::ToolName, call["name"].clone(), "call of the input");
        reading.add(Fact::ToolCallId, call["id"].clone(), "call of the input");
        reading.add(Fact::ToolInput, call["input"].clone(), "call of the input");
        if let [result] = results {
            reading.add(Fact::ToolOutput, result["content"].clone(), "result of the output");
        }
    }
}

/// Messages as Haystack has them: each part of the content an object of one member that names it. The replies of a
/// generator without chat are texts.
fn messages(value: Json) -> Json {
    let Json::Array(messages) = value else { return Json::Null };
    messages.into_iter().map(message).collect()
}

fn message(mut message: Json) -> Json {
    if let Json::String(text) = message {
        return json!({"role": "assistant", "content": text});
    }
    let mut take =
        |names: [&str; 2]| names.iter().find_map(|name| message.get_mut(name).map(Json::take)).unwrap_or_default();
    let role = take(["role", "_role"]);
    let content = match take(["content", "_content"]) {
        Json::Array(parts) => Json::Array(parts.into_iter().map(part).collect()),
        text => text,
    };
    json!({"role": role, "content": content})
}

fn part(mut part: Json) -> Json {
    let mut take = |name: &str| part.get_mut(name).map(Json::take);
    if let Some(call) = take("tool_call") {
        return json!({"type": "tool_use", "id": call["id"], "name": call["tool_name"], "input": call["arguments"]});
    }
    if let Some(result) = take("tool_call_result") {
        return json!({"type": "tool_result", "id": result["origin"]["id"], "content": result["result"]});
    }
    if let Some(reasoning) = take("reasoning") {
        return json!({"type": "thinking", "thinking": reasoning["reasoning_text"]});
    }
    match take("image").or_else(|| take("file")) {
        Some(media) => json!({"type": "blob", "mime_type": media["mime_type"]}),
        None => part,
    }
}
