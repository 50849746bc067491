//! `failproof-otel serve` as a process, for programs that export to it.
#![allow(clippy::print_stderr)]

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;

/// A running `failproof-otel serve` with a spool of its own, on ports that are free.
pub struct Gateway {
    process: Child,
    folder: PathBuf,
    to: String,
    grace: &'static str,
    was_killed: bool,
    /// The address that takes OTLP over gRPC.
    pub grpc: String,
    /// The address that takes OTLP over HTTP.
    pub http: String,
}

impl Gateway {
    /// Starts it with a spool in the folder.
    pub fn start(folder: &Path) -> Self {
        Gateway::start_with_grace("500ms", folder)
    }

    /// Starts it with a spool in the folder, and that time for late spans.
    pub fn start_with_grace(grace: &'static str, folder: &Path) -> Self {
        let to = format!("spool:{}", spool(folder).display());
        Gateway::start_at(folder, to, grace, "127.0.0.1:0", "127.0.0.1:0")
    }

    /// Starts it before another one, to which it sends its events.
    pub fn start_before(other: &Gateway, folder: &Path) -> Self {
        Gateway::start_at(folder, format!("grpc:http://{}", other.grpc), "500ms", "127.0.0.1:0", "127.0.0.1:0")
    }

    fn start_at(folder: &Path, to: String, grace: &'static str, grpc: &str, http: &str) -> Self {
        let mut command = Command::new(env!("CARGO_BIN_EXE_failproof-otel"));
        command
            .args(["serve", "--grpc", grpc, "--http", http, "--grace", grace, "--to", &to])
            .arg("--data-dir")
            .arg(folder.join("data"))
            .arg("--queue-dir")
            .arg(folder.join("queues"));
        let mut process = command.env("NO_COLOR", "1").env_remove("RUST_LOG").stderr(Stdio::piped()).spawn().unwrap();
        let mut lines = BufReader::new(process.stderr.take().unwrap()).lines().map(Result::unwrap);
        let mut address = |transport: &str| {
            let line = lines.find(|line| line.contains(&format!("OTLP/{transport} on "))).unwrap();
            line.split(" on ").nth(1).unwrap().split(',').next().unwrap().to_owned()
        };
        let (grpc, http) = (address("gRPC"), address("HTTP"));
        // Read on, or the program would wait for a reader of its log.
        std::thread::spawn(move || lines.for_each(|line| eprintln!("{line}")));
        Gateway { process, folder: folder.to_owned(), to, grace, was_killed: false, grpc, http }
    }

    /// Ends it by `SIGTERM`. All that it held is in the spool then: the events, which keep the contract.
    pub fn stop(mut self) -> Vec<Value> {
        self.terminate();
        let unfinished = self.files("tmp");
        assert!(unfinished.is_empty() || self.was_killed, "{unfinished:?}");
        self.events()
    }

    /// Ends it by `SIGTERM`.
    pub fn terminate(&mut self) {
        terminate(&self.process);
        assert!(self.process.wait().unwrap().success(), "the gateway has ended well");
    }

    /// Ends it by `SIGKILL`.
    pub fn kill(&mut self) {
        self.process.kill().unwrap();
        self.process.wait().unwrap();
        self.was_killed = true;
    }

    /// Starts what has ended again: the same addresses, the same folders.
    pub fn restart(&mut self) {
        let was_killed = self.was_killed;
        *self = Gateway::start_at(&self.folder, self.to.clone(), self.grace, &self.grpc, &self.http);
        self.was_killed = was_killed;
    }

    /// Waits until the spool has that many events.
    pub fn wait_for(&self, events: usize) {
        wait_until(&format!("{events} events are in the spool"), || self.written() >= events);
    }

    /// How many events are in the spool.
    pub fn written(&self) -> usize {
        self.lines().lines().count()
    }

    /// The events in the spool, which keep the contract.
    pub fn events(&self) -> Vec<Value> {
        let lines = self.lines();
        assert_eq!(super::contract::check(&lines), Ok(()));
        super::parse_lines(&lines)
    }

    /// What a daemon would take from the spool.
    pub fn lines(&self) -> String {
        self.files("jsonl").iter().map(|file| std::fs::read_to_string(file).unwrap()).collect()
    }

    fn files(&self, extension: &str) -> Vec<PathBuf> {
        let Ok(entries) = std::fs::read_dir(spool(&self.folder)) else { return Vec::new() };
        let mut files: Vec<PathBuf> = entries.map(|entry| entry.unwrap().path()).collect();
        files.retain(|file| file.extension().is_some_and(|found| found == extension));
        files.sort();
        files
    }
}

impl Drop for Gateway {
    fn drop(&mut self) {
        // It has ended already, unless the test failed.
        _ = self.process.kill();
        _ = self.process.wait();
    }
}

fn spool(folder: &Path) -> PathBuf {
    folder.join("spool")
}

/// Sends `SIGTERM`.
pub fn terminate(process: &Child) {
    assert!(Command::new("kill").arg(process.id().to_string()).status().unwrap().success());
}

/// Waits for something that has to come: two minutes, so that a fault fails the test instead of hanging it.
pub fn wait_until(what: &str, mut has_come: impl FnMut() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(120);
    while !has_come() {
        assert!(Instant::now() < deadline, "never: {what}");
        std::thread::sleep(Duration::from_millis(50));
    }
}
