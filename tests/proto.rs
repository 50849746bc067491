//! Events as protobuf: `events.proto` says what the table of fields says, and JSON comes back byte for byte.
#![cfg(feature = "grpc")]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod support;

use std::path::Path;

use opentelemetry_failproof::event::{Event, EventType, Shape};
use opentelemetry_failproof::{Policy, encode, proto};
use proptest::prelude::*;
use serde_json::{Map, Value, json};
use support::recorded::{Recording, of_frameworks, recordings};

/// The message of a line, which comes back as the same line.
fn there_and_back(line: &str) -> proto::Event {
    let event = proto::Event::from_json(line.as_bytes()).unwrap_or_else(|error| panic!("{error}: {line}"));
    assert_eq!(event.to_json().unwrap_or_else(|error| panic!("{error}: {line}")), line);
    event
}

fn all() -> impl Iterator<Item = &'static Recording> {
    recordings().iter().chain(of_frameworks())
}

#[test]
fn events_of_every_recording_come_back_and_all_that_is_declared_is_typed() {
    let mut lines = 0;
    for line in all().flat_map(|recording| recording.lines().lines()) {
        let event = there_and_back(line);
        lines += 1;
        assert!(event.payload.is_some() && event.time_unix_nano.is_some(), "{line}");
        assert_eq!(event.member_order, [""; 0], "{line}");
        for extra in event.extras {
            assert!(
                extra.name.starts_with("fw_")
                    || extra.name.contains("framework")
                    || extra.name == "integration_version",
                "{}: {line}",
                extra.name
            );
        }
    }
    assert!(lines > 8_000, "{lines}");
}

#[test]
fn events_of_the_official_adapters_come_back() {
    let (mut lines, mut reordered) = (0, 0);
    for official in all().flat_map(|recording| &recording.official) {
        let event = there_and_back(&official.to_string());
        lines += 1;
        reordered += usize::from(!event.member_order.is_empty());
        assert!(event.payload.is_some() && event.time_unix_nano.is_some(), "{official}");
    }
    // Some have their `usage` before their `duration_ms`.
    assert!(lines > 8_000 && reordered > 50, "{lines} {reordered}");
}

#[test]
fn events_proto_says_what_the_table_says() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("proto");
    let files = protox::compile(["failproof/events/v1/events.proto"], [folder]).unwrap();
    let messages = &files.file[0].message_type;
    let message =
        |name: &str| messages.iter().find(|message| message.name() == name).unwrap_or_else(|| panic!("no {name}"));
    let payloads: Vec<(i32, String)> = message("Event")
        .field
        .iter()
        .filter(|field| field.oneof_index == Some(0))
        .map(|field| (field.number(), field.name().to_owned()))
        .collect();
    let expected: Vec<(i32, String)> = (10..).zip(EventType::ALL.map(|kind| kind.name().to_owned())).collect();
    assert_eq!(payloads, expected);
    for kind in EventType::ALL {
        let camel: String = kind.name().split('_').map(|word| word[..1].to_uppercase() + &word[1..]).collect();
        let found: Vec<(i32, &str, &str)> = message(&camel)
            .field
            .iter()
            .map(|field| {
                let name = field.type_name().rsplit('.').next().unwrap_or_default();
                let of_type = if name.is_empty() { field.r#type().as_str_name() } else { name };
                (field.number(), field.name(), of_type)
            })
            .collect();
        let declared = kind.required().iter().chain(kind.optional());
        let expected: Vec<(i32, &str, &str)> = (1..)
            .zip(declared)
            .map(|(number, field)| {
                let of_type = match field.shape() {
                    Shape::Text | Shape::Name => "TYPE_STRING",
                    Shape::U32 => "TYPE_UINT32",
                    Shape::Object => "Object",
                    Shape::Objects => "ObjectList",
                    Shape::Texts => "TextList",
                    Shape::Any => "Value",
                };
                (number, field.name(), of_type)
            })
            .collect();
        assert_eq!(found, expected, "{camel}");
    }
}

fn json(depth: u32) -> BoxedStrategy<Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<u64>().prop_map(Value::from),
        any::<u32>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        (-1e15..1e15).prop_map(|number: f64| Value::from(number.round())),
        ".{0,12}".prop_map(Value::from),
        Just(Value::from("2026-01-02T03:04:05.678901Z")),
        Just(Value::from("2026-01-02T03:04:05Z")),
    ];
    leaf.prop_recursive(depth, 24, 4, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::vec((".{0,6}", inner), 0..4)
                .prop_map(|members| Value::Object(members.into_iter().collect::<Map<_, _>>())),
        ]
    })
    .boxed()
}

/// Any name that some type declares, and others.
fn name() -> impl Strategy<Value = String> {
    let declared = EventType::ALL.into_iter().flat_map(|kind| kind.required().iter().chain(kind.optional()));
    let mut names: Vec<String> = declared.map(|field| field.name().to_owned()).collect();
    names.extend(["timestamp", "session_id", "agent_id", "environment", "fw_x", "framework", ""].map(str::to_owned));
    prop::sample::select(names)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2_000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_object_comes_back(
        kind in prop::sample::select(EventType::ALL.to_vec()),
        kind_at in 0_usize..8,
        members in prop::collection::vec((name(), json(4)), 0..12),
    ) {
        let mut members: Vec<(String, Value)> = members;
        // Sometimes no type at all.
        if kind_at < 7 {
            members.insert(kind_at.min(members.len()), ("type".to_owned(), kind.name().into()));
        }
        let object: Map<String, Value> = members.into_iter().collect();
        let event = there_and_back(&Value::Object(object).to_string());
        prop_assert_eq!(event.payload.is_some(), kind_at < 7);
    }
}

fn taken_over(line: &str) -> String {
    let members = serde_json::from_str(line).unwrap();
    let event = Event::from_members(members).unwrap_or_else(|error| panic!("{error}: {line:.300}"));
    String::from_utf8(encode([event], Policy::default())).unwrap()
}

#[test]
fn a_gateway_behind_a_gateway_changes_nothing() {
    let lines = all().flat_map(|recording| recording.lines().split_inclusive('\n'));
    for line in lines.filter(|line| line.len() < 100_000) {
        assert_eq!(taken_over(line), line);
    }
    // What is cut is not cut again.
    let many = |count: usize| (0..count).map(|at| (format!("k{at}"), at.into())).collect::<Map<_, _>>();
    let deep = (0..9).fold(json!("x".repeat(9_000)), |value, _| json!({ "a": [value] }));
    let mut object = json!({
        "timestamp": "2026-01-02T03:04:05.678901Z", "session_id": "s".repeat(9_000), "agent_id": "a", "type": "tool_result",
        "tool_name": "bash", "tool_call_id": "1", "environment": "dev",
        "output": [vec![7; 300], many(150), deep, "é".repeat(8_193)],
    });
    let mut request = object.clone();
    object.as_object_mut().unwrap().extend(many(120).into_iter().map(|(name, value)| (format!("fw_{name}"), value)));
    request["type"] = "model_request".into();
    request["tools"] = vec![json!({"name": "t"}); 130].into();
    for name in ["tool_name", "tool_call_id", "output"] {
        request.as_object_mut().unwrap().remove(name);
    }
    for (event, told) in
        [(object, ",\"…\":\"[20 more keys truncated]\""), (request, ",{\"…\":\"[30 more items truncated]\"}]")]
    {
        let once = taken_over(&event.to_string());
        assert!(once.ends_with(",\"fw_truncated\":true}\n") && once.contains(told), "{once:.300}");
        assert!(taken_over(&once) == once, "{once:.300}");
    }
}

#[test]
fn what_the_official_adapters_write_is_taken() {
    for official in all().flat_map(|recording| &recording.official) {
        taken_over(&official.to_string());
    }
}
