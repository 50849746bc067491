//! Pydantic AI's own instrumentation.
//!
//! Emitted by: `pydantic-ai` 2.0 to 2.68, instrumentation versions 2 to 6, also through Logfire and with OpenInference's
//! attributes on top. Detected by: scope `pydantic-ai`.
//! Agent: operation `invoke_agent`; the name is the literal `agent` when the application gave none. Model: `chat`.
//! Tool: `execute_tool`, except output functions. Session: `gen_ai.conversation.id`. Errors: `exception` events; deferrals
//! by attribute since version 5. Success: `final_result` is there; without content the messages tell.
//! Known gaps: the prompt of a request that never got an answer; arguments as validated; `SkipToolExecution`.

use std::borrow::Cow;

use serde::Deserialize;
use serde_json::{Map, Value as Json};

use super::messages::{normalize_messages, text_of};
use super::reading::Completion;
use super::{About, Dialect, Fact, Kind, Reading, Recognized};
use crate::span::{Span, parse_json_text};

const SCOPE: &str = "pydantic-ai";
const FINAL_RESULT: &str = "final_result";
const REQUEST_PARAMETERS: &str = "model_request_parameters";
/// The name of a `FallbackModel` starts so; the models that it tries follow.
const FALLBACK: &str = "fallback:";
/// `logfire.msg` of an execution of an output function; the span's own name in instrumentation version 2.
const OUTPUT_FUNCTION: &str = "running output function";

pub(super) struct PydanticAi;

impl Dialect for PydanticAi {
    fn about(&self) -> &'static About {
        &About {
            name: "pydantic_ai",
            emitted_by: "Pydantic AI (instrumentation versions 2 to 6), also through Logfire or with OpenInference on top",
            verified: "pydantic-ai 2.0, 2.20, 2.68; logfire 5.4; openinference-instrumentation-pydantic-ai 0.1.30",
            gaps: "the prompt of a request without an answer; arguments after validation; a skipped tool looks executed",
        }
    }

    fn keys(&self) -> &'static [(Fact, &'static [&'static str])] {
        &[
            (Fact::AgentName, &["gen_ai.agent.name", "agent_name"]),
            (Fact::RunId, &["gen_ai.agent.call.id"]),
            (Fact::ConversationId, &["gen_ai.conversation.id"]),
            (Fact::Summary, &[FINAL_RESULT]),
            (Fact::History, &["pydantic_ai.all_messages"]),
            (Fact::NewMessageIndex, &["pydantic_ai.new_message_index"]),
            (Fact::Metadata, &["metadata"]),
            (Fact::RequestModel, &["gen_ai.request.model", "model_name"]),
            (Fact::InputTokens, &["gen_ai.aggregated_usage.input_tokens"]),
            (Fact::OutputTokens, &["gen_ai.aggregated_usage.output_tokens"]),
            (
                Fact::CacheReadTokens,
                &[
                    "gen_ai.aggregated_usage.cache_read.input_tokens",
                    "gen_ai.aggregated_usage.details.cache_read_tokens",
                ],
            ),
            (
                Fact::CacheWriteTokens,
                &[
                    "gen_ai.aggregated_usage.cache_creation.input_tokens",
                    "gen_ai.aggregated_usage.details.cache_write_tokens",
                ],
            ),
            (Fact::ReasoningTokens, &["gen_ai.aggregated_usage.details.reasoning_tokens"]),
            (Fact::Cost, &["operation.cost"]),
            (Fact::TimeToFirstChunk, &["gen_ai.client.operation.time_to_first_chunk"]),
            (Fact::ToolInput, &["gen_ai.tool.call.arguments", "tool_arguments"]),
            (Fact::ToolOutput, &["gen_ai.tool.call.result", "tool_response"]),
            (Fact::FailureStage, &["pydantic_ai.tool.failure_stage"]),
            (Fact::Deferral, &["pydantic_ai.tool.deferral.name"]),
        ]
    }

    fn recognize(&self, span: &Span<'_>) -> Option<Recognized> {
        if span.scope.name != SCOPE {
            return None;
        }
        let (kind, rule) = match span.attributes.text("gen_ai.operation.name") {
            _ if span.attributes.text("logfire.span_type") == Some("pending_span") => {
                (Kind::Transparent, "Logfire's copy of a span that has not ended")
            }
            Some("invoke_agent") => (Kind::Agent, "operation invoke_agent"),
            Some("chat") => (Kind::Model, "operation chat"),
            Some("execute_tool") if is_output_function(span) => (Kind::Transparent, "output function: no tool"),
            Some("execute_tool") => (Kind::Tool, "operation execute_tool"),
            Some("embeddings") => (Kind::Transparent, "embeddings give no event"),
            _ => (Kind::Transparent, "Pydantic AI's machinery: attempts of a request, waiting"),
        };
        Some(Recognized { kind, rule })
    }

    fn read<'s>(&self, span: &'s Span<'_>, reading: &mut Reading<'s>) {
        if span.scope.name != SCOPE {
            return;
        }
        reading.framework = Some("pydantic_ai");
        match reading.kind {
            Kind::Agent => read_run(span, reading),
            Kind::Model => read_request(span, reading),
            Kind::Tool => read_tool(span, reading),
            Kind::Hook | Kind::Human | Kind::Transparent => {}
        }
    }
}

fn is_output_function(span: &Span<'_>) -> bool {
    span.name.starts_with(OUTPUT_FUNCTION)
        || span.attributes.text("logfire.msg").is_some_and(|message| message.starts_with(OUTPUT_FUNCTION))
}

fn read_run<'s>(span: &'s Span<'_>, reading: &mut Reading<'s>) {
    reading.usage_is_own = true;
    let history = reading.json(Fact::History).unwrap_or_default();
    reading.completion = if span.attributes.get(FINAL_RESULT).is_some() {
        Completion::Reached
    } else if holds_content(&history) {
        Completion::NotReached
    } else {
        Completion::Hidden
    };
    // A fallback model's requests carry the name of the model that answered.
    if let Some(model) = reading.text(Fact::RequestModel).filter(|model| model.starts_with(FALLBACK)) {
        let model = model.into_owned();
        reading.add(Fact::AskedModel, model, "model_name of the run");
    }
    let index = reading.int(Fact::NewMessageIndex).and_then(|index| usize::try_from(index).ok()).unwrap_or(0);
    let messages = normalize_messages(history);
    let (prompt, positions) = own_prompt(&messages, index);
    // A history that a processor has trimmed no longer tells where the run's own messages start.
    let is_trimmed = index > positions || messages.first().is_some_and(|message| message["role"] == "assistant");
    reading.goes_on_without_goal = prompt.is_none() && !messages.is_empty() && !is_trimmed;
    if let Some(prompt) = prompt {
        reading.add(Fact::Goal, prompt, "first user message of the run's own messages");
    }
}

/// Whether the messages were recorded with their content.
fn holds_content(history: &Json) -> bool {
    let parts = history.as_array().into_iter().flatten().filter_map(|message| message["parts"].as_array()).flatten();
    parts.into_iter().any(|part| ["content", "arguments", "result", "uri"].iter().any(|key| part.get(key).is_some()))
}

/// The first user message at or after the run's own first message, and how many of the model's messages there are: an
/// answer is one, and so is a request, which shows as one message or as a system and a user message. Content without any
/// text is told as JSON.
fn own_prompt(messages: &[Json], index: usize) -> (Option<String>, usize) {
    let mut prompt = None;
    let mut positions = 0;
    let mut previous_role = "";
    for message in messages {
        let role = message["role"].as_str().unwrap_or_default();
        let goes_on = matches!(previous_role, "system" | "tool") && role != "assistant";
        if !goes_on {
            positions += 1;
        }
        previous_role = role;
        if prompt.is_none() && positions > index && role == "user" {
            prompt = prompt_of(&message["content"]);
        }
    }
    (prompt, positions)
}

fn prompt_of(content: &Json) -> Option<String> {
    let said_by_user = |block: &&Json| block["type"] != "tool_result";
    text_of(content).or_else(|| {
        let blocks: Vec<&Json> = content.as_array()?.iter().filter(said_by_user).collect();
        let is_media = |block: &&&Json| block["type"] != "text";
        blocks.iter().any(|block| is_media(&block)).then(|| serde_json::to_string(&blocks).ok()).flatten()
    })
}

fn read_request<'s>(span: &'s Span<'_>, reading: &mut Reading<'s>) {
    reading.absent_tokens_are_zero = true;
    let streamed = reading.has(Fact::TimeToFirstChunk);
    if streamed || times_first_chunks(&span.scope.version) {
        reading.add(Fact::Streaming, streamed, "time to first chunk is there for streams alone");
    }
    if let Some(model) = span.name.strip_prefix("chat ") {
        reading.add(Fact::RequestModel, model, "span name");
    }
    let Some(parameters) = span.attributes.text(REQUEST_PARAMETERS) else { return };
    // The schemas of all tools stand there too, often the largest part of a span: only names and kinds are taken out.
    let listed: ListedTools<'_> = serde_json::from_str(parameters).unwrap_or_default();
    let tools = listed.function_tools.into_iter().chain(listed.output_tools);
    let kinds: Map<String, Json> = tools.map(|tool| (tool.name.into_owned(), tool.kind.into())).collect();
    if !kinds.is_empty() {
        reading.add(Fact::ToolKinds, kinds, REQUEST_PARAMETERS);
    }
    if !reading.has(Fact::ToolDefinitions) {
        let parameters = parse_json_text(parameters);
        let groups = ["function_tools", "output_tools"].into_iter().filter_map(|group| parameters[group].as_array());
        let tools: Vec<Json> = groups.flatten().cloned().collect();
        if !tools.is_empty() {
            reading.add(Fact::ToolDefinitions, tools, REQUEST_PARAMETERS);
        }
    }
}

/// The tools of a request, as `model_request_parameters` lists them.
#[derive(Default, Deserialize)]
#[serde(default)]
struct ListedTools<'a> {
    #[serde(borrow)]
    function_tools: Vec<ListedTool<'a>>,
    #[serde(borrow)]
    output_tools: Vec<ListedTool<'a>>,
}

#[derive(Deserialize)]
struct ListedTool<'a> {
    #[serde(borrow)]
    name: Cow<'a, str>,
    #[serde(borrow, default)]
    kind: Cow<'a, str>,
}

/// Whether that release tells the time to the first chunk of every stream: 2.20 does, 2.0 does not.
fn times_first_chunks(version: &str) -> bool {
    let mut numbers = version.split('.').map(|number| number.parse::<u32>().unwrap_or(0));
    (numbers.next(), numbers.next()) >= (Some(2), Some(20))
}

fn read_tool<'s>(span: &'s Span<'_>, reading: &mut Reading<'s>) {
    reading.results_are_typed = true;
    reading.add(Fact::ToolKind, "function", "every tool that is not listed otherwise");
    // Version 2 names the tool in an attribute like all others; a text output's function has no name but the span's.
    if let Some(name) = span.name.strip_prefix("execute_tool ") {
        reading.add(Fact::ToolName, name, "span name");
    }
    // A failed tool's result is the text that the model got to see, a deferred one has none.
    if reading.has(Fact::Deferral) {
        reading.remove(Fact::ToolOutput);
    }
}
