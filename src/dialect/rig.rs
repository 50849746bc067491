//! rig, the Rust agent crate.
//!
//! Emitted by: `rig` / `rig-core` 0.24 to 0.44 through `tracing-opentelemetry`, with the application's own scope.
//! Detected by: the target of the span, `rig::…`, `rig_agent::…` or `rig_core::…`.
//! Agent: `invoke_agent`; there is none if the run started inside another span, then the calls alone name the agent.
//! Model: every operation but the two others. Tool: `execute_tool`; its name and id are set while it runs. Session: none.
//! Errors: tools tell them by attribute (0.44) or in the result's text (0.38); nothing tells of a failed run or call but
//! what it lacks.
//! Known gaps: why a call or a run failed; runs of `rig-core` up to 0.38 that do not stream have each span in a trace of its
//! own; content is off by default since 0.44; numbers arrive as text, and keys twice.

use super::{About, Dialect, Fact, Kind, Reading, Recognized};
use crate::span::{Span, Value};

const NAME: &str = "rig";
/// Where `tracing-opentelemetry` writes a span's target, newest first.
const TARGET_KEYS: [&str; 3] = ["target", "code.module.name", "code.namespace"];
const TARGETS: [&str; 3] = ["rig::", "rig_agent::", "rig_core::"];
/// How `rig-core` starts the result of a tool that failed.
const FAILED_RESULT: &str = "Toolset error: ";
const PROMPT: &str = "gen_ai.prompt";
const COMPLETION: &str = "gen_ai.completion";
const UNKNOWN: &str = "no answer, and rig does not record why";

const OPERATIONS: &[(&str, Kind, &str)] = &[
    ("invoke_agent", Kind::Agent, "operation invoke_agent"),
    ("execute_tool", Kind::Tool, "operation execute_tool"),
    ("chat", Kind::Model, "operation chat"),
    ("chat_streaming", Kind::Model, "operation chat_streaming"),
    ("generate_content", Kind::Model, "operation generate_content"),
    ("generate_content_streaming", Kind::Model, "operation generate_content_streaming"),
    ("text_completion", Kind::Model, "operation text_completion"),
    ("interactions", Kind::Model, "operation interactions"),
    ("interactions_streaming", Kind::Model, "operation interactions_streaming"),
];

pub(super) struct Rig;

impl Dialect for Rig {
    fn about(&self) -> &'static About {
        &About {
            name: NAME,
            emitted_by: "rig and rig-core 0.24 to 0.44, through tracing-opentelemetry",
            verified: "rig 0.44.0, rig-core 0.38.2",
            gaps: "why a call or a run failed; the session; up to 0.38, a run that does not stream is many traces of one span",
        }
    }

    fn keys(&self) -> &'static [(Fact, &'static [&'static str])] {
        &[(Fact::CacheReadTokens, &["gen_ai.usage.cache_read.input_tokens", "gen_ai.usage.cached_tokens"])]
    }

    fn recognize(&self, span: &Span<'_>) -> Option<Recognized> {
        let target = TARGET_KEYS.iter().find_map(|key| span.attributes.text(key))?;
        if !TARGETS.iter().any(|prefix| target.starts_with(prefix)) {
            return None;
        }
        let operation = span.attributes.text("gen_ai.operation.name").unwrap_or_default();
        Some(Recognized::by_name(OPERATIONS, operation, "rig's machinery"))
    }

    fn read<'s>(&self, span: &'s Span<'_>, reading: &mut Reading<'s>) {
        if reading.dialect != NAME {
            return;
        }
        reading.framework = Some(NAME);
        // What is not there was lost to a limit, or never written.
        let is_whole = span.dropped_attributes == 0 && span.end.is_some();
        match reading.kind {
            Kind::Agent => {
                // Elsewhere these two hold messages.
                for (fact, key) in [(Fact::Goal, PROMPT), (Fact::Summary, COMPLETION)] {
                    reading.add(fact, span.attributes.get(key).and_then(Value::as_str), key);
                }
                if is_whole && did_not_finish(span) {
                    reading.add(Fact::ErrorMessage, UNKNOWN, "no end of the run");
                }
            }
            Kind::Model => {
                if span.name.ends_with("_streaming") {
                    reading.add(Fact::Streaming, true, "span name");
                }
                let answers = [Fact::ResponseId, Fact::ResponseModel, Fact::OutputTokens, Fact::OutputMessages];
                if is_whole && !answers.into_iter().any(|fact| reading.has(fact)) {
                    reading.add(Fact::ErrorMessage, UNKNOWN, "nothing of an answer");
                }
            }
            Kind::Tool => read_tool(span, reading),
            _ => {}
        }
    }
}

/// Whether a run shows that it did not come to its end: its content is recorded and the answer is missing, or its log has a
/// beginning and no end.
fn did_not_finish(span: &Span<'_>) -> bool {
    if span.attributes.get(PROMPT).is_some() && span.attributes.get(COMPLETION).is_none() {
        return true;
    }
    let began = span.events.iter().any(|event| event.name.starts_with("Current conversation"));
    let ended =
        span.events.iter().any(|event| event.name.ends_with("finished") || event.name.starts_with("Depth reached"));
    began && !ended && span.attributes.get("gen_ai.usage.output_tokens").is_none()
}

fn read_tool<'s>(span: &'s Span<'_>, reading: &mut Reading<'s>) {
    let result = span.attributes.get("gen_ai.tool.call.result").and_then(Value::as_str).unwrap_or_default();
    match span.attributes.text("gen_ai.tool.call.outcome") {
        Some(outcome @ ("error" | "denied")) => {
            let kind = span.attributes.text("gen_ai.tool.error.type").unwrap_or(outcome);
            reading.add(Fact::ErrorType, kind, "gen_ai.tool.error.type");
            reading.add(Fact::ErrorMessage, result, "gen_ai.tool.call.result");
        }
        // Left out by a hook: the tool did not run.
        Some(outcome @ "skipped") => reading.add(Fact::Deferral, outcome, "gen_ai.tool.call.outcome"),
        Some(_) => {}
        None => {
            if let Some(message) = result.strip_prefix(FAILED_RESULT) {
                reading.add(Fact::ErrorMessage, message, "gen_ai.tool.call.result");
            }
        }
    }
}
