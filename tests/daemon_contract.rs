//! What a daemon takes from a spool, file by file: one checker for a spool that we wrote and for one that the official SDK
//! wrote, so that it asks of us what the SDK does, and no less.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod support;

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;

use opentelemetry_failproof::Policy;
use opentelemetry_failproof::event::parse_timestamp;
use opentelemetry_failproof::sink::{Home, Sink, Spool};
use opentelemetry_failproof::trace::Mapping;
use serde_json::Value;

const LINE_BYTES: usize = 4 << 20;
const FILE_BYTES: usize = 8 << 20;

/// The events of the spool in a Failproof home, every file of which is as the daemon wants it.
fn taken_from(home: &Path) -> Vec<Value> {
    let spool = home.join("custom-agents/events");
    assert_eq!(mode(&spool), 0o700, "the directory is for its owner alone");
    let mut files: Vec<_> = fs::read_dir(&spool).unwrap().map(|entry| entry.unwrap()).collect();
    files.sort_by_key(fs::DirEntry::file_name);
    let mut events = Vec::new();
    for file in files {
        let (name, path) = (file.file_name().into_string().unwrap(), file.path());
        check_name(&name);
        assert!(file.file_type().unwrap().is_file(), "{name}");
        assert_eq!(mode(&path), 0o600, "{name}");
        let text = fs::read_to_string(&path).unwrap();
        assert!((1..=FILE_BYTES).contains(&text.len()), "{name} has {} bytes", text.len());
        assert!(text.ends_with('\n'), "{name} ends within a line");
        for line in text.split_terminator('\n') {
            assert!(line.len() < LINE_BYTES && !line.contains('\r'), "{name}");
            events.push(checked(line));
        }
    }
    events
}

/// `event-2026-01-02T03-04-05-678Z-4711-0.jsonl`
fn check_name(name: &str) {
    let stem = name.strip_suffix(".jsonl").unwrap_or_else(|| panic!("{name} is no finished batch"));
    assert!(!stem.contains('.'), "{name}: what stands behind a dot is the daemon's");
    let parts: Vec<&str> = stem.splitn(2, 'Z').collect();
    let [time, writer] = parts.as_slice() else { panic!("{name} has no time") };
    let shape: String = time.chars().map(|char| if char.is_ascii_digit() { '0' } else { char }).collect();
    assert_eq!(shape, "event-0000-00-00T00-00-00-000", "{name}");
    let numbers: Vec<_> = writer.trim_start_matches('-').split('-').map(str::parse::<u64>).collect();
    assert!(numbers.len() >= 2 && numbers.iter().all(Result::is_ok), "{name} has no process and number");
}

fn checked(line: &str) -> Value {
    let event: Value = serde_json::from_str(line).unwrap();
    let text = |name: &str| event[name].as_str().unwrap_or_else(|| panic!("{name} of {line}"));
    for name in ["session_id", "agent_id", "type", "environment"] {
        assert!(!text(name).trim().is_empty(), "{name} of {line}");
    }
    assert!(parse_timestamp(text("timestamp")).is_some() && !text("environment").contains(','), "{line}");
    event
}

fn mode(path: &Path) -> u32 {
    fs::symlink_metadata(path).unwrap().permissions().mode() & 0o7777
}

#[test]
fn what_we_write_a_daemon_takes() {
    let home = tempfile::tempdir().unwrap();
    let mut spool = Spool::open(Home::new(home.path()).spool()).unwrap();
    let mut written = 0;
    let mut all = String::new();
    for recording in support::recorded::recordings().iter().step_by(40) {
        let lines = support::lines(&recording.spans(), &Mapping::default(), Policy::default());
        spool.write(lines.as_bytes()).unwrap();
        written += lines.lines().count();
        all += &lines;
    }
    // More than one file has room for.
    let many = all.repeat(FILE_BYTES / all.len() + 1);
    spool.write(many.as_bytes()).unwrap();
    written += many.lines().count();
    assert_eq!(taken_from(home.path()).len(), written);
}

/// Says one run of everything with the official SDK, and a big one.
const PROGRAM: &str = r#"
import failproofai_sdk as sdk
sdk.configure(flush_interval=3600)
with sdk.session("session-1"), sdk.agent("shop", goal="stock"):
    with sdk.tool_call("count", input={"shelf": 4}) as call:
        pass
    for number in range(3000):
        sdk.event.error(error_type="Odd", message=str(number), traceback="x" * 8000)
sdk._writer.flush_now()
"#;

#[test]
#[ignore = "needs Python with the official SDK: .ci/run has it"]
fn what_the_official_sdk_writes_the_same_daemon_takes() {
    let python =
        std::env::var("FAILPROOF_PYTHON").expect("FAILPROOF_PYTHON names a Python with tests/record/requirements.txt");
    let home = tempfile::tempdir().unwrap();
    let run = Command::new(python).args(["-c", PROGRAM]).env("FAILPROOFAI_HOME", home.path()).status();
    assert!(run.unwrap().success());
    assert!(taken_from(home.path()).len() > 3_000);
}
