//! `model_request` and `model_response`.

use std::borrow::Cow;

use serde_json::Value as Json;

use super::super::run::{Run, Usage};
use super::agent::add_cost;
use super::{Leaf, Writer};
use crate::dialect::Fact;
use crate::dialect::messages::{answer_role, instructions_text, normalize_answer, normalize_tools, system_of_messages};
use crate::event::{EventType, Field};

/// Who answers if the span does not say.
const ANSWER_ROLE: &str = "assistant";

pub(super) fn write(writer: &mut Writer<'_, '_>, leaf: &Leaf<'_, '_>, run: &Run<'_, '_>) {
    let reading = leaf.reading;
    // Some frameworks set the model and the messages later: then the start of the call is told with its end.
    if leaf.end.is_open && !reading.has(Fact::RequestModel) {
        return;
    }
    let messages = run.messages(leaf.at);
    let step = run.step(leaf.at);
    let request_id = leaf.node.span.span_id.to_string();
    let asked = run.asked_model().map(Cow::Owned).or_else(|| reading.text(Fact::RequestModel));

    let mut request = writer.of_leaf(leaf, EventType::ModelRequest, 0);
    request.set(Field::Model, asked.as_deref());
    request.set(Field::Messages, (!messages.is_empty()).then(|| messages.to_vec()));
    let instructions = reading.json(Fact::SystemInstructions).as_ref().and_then(instructions_text);
    request.set(Field::System, instructions.or_else(|| system_of_messages(messages)));
    let tools = reading.json(Fact::ToolDefinitions).map(normalize_tools).filter(|tools| !tools.is_empty());
    request.set(Field::Tools, tools);
    request.set(Field::RequestId, Some(request_id.as_str()));
    request.extra("fw_provider", reading.text(Fact::Provider).as_deref());
    request.extra("fw_run_step", Some(step));
    request.extra("fw_streaming", reading.flag(Fact::Streaming));
    writer.finish(request);

    if leaf.end.is_open {
        return;
    }
    let answered = leaf.is_complete();
    let mut response = writer.of_leaf(leaf, EventType::ModelResponse, 1);
    let answered_by = reading.text(Fact::ResponseModel).filter(|_| answered).or_else(|| match answered {
        true => reading.text(Fact::RequestModel),
        false => asked,
    });
    response.set(Field::Model, answered_by.as_deref());
    let answer = reading.json(Fact::OutputMessages).filter(|_| answered);
    let role = answer.as_ref().and_then(answer_role).unwrap_or(ANSWER_ROLE).to_owned();
    if answered {
        let stop_reason = stop_reason(reading.json(Fact::FinishReasons), answer.as_ref());
        let content = answer.and_then(normalize_answer);
        let said_something = content.as_ref().is_some_and(|content| content.as_array().is_none_or(|it| !it.is_empty()));
        // A stream that broke before its first chunk leaves an empty answer behind: no zeros, they are not known.
        let zero = (reading.absent_tokens_are_zero && (said_something || stop_reason.is_some())).then_some(0);
        let has_answer = content.is_some() || reading.has(Fact::ResponseModel);
        response.set(Field::StopReason, stop_reason);
        response.set(Field::InputTokens, reading.int(Fact::InputTokens).or(zero));
        response.set(Field::OutputTokens, reading.int(Fact::OutputTokens).or(zero));
        response.set(Field::Content, content);
        response.set(Field::Usage, Usage::of(reading).to_json(u64::from(has_answer), 0));
    }
    response.set(Field::Role, Some(role));
    response.set(Field::RequestId, Some(request_id));
    response.set(Field::Error, leaf.error());
    response.set(Field::DurationMs, leaf.duration_ms());
    response.extra("fw_provider", reading.text(Fact::Provider).as_deref().filter(|_| answered));
    response.extra("fw_provider_response_id", reading.text(Fact::ResponseId).as_deref().filter(|_| answered));
    response.extra("fw_run_step", (!leaf.end.incomplete).then_some(step));
    response.extra("fw_streaming", reading.flag(Fact::Streaming));
    let first_chunk = reading.number(Fact::TimeToFirstChunk).map(|seconds| (seconds * 1_000.0).round() as i64);
    response.extra("fw_ttft_ms", first_chunk);
    add_cost(&mut response, reading);
    response.extra("fw_control_flow", leaf.control_flow());
    response.extra("fw_incomplete", leaf.end.incomplete.then_some(true));
    writer.finish(response);
}

/// The first of the reasons, whether they come as a list or as text; else what the answer itself says.
fn stop_reason(reasons: Option<Json>, answer: Option<&Json>) -> Option<String> {
    let first = match reasons {
        Some(Json::Array(reasons)) => reasons.into_iter().next(),
        other => other,
    };
    let said = first.as_ref().and_then(Json::as_str).or_else(|| {
        let message = answer?.as_array().map_or(answer, |messages| messages.first())?;
        message.get("finish_reason")?.as_str()
    });
    said.filter(|reason| !reason.trim().is_empty()).map(str::to_owned)
}
