//! An event as a log record: its type is the name, the event itself, field by field, the body.

use opentelemetry_proto::tonic::collector::logs::v1::ExportLogsServiceRequest;
use opentelemetry_proto::tonic::common::v1::any_value::Value as Any;
use opentelemetry_proto::tonic::common::v1::{AnyValue, ArrayValue, InstrumentationScope, KeyValue, KeyValueList};
use opentelemetry_proto::tonic::logs::v1::{LogRecord, ResourceLogs, ScopeLogs, SeverityNumber};
use opentelemetry_proto::tonic::resource::v1::Resource;
use serde_json::{Map, Value};

use crate::event::parse_timestamp;

/// Fields that stand as attributes too, under their names in the semantic conventions: what records are found by.
const ATTRIBUTES: [(&str, &str); 6] = [
    ("session_id", "session.id"),
    ("agent_id", "gen_ai.agent.name"),
    ("tool_name", "gen_ai.tool.name"),
    ("tool_call_id", "gen_ai.tool.call.id"),
    ("model", "gen_ai.request.model"),
    ("error_type", "error.type"),
];
/// What an event carries of the resource of its spans.
const ENVIRONMENT: &str = "deployment.environment.name";
/// The outcomes that count as failures.
const FAILURES: [&str; 4] = ["failed", "error", "timeout", "rejected"];

type Event = Map<String, Value>;

/// Lines as one request, and how many of them are no events.
pub(super) fn request(lines: &[u8]) -> (ExportLogsServiceRequest, i64) {
    let mut resource_logs: Vec<(String, Vec<LogRecord>)> = Vec::new();
    let mut unreadable = 0;
    for line in lines.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()) {
        let Ok(event) = serde_json::from_slice::<Event>(line) else {
            unreadable += 1;
            continue;
        };
        let environment = text(&event, "environment").to_owned();
        match resource_logs.iter_mut().find(|(found, _)| *found == environment) {
            Some((_, records)) => records.push(record(event)),
            None => resource_logs.push((environment, vec![record(event)])),
        }
    }
    let resource_logs = resource_logs.into_iter().map(of_one_resource).collect();
    (ExportLogsServiceRequest { resource_logs }, unreadable)
}

fn of_one_resource((environment, log_records): (String, Vec<LogRecord>)) -> ResourceLogs {
    let scope = InstrumentationScope {
        name: env!("CARGO_PKG_NAME").to_owned(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        ..Default::default()
    };
    let attributes = vec![key_value(ENVIRONMENT, Value::String(environment))];
    ResourceLogs {
        resource: Some(Resource { attributes, ..Default::default() }),
        scope_logs: vec![ScopeLogs { scope: Some(scope), log_records, ..Default::default() }],
        ..Default::default()
    }
}

fn record(event: Event) -> LogRecord {
    let time = parse_timestamp(text(&event, "timestamp")).unwrap_or_default();
    let (severity, severity_text) =
        if is_failure(&event) { (SeverityNumber::Error, "ERROR") } else { (SeverityNumber::Info, "INFO") };
    let attributes =
        ATTRIBUTES.iter().filter_map(|(field, name)| Some(key_value(name, event.get(*field)?.clone()))).collect();
    LogRecord {
        time_unix_nano: time,
        // The same spans give the same record.
        observed_time_unix_nano: time,
        severity_number: severity.into(),
        severity_text: severity_text.to_owned(),
        event_name: format!("failproof.{}", text(&event, "type")),
        attributes,
        trace_id: id::<16>(text(&event, "fw_trace_id")),
        span_id: id::<8>(text(&event, "fw_span_id")),
        body: Some(any(Value::Object(event))),
        ..Default::default()
    }
}

/// An error, or the end of something that failed.
fn is_failure(event: &Event) -> bool {
    event.contains_key("error") || text(event, "type") == "error" || FAILURES.contains(&text(event, "outcome"))
}

fn text<'a>(event: &'a Event, field: &str) -> &'a str {
    event.get(field).and_then(Value::as_str).unwrap_or_default()
}

/// The bytes of an id; none if it is not one.
fn id<const BYTES: usize>(hex: &str) -> Vec<u8> {
    let digits = hex.as_bytes().chunks_exact(2);
    let bytes = digits.map(|pair| u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok());
    bytes
        .collect::<Option<Vec<u8>>>()
        .filter(|bytes| bytes.len() == BYTES && hex.len() == 2 * BYTES)
        .unwrap_or_default()
}

fn key_value(key: &str, value: Value) -> KeyValue {
    KeyValue { key: key.to_owned(), value: Some(any(value)), ..Default::default() }
}

/// A value as OTLP has it; nothing at all is null.
fn any(value: Value) -> AnyValue {
    let value = match value {
        Value::Null => None,
        Value::Bool(value) => Some(Any::BoolValue(value)),
        Value::Number(number) => match number.as_i64() {
            Some(number) => Some(Any::IntValue(number)),
            None => number.as_f64().map(Any::DoubleValue),
        },
        Value::String(text) => Some(Any::StringValue(text)),
        Value::Array(values) => Some(Any::ArrayValue(ArrayValue { values: values.into_iter().map(any).collect() })),
        Value::Object(fields) => {
            let values = fields.into_iter().map(|(key, value)| key_value(&key, value)).collect();
            Some(Any::KvlistValue(KeyValueList { values }))
        }
    };
    AnyValue { value }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn records(lines: &str) -> Vec<LogRecord> {
        let (request, unreadable) = request(lines.as_bytes());
        assert_eq!(unreadable, 0);
        let scopes = request.resource_logs.into_iter().flat_map(|resource| resource.scope_logs);
        scopes.flat_map(|scope| scope.log_records).collect()
    }

    #[test]
    fn a_record_is_found_by_its_name_its_ids_and_its_attributes() {
        let line = r#"{"timestamp":"2026-01-02T03:04:05.678901Z","session_id":"s-1","agent_id":"shop","type":"tool_result","tool_name":"stock","tool_call_id":"c-1","environment":"prod","output":{"b":null,"a":[1,2.5,true]},"fw_trace_id":"0102030405060708090a0b0c0d0e0f10","fw_span_id":"a1a2a3a4a5a6a7a8"}"#;
        let [record] = records(line).try_into().unwrap();
        assert_eq!(record.event_name, "failproof.tool_result");
        assert_eq!(record.time_unix_nano, 1_767_323_045_678_901_000);
        assert_eq!((record.severity_number, record.severity_text.as_str()), (9, "INFO"));
        assert_eq!(record.trace_id, (1..=16).collect::<Vec<u8>>());
        assert_eq!(record.span_id, (0xa1..=0xa8).collect::<Vec<u8>>());
        let attributes = |text: &str| AnyValue { value: Some(Any::StringValue(text.to_owned())) };
        let found: Vec<_> = record.attributes.into_iter().map(|pair| (pair.key, pair.value.unwrap())).collect();
        let expected = [
            ("session.id", "s-1"),
            ("gen_ai.agent.name", "shop"),
            ("gen_ai.tool.name", "stock"),
            ("gen_ai.tool.call.id", "c-1"),
        ];
        assert_eq!(found, expected.map(|(key, value)| (key.to_owned(), attributes(value))));
        let Some(AnyValue { value: Some(Any::KvlistValue(body)) }) = record.body else { panic!("no map") };
        let keys: Vec<_> = body.values.iter().map(|pair| pair.key.as_str()).collect();
        assert_eq!(keys[..4], ["timestamp", "session_id", "agent_id", "type"], "in their order");
    }

    #[test]
    fn errors_and_failed_ends_are_errors() {
        for (event, severity) in [
            (r#"{"type":"error","error_type":"E","message":"m"}"#, 17),
            (r#"{"type":"agent_end","outcome":"failed"}"#, 17),
            (r#"{"type":"hook_completed","outcome":"rejected"}"#, 17),
            (r#"{"type":"tool_result","error":"no"}"#, 17),
            (r#"{"type":"agent_end","outcome":"success"}"#, 9),
            (r#"{"type":"agent_end","outcome":"cancelled"}"#, 9),
            (r#"{"type":"tool_result","output":"error"}"#, 9),
        ] {
            assert_eq!(records(event)[0].severity_number, severity, "{event}");
        }
    }

    #[test]
    fn ids_that_are_none_stay_out_and_lines_that_are_none_are_counted() {
        for id in ["", "0102", "xx02030405060708090a0b0c0d0e0f10", "0102030405060708090a0b0c0d0e0f1011"] {
            let line = format!(r#"{{"type":"agent_end","fw_trace_id":"{id}"}}"#);
            assert!(records(&line)[0].trace_id.is_empty(), "{id}");
        }
        let (request, unreadable) = request(b"{}\nnot\n[]\n");
        assert_eq!((request.resource_logs[0].scope_logs[0].log_records.len(), unreadable), (1, 2));
    }

    #[test]
    fn each_environment_is_a_resource() {
        let (request, _) = request(b"{\"environment\":\"a\"}\n{\"environment\":\"b\"}\n{\"environment\":\"a\"}\n");
        let counts: Vec<_> =
            request.resource_logs.iter().map(|resource| resource.scope_logs[0].log_records.len()).collect();
        assert_eq!(counts, [2, 1]);
    }
}
