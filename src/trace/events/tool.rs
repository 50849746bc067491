//! `tool_use` and `tool_result`.

use serde_json::{Value as Json, json};

use super::super::run::Run;
use super::{Leaf, Writer};
use crate::dialect::Fact;
use crate::event::{EventType, Field};

/// What a tool is called that has no name.
const UNNAMED: &str = "tool";

pub(super) fn write(writer: &mut Writer<'_, '_>, leaf: &Leaf<'_, '_>, run: &Run<'_, '_>) {
    let reading = leaf.reading;
    // Some frameworks set these while the tool runs: then its start is told with its end.
    if leaf.end.is_open && !(reading.has(Fact::ToolName) && reading.has(Fact::ToolCallId)) {
        return;
    }
    let name = reading.text(Fact::ToolName).map_or_else(|| UNNAMED.to_owned(), |name| name.into_owned());
    let call_id = run.call_id(leaf.at);
    let call_id = call_id.unwrap_or_else(|| leaf.node.span.span_id.to_string());

    let mut call = writer.of_leaf(leaf, EventType::ToolUse, 0);
    call.set(Field::ToolName, Some(name.as_str()));
    call.set(Field::ToolCallId, Some(call_id.as_str()));
    call.set(Field::Input, run.tool_input(leaf.at).map(as_object));
    call.extra("fw_tool_kind", run.tool_kind(leaf.at));
    call.extra("fw_run_step", Some(run.step(leaf.at)));
    call.extra("fw_failure_stage", reading.text(Fact::FailureStage).as_deref());
    writer.finish(call);

    if leaf.end.is_open {
        return;
    }
    let mut result = writer.of_leaf(leaf, EventType::ToolResult, 1);
    result.set(Field::ToolName, Some(name));
    result.set(Field::ToolCallId, Some(call_id));
    // A failure that nothing but the tool's result tells has that result all the same: the model got to see it.
    let has_output = leaf.is_complete() || (reading.has(Fact::ErrorMessage) && !leaf.end.incomplete);
    result.set(Field::Output, has_output.then(|| run.tool_output(leaf.at)).flatten());
    result.set(Field::Error, leaf.error());
    result.set(Field::DurationMs, leaf.duration_ms());
    result.extra("fw_failure_stage", reading.text(Fact::FailureStage).as_deref());
    result.extra("fw_control_flow", leaf.control_flow());
    result.extra("fw_incomplete", leaf.end.incomplete.then_some(true));
    writer.finish(result);
}

/// An input is always an object.
fn as_object(input: Json) -> Json {
    if input.is_object() { input } else { json!({ "value": input }) }
}
