//! A real Pydantic AI program, the official adapter beside it, exports over OTLP to a running `failproof-otel serve`: the
//! events in the spool agree with those of the adapter by the rules of the parity test.
#![cfg(all(feature = "cli", feature = "gateway"))]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::print_stderr)]

mod support;

use std::path::Path;
use std::process::Command;

use serde_json::Value;
use support::parity::differences::differences;
use support::parity::{Report, compare};
use support::recorded::just_recorded;
use support::serving::Gateway;

/// Runs the recorder's programs against the gateway; what the official adapter said of each is in the folder.
fn run_programs(folder: &Path, transport: &str, endpoint: &str) {
    let python =
        std::env::var("FAILPROOF_PYTHON").expect("FAILPROOF_PYTHON names a Python with tests/record/requirements.txt");
    let recorder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/record/record.py");
    let run =
        Command::new(python).arg(recorder).args(["--set", "e2e", transport, endpoint, "--out"]).arg(folder).status();
    assert!(run.unwrap().success(), "every program ran, and every span of it was taken");
}

fn agrees(transport: &str, endpoint: impl Fn(&Gateway) -> String) {
    let folder = tempfile::tempdir().unwrap();
    let gateway = Gateway::start(folder.path());
    let recordings = folder.path().join("recordings");
    run_programs(&recordings, transport, &endpoint(&gateway));
    let ours = gateway.stop();

    let mut report = Report::default();
    let mut compared = 0;
    for recording in just_recorded(&recordings) {
        let traces = recording.trace_ids();
        let is_of_recording =
            |event: &&Value| event["fw_trace_id"].as_str().is_some_and(|trace| traces.contains(trace));
        let of_recording: Vec<Value> = ours.iter().filter(is_of_recording).cloned().collect();
        assert!(!of_recording.is_empty(), "{} left events", recording.name());
        // Over the wire or from the file: the same spans, the same events.
        assert_eq!(sorted(&of_recording), sorted(&recording.events()), "{}", recording.name());
        compare(recording, &of_recording, &mut report);
        compared += 1;
    }
    assert!(compared >= 12, "{compared} programs");
    let (unexplained, _) = report.unexplained_and_stale(&differences());
    assert_eq!(unexplained, Vec::<String>::new());
}

fn sorted(events: &[Value]) -> Vec<String> {
    let mut lines: Vec<String> = events.iter().map(Value::to_string).collect();
    lines.sort();
    lines
}

#[test]
#[ignore = "needs Python with Pydantic AI: .ci/run has it"]
fn pydantic_ai_over_grpc_gives_what_the_official_adapter_gives() {
    agrees("--endpoint-grpc", |gateway| gateway.grpc.clone());
}

#[test]
#[ignore = "needs Python with Pydantic AI: .ci/run has it"]
fn pydantic_ai_over_http_gives_what_the_official_adapter_gives() {
    agrees("--endpoint-http", |gateway| format!("http://{}", gateway.http));
}
