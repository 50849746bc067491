//! Logfire's spans of provider SDKs, and its bridge for OpenAI Agents.
//!
//! Emitted by: `logfire.instrument_openai`, `instrument_anthropic` and the like, `instrument_openai_agents`. Detected
//! by: a scope `logfire.…` and, for the SDKs, `request_data` or an operation; names are templates,
//! `logfire.msg_template`. Agent: `Agent run`, told again by each turn. Model: the SDKs' calls, `Chat completion with`,
//! `Responses API`. Tool: `Function`, `Handoff`. Hook: `Guardrail`. Session: `group_id`. Errors: `exception` events,
//! status, the bridge's `error` as JSON. Known gaps: of a streamed call the SDKs write two spans, of which the second,
//! a log at its end, has the answer; the bridge tells no call ids, no question and no answer of a run; a run that stops
//! for an approval looks like one that succeeded.

use serde_json::{Value as Json, json};

use super::messages::take_member;
use super::{About, Dialect, Fact, Kind, Reading, Recognized, payload};
use crate::span::{Span, StatusCode};

const NAME: &str = "logfire";
const SCOPE: &str = "logfire.";
const AGENTS_SCOPE: &str = "logfire.openai_agents";
const TEMPLATE: &str = "logfire.msg_template";
const SPAN_TYPE: &str = "logfire.span_type";
const OPERATION: &str = "gen_ai.operation.name";
const REQUEST: &str = "request_data";
const RESPONSE: &str = "response_data";
const EVENTS: &str = "events";
const ERROR: &str = "error";

const TURN: &str = "Turn ";

/// What the spans of the bridge stand for, by how their templates start.
const BRIDGE: &[(&str, Kind, &str)] = &[
    ("Agent run", Kind::Agent, "the run of an agent"),
    // What ends a run is often told by its last turn alone.
    (TURN, Kind::Agent, "a turn of an agent's run"),
    ("Chat completion with", Kind::Model, "a call of a model"),
    ("Responses API", Kind::Model, "a call of a model"),
    ("Function:", Kind::Tool, "a function tool"),
    ("Handoff:", Kind::Tool, "a handoff, which the model calls like a tool"),
    ("Guardrail", Kind::Hook, "a guardrail"),
];

/// Requests of the SDKs that are no call of a language model, by how their templates start.
const NO_CALLS: [&str; 2] = ["Embedding Creation", "Image Generation"];

/// The classes of what OpenAI Agents raises, by what it notes as the error of a span.
const RAISED: [(&str, &str); 4] = [
    ("Max turns exceeded", "MaxTurnsExceeded"),
    ("Guardrail tripwire triggered", "GuardrailTripwireTriggered"),
    ("Tool not found", "ModelBehaviorError"),
    ("Invalid JSON", "ModelBehaviorError"),
];

/// Where an answer, or the request of one, says so.
const ANSWERS: [&str; 4] = ["gen_ai.output.messages", "gen_ai.usage.output_tokens", "gen_ai.response.id", RESPONSE];

pub(super) struct Logfire;

impl Dialect for Logfire {
    fn about(&self) -> &'static About {
        &About {
            name: NAME,
            emitted_by: "Logfire's instrumentations of OpenAI, Anthropic and other SDKs; its bridge for OpenAI Agents",
            verified: "logfire 5.4.0 (OpenAI, OpenAI Agents 0.24)",
            gaps: "a streamed call stands where its last chunk came; OpenAI Agents: no call ids, question or answer of a run, and a run that \
                   stops for an approval looks like one that succeeded",
        }
    }

    fn keys(&self) -> &'static [(Fact, &'static [&'static str])] {
        &[(Fact::Cost, &["operation.cost"])]
    }

    fn recognize(&self, span: &Span<'_>) -> Option<Recognized> {
        if !span.scope.name.starts_with(SCOPE) {
            return None;
        }
        let template = template(span);
        let is_call = || span.attributes.get(REQUEST).is_some() || span.attributes.get(OPERATION).is_some();
        let (kind, rule) = if span.attributes.text(SPAN_TYPE) == Some("pending_span") {
            (Kind::Transparent, "Logfire's copy of a span that has not ended")
        } else if span.scope.name == AGENTS_SCOPE {
            let known = BRIDGE.iter().find(|(start, ..)| template.starts_with(start));
            known.map_or((Kind::Transparent, "the workflow, or none of an agent's"), |(_, kind, rule)| (*kind, *rule))
        } else if !is_call() {
            return None;
        } else if NO_CALLS.iter().any(|start| template.starts_with(start))
            || span.attributes.text(OPERATION) == Some("embeddings")
        {
            (Kind::Transparent, "embeddings and images give no event")
        } else if is_half(span) {
            (Kind::Transparent, "the request of a streamed call, which a log tells whole")
        } else {
            (Kind::Model, "a call of a model")
        };
        Some(Recognized { kind, rule })
    }

    fn read<'s>(&self, span: &'s Span<'_>, reading: &mut Reading<'s>) {
        if reading.dialect != NAME {
            return;
        }
        let is_bridge = span.scope.name == AGENTS_SCOPE;
        let framework = if is_bridge { Some("openai_agents") } else { provider(span) };
        reading.framework = reading.framework.or(framework);
        if is_bridge {
            reading.add(Fact::ConversationId, json_of(span, "group_id").filter(Json::is_string), "group_id");
            read_error(span, reading);
        }
        let named = json_of(span, "name").filter(Json::is_string);
        match reading.kind {
            Kind::Agent if template(span).starts_with(TURN) => {
                reading.tells_again = true;
                reading.add(Fact::AgentName, json_of(span, "agent_name").filter(Json::is_string), "agent_name");
            }
            Kind::Agent => reading.add(Fact::AgentName, named, "name"),
            Kind::Model if is_bridge => read_bridged_request(span, reading),
            Kind::Model => read_request(span, reading),
            Kind::Tool => read_tool(span, named, reading),
            Kind::Hook => {
                reading.add(Fact::HookName, named, "name");
                reading.add(Fact::HookTrigger, "guardrail", TEMPLATE);
                let triggered = json_of(span, "triggered").map(|triggered| json!({"triggered": triggered}));
                reading.add(Fact::ToolOutput, triggered, "triggered");
            }
            Kind::Human | Kind::Transparent => {}
        }
    }
}

fn template<'s>(span: &'s Span<'_>) -> &'s str {
    span.attributes.text(TEMPLATE).unwrap_or(&span.name)
}

/// Only the log of a streamed call has its answer: the request before it ends without one, and without an error.
fn is_half(span: &Span<'_>) -> bool {
    let is_log = span.attributes.text(SPAN_TYPE) == Some("log");
    let has_answer = ANSWERS.iter().any(|key| span.attributes.get(key).is_some());
    !is_log && !has_answer && span.end.is_some() && span.status.code != StatusCode::Error && span.events.is_empty()
}

fn provider(span: &Span<'_>) -> Option<&'static str> {
    ["openai", "anthropic", "google_genai", "mistral", "groq"]
        .into_iter()
        .find(|name| span.scope.name.strip_prefix(SCOPE) == Some(*name))
}

/// An attribute's JSON; `null` is how Logfire writes what is not there.
fn json_of(span: &Span<'_>, key: &str) -> Option<Json> {
    span.attributes.get(key).map(|value| value.parse_json()).filter(|value| !value.is_null())
}

/// A call of an SDK in Logfire's own form, before and beside that of the semantic conventions.
fn read_request(span: &Span<'_>, reading: &mut Reading<'_>) {
    let request = json_of(span, REQUEST).unwrap_or_default();
    let response = json_of(span, RESPONSE).unwrap_or_default();
    let is_log = span.attributes.text(SPAN_TYPE) == Some("log");
    let streams = is_log || request["stream"] == true;
    reading.add(Fact::Streaming, streams.then_some(true), REQUEST);
    reading.add(Fact::Duration, json_of(span, "duration").filter(|_| is_log), "duration");
    reading.add(Fact::RequestModel, request.get("model").cloned(), REQUEST);
    reading.add(Fact::ToolDefinitions, request.get("tools").filter(|tools| tools.is_array()).cloned(), REQUEST);
    reading.add(Fact::SystemInstructions, request.get("system").cloned(), REQUEST);
    let usage = response.get("usage").or(response.get("message").and_then(|message| message.get("usage")));
    for (fact, places) in USAGE {
        let count = usage.and_then(|usage| places.iter().find_map(|place| usage.pointer(place)));
        reading.add(*fact, count.cloned(), RESPONSE);
    }
    let text = ["combined_chunk_content", "text"].iter().find_map(|key| response.get(*key)).filter(|it| it.is_string());
    let (events_asked, events_answered) = split_events(json_of(span, EVENTS));
    let asked = payload::request(request);
    let answered = match (response.get("message"), text) {
        (Some(message), _) => payload::answer(message.clone()),
        (None, Some(text)) => vec![json!({"role": "assistant", "content": text})],
        (None, None) => Vec::new(),
    };
    offer(reading, Fact::InputMessages, [(asked, REQUEST), (events_asked, EVENTS)]);
    offer(reading, Fact::OutputMessages, [(answered, RESPONSE), (events_answered, EVENTS)]);
}

/// Where each count of tokens stands in a usage, of OpenAI's two interfaces and of Anthropic's.
const USAGE: &[(Fact, &[&str])] = &[
    (Fact::InputTokens, &["/prompt_tokens", "/input_tokens"]),
    (Fact::OutputTokens, &["/completion_tokens", "/output_tokens"]),
    (
        Fact::CacheReadTokens,
        &["/prompt_tokens_details/cached_tokens", "/input_tokens_details/cached_tokens", "/cache_read_input_tokens"],
    ),
    (Fact::CacheWriteTokens, &["/input_tokens_details/cache_write_tokens", "/cache_creation_input_tokens"]),
    (
        Fact::ReasoningTokens,
        &["/completion_tokens_details/reasoning_tokens", "/output_tokens_details/reasoning_tokens"],
    ),
];

fn offer<const N: usize>(reading: &mut Reading<'_>, fact: Fact, sources: [(Vec<Json>, &'static str); N]) {
    for (messages, source) in sources {
        if !messages.is_empty() {
            reading.add(fact, messages, source);
        }
    }
}

/// Messages as the events that they once were: the answer is what the assistant said at the end.
fn split_events(events: Option<Json>) -> (Vec<Json>, Vec<Json>) {
    let Some(Json::Array(mut events)) = events else { return (Vec::new(), Vec::new()) };
    for event in &mut events {
        // A choice holds its message.
        if event["message"].is_object() {
            *event = take_member(event, "message");
        }
        if event["role"].is_null() && event.is_object() {
            event["role"] = "assistant".into();
        }
    }
    let asked = events.iter().rposition(|event| event["role"] != "assistant").map_or(0, |last| last + 1);
    let answered = events.split_off(asked);
    (events, answered)
}

/// A call of a model as OpenAI Agents traces it: chat completions, or a response of the Responses API.
fn read_bridged_request(span: &Span<'_>, reading: &mut Reading<'_>) {
    let response = json_of(span, "response").unwrap_or_default();
    let (events_asked, events_answered) = split_events(json_of(span, EVENTS));
    let input = ["input", "raw_input"].iter().find_map(|key| json_of(span, key)).unwrap_or_default();
    let input = match input {
        Json::String(question) => json!([{"role": "user", "content": question}]),
        input => input,
    };
    // Instructions that nobody gave.
    let is_said = |message: &Json| message["role"] != "system" || !message["content"].is_null();
    let asked = payload::request(input).into_iter().filter(is_said).collect();
    let output = json_of(span, "output").or_else(|| response.get("output").cloned());
    let answered = output.map(payload::answer).unwrap_or_default();
    offer(reading, Fact::InputMessages, [(asked, "input"), (events_asked, EVENTS)]);
    offer(reading, Fact::OutputMessages, [(answered, "output"), (events_answered, EVENTS)]);
    reading.add(
        Fact::SystemInstructions,
        response.get("instructions").filter(|it| it.is_string()).cloned(),
        "response",
    );
    reading.add(Fact::ToolDefinitions, response.get("tools").filter(|tools| tools.is_array()).cloned(), "response");
    reading.add(Fact::ResponseId, response.get("id").filter(|id| id.is_string()).cloned(), "response");
    reading.add(Fact::ResponseModel, response.get("model").filter(|model| model.is_string()).cloned(), "response");
    let usage = json_of(span, "usage").or_else(|| response.get("usage").cloned()).unwrap_or_default();
    for (fact, places) in USAGE {
        reading.add(*fact, places.iter().find_map(|place| usage.pointer(place)).cloned(), "usage");
    }
    if span.status.code == StatusCode::Error {
        reading.remove(Fact::ResponseModel);
    }
}

fn read_tool(span: &Span<'_>, named: Option<Json>, reading: &mut Reading<'_>) {
    let Some(named) = named else {
        let Some(agent) = span.attributes.text("to_agent") else { return };
        // As OpenAI Agents names the tool by default.
        let tool: String = agent.chars().map(|char| if char.is_alphanumeric() { char } else { '_' }).collect();
        reading.add(Fact::ToolName, format!("transfer_to_{}", tool.to_lowercase()), "to_agent");
        reading.add(Fact::ToolKind, "handoff", TEMPLATE);
        return;
    };
    reading.add(Fact::ToolName, named, "name");
    reading.add(Fact::ToolInput, json_of(span, "input"), "input");
    // A number in plain text stays text.
    let output = span.attributes.get("output").filter(|output| output.as_str() != Some("null"));
    let is_json = output.and_then(|output| output.as_str()).is_none_or(|text| text.starts_with(['{', '[', '"']));
    reading.add(Fact::ToolOutput, output.map(|it| if is_json { it.parse_json() } else { it.to_json() }), "output");
}

/// The error that OpenAI Agents notes on a span: a text, and data that can tell more.
fn read_error(span: &Span<'_>, reading: &mut Reading<'_>) {
    let Some(error) = json_of(span, ERROR) else { return };
    let message = error["message"].as_str().unwrap_or_default();
    let class = RAISED.iter().find(|(start, _)| message.starts_with(start)).map(|(_, class)| *class);
    reading.add(Fact::ErrorType, class, ERROR);
    // What it raised by itself has no more to tell than the name of a tool or a guardrail.
    let more = error.pointer("/data/error").and_then(Json::as_str);
    reading.add(Fact::ErrorMessage, more.unwrap_or(message), ERROR);
}
