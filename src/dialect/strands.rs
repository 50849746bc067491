//! Strands Agents' own instrumentation.
//!
//! Emitted by: `strands-agents` 1.x for Python, in its three ways: messages as span events (the default), the newest
//! conventions as span events (`gen_ai_latest_experimental`), or as attributes (`gen_ai_span_attributes_only`).
//! Detected by: scope `strands.telemetry.tracer`, or `strands-agents` as system or provider.
//! Agent: operation `invoke_agent`. A graph or a swarm has no decision loop of its own: its agents stand for it. Model:
//! `chat`. Tool: `execute_tool`, and searches and additions of the memory. Session: `session.id`, which applications give
//! as a trace attribute. Errors: `exception` events, the status of a failed tool; `strands.cancellation.type`; the reason
//! `cancelled` of a run; a tool that an interrupt stopped has no result.
//! Known gaps: the tokens on a run are those of the agent object's whole life, so its calls are added up; a run goes on
//! after an interrupt as a run of its own.

use serde_json::{Value as Json, json};

use super::messages::{last_question, normalize_answer, take_member, text_of};
use super::{About, Dialect, Fact, Kind, Reading, Recognized, python_literal};
use crate::span::{Span, SpanEvent, StatusCode, parse_json_text};

const SCOPE: &str = "strands.telemetry.tracer";
const SYSTEM: &str = "strands-agents";
/// What stands in the place of content that is kept back.
const REDACTED: &str = "[REDACTED]";
const TOOL_STATUS: [&str; 2] = ["gen_ai.tool.status", "tool.status"];
/// The event of the newest conventions: several on one span, each with one of the keys.
const DETAILS: &str = "gen_ai.client.inference.operation.details";
const MILLISECONDS_TO_FIRST_CHUNK: &str = "gen_ai.server.time_to_first_token";

const OPERATIONS: &[(&str, Kind, &str)] = &[
    ("invoke_agent", Kind::Agent, "operation invoke_agent"),
    ("chat", Kind::Model, "operation chat"),
    ("execute_tool", Kind::Tool, "operation execute_tool"),
    ("memory.search", Kind::Tool, "memory operation"),
    ("memory.add", Kind::Tool, "memory operation"),
    ("execute_event_loop_cycle", Kind::Transparent, "a turn of the agent's loop"),
    ("invoke_graph", Kind::Transparent, "a graph around agents is none itself"),
    ("invoke_swarm", Kind::Transparent, "a swarm around agents is none itself"),
];

/// Messages as one event each, the question first.
const MESSAGE_EVENTS: &[(&str, &str)] = &[
    ("gen_ai.system.message", "system"),
    ("gen_ai.user.message", "user"),
    ("gen_ai.assistant.message", "assistant"),
    ("gen_ai.tool.message", "user"),
];

pub(super) struct Strands;

impl Dialect for Strands {
    fn about(&self) -> &'static About {
        &About {
            name: "strands",
            emitted_by: "Strands Agents' own instrumentation: span events, newest conventions, attributes only",
            verified: "strands-agents 1.62",
            gaps: "a run after an interrupt looks like a run of its own; the tokens of a run are those of its calls",
        }
    }

    fn keys(&self) -> &'static [(Fact, &'static [&'static str])] {
        &[
            (Fact::ConversationId, &["gen_ai.conversation.id", "session.id"]),
            (Fact::ErrorType, &["strands.cancellation.type"]),
        ]
    }

    fn recognize(&self, span: &Span<'_>) -> Option<Recognized> {
        if !is_strands(span) {
            return None;
        }
        let operation = span.attributes.text("gen_ai.operation.name").unwrap_or(&span.name);
        Some(Recognized::by_name(OPERATIONS, operation, "machinery of Strands"))
    }

    fn read<'s>(&self, span: &'s Span<'_>, reading: &mut Reading<'s>) {
        if !is_strands(span) {
            return;
        }
        reading.framework = Some("strands");
        if reading.text(Fact::Provider).as_deref() == Some(SYSTEM) {
            reading.remove(Fact::Provider);
        }
        for fact in
            [Fact::InputMessages, Fact::OutputMessages, Fact::SystemInstructions, Fact::ToolInput, Fact::ToolOutput]
        {
            if reading.text(fact).as_deref() == Some(REDACTED) {
                reading.remove(fact);
            }
        }
        match reading.kind {
            Kind::Agent => read_run(span, reading),
            Kind::Model => read_request(span, reading),
            Kind::Tool => read_tool(span, reading),
            Kind::Hook | Kind::Human | Kind::Transparent => {}
        }
    }
}

fn is_strands(span: &Span<'_>) -> bool {
    let is_system = |key| span.attributes.text(key) == Some(SYSTEM);
    span.scope.name == SCOPE || is_system("gen_ai.system") || is_system("gen_ai.provider.name")
}

fn read_run<'s>(span: &'s Span<'_>, reading: &mut Reading<'s>) {
    for fact in [Fact::InputTokens, Fact::OutputTokens, Fact::CacheReadTokens, Fact::CacheWriteTokens] {
        reading.remove(fact);
    }
    let asked = Json::Array(asked(span, reading));
    reading.add(Fact::Goal, last_question(asked), "last user text of the messages");
    let Some(answer) = answer(span, reading) else { return };
    let text = normalize_answer(json!([answer])).as_ref().and_then(text_of);
    match answer["finish_reason"].as_str() {
        Some("interrupt") => {
            let waits = text.as_deref().and_then(python_literal::parse).map(waits).unwrap_or_default();
            reading.add(Fact::Waits, waits, "answer that ended with an interrupt");
            // The list of interrupts is no answer.
            reading.remove(Fact::OutputMessages);
            reading.add(
                Fact::OutputMessages,
                json!([{"role": "assistant", "content": ""}]),
                "no answer but an interrupt",
            );
        }
        Some("cancelled") => reading.add(Fact::ErrorType, "CancelledError", "finish reason cancelled"),
        // A line's end is added to each text of the answer.
        _ => {
            if let Some(text) = text {
                let text = text.strip_suffix('\n').unwrap_or(&text).to_owned();
                reading.add(Fact::Summary, text, "text of the answer");
            }
        }
    }
}

/// Interrupts as stops for a person: `{id, name, reason, response}`.
fn waits(interrupts: Json) -> Vec<Json> {
    let Json::Array(interrupts) = interrupts else { return Vec::new() };
    let wait = |interrupt: Json| {
        let prompt = Some(&interrupt["reason"]).filter(|reason| !reason.is_null()).unwrap_or(&interrupt["name"]);
        json!({"id": interrupt["id"], "prompt": prompt})
    };
    interrupts.into_iter().filter(Json::is_object).map(wait).collect()
}

fn read_request<'s>(span: &'s Span<'_>, reading: &mut Reading<'s>) {
    let asked = asked(span, reading);
    if !asked.is_empty() {
        reading.remove(Fact::InputMessages);
        reading.add(Fact::InputMessages, asked, "messages of the span");
    }
    if let Some(answer) = answer(span, reading) {
        reading.remove(Fact::OutputMessages);
        reading.add(Fact::OutputMessages, json!([answer]), "answer of the span");
    }
    let milliseconds = span.attributes.get(MILLISECONDS_TO_FIRST_CHUNK).and_then(|value| value.as_f64());
    if let Some(milliseconds) = milliseconds.filter(|milliseconds| *milliseconds > 0.0) {
        reading.remove(Fact::TimeToFirstChunk);
        reading.add(Fact::TimeToFirstChunk, milliseconds / 1_000.0, MILLISECONDS_TO_FIRST_CHUNK);
    }
}

fn read_tool<'s>(span: &'s Span<'_>, reading: &mut Reading<'s>) {
    let of_event = |name: &str, key: &str| {
        let event = span.events.iter().find(|event| event.name == name)?;
        event.attributes.text(key).filter(|text| *text != REDACTED)
    };
    if let Some(input) = of_event("gen_ai.tool.message", "content") {
        reading.add(Fact::ToolInput, parse_json_text(input), "span event gen_ai.tool.message");
    }
    let details = || asked(span, reading).into_iter().find_map(|message| part(message, "arguments"));
    if let Some(input) = (!reading.has(Fact::ToolInput)).then(details).flatten() {
        reading.add(Fact::ToolInput, input, "span event with the call");
    }
    if let Some(query) = of_event("memory.query", "content").or_else(|| of_event("memory.content", "content")) {
        reading.add(Fact::ToolInput, json!({"content": query}), "span event of the memory");
    }
    let output = reading
        .json(Fact::ToolOutput)
        .or_else(|| of_event("gen_ai.choice", "message").map(parse_json_text))
        .or_else(|| answer(span, reading).and_then(|message| part(message, "response")))
        .or_else(|| of_event("memory.results", "content").map(parse_json_text));
    let was_interrupted = output.is_none()
        && span.status.code == StatusCode::Ok
        && span.attributes.text("gen_ai.operation.name") == Some("execute_tool")
        && TOOL_STATUS.iter().all(|key| span.attributes.get(key).is_none());
    if was_interrupted {
        reading.add(Fact::Deferral, "InterruptException", "a tool that ended without result");
    }
    if let Some(output) = output {
        reading.remove(Fact::ToolOutput);
        reading.add(Fact::ToolOutput, own_result(output), "result of the span");
    }
}

/// A member of the first part of a message.
fn part(mut message: Json, name: &str) -> Option<Json> {
    let part = message.get_mut("parts")?.get_mut(0)?;
    part.get_mut(name).map(Json::take)
}

/// What the model was asked, as attributes or as events.
fn asked(span: &Span<'_>, reading: &Reading<'_>) -> Vec<Json> {
    if let Some(Json::Array(messages)) =
        reading.json(Fact::InputMessages).or_else(|| details(span, "gen_ai.input.messages"))
    {
        return messages.into_iter().map(in_parts).collect();
    }
    let of_event = |event: &SpanEvent<'_>| {
        let (_, role) = MESSAGE_EVENTS.iter().find(|(name, _)| *name == event.name)?;
        let content = event.attributes.text("content").filter(|content| *content != REDACTED)?;
        Some(json!({"role": role, "content": blocks(parse_json_text(content))}))
    };
    span.events.iter().filter_map(of_event).collect()
}

/// What was answered, as an attribute or as an event.
fn answer(span: &Span<'_>, reading: &Reading<'_>) -> Option<Json> {
    if let Some(Json::Array(messages)) =
        reading.json(Fact::OutputMessages).or_else(|| details(span, "gen_ai.output.messages"))
    {
        return messages.into_iter().next().map(in_parts);
    }
    let event = span.events.iter().rev().find(|event| event.name == "gen_ai.choice")?;
    let message = event.attributes.text("message").filter(|message| *message != REDACTED);
    // The answer of a run is text whatever it looks like, that of a call a list of blocks.
    let content = match (message, reading.kind) {
        (Some(text), Kind::Agent) => Json::from(text),
        (Some(text), _) => blocks(parse_json_text(text)),
        (None, _) => Json::Null,
    };
    Some(json!({"role": "assistant", "content": content, "finish_reason": event.attributes.text("finish_reason")}))
}

fn details(span: &Span<'_>, key: &str) -> Option<Json> {
    let events = span.events.iter().filter(|event| event.name == DETAILS);
    let value = events.filter_map(|event| event.attributes.get(key)).next()?;
    Some(value.parse_json())
}

/// A message of the newest conventions with the results of tools taken out of their blocks.
fn in_parts(mut message: Json) -> Json {
    for part in message.get_mut("parts").and_then(Json::as_array_mut).into_iter().flatten() {
        if let Some(response) = part.get_mut("response") {
            *response = own_result(response.take());
        }
    }
    message
}

/// Blocks as Bedrock has them, each an object with one member, in the form of the contract.
fn blocks(content: Json) -> Json {
    let Json::Array(items) = content else { return content };
    items.into_iter().map(block).collect()
}

fn block(mut item: Json) -> Json {
    let mut take = |name: &str| item.get_mut(name).map(Json::take);
    if let Some(call) = take("toolUse") {
        return json!({"type": "tool_use", "id": call["toolUseId"], "name": call["name"], "input": call["input"]});
    }
    if let Some(mut result) = take("toolResult") {
        let content = own_result(take_member(&mut result, "content"));
        return json!({"type": "tool_result", "id": result["toolUseId"], "content": content});
    }
    if let Some(reasoning) = take("reasoningContent") {
        return json!({"type": "thinking", "thinking": reasoning["reasoningText"]["text"]});
    }
    match &item {
        Json::Object(members) if !members.contains_key("text") => {
            let kind = members.keys().next().map_or("text", String::as_str);
            json!({"type": kind, "mime_type": members.get(kind).and_then(|media| media.get("format"))})
        }
        _ => item,
    }
}

/// A tool's own result: one block of text or JSON is that text or JSON, several are a list.
fn own_result(content: Json) -> Json {
    let Json::Array(blocks) = content else { return content };
    let mut results: Vec<Json> = blocks
        .into_iter()
        .map(|mut block| ["text", "json"].iter().find_map(|kind| block.get_mut(kind).map(Json::take)).unwrap_or(block))
        .collect();
    if results.len() == 1 { results.remove(0) } else { Json::Array(results) }
}
