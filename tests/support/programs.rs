//! Real Pydantic AI programs that export over OTLP.

use std::collections::{BTreeMap, HashMap};
use std::path::Path;
use std::process::Command;

use serde_json::Value;

use super::recorded::{Recording, just_recorded};

/// Runs the recorder's programs against an endpoint; what each exported, and what the official adapter said of it.
pub fn run_pydantic_ai(folder: &Path, transport: &str, endpoint: &str) -> &'static [Recording] {
    let python =
        std::env::var("FAILPROOF_PYTHON").expect("FAILPROOF_PYTHON names a Python with tests/record/requirements.txt");
    let recorder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/record/record.py");
    let run =
        Command::new(python).arg(recorder).args(["--set", "e2e", transport, endpoint, "--out"]).arg(folder).status();
    assert!(run.unwrap().success(), "every program ran, and every span of it was taken");
    let recordings = just_recorded(folder);
    assert!(recordings.len() >= 12, "{} programs", recordings.len());
    recordings
}

/// The events of each recording. Over the wire or from the file: the same spans have to give the same events.
pub fn by_recording<'r>(recordings: &'r [Recording], events: &[Value]) -> Vec<(&'r Recording, Vec<Value>)> {
    let of_trace: HashMap<String, usize> = recordings
        .iter()
        .enumerate()
        .flat_map(|(at, recording)| recording.trace_ids().into_iter().map(move |trace| (trace, at)))
        .collect();
    let mut found: Vec<(&Recording, Vec<Value>)> = recordings.iter().map(|recording| (recording, Vec::new())).collect();
    for event in events {
        let at = event["fw_trace_id"].as_str().and_then(|trace| of_trace.get(trace));
        found[*at.expect("an event of a program")].1.push(event.clone());
    }
    for (recording, events) in &mut found {
        in_order_of_traces(events);
        assert!(!events.is_empty(), "{} left events", recording.name());
        assert_same(events.as_slice(), &recording.events(), &recording.name());
    }
    found
}

/// Traces that become complete together are written in the order of their ids: here in that of their starts, as the official
/// adapter tells them.
fn in_order_of_traces(events: &mut [Value]) {
    let mut starts: HashMap<String, String> = HashMap::new();
    let text = |event: &Value, field: &str| event[field].as_str().unwrap_or_default().to_owned();
    for event in &*events {
        starts.entry(text(event, "fw_trace_id")).or_insert_with(|| text(event, "timestamp"));
    }
    // A stable sort: within a trace their order stays as it came.
    events.sort_by_key(|event| starts[&text(event, "fw_trace_id")].clone());
}

/// Asserts that they are the same events, each as often, in whatever order they came.
pub fn assert_same(found: &[Value], expected: &[Value], what: &str) {
    let mut counts: BTreeMap<String, i64> = BTreeMap::new();
    for (events, each) in [(found, 1), (expected, -1)] {
        for event in events {
            *counts.entry(event.to_string()).or_default() += each;
        }
    }
    counts.retain(|_, count| *count != 0);
    let lost = counts.values().filter(|count| **count < 0).count();
    let few: Vec<_> = counts.iter().take(6).collect();
    assert!(counts.is_empty(), "{what}: {lost} lost, {} foreign or doubled, such as {few:#?}", counts.len() - lost);
}
