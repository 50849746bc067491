//! The Collector as a process, and the broker for it.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};

use super::support::serving::{terminate, wait_until};

/// A running Collector.
pub struct Collector {
    process: Child,
    log: Arc<Mutex<Vec<String>>>,
    /// The address that takes OTLP over gRPC.
    pub grpc: String,
    /// The address that takes OTLP over HTTP.
    pub http: String,
}

impl Collector {
    /// Starts it with a recipe as it stands, on ports that are free; its storage is in the folder.
    pub fn start(recipe: &str, folder: &Path, variables: &[(&str, &str)]) -> Self {
        let mut process = command("")
            .arg(folder_of_recipes().join(recipe))
            .env("COLLECTOR_STORAGE", folder.join("storage"))
            .envs(variables.iter().copied())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let lines = BufReader::new(process.stderr.take().unwrap()).lines().map(Result::unwrap);
        let log = Arc::<Mutex<Vec<String>>>::default();
        let noted = Arc::clone(&log);
        std::thread::spawn(move || {
            for line in lines {
                eprintln!("{line}");
                noted.lock().unwrap().push(line);
            }
        });
        let mut collector = Collector { process, log, grpc: String::new(), http: String::new() };
        collector.wait_for("Everything is ready");
        // Those that take no OTLP have neither.
        collector.grpc = collector.address("Starting GRPC server");
        collector.http = collector.address("Starting HTTP server");
        collector
    }

    /// Waits until its log says so.
    pub fn wait_for(&self, words: &str) {
        wait_until(words, || self.log.lock().unwrap().iter().any(|line| line.contains(words)));
    }

    fn address(&self, words: &str) -> String {
        let log = self.log.lock().unwrap();
        let line = log.iter().find(|line| line.contains(words));
        let address = line.and_then(|line| line.split(r#""endpoint": ""#).nth(1)?.split('"').next());
        address.unwrap_or_default().to_owned()
    }

    /// Ends it by `SIGTERM`.
    pub fn stop(mut self) {
        terminate(&self.process);
        assert!(self.process.wait().unwrap().success(), "the Collector has ended well");
    }

    /// Ends it by `SIGKILL`.
    pub fn kill(mut self) {
        self.process.kill().unwrap();
        self.process.wait().unwrap();
    }
}

impl Drop for Collector {
    fn drop(&mut self) {
        // It has ended already, unless the test failed.
        _ = self.process.kill();
        _ = self.process.wait();
    }
}

/// A running broker with the topic of the recipes.
pub struct Kafka {
    process: Child,
    /// Its address.
    pub broker: String,
}

impl Kafka {
    pub fn start() -> Self {
        let mut process = program("kafka").arg("failproof-spans").stdout(Stdio::piped()).spawn().unwrap();
        let mut broker = String::new();
        BufReader::new(process.stdout.take().unwrap()).read_line(&mut broker).unwrap();
        Kafka { process, broker: broker.trim().to_owned() }
    }
}

impl Drop for Kafka {
    fn drop(&mut self) {
        _ = self.process.kill();
        _ = self.process.wait();
    }
}

/// The files of `deploy/collector`.
pub fn recipes() -> Vec<PathBuf> {
    let mut recipes: Vec<PathBuf> =
        std::fs::read_dir(folder_of_recipes()).unwrap().map(|entry| entry.unwrap().path()).collect();
    recipes.sort();
    recipes
}

/// Asks the Collector whether it could run with the recipe, with the values that it has of its own.
pub fn validate(recipe: &Path) {
    let output = command("validate").arg(recipe).output().unwrap();
    assert!(output.status.success(), "{}: {}", recipe.display(), String::from_utf8_lossy(&output.stderr));
}

/// A command of the Collector that lacks its configuration; every address that it listens on is free.
fn command(subcommand: &str) -> Command {
    let mut command = program("otelcol");
    if !subcommand.is_empty() {
        command.arg(subcommand);
    }
    for address in ["COLLECTOR_GRPC", "COLLECTOR_HTTP", "COLLECTOR_HEALTH"] {
        command.env(address, "127.0.0.1:0");
    }
    command.env("COLLECTOR_METRICS", "none").arg("--config");
    command
}

/// A program of the folder that `.ci/collector/build` fills.
fn program(name: &str) -> Command {
    let folder = std::env::var_os("FAILPROOF_COLLECTOR").expect("FAILPROOF_COLLECTOR is target/ci-collector");
    Command::new(Path::new(&folder).join(name))
}

fn folder_of_recipes() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("deploy/collector")
}
