//! Events out of the program, as log records into a real Collector, and out of its file again: the events of the spool.

use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::{Map, Value};

use super::collector::Collector;
use super::support;
use super::support::programs::assert_same;
use super::support::serving::wait_until;

#[test]
#[ignore = "needs a Collector: .ci/run has it"]
fn events_come_back_from_the_collector_over_grpc() {
    come_back("grpc", |collector| format!("http://{}", collector.grpc));
}

#[test]
#[ignore = "needs a Collector: .ci/run has it"]
fn events_come_back_from_the_collector_over_http() {
    come_back("http/protobuf", |collector| format!("http://{}", collector.http));
}

fn come_back(protocol: &str, url: impl Fn(&Collector) -> String) {
    let folder = tempfile::tempdir().unwrap();
    let written = folder.path().join("events").join("events.jsonl");
    let collector =
        Collector::start("events-as-logs.yaml", folder.path(), &[("EVENTS_FILE", written.to_str().unwrap())]);
    let spool = folder.path().join("spool");
    let mut program = Command::new(env!("CARGO_BIN_EXE_failproof-otel"));
    program.arg("convert").args(recordings());
    program.arg("--to").arg(format!("spool:{}", spool.display()));
    program.arg("--to").arg(format!("otlp-logs:{}", url(&collector)));
    program.arg("--queue-dir").arg(folder.path().join("queues")).env("OTEL_EXPORTER_OTLP_PROTOCOL", protocol);
    assert!(program.status().unwrap().success(), "the Collector took everything");

    let files = std::fs::read_dir(&spool).unwrap().map(|entry| entry.unwrap().path());
    let expected = support::parse_lines(&files.map(|file| std::fs::read_to_string(file).unwrap()).collect::<String>());
    assert!(expected.len() > 200, "{} events", expected.len());
    let events = || events_in(&std::fs::read_to_string(&written).unwrap_or_default());
    wait_until("the Collector has written everything", || events().len() >= expected.len());
    collector.stop();
    assert_same(&events(), &expected, protocol);
}

/// Recordings of all frameworks but Pydantic AI.
fn recordings() -> Vec<PathBuf> {
    let list =
        |folder: &Path| std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect::<Vec<_>>();
    let folders = list(&support::fixtures("frameworks")).into_iter().filter(|path| path.is_dir());
    let files = folders.flat_map(|folder| list(&folder));
    files.filter(|path| path.to_string_lossy().ends_with(".spans.json.zst")).collect()
}

/// The bodies of the records in what the file exporter wrote.
fn events_in(lines: &str) -> Vec<Value> {
    let list = |value: &Value, name: &str| value[name].as_array().cloned().unwrap_or_default();
    let exports: Vec<Value> = lines.lines().filter_map(|line| serde_json::from_str(line).ok()).collect();
    let resources = exports.iter().flat_map(|export| list(export, "resourceLogs"));
    let records = resources.flat_map(|logs| list(&logs, "scopeLogs")).flat_map(|scope| list(&scope, "logRecords"));
    let event = |record: Value| {
        let event = value_of(&record["body"]);
        assert_eq!(record["eventName"], format!("failproof.{}", event["type"].as_str().unwrap()));
        assert_eq!(record["traceId"], event["fw_trace_id"]);
        event
    };
    records.map(event).collect()
}

/// An `AnyValue` in JSON as the value that it stands for.
fn value_of(any: &Value) -> Value {
    let Some((kind, value)) = any.as_object().and_then(|any| any.iter().next()) else { return Value::Null };
    let list = || value["values"].as_array().cloned().unwrap_or_default();
    match kind.as_str() {
        "intValue" => Value::from(value.as_str().unwrap().parse::<i64>().unwrap()),
        "doubleValue" => Value::from(value.as_f64().unwrap()),
        "arrayValue" => list().iter().map(value_of).collect(),
        "kvlistValue" => {
            let fields =
                list().into_iter().map(|pair| (pair["key"].as_str().unwrap().to_owned(), value_of(&pair["value"])));
            Value::Object(fields.collect::<Map<_, _>>())
        }
        _ => value.clone(),
    }
}
