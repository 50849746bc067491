//! Real Pydantic AI programs that export over OTLP.

use std::collections::HashMap;
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
    for (recording, events) in &found {
        assert!(!events.is_empty(), "{} left events", recording.name());
        assert_eq!(sorted(events), sorted(&recording.events()), "{}", recording.name());
    }
    found
}

/// Events as text, in an order that does not depend on when they came.
pub fn sorted(events: &[Value]) -> Vec<String> {
    let mut lines: Vec<String> = events.iter().map(Value::to_string).collect();
    lines.sort();
    lines
}
