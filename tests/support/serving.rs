//! `failproof-otel serve` as a process, for programs that export to it.
#![allow(clippy::print_stderr)]

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use serde_json::Value;

/// A running `failproof-otel serve` with a spool of its own, on ports that are free.
pub struct Gateway {
    process: Child,
    folder: PathBuf,
    spool: PathBuf,
    arguments: Vec<String>,
    log: Arc<Mutex<String>>,
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
    pub fn start_with_grace(grace: &str, folder: &Path) -> Self {
        Gateway::start_with(folder, &folder.join("spool"), &["--grace", grace])
    }

    /// Starts it with its data in the folder, and that spool and settings.
    pub fn start_with(folder: &Path, spool: &Path, arguments: &[&str]) -> Self {
        Gateway::start_at(folder, spool, owned(arguments), "127.0.0.1:0", "127.0.0.1:0")
    }

    /// Starts it before another one, to which it sends its events.
    pub fn start_before(other: &Gateway, folder: &Path) -> Self {
        let to = format!("grpc:http://{}", other.grpc);
        Gateway::start_with(folder, &folder.join("spool"), &["--grace", "500ms", "--to", &to])
    }

    fn start_at(folder: &Path, spool: &Path, arguments: Vec<String>, grpc: &str, http: &str) -> Self {
        // Another build of it, where one is named: what is measured is measured of a release.
        let program = std::env::var_os("FAILPROOF_OTEL").unwrap_or_else(|| env!("CARGO_BIN_EXE_failproof-otel").into());
        let mut command = Command::new(program);
        command.args(["serve", "--grpc", grpc, "--http", http]).args(&arguments);
        command.arg("--data-dir").arg(folder.join("data")).arg("--queue-dir").arg(folder.join("queues"));
        if !arguments.contains(&"--to".to_owned()) {
            command.arg("--to").arg(format!("spool:{}", spool.display()));
        }
        let mut process = command.env("NO_COLOR", "1").env_remove("RUST_LOG").stderr(Stdio::piped()).spawn().unwrap();
        let mut lines = BufReader::new(process.stderr.take().unwrap()).lines().map(Result::unwrap);
        let log = Arc::new(Mutex::new(String::new()));
        let mut address = |transport: &str| {
            let is_meant = |line: &String| line.contains(&format!("OTLP/{transport} on "));
            let line = lines.by_ref().inspect(|line| note(&log, line)).find(is_meant).unwrap();
            line.split(" on ").nth(1).unwrap().split(',').next().unwrap().to_owned()
        };
        let (grpc, http) = (address("gRPC"), address("HTTP"));
        // Read on, or the program would wait for a reader of its log.
        let noted = log.clone();
        std::thread::spawn(move || lines.for_each(|line| note(&noted, &line)));
        let (folder, spool) = (folder.to_owned(), spool.to_owned());
        Gateway { process, folder, spool, arguments, log, was_killed: false, grpc, http }
    }

    /// The number of its process.
    pub fn id(&self) -> u32 {
        self.process.id()
    }

    /// Whether its log says that, since its last start.
    pub fn has_logged(&self, words: &str) -> bool {
        self.log.lock().unwrap().contains(words)
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
        let (grpc, http) = (self.grpc.clone(), self.http.clone());
        self.restart_at(&grpc, &http);
    }

    /// Starts what has ended again in the same folders, on ports that are free now.
    pub fn restart_elsewhere(&mut self) {
        self.restart_at("127.0.0.1:0", "127.0.0.1:0");
    }

    /// Has other settings from its next start on.
    pub fn set(&mut self, arguments: &[&str]) {
        self.arguments = owned(arguments);
    }

    fn restart_at(&mut self, grpc: &str, http: &str) {
        let was_killed = self.was_killed;
        *self = Gateway::start_at(&self.folder, &self.spool, std::mem::take(&mut self.arguments), grpc, http);
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
        let Ok(entries) = std::fs::read_dir(&self.spool) else { return Vec::new() };
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

fn owned(arguments: &[&str]) -> Vec<String> {
    arguments.iter().map(|argument| (*argument).to_owned()).collect()
}

fn note(log: &Mutex<String>, line: &str) {
    eprintln!("{line}");
    let mut log = log.lock().unwrap();
    log.push_str(line);
    log.push('\n');
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
