//! `failproof-otel serve` as a process, for programs that export to it.
#![allow(clippy::print_stderr)]

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use serde_json::Value;

/// A running `failproof-otel serve` with a spool of its own, on ports that are free.
pub struct Gateway {
    process: Child,
    spool: PathBuf,
    /// The address that takes OTLP over gRPC.
    pub grpc: String,
    /// The address that takes OTLP over HTTP.
    pub http: String,
}

impl Gateway {
    /// Starts it with a spool in the folder.
    pub fn start(folder: &Path) -> Self {
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
        Gateway { process, spool, grpc, http }
    }

    /// Ends it by `SIGTERM`. All that it held is in the spool then: the events, which keep the contract.
    pub fn stop(mut self) -> Vec<Value> {
        let terminated = Command::new("kill").arg(self.process.id().to_string()).status().unwrap();
        assert!(terminated.success());
        assert!(self.process.wait().unwrap().success(), "the gateway has ended well");
        let mut files: Vec<PathBuf> =
            std::fs::read_dir(&self.spool).unwrap().map(|entry| entry.unwrap().path()).collect();
        files.sort();
        assert!(files.iter().all(|file| file.extension().is_some_and(|extension| extension == "jsonl")), "{files:?}");
        let lines: String = files.iter().map(|file| std::fs::read_to_string(file).unwrap()).collect();
        assert_eq!(super::contract::check(&lines), Ok(()));
        super::parse_lines(&lines)
    }
}
