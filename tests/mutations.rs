//! Damaged recordings: nothing panics, and whatever comes out is sound. And content that is not to be captured: nothing of
//! it leaves.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

#[path = "support/recordings.rs"]
mod recordings;
mod support;

use opentelemetry_failproof::otlp::file::read_file;
use opentelemetry_failproof::span::{Span, Value as Attribute};
use opentelemetry_failproof::trace::{Mapping, explain};
use opentelemetry_failproof::{Config, Policy};
use recordings::*;
use serde_json::{Value, json};
use support::invariants;
use support::spans::*;

const MUTATIONS: u64 = 1_000;

/// The lines of a file's bytes, whatever they are; sound as far as its spans have ended.
fn lines_of(bytes: &[u8]) -> String {
    let spans = read_file(bytes).spans;
    let lines = support::lines(&spans, &Mapping::default(), Policy::default());
    assert!(
        lines.lines().all(|line| serde_json::from_str::<Value>(line).is_ok_and(|line| line.is_object())),
        "{lines}"
    );
    assert_eq!(explain(&spans, &Mapping::default()).is_empty(), spans.is_empty());
    if spans.iter().all(|span| span.end.is_some()) {
        assert_eq!(invariants::check(&lines), Ok(()));
    }
    lines
}

/// Flips a bit, cuts, inserts or swaps two pieces, a few times over.
fn damage(bytes: &mut Vec<u8>, numbers: &mut Numbers) {
    for _ in 0..=numbers.below(4) {
        let (at, other) = (numbers.below(bytes.len()), numbers.below(bytes.len()));
        let length = numbers.below(200).min(bytes.len() - at.max(other));
        match numbers.below(5) {
            _ if bytes.is_empty() => {}
            0 => bytes[at] ^= 1 << numbers.below(8),
            1 => bytes.truncate(at),
            2 => drop(bytes.drain(at..at + length)),
            3 => drop(bytes.splice(at..at, (0..length).map(|_| numbers.next() as u8).collect::<Vec<_>>())),
            _ => {
                let (one, two) = (bytes[at..at + length].to_vec(), bytes[other..other + length].to_vec());
                bytes[at..at + length].copy_from_slice(&two);
                bytes[other..other + length].copy_from_slice(&one);
            }
        }
    }
}

#[test]
fn a_thousand_damaged_files_give_sound_events_and_no_panic() {
    let files: Vec<Vec<u8>> = recordings()
        .into_iter()
        .flat_map(|(_, json)| [protobuf_bytes(&request_of(&json)), json.into_bytes()])
        .collect();
    let mut with_events = 0;
    for seed in 0..MUTATIONS {
        let mut numbers = Numbers::from_seed(seed);
        let mut file = files[numbers.below(files.len())].clone();
        damage(&mut file, &mut numbers);
        with_events += usize::from(!lines_of(&file).is_empty());
    }
    assert!(with_events > 100, "only {with_events} files gave events: too much damage to see anything");
}

/// Every value inside, itself the first.
fn paths(value: &Value, here: &str, found: &mut Vec<String>) {
    found.push(here.to_owned());
    match value {
        Value::Array(items) => {
            items.iter().enumerate().for_each(|(at, item)| paths(item, &format!("{here}/{at}"), found))
        }
        Value::Object(members) => members.iter().for_each(|(key, item)| paths(item, &format!("{here}/{key}"), found)),
        _ => {}
    }
}

/// Changes one value inside as a careless producer would.
fn distort(document: &mut Value, numbers: &mut Numbers) {
    let mut found = Vec::new();
    paths(document, "", &mut found);
    let path = &found[numbers.below(found.len())];
    let other = document.pointer(&found[numbers.below(found.len())]).unwrap().clone();
    if numbers.below(5) == 0 {
        let (parent, key) = path.rsplit_once('/').unwrap_or_default();
        match document.pointer_mut(parent) {
            Some(Value::Object(members)) => drop(members.remove(key)),
            Some(Value::Array(items)) if !items.is_empty() => drop(items.remove(key.parse().unwrap_or(0))),
            _ => {}
        }
        return;
    }
    let lone = match other {
        Value::Array(items) => items.into_iter().next().unwrap_or_default(),
        other => other,
    };
    let choices = [
        Value::Null,
        json!(""),
        json!(" "),
        json!(0),
        json!(-1),
        json!(u64::MAX),
        json!(i64::MIN),
        json!(1e300),
        json!(0.5),
        json!("1e999"),
        json!("18446744073709551615"),
        json!(true),
        json!([]),
        json!({}),
        json!([null]),
        json!({"stringValue": 7}),
        json!({"arrayValue": {}}),
        json!("\u{0}\u{2028}\u{feff}"),
        json!("x".repeat(10_000)),
        lone,
    ];
    *document.pointer_mut(path).unwrap() = choices[numbers.below(choices.len())].clone();
}

#[test]
fn a_thousand_distorted_documents_give_sound_events_and_no_panic() {
    let documents: Vec<Value> = recordings().iter().map(|(_, json)| serde_json::from_str(json).unwrap()).collect();
    let mut with_events = 0;
    for seed in 0..MUTATIONS {
        let mut numbers = Numbers::from_seed(seed);
        let mut document = documents[numbers.below(documents.len())].clone();
        for _ in 0..=numbers.below(8) {
            distort(&mut document, &mut numbers);
        }
        with_events += usize::from(!lines_of(document.to_string().as_bytes()).is_empty());
    }
    assert!(with_events > 500, "only {with_events} documents gave events");
}

/// Letters that stand in content and nowhere else: what is found of them has leaked.
const MARK: char = '蟹';

fn marked(text: &str) -> String {
    text.chars().map(|_| MARK).collect()
}

/// The value with all texts inside marked, but for what has to be read: roles, types, names and ids.
fn mark(value: &mut Value) {
    match value {
        Value::String(text) => *text = marked(text),
        Value::Array(items) => items.iter_mut().for_each(mark),
        Value::Object(members) => {
            members
                .iter_mut()
                .filter(|(key, _)| !["role", "type", "name", "id", "kind", "finish_reason"].contains(&key.as_str()))
                .for_each(|(_, item)| mark(item));
        }
        _ => {}
    }
}

/// Attributes that hold what a user said or a model answered, or what went to and came from a tool.
#[rustfmt::skip]
const CONTENT: [&str; 20] = [
    "gen_ai.input.messages", "gen_ai.output.messages", "gen_ai.system_instructions", "gen_ai.tool.definitions", "gen_ai.prompt", "gen_ai.completion",
    "gen_ai.tool.call.arguments", "gen_ai.tool.call.result", "gen_ai.retrieval.query.text", "gen_ai.retrieval.documents",
    "gen_ai.memory.query.text", "gen_ai.memory.records", "tool_arguments", "tool_response", "final_result", "pydantic_ai.all_messages",
    "model_request_parameters", "failproof.goal", "failproof.summary", "input.value",
];

/// The text of a content attribute, marked.
fn mark_text(text: &str) -> String {
    match serde_json::from_str::<Value>(text) {
        Ok(mut json @ (Value::Array(_) | Value::Object(_))) => {
            mark(&mut json);
            json.to_string()
        }
        _ => marked(text),
    }
}

fn without_content() -> Config {
    Config::new().with_capture_content(false)
}

fn lines_under(spans: &[Span<'_>], config: &Config) -> String {
    support::lines(spans, config.mapping(), config.policy())
}

#[test]
fn no_content_of_a_recording_leaves_when_it_is_not_to_be_captured() {
    for (name, recording) in recordings() {
        let mut spans = support::spans_of(recording.as_bytes());
        for span in &mut spans {
            let marked = |key: &str, value: &Attribute<'static>| match value {
                Attribute::Text(text) if CONTENT.contains(&key) => Attribute::from(mark_text(text)),
                other => other.clone(),
            };
            span.attributes = span.attributes.iter().map(|(key, value)| (key.to_owned(), marked(key, value))).collect();
        }
        assert!(lines_under(&spans, &Config::new()).contains(MARK), "{name}: the marks can be seen");
        assert!(!lines_under(&spans, &without_content()).contains(MARK), "{name}");
    }
}

/// A span of any kind with every content attribute and event that there is.
fn full(span: Span<'static>, shape: &str) -> Span<'static> {
    let secret = marked("twelve bolts");
    let content = shape.replace("SECRET", &secret);
    // A text among the definitions of tools is a tool's name.
    let keys = CONTENT.iter().filter(|key| **key != "gen_ai.tool.definitions" || !content.starts_with("[\""));
    let span = keys.fold(span, |span, key| span.with(key, content.as_str()));
    let messages = [
        "gen_ai.system.message",
        "gen_ai.user.message",
        "gen_ai.assistant.message",
        "gen_ai.tool.message",
        "gen_ai.choice",
    ];
    let span = messages
        .iter()
        .fold(span, |span, name| span.event(name, texts(&[("content", &secret), ("message", &content)])));
    let fields = ["goal", "summary", "messages", "system", "input", "output", "content", "prompt", "response"];
    let ids = [("tool_name", "t"), ("tool_call_id", "c"), ("hook_name", "h"), ("hook_id", "i"), ("input_id", "i")];
    [
        "agent_start",
        "agent_end",
        "tool_use",
        "tool_result",
        "model_request",
        "model_response",
        "hook_triggered",
        "hook_completed",
        "human_wait",
        "human_input",
    ]
    .iter()
    .fold(span, |span, kind| {
        let declared = opentelemetry_failproof::event::EventType::from_name(kind).unwrap();
        let said = fields
            .iter()
            .map(|field| (*field, content.as_str()))
            .chain(ids)
            .filter(|(field, _)| declared.field(field).is_some());
        span.event(&format!("failproof.{kind}"), texts(&said.collect::<Vec<_>>()))
    })
}

#[test]
fn no_content_of_any_kind_of_span_leaves_when_it_is_not_to_be_captured() {
    let shapes = [
        "SECRET",
        r#"["SECRET"]"#,
        r#"{"SECRET":"SECRET"}"#,
        r#"[{"role":"user","parts":[{"type":"text","content":"SECRET"},{"type":"tool_call","id":"c","name":"t","arguments":{"SECRET":"SECRET"}}]}]"#,
        r#"[{"type":"function","name":"t","description":"SECRET","parameters":{"SECRET":"SECRET"}}]"#,
        r#"{"function_tools":[{"name":"t","description":"SECRET"}]}"#,
    ];
    let kinds = [
        agent(2, "a"),
        model(2, "m"),
        tool(2, "t"),
        operation(2, "retrieval", "docs"),
        operation(2, "search_memory", "notes"),
        span(2, "job").with("failproof.agent_id", "a"),
    ];
    let by_hand =
        ["agent", "model", "tool", "hook", "human", "none"].map(|kind| span(2, "job").with("failproof.kind", kind));
    for (kind, shape) in kinds.iter().chain(&by_hand).flat_map(|kind| shapes.map(|shape| (kind, shape))) {
        for scope in ["pydantic-ai", "elsewhere"] {
            let spans =
                [agent(1, "root").scope(scope, "2.68.0"), full(kind.clone(), shape).scope(scope, "2.68.0").under(1)];
            let lines = lines_under(&spans, &without_content());
            assert!(!lines.contains(MARK), "{} {shape}\n{lines}", kind.name);
        }
    }
}

#[test]
fn names_ids_durations_tokens_outcomes_and_error_texts_stay_without_content() {
    let call = tool(3, "stock").under(1).raises("ValueError", "no such item");
    let spans = [
        agent(1, "a").raises("ValueError", "no such item"),
        model(2, "m").under(1).with("gen_ai.usage.input_tokens", 3),
        call,
    ];
    let events = events_with(&spans, &without_content());
    assert_eq!(story(&events), story_of(&spans));
    assert_eq!(only(&events, "model_response")["input_tokens"], 3);
    assert_eq!(
        (&only(&events, "tool_result")["error"], &only(&events, "tool_result")["duration_ms"]),
        (&json!("ValueError: no such item"), &json!(994))
    );
    let error = only(&events, "error");
    assert_eq!(error["message"], "no such item");
    assert!(error["traceback"].as_str().unwrap().ends_with("ValueError: no such item"));
}
