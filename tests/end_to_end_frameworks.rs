//! Real programs of other frameworks, each with a scripted model, export through the OTLP exporters of their languages to
//! a running `failproof-otel serve`: the events in the spool tell what the programs did.
//!
//! All programs tell one story: `concierge` asks for the weather, fails to book a table for four, books one for two and asks
//! `researcher`, who asks for the weather too; then `forecaster` finds its model overloaded. What differs is the framework's:
//! how it words errors, and what its spans leave out.
#![cfg(all(feature = "cli", feature = "gateway"))]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod support;

use std::collections::{BTreeSet, HashMap};
use std::env;
use std::ffi::OsString;
use std::fmt::Write;
use std::path::Path;
use std::process::Command;

use serde_json::Value;
use support::serving::Gateway;

const SESSION: &str = "trip-42";

#[test]
#[ignore = "needs Python with LangGraph: .ci/run has it"]
fn langgraph_with_openinference() {
    let program = python("langgraph.py");
    tells(
        program,
        "langchain",
        |gateway| &gateway.grpc,
        r#"
concierge starts: Plan a day in Lisbon.
concierge asks scripted-1 (10 + 1): weather {"city":"Lisbon"}
concierge passes graph_node model: success
concierge calls weather call_1 {"city":"Lisbon"}: sunny in Lisbon
concierge passes graph_node tools: success
concierge asks scripted-1 (20 + 2): book_table {"people":4}
concierge passes graph_node model: success
concierge calls book_table call_2 {"people":4}: failed, ValueError: no table for 4
concierge passes graph_node tools: success
concierge asks scripted-1 (30 + 3): book_table {"people":2}
concierge passes graph_node model: success
concierge calls book_table call_3 {"people":2}: a table for 2
concierge passes graph_node tools: success
concierge asks scripted-1 (40 + 4): ask_researcher {"question":"Is Sintra cooler?"}
concierge passes graph_node model: success
concierge calls ask_researcher call_4 {"question":"Is Sintra cooler?"}: Sintra is cooler.
concierge passes graph_node tools: success
concierge asks scripted-1 (50 + 5): All is planned.
concierge passes graph_node model: success
concierge ends, success (150 + 15): All is planned.
researcher starts under concierge: Is Sintra cooler?
researcher asks scripted-1 (10 + 1): weather {"city":"Sintra"}
researcher passes graph_node model: success
researcher calls weather call_5 {"city":"Sintra"}: sunny in Sintra
researcher passes graph_node tools: success
researcher asks scripted-1 (20 + 2): Sintra is cooler.
researcher passes graph_node model: success
researcher ends, success (30 + 3): Sintra is cooler.
forecaster starts: Will it rain?
forecaster asks scripted-1: failed, RuntimeError: the model is overloaded
forecaster passes graph_node model: failed, RuntimeError: the model is overloaded
forecaster error RuntimeError: the model is overloaded
forecaster ends, failed
"#,
    );
}

/// The spans of agents hang under the trace's root, so that the agent that called `researcher` is unknown; and
/// a call that failed has neither model nor messages.
#[test]
#[ignore = "needs Python with OpenAI Agents: .ci/run has it"]
fn openai_agents_with_openllmetry() {
    let program = python("openai_agents.py");
    tells(
        program,
        "openai_agents",
        |gateway| &gateway.http,
        r#"
concierge starts: Plan a day in Lisbon.
concierge asks scripted-concierge (10 + 1): weather {"city":"Lisbon"}
concierge calls weather call_1 {"city":"Lisbon"}: sunny in Lisbon
concierge asks scripted-concierge (20 + 2): book_table {"people":4}
concierge calls book_table call_2 {"people":4}: failed, {'message': 'Error running tool (non-fatal)', 'data': {'tool_name': 'book_table', 'error': 'Tool execution failed. Error details are redacted.'}}
concierge asks scripted-concierge (30 + 3): book_table {"people":2}
concierge calls book_table call_3 {"people":2}: a table for 2
concierge asks scripted-concierge (40 + 4): ask_researcher {"input":"Is Sintra cooler?"}
concierge calls ask_researcher call_4 {"input":"Is Sintra cooler?"}: Sintra is cooler.
concierge asks scripted-concierge (50 + 5): All is planned.
concierge ends, success (150 + 15): All is planned.
researcher starts: Is Sintra cooler?
researcher asks scripted-researcher (10 + 1): weather {"city":"Sintra"}
researcher calls weather call_5 {"city":"Sintra"}: sunny in Sintra
researcher asks scripted-researcher (20 + 2): Sintra is cooler.
researcher ends, success (30 + 3): Sintra is cooler.
forecaster starts
forecaster asks an unknown model: failed, {'message': 'Error getting response', 'data': {'error': 'Error code: 500 - the model is overloaded'}}
forecaster error Error: {'message': 'Error in agent run', 'data': {'error': 'Error code: 500 - the model is overloaded'}}
forecaster ends, failed
"#,
    );
}

#[test]
#[ignore = "needs Node.js with the AI SDK: .ci/run has it"]
fn vercel_ai() {
    let folder = place("FAILPROOF_VERCEL_AI", "the folder of tests/record/vercel-ai, installed");
    let mut program = Command::new("node");
    program.arg(Path::new(&folder).join("run.mjs"));
    tells(
        program,
        "vercel_ai",
        |gateway| &gateway.http,
        r#"
concierge starts: Plan a day in Lisbon.
concierge asks scripted-1 (10 + 1): weather {"city":"Lisbon"}
concierge calls weather call_1 {"city":"Lisbon"}: sunny in Lisbon
concierge asks scripted-1 (20 + 2): book_table {"people":4}
concierge calls book_table call_2 {"people":4}: failed, RangeError: no table for 4
concierge asks scripted-1 (30 + 3): book_table {"people":2}
concierge calls book_table call_3 {"people":2}: a table for 2
concierge asks scripted-1 (40 + 4): ask_researcher {"question":"Is Sintra cooler?"}
concierge calls ask_researcher call_4 {"question":"Is Sintra cooler?"}: Sintra is cooler.
concierge asks scripted-1 (50 + 5): All is planned.
concierge ends, success (150 + 15): All is planned.
researcher starts under concierge: Is Sintra cooler?
researcher asks scripted-1 (10 + 1): weather {"city":"Sintra"}
researcher calls weather call_5 {"city":"Sintra"}: sunny in Sintra
researcher asks scripted-1 (20 + 2): Sintra is cooler.
researcher ends, success (30 + 3): Sintra is cooler.
forecaster starts: Will it rain?
forecaster asks scripted-1: failed, TypeError: the model is overloaded
forecaster error TypeError: the model is overloaded
forecaster ends, failed
"#,
    );
}

/// An agent that is a tool has no span of its own: its calls name it. No span says why a call or a run failed.
#[test]
#[ignore = "needs the built program of tests/record/rig: .ci/run has it"]
fn rig() {
    let program = Command::new(place("FAILPROOF_RIG", "the built program of tests/record/rig"));
    tells(
        program,
        "rig",
        |gateway| &gateway.grpc,
        r#"
concierge starts: Plan a day in Lisbon.
concierge asks scripted-1 (10 + 1): weather {"city":"Lisbon"}
concierge calls weather call_1 {"city":"Lisbon"}: sunny in Lisbon
concierge asks scripted-1 (20 + 2): book_table {"people":4}
concierge calls book_table call_2 {"people":4}: failed, other: the tool failed
concierge asks scripted-1 (30 + 3): book_table {"people":2}
concierge calls book_table call_3 {"people":2}: a table for 2
concierge asks scripted-1 (40 + 4): researcher {"prompt":"Is Sintra cooler?"}
concierge calls researcher call_4 {"prompt":"Is Sintra cooler?"}: Sintra is cooler.
concierge asks scripted-1 (50 + 5): All is planned.
concierge ends, success (150 + 15): All is planned.
researcher starts under concierge: Is Sintra cooler?
researcher asks scripted-1 (10 + 1): weather {"city":"Sintra"}
researcher calls weather call_5 {"city":"Sintra"}: sunny in Sintra
researcher asks scripted-1 (20 + 2): Sintra is cooler.
researcher ends, success (30 + 3): Sintra is cooler.
forecaster starts: Will it rain?
forecaster asks scripted-1: failed, no answer, and rig does not record why
forecaster error Error: no answer, and rig does not record why
forecaster ends, failed
"#,
    );
}

fn python(program: &str) -> Command {
    let mut command = Command::new(place("FAILPROOF_PYTHON", "a Python with both files of tests/record/requirements*"));
    command.arg(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/record/frameworks").join(program));
    command
}

fn place(variable: &str, what: &str) -> OsString {
    env::var_os(variable).unwrap_or_else(|| panic!("{variable} names {what}"))
}

/// Runs the program against a gateway: the events of its one session tell the story.
fn tells(mut program: Command, framework: &str, address: impl Fn(&Gateway) -> &String, expected: &str) {
    let folder = tempfile::tempdir().unwrap();
    let gateway = Gateway::start(folder.path());
    let run = program
        .env("OTEL_EXPORTER_OTLP_ENDPOINT", format!("http://{}", address(&gateway)))
        // For those whose spans name no session; the others say the same one themselves.
        .env("OTEL_RESOURCE_ATTRIBUTES", format!("failproof.session_id={SESSION}"))
        .status();
    assert!(run.unwrap().success(), "the program did what it should");
    let events = gateway.stop();
    let all = |field: &str| -> BTreeSet<&str> { events.iter().map(|event| text(event, field)).collect() };
    assert_eq!(all("session_id"), BTreeSet::from([SESSION]));
    assert_eq!(all("framework"), BTreeSet::from([framework]));
    assert_eq!(all("fw_trace_id").len(), 2, "a trace for each run");
    let told = story(&events);
    assert!(told == expected, "what the events tell is: {told}");
}

/// The events in words, agent after agent in the order of their starts; what has a start and an end is one line.
fn story(events: &[Value]) -> String {
    let mut agents: Vec<(&str, String)> = Vec::new();
    let mut begun: HashMap<&str, &Value> = HashMap::new();
    for event in events {
        let agent = text(event, "agent_id");
        let line = match text(event, "type") {
            "agent_start" => {
                agents.push((agent, String::new()));
                let parent = event.get("parent_id").map_or(String::new(), |parent| format!(" under {}", words(parent)));
                format!("starts{parent}{}", after_colon(event, "goal"))
            }
            "model_request" => {
                begun.insert(text(event, "request_id"), event);
                continue;
            }
            "model_response" => {
                let request = begun[text(event, "request_id")];
                let models = [request, event].into_iter().find_map(|half| half["model"].as_str());
                let model = models.unwrap_or("an unknown model");
                format!("asks {model}{}{}", tokens(event), result(event, "content"))
            }
            "tool_use" => {
                begun.insert(text(event, "tool_call_id"), event);
                continue;
            }
            "tool_result" => {
                let (name, id) = (text(event, "tool_name"), text(event, "tool_call_id"));
                format!("calls {name} {id} {}{}", begun[id]["input"], result(event, "output"))
            }
            "hook_triggered" => {
                begun.insert(text(event, "hook_id"), event);
                continue;
            }
            "hook_completed" => {
                let trigger = text(begun[text(event, "hook_id")], "trigger_event");
                let error = event["error"].as_str().map_or(String::new(), |error| format!(", {error}"));
                format!("passes {trigger} {}: {}{error}", text(event, "hook_name"), text(event, "outcome"))
            }
            "error" => format!("error {}: {}", text(event, "error_type"), text(event, "message")),
            "agent_end" => {
                let tokens = event.get("usage").map_or(String::new(), tokens);
                format!("ends, {}{tokens}{}", text(event, "outcome"), after_colon(event, "summary"))
            }
            other => panic!("the programs have no {other}"),
        };
        let (_, lines) = agents.iter_mut().rfind(|(name, _)| *name == agent).unwrap();
        writeln!(lines, "{agent} {line}").unwrap();
    }
    let lines: String = agents.into_iter().map(|(_, lines)| lines).collect();
    format!("\n{lines}")
}

fn text<'v>(event: &'v Value, field: &str) -> &'v str {
    event[field].as_str().unwrap_or_else(|| panic!("{field} of {event}"))
}

fn after_colon(event: &Value, field: &str) -> String {
    event.get(field).map_or(String::new(), |value| format!(": {}", words(value)))
}

fn result(event: &Value, field: &str) -> String {
    event["error"].as_str().map_or_else(|| after_colon(event, field), |error| format!(": failed, {error}"))
}

fn tokens(usage: &Value) -> String {
    let count = |field: &str| usage[field].as_u64();
    count("input_tokens")
        .zip(count("output_tokens"))
        .map_or(String::new(), |(input, output)| format!(" ({input} + {output})"))
}

/// Text as it is; what a model said or asked for, block by block.
fn words(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Array(blocks) => blocks.iter().map(words).collect::<Vec<_>>().join("; "),
        block if block["type"] == "text" => words(&block["text"]),
        block if block["type"] == "tool_use" => format!("{} {}", text(block, "name"), block["input"]),
        other => other.to_string(),
    }
}
