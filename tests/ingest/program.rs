//! The program with several sinks at once.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Output};

use super::KEY;
use super::server::{Answer, Server};

/// `convert` of a recorded run into a spool, the endpoint and standard output.
fn convert(folder: &Path, server: &Server) -> Output {
    let key = folder.join("key");
    fs::write(&key, format!("{KEY}\n")).unwrap();
    fs::set_permissions(&key, Permissions::from_mode(0o600)).unwrap();
    let recording = Path::new(env!("CARGO_MANIFEST_DIR")).join("examples/inventory/spans.otlp.pb");
    let mut program = Command::new(env!("CARGO_BIN_EXE_failproof-otel"));
    program.arg("convert").arg(recording).args(["--to", "stdout", "--to", &format!("ingest:{}", server.url())]);
    program.arg("--to").arg(format!("spool:{}", folder.join("spool").display()));
    program.arg("--api-key-file").arg(key).arg("--queue-dir").arg(folder.join("queues"));
    program.env("RUST_LOG", "trace").env("NO_COLOR", "1").env("TMPDIR", folder);
    program.output().unwrap()
}

fn lines_of(text: &str) -> Vec<String> {
    let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
    lines.sort();
    lines
}

fn lines_below(directory: &Path) -> Vec<String> {
    let files = fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path());
    let files = files.filter(|path| path.extension().is_some_and(|ending| ending == "jsonl"));
    lines_of(&files.map(|path| fs::read_to_string(path).unwrap()).collect::<String>())
}

#[test]
fn each_sink_gets_everything_and_nobody_the_key() {
    let (folder, server) = (tempfile::tempdir().unwrap(), Server::start());
    server.answer([Answer::Status(503, "retry-after: 0\r\n")]);
    let Output { status, stdout, stderr } = convert(folder.path(), &server);
    let (stdout, stderr) = (String::from_utf8(stdout).unwrap(), String::from_utf8(stderr).unwrap());
    assert!(status.success(), "{stderr}");
    let events = lines_of(&stdout);
    assert!(events.len() > 5, "{stdout}");
    assert_eq!(lines_below(&folder.path().join("spool")), events);
    assert_eq!(server.stored().into_keys().collect::<Vec<_>>(), events);
    assert!(stderr.contains("status 503") && stderr.contains("takes events again"), "{stderr}");
    assert!(!stdout.contains(KEY) && !stderr.contains(KEY), "{stderr}");
    let left: Vec<_> = fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(left.len(), 3, "the key, the queues and the spool, but nothing of standard output: {left:?}");
}

#[test]
fn what_is_refused_is_told_and_the_others_have_it() {
    let (folder, server) = (tempfile::tempdir().unwrap(), Server::start());
    server.always(Answer::Status(401, ""));
    let Output { status, stdout, stderr } = convert(folder.path(), &server);
    let stderr = String::from_utf8(stderr).unwrap();
    assert!(!status.success() && stderr.contains("401") && stderr.contains("/parked, with the cause"), "{stderr}");
    let events = lines_of(&String::from_utf8(stdout).unwrap());
    assert_eq!(lines_below(&folder.path().join("spool")), events);
    let [queue] = fs::read_dir(folder.path().join("queues"))
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .collect::<Vec<_>>()
        .try_into()
        .unwrap();
    assert_eq!(lines_below(&queue.join("parked")), events);
}

#[test]
fn a_key_that_others_can_read_is_no_key() {
    let (folder, server) = (tempfile::tempdir().unwrap(), Server::start());
    let open = folder.path().join("open-key");
    fs::write(&open, KEY).unwrap();
    fs::set_permissions(&open, Permissions::from_mode(0o644)).unwrap();
    let recording = Path::new(env!("CARGO_MANIFEST_DIR")).join("examples/inventory/spans.otlp.pb");
    let mut program = Command::new(env!("CARGO_BIN_EXE_failproof-otel"));
    program.arg("convert").arg(recording).args(["--to", &format!("ingest:{}", server.url()), "--queue-dir"]);
    let Output { status, stderr, .. } =
        program.arg(folder.path().join("queues")).arg("--api-key-file").arg(&open).output().unwrap();
    let stderr = String::from_utf8(stderr).unwrap();
    assert!(!status.success() && stderr.contains("open-key") && stderr.contains("chmod it to 0600"), "{stderr}");
    assert!(!stderr.contains(KEY) && server.requests().is_empty());
}
