//! `serve` as a process: signals and logs.
#![cfg(all(feature = "cli", feature = "gateway"))]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use serde_json::{Value, json};

/// How long anything may take before a test fails instead of hanging.
const LONG: Duration = Duration::from_secs(60);

/// A gateway whose log is read line by line, and whose output by nobody until it has ended.
struct Process {
    child: Child,
    log: Receiver<String>,
    http: String,
    _home: tempfile::TempDir,
}

impl Process {
    fn start(arguments: &[&str]) -> Self {
        let home = tempfile::tempdir().unwrap();
        let mut child = Command::new(env!("CARGO_BIN_EXE_failproof-otel"))
            .args(["serve", "--to", "stdout", "--grpc", "127.0.0.1:0", "--http", "127.0.0.1:0", "--grace", "0s"])
            .args(arguments)
            .env("FAILPROOFAI_HOME", home.path())
            .env("NO_COLOR", "1")
            .env_remove("RUST_LOG")
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let lines = BufReader::new(child.stderr.take().unwrap()).lines();
        let (send, log) = channel();
        std::thread::spawn(move || lines.map_while(Result::ok).try_for_each(|line| send.send(line)));
        let mut process = Process { child, log, http: String::new(), _home: home };
        let line = process.wait_for_line("OTLP/HTTP on ");
        process.http = line.split("OTLP/HTTP on ").nth(1).unwrap().split(',').next().unwrap().to_owned();
        process
    }

    fn wait_for_line(&self, text: &str) -> String {
        loop {
            let line = self.log.recv_timeout(LONG).unwrap_or_else(|_| panic!("no line with {text:?} in the log"));
            if line.contains(text) {
                return line;
            }
        }
    }

    fn connect(&self) -> TcpStream {
        let stream = TcpStream::connect(&self.http).unwrap();
        stream.set_read_timeout(Some(LONG)).unwrap();
        stream
    }

    /// The status of a request.
    fn ask(&self, head: &str, body: &str) -> String {
        let mut stream = self.connect();
        let length = body.len();
        write!(stream, "{head} HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: {length}\r\n").unwrap();
        write!(stream, "Content-Type: application/json\r\n\r\n{body}").unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        answer
    }

    fn signal(&self) {
        assert!(Command::new("kill").arg(self.child.id().to_string()).status().unwrap().success());
    }

    /// How it ended, and the rest of its log. Its output is not read before.
    fn wait(mut self) -> (ExitStatus, Vec<String>) {
        (self.child.wait().unwrap(), self.log.iter().collect())
    }

    /// Sends more than a pipe holds that nobody reads, so that the gateway never gets rid of it.
    fn get_stuck(&self) {
        let span = |id: usize| {
            let name = [("gen_ai.operation.name", "invoke_agent".to_owned()), ("gen_ai.agent.name", "a".repeat(2_000))];
            let attributes = name.map(|(key, value)| json!({"key": key, "value": {"stringValue": value}}));
            let ids = (format!("{:032x}", id + 1), format!("{:016x}", id + 1));
            json!({"traceId": ids.0, "spanId": ids.1, "name": "agent", "startTimeUnixNano": "1",
                "endTimeUnixNano": "2", "attributes": attributes})
        };
        let spans: Vec<Value> = (0..100).map(span).collect();
        let request = json!({"resourceSpans": [{"scopeSpans": [{"spans": spans}]}]}).to_string();
        assert!(self.ask("POST /v1/traces", &request).starts_with("HTTP/1.1 200 "));
        // It is stuck when all are told and do not go.
        loop {
            let metrics = self.ask("GET /metrics", "");
            let is_told = metrics.contains("failproof_events_total{type=\"agent_start\",dialect=\"genai\"} 100\n");
            if is_told && !metrics.contains("failproof_sink_lag_seconds{sink=\"standard output\"} 0.0\n") {
                return;
            }
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}

#[test]
fn a_second_signal_ends_it_at_once_and_tells_what_was_left() {
    let process = Process::start(&[]);
    process.get_stuck();
    process.signal();
    process.wait_for_line("stopping: ");
    assert!(process.ask("GET /readyz", "").starts_with("HTTP/1.1 503 "));
    process.signal();
    let (status, log) = process.wait();
    assert_eq!(status.code(), Some(1));
    let last = log.last().unwrap();
    assert!(last.starts_with("ended at once: 0 requests are not answered, "), "{log:?}");
    assert!(last.ends_with("; standard output has not taken all"), "{log:?}");
}

#[test]
fn a_sink_that_takes_nothing_does_not_keep_it_from_ending() {
    let process = Process::start(&["--drain-timeout", "100ms"]);
    process.get_stuck();
    process.signal();
    let (status, log) = process.wait();
    assert_eq!(status.code(), Some(1));
    assert!(log.last().unwrap().starts_with("not all events were written: not delivered within 100ms ("), "{log:?}");
}

#[test]
fn a_signal_to_one_with_nothing_to_do_ends_it_well() {
    let process = Process::start(&[]);
    process.signal();
    let (status, log) = process.wait();
    assert!(status.success());
    assert!(log.last().unwrap().contains("0 spans became 0 events requests=0 refused=0"), "{log:?}");
}

#[test]
fn a_hundred_thousand_bad_requests_make_a_few_lines_in_the_log() {
    const REQUESTS: usize = 100_000;
    let process = Process::start(&["--log-format", "json"]);
    let mut stream = process.connect();
    let mut reader = BufReader::new(stream.try_clone().unwrap());
    let writing = std::thread::spawn(move || {
        let bad = ["POST /nowhere", "DELETE /v1/traces", "POST /v1/traces"];
        let request = |at: usize| format!("{} HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n\r\n", bad[at % bad.len()]);
        let requests: String = (0..REQUESTS).map(request).collect();
        stream.write_all(requests.as_bytes()).unwrap();
        stream
    });
    let mut line = String::new();
    let mut answers = 0;
    while answers < REQUESTS {
        line.clear();
        assert!(reader.read_line(&mut line).unwrap() > 0, "after {answers} answers");
        // The body of an answer has no newline, so that the next status may stand behind it.
        answers += line.matches("HTTP/1.1 4").count();
    }
    drop(writing.join().unwrap());
    process.signal();
    let (status, log) = process.wait();
    assert!(status.success());
    let lines: Vec<Value> = log.iter().map(|line| serde_json::from_str(line).unwrap()).collect();
    let kinds: Vec<&str> = lines.iter().filter_map(|line| line["kind"].as_str()).collect();
    assert_eq!(kinds, ["request-unknown-path", "request-method", "request-content-type"], "{log:#?}");
    assert!(lines.len() <= kinds.len() + 4, "{log:#?}");
    assert_eq!(lines.last().unwrap()["refused"], json!(REQUESTS));
}
