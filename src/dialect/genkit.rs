//! Genkit.
//!
//! Emitted by: `genkit` for JavaScript 1.42. Everything but the span's type stands on it only at its end.
//! Detected by: `genkit:type`.
//! Agent: the flow at the root, a `generate` or prompt called without one, and agents. Model: subtype `model`. Tool: subtype
//! `tool`. Inner flows and the `generate` of each round of tools are none. Session: `genkit:sessionId`. Errors: `exception`
//! events, repeated on every span that they cross; a tool that throws ends the flow, a tool's interrupt does not.
//! Known gaps: the id of a tool call (it stands in the model's answer alone); the provider, but for its prefix.

use serde_json::{Value as Json, json};

use super::messages::{last_question, normalize_answer, text_of};
use super::{About, Dialect, Fact, Kind, Reading, Recognized};
use crate::span::{Span, Value};

const NAME: &str = "genkit";
const INPUT: &str = "genkit:input";
const OUTPUT: &str = "genkit:output";
const SUBTYPE: &str = "genkit:metadata:subtype";
const SPAN_NAME: &str = "genkit:name";

const SUBTYPES: &[(&str, Kind, &str)] = &[
    ("model", Kind::Model, "subtype model"),
    ("background-model", Kind::Model, "subtype background-model"),
    ("tool", Kind::Tool, "subtype tool"),
    ("tool.v2", Kind::Tool, "subtype tool.v2"),
    ("retriever", Kind::Tool, "subtype retriever"),
    ("agent", Kind::Agent, "subtype agent"),
];

pub(super) struct Genkit;

impl Dialect for Genkit {
    fn about(&self) -> &'static About {
        &About {
            name: NAME,
            emitted_by: "Genkit for JavaScript",
            verified: "genkit 1.42.0",
            gaps: "the id of a tool call; nothing but a span's type before its end",
        }
    }

    fn keys(&self) -> &'static [(Fact, &'static [&'static str])] {
        &[(Fact::ConversationId, &["genkit:sessionId", "genkit:metadata:sessionId"])]
    }

    fn recognize(&self, span: &Span<'_>) -> Option<Recognized> {
        let span_type = span.attributes.text("genkit:type")?;
        let subtype = span.attributes.text(SUBTYPE).unwrap_or(span_type);
        let is_root = span.attributes.get("genkit:isRoot").and_then(Value::as_bool) == Some(true);
        let found = Recognized::by_name(SUBTYPES, subtype, "an inner flow or Genkit's machinery");
        let runs_something = matches!(subtype, "flow" | "util" | "prompt" | "executable-prompt" | "action");
        Some(match found.kind {
            Kind::Transparent if is_root && runs_something => {
                Recognized { kind: Kind::Agent, rule: "the root of a run" }
            }
            _ => found,
        })
    }

    fn read<'s>(&self, span: &'s Span<'_>, reading: &mut Reading<'s>) {
        if reading.dialect != NAME {
            return;
        }
        reading.framework = Some(NAME);
        let name = span.attributes.text(SPAN_NAME).unwrap_or(&span.name);
        let input = span.attributes.get(INPUT).map(Value::parse_json).unwrap_or_default();
        let output = span.attributes.get(OUTPUT).map(Value::parse_json).unwrap_or_default();
        match reading.kind {
            Kind::Agent => {
                reading.add(Fact::AgentName, name, SPAN_NAME);
                reading.add(Fact::Goal, goal_of(input), INPUT);
                reading.add(Fact::Summary, summary_of(output), OUTPUT);
            }
            Kind::Model => read_call(name, &input, &output, reading),
            Kind::Tool => {
                reading.add(Fact::ToolName, name, SPAN_NAME);
                reading.add(Fact::ToolInput, input, INPUT);
                reading.add(Fact::ToolOutput, output, OUTPUT);
            }
            _ => {}
        }
    }
}

/// What a flow was given; of a request to a model its last question.
fn goal_of(input: Json) -> Json {
    let asked = input.get("messages").or_else(|| input.get("prompt"));
    asked.cloned().and_then(last_question).map_or(input, Json::String)
}

/// What a flow gave; of an answer of a model its text.
fn summary_of(output: Json) -> Json {
    let answer = output.get("message").cloned().and_then(normalize_answer);
    answer.as_ref().and_then(text_of).map_or(output, Json::String)
}

fn read_call(name: &str, input: &Json, output: &Json, reading: &mut Reading<'_>) {
    // `googleai/gemini-2.5-flash`: the plugin and its model.
    if let Some((plugin, _)) = name.split_once('/') {
        reading.add(Fact::Provider, plugin, SPAN_NAME);
    }
    reading.add(Fact::RequestModel, name, SPAN_NAME);
    reading.add(Fact::InputMessages, input["messages"].clone(), INPUT);
    reading.add(Fact::ToolDefinitions, input["tools"].clone(), INPUT);
    if output["message"].is_object() {
        reading.add(Fact::OutputMessages, json!([output["message"]]), OUTPUT);
    }
    reading.add(Fact::FinishReasons, output["finishReason"].clone(), OUTPUT);
    for (fact, member) in [
        (Fact::InputTokens, "inputTokens"),
        (Fact::OutputTokens, "outputTokens"),
        (Fact::CacheReadTokens, "cachedContentTokens"),
        (Fact::ReasoningTokens, "thoughtsTokens"),
    ] {
        reading.add(fact, output["usage"][member].clone(), OUTPUT);
    }
}
