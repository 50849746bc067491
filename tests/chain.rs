//! A gateway before a gateway, and `tail` before one: the real program, as processes.
#![cfg(all(feature = "cli", feature = "gateway"))]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::print_stderr)]

mod support;

use std::collections::HashSet;
use std::io::{BufRead, BufReader};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use opentelemetry_failproof::proto::event_service_client::EventServiceClient;
use opentelemetry_failproof::proto::{Event, ExportEventsRequest};
use opentelemetry_proto::tonic::collector::trace::v1::trace_service_client::TraceServiceClient;
use support::recorded::{Recording, recordings};
use support::serving::{Gateway, wait_until};
use tokio::runtime::{Handle, Runtime};
use tonic::transport::{Channel, Endpoint};

/// One recording of each program: traces of which all spans are there.
fn programs() -> Vec<&'static Recording> {
    let mut seen = HashSet::new();
    let complete = recordings().iter().filter(|recording| recording.has_content());
    complete.filter(|recording| seen.insert(&recording.scenario)).take(60).collect()
}

async fn channel_to(address: &str) -> Channel {
    Endpoint::from_shared(format!("http://{address}")).unwrap().connect().await.unwrap()
}

fn send(runtime: &Runtime, gateway: &Gateway, recording: &Recording) {
    let request: opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest =
        serde_json::from_str(&recording.json).unwrap();
    let response = runtime.block_on(async {
        TraceServiceClient::new(channel_to(&gateway.grpc).await).export(request).await.unwrap().into_inner()
    });
    assert_eq!(response.partial_success, None);
}

fn tool_uses(lines: &str) -> impl Iterator<Item = &str> {
    lines.split_inclusive('\n').filter(|line| {
        let event: serde_json::Value = serde_json::from_str(line).unwrap();
        event["type"] == "tool_use"
    })
}

fn sorted(lines: &str) -> Vec<&str> {
    let mut lines: Vec<&str> = lines.lines().collect();
    lines.sort_unstable();
    lines
}

#[test]
fn nothing_is_lost_and_nothing_comes_twice_while_the_second_gateway_is_killed_and_started_again() {
    let (first_folder, second_folder) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let mut second = Gateway::start(second_folder.path());
    let mut first = Gateway::start_before(&second, first_folder.path());
    let programs = programs();
    let expected: String = programs.iter().map(|recording| recording.lines()).collect();
    let runtime = Runtime::new().unwrap();
    for (index, recording) in programs.iter().enumerate() {
        send(&runtime, &first, recording);
        // Six times in all, whatever it is doing then.
        if index % 10 == 5 {
            let before = second.written();
            wait_until("something arrives", || second.written() > before);
            second.kill();
            second.restart();
        }
    }
    let count = expected.lines().count();
    wait_until("all has arrived", || second.written() >= count);
    first.terminate();
    second.terminate();
    assert!(sorted(&second.lines()) == sorted(&expected), "{} of {count}", second.written());
    // Nothing was refused.
    let queues = std::fs::read_dir(first_folder.path().join("queues")).unwrap().map(|entry| entry.unwrap().path());
    for queue in queues {
        let parked = std::fs::read_dir(queue.join("parked")).map_or(0, Iterator::count);
        assert_eq!(parked, 0);
    }
}

#[test]
fn what_was_written_before_a_kill_is_not_written_again_after_it() {
    let folder = tempfile::tempdir().unwrap();
    let mut gateway = Gateway::start(folder.path());
    let runtime = Runtime::new().unwrap();
    export(runtime.handle(), &gateway.grpc, marker(1));
    // As if it had died between writing and answering.
    gateway.kill();
    gateway.restart();
    export(runtime.handle(), &gateway.grpc, marker(1));
    export(runtime.handle(), &gateway.grpc, marker(2));
    gateway.terminate();
    let expected: String = [1, 2].map(|number| marker(number).to_json().unwrap() + "\n").concat();
    assert_eq!(sorted(&gateway.lines()), sorted(&expected));
}

/// A running `failproof-otel tail`.
struct Tail {
    process: Child,
    output: Option<BufReader<ChildStdout>>,
    told: Receiver<String>,
}

impl Tail {
    fn start(address: &str, flags: &[&str]) -> Self {
        let mut process = Command::new(env!("CARGO_BIN_EXE_failproof-otel"))
            .args(["tail", address])
            .args(flags)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let output = process.stdout.take().map(BufReader::new);
        let errors = BufReader::new(process.stderr.take().unwrap());
        let (tell, told) = channel();
        std::thread::spawn(move || {
            for line in errors.lines().map_while(Result::ok) {
                eprintln!("tail: {line}");
                let _ = tell.send(line);
            }
        });
        Tail { process, output, told }
    }

    fn line(&mut self) -> String {
        let mut line = String::new();
        self.output.as_mut().unwrap().read_line(&mut line).unwrap();
        assert!(line.ends_with('\n'), "it has ended: {line:?}");
        line
    }

    /// Waits for words on standard error.
    fn wait_for(&self, words: &str) {
        let next = || self.told.recv_timeout(Duration::from_secs(120)).unwrap_or_else(|_| panic!("never: {words}"));
        while !next().contains(words) {}
    }
}

impl Drop for Tail {
    fn drop(&mut self) {
        _ = self.process.kill();
        _ = self.process.wait();
    }
}

fn marker(number: usize) -> Event {
    let line = format!(
        r#"{{"timestamp":"2026-01-02T03:04:05.678901Z","session_id":"marker","agent_id":"m","type":"human_pause","environment":"dev","fw_number":{number}}}"#
    );
    Event::from_json(line.as_bytes()).unwrap()
}

fn export(runtime: &Handle, address: &str, event: Event) {
    let request = ExportEventsRequest { events: vec![event] };
    runtime.block_on(async {
        EventServiceClient::new(channel_to(address).await).export(request).await.unwrap();
    });
}

/// Sends events until somebody has seen one of them: then it follows. Passes over them.
fn wait_until_it_follows(runtime: &Runtime, gateway: &Gateway, tails: &mut [&mut Tail], markers: &mut usize) {
    let (stop, stopped) = channel::<()>();
    let address = gateway.grpc.clone();
    let start = *markers;
    let handle = runtime.handle().clone();
    let sending = std::thread::spawn(move || {
        let mut number = start;
        while stopped.try_recv().is_err() {
            export(&handle, &address, marker(number));
            number += 1;
            std::thread::sleep(Duration::from_millis(20));
        }
        number
    });
    let first: Vec<String> = tails.iter_mut().map(|tail| tail.line()).collect();
    stop.send(()).unwrap();
    *markers = sending.join().unwrap();
    // The last one comes to all of them.
    for (tail, mut line) in tails.iter_mut().zip(first) {
        while !line.contains(&format!("\"fw_number\":{}}}", *markers - 1)) {
            line = tail.line();
        }
    }
}

#[test]
fn tail_shows_a_run_as_it_is_written_over_a_restart_of_the_gateway() {
    let folder = tempfile::tempdir().unwrap();
    let runtime = Runtime::new().unwrap();
    let mut gateway = Gateway::start(folder.path());
    let mut all = Tail::start(&gateway.grpc, &["--json"]);
    let mut tools =
        Tail::start(&format!("http://{}", gateway.grpc), &["--json", "--type", "tool_use", "--type", "human_pause"]);
    let mut markers = 0;
    wait_until_it_follows(&runtime, &gateway, &mut [&mut all, &mut tools], &mut markers);
    let mut view = Tail::start(&gateway.grpc, &["--type", "tool_use"]);

    let [run, after, ..] = programs()[..] else { panic!("too few recordings") };
    send(&runtime, &gateway, run);
    for line in run.lines().split_inclusive('\n') {
        assert_eq!(all.line(), line);
    }
    for line in tool_uses(run.lines()) {
        assert_eq!(tools.line(), line);
    }

    gateway.kill();
    for tail in [&mut all, &mut tools, &mut view] {
        tail.wait_for("has gone");
    }
    gateway.restart();
    for tail in [&mut all, &mut tools, &mut view] {
        tail.wait_for("is there again");
    }
    send(&runtime, &gateway, after);
    for line in after.lines().split_inclusive('\n') {
        assert_eq!(all.line(), line);
    }
    for line in tool_uses(after.lines()) {
        assert_eq!(tools.line(), line);
        let shown = view.line();
        assert!(shown.contains(" tool ") && !shown.trim_end().contains(char::is_control), "{shown:?}");
    }

    // Ctrl-C ends it well, and so does a reader that has gone.
    let interrupted = Command::new("kill").args(["-INT", &tools.process.id().to_string()]).status().unwrap();
    assert!(interrupted.success());
    assert!(tools.process.wait().unwrap().success());
    drop(all.output.take());
    wait_until("it ends", || {
        export(runtime.handle(), &gateway.grpc, marker(markers));
        markers += 1;
        all.process.try_wait().unwrap().is_some_and(|status| status.success())
    });
    gateway.terminate();
}

#[test]
fn without_a_gateway_tail_says_what_to_do() {
    let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let run = |arguments: &[&str]| {
        let output = Command::new(env!("CARGO_BIN_EXE_failproof-otel")).arg("tail").args(arguments).output().unwrap();
        (output.status.code(), String::from_utf8(output.stdout).unwrap(), String::from_utf8(output.stderr).unwrap())
    };
    let (code, out, error) = run(&[&format!("127.0.0.1:{port}")]);
    assert_eq!((code, out.as_str()), (Some(1), ""));
    assert!(error.starts_with(&format!("no gateway can be reached at http://127.0.0.1:{port}: ")), "{error}");
    assert!(
        error.contains("refused") && error.ends_with("; start `failproof-otel serve`, or name another address\n"),
        "{error}"
    );
    let (code, _, error) = run(&["ftp://x"]);
    assert!(code == Some(1) && error.contains("\"ftp://x\" is no URL"), "{error}");
    let (code, _, error) = run(&["--type", "tool"]);
    assert!(code == Some(2) && error.contains("there is no such type of event; there are agent_start, "), "{error}");
}
