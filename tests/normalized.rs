//! Behind the Collector's `genainormalizer`, with its defaults: OpenLLMetry's own keys stay, and the keys of the semantic
//! conventions stand beside them. The processor is told here by its documented table of keys and values, on real recordings.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod support;

use opentelemetry_failproof::Policy;
use opentelemetry_failproof::span::{Attributes, Span, Value};
use opentelemetry_failproof::trace::Mapping;
use serde_json::Value as Json;
use support::recorded::of_frameworks;

const KEYS: &[(&str, &str)] = &[
    ("llm.usage.prompt_tokens", "gen_ai.usage.input_tokens"),
    ("llm.usage.completion_tokens", "gen_ai.usage.output_tokens"),
    ("llm.request.model", "gen_ai.request.model"),
    ("llm.response.model", "gen_ai.response.model"),
    ("llm.request.max_tokens", "gen_ai.request.max_tokens"),
    ("llm.request.temperature", "gen_ai.request.temperature"),
    ("llm.request.top_p", "gen_ai.request.top_p"),
    ("llm.top_k", "gen_ai.request.top_k"),
    ("llm.frequency_penalty", "gen_ai.request.frequency_penalty"),
    ("llm.presence_penalty", "gen_ai.request.presence_penalty"),
    ("llm.chat.stop_sequences", "gen_ai.request.stop_sequences"),
    ("llm.request.functions", "gen_ai.tool.definitions"),
    ("llm.response.finish_reason", "gen_ai.response.finish_reasons"),
    ("llm.response.stop_reason", "gen_ai.response.finish_reasons"),
    ("llm.request.type", OPERATION),
    ("traceloop.span.kind", OPERATION),
    ("traceloop.entity.name", "gen_ai.agent.name"),
    ("traceloop.entity.input", "gen_ai.input.messages"),
    ("traceloop.entity.output", "gen_ai.output.messages"),
];
const OPERATION: &str = "gen_ai.operation.name";
const OPERATIONS: &[(&str, &str)] = &[
    ("workflow", "invoke_workflow"),
    ("task", "invoke_agent"),
    ("agent", "invoke_agent"),
    ("tool", "execute_tool"),
    ("completion", "text_completion"),
    ("chat", "chat"),
    ("rerank", "retrieval"),
    ("embedding", "embeddings"),
];

/// The processor says of every span that the entity it is about is its agent: where OpenLLMetry itself names none, a
/// run is named after the class of its agent, and a call outside of any run after its tool.
const NAMED_ANEW: [&str; 5] = [
    "llamaindex-openllmetry/human_in_the_loop",
    "llamaindex-openllmetry/success",
    "llamaindex-openllmetry/tool_error",
    "mcp-openllmetry/tools_call",
    "openllmetry-langchain-js-0.27.0/success-one-tool",
];

#[test]
fn openllmetry_gives_the_same_events() {
    let recordings = of_frameworks().iter().filter(|recording| recording.scenario.contains("openllmetry"));
    let mut changed = 0;
    let mut named_anew = Vec::new();
    for recording in recordings {
        let spans = recording.spans();
        let normalized: Vec<Span<'static>> = spans.iter().cloned().map(normalized).collect();
        changed += usize::from(normalized != spans);
        let (before, after) =
            (recording.events(), support::events(&normalized, &Mapping::default(), Policy::default()));
        if after != before {
            named_anew.push(recording.name());
        }
        assert_eq!(without_names(after), without_names(before), "{}", recording.name());
    }
    assert!(changed > 10, "{changed} recordings were normalized");
    assert_eq!(named_anew, NAMED_ANEW);
}

fn without_names(mut events: Vec<Json>) -> Vec<Json> {
    for event in &mut events {
        event["agent_id"].take();
    }
    events
}

fn normalized(mut span: Span<'static>) -> Span<'static> {
    let found: Vec<(&str, Value<'static>)> = span
        .attributes
        .iter()
        .filter_map(|(key, value)| Some((KEYS.iter().find(|(from, _)| *from == key)?.1, value.clone())))
        .collect();
    for (key, value) in found {
        add(&mut span.attributes, key, value);
    }
    span
}

/// What stands there already stays.
fn add(attributes: &mut Attributes<'static>, key: &'static str, value: Value<'static>) {
    if attributes.get(key).is_some() {
        return;
    }
    let text = value.as_str().map(str::to_ascii_lowercase);
    let operation = OPERATIONS.iter().find(|(from, _)| key == OPERATION && text.as_deref() == Some(from));
    attributes.push(key, operation.map_or(value, |(_, operation)| Value::from(*operation)));
}
