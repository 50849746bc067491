//! A real Pydantic AI program, the official adapter beside it, exports over OTLP to a running `failproof-otel serve`: the
//! events in the spool agree with those of the adapter by the rules of the parity test.
#![cfg(all(feature = "cli", feature = "gateway"))]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::print_stderr)]

mod support;

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use serde_json::Value;
use support::parity::differences::differences;
use support::parity::{Report, compare};
use support::recorded::just_recorded;

/// `failproof-otel serve` with a spool of its own, on ports that are free.
struct Gateway {
    process: Child,
    grpc: String,
    http: String,
    spool: PathBuf,
}

impl Gateway {
    fn start(folder: &Path) -> Self {
        let spool = folder.join("spool");
        let mut process = Command::new(env!("CARGO_BIN_EXE_failproof-otel"))
            .args(["serve", "--grpc", "127.0.0.1:0", "--http", "127.0.0.1:0", "--grace", "500ms", "--to"])
            .arg(format!("spool:{}", spool.display()))
            .env("NO_COLOR", "1")
            .env_remove("RUST_LOG")
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(process.stderr.take().unwrap()).lines().map(Result::unwrap);
        let mut address = |transport: &str| {
            let line = lines.find(|line| line.contains(&format!("OTLP/{transport} on "))).unwrap();
            line.split(" on ").nth(1).unwrap().split(',').next().unwrap().to_owned()
        };
        let (grpc, http) = (address("gRPC"), address("HTTP"));
        // Read on, or the program would wait for a reader of its log.
        std::thread::spawn(move || lines.for_each(|line| eprintln!("{line}")));
        Gateway { process, grpc, http, spool }
    }

    /// Ends it by `SIGTERM`; all that it held is in the spool then.
    fn stop(mut self) -> Vec<Value> {
        let terminated = Command::new("kill").arg(self.process.id().to_string()).status().unwrap();
        assert!(terminated.success());
        assert!(self.process.wait().unwrap().success(), "the gateway has ended well");
        let mut files: Vec<PathBuf> =
            std::fs::read_dir(&self.spool).unwrap().map(|entry| entry.unwrap().path()).collect();
        files.sort();
        assert!(files.iter().all(|file| file.extension().is_some_and(|extension| extension == "jsonl")), "{files:?}");
        let lines: String = files.iter().map(|file| std::fs::read_to_string(file).unwrap()).collect();
        assert_eq!(support::contract::check(&lines), Ok(()));
        support::parse_lines(&lines)
    }
}

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
