//! The Collector as a process.

use std::ffi::OsString;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use super::support::serving::terminate;

/// A running Collector.
pub struct Collector {
    process: Child,
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
        let (mut grpc, mut http) = (String::new(), String::new());
        let mut lines = BufReader::new(process.stderr.take().unwrap()).lines().map(Result::unwrap);
        loop {
            let line = lines.next().expect("the Collector starts");
            eprintln!("{line}");
            for (server, address) in [("Starting GRPC server", &mut grpc), ("Starting HTTP server", &mut http)] {
                if line.contains(server) {
                    *address = line.split(r#""endpoint": ""#).nth(1).unwrap().split('"').next().unwrap().to_owned();
                }
            }
            if line.contains("Everything is ready") {
                break;
            }
        }
        // Read on, or the program would wait for a reader of its log.
        std::thread::spawn(move || lines.for_each(|line| eprintln!("{line}")));
        Collector { process, grpc, http }
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
    let program: OsString = std::env::var_os("FAILPROOF_COLLECTOR")
        .expect("FAILPROOF_COLLECTOR names the Collector that .ci/collector/build makes");
    let mut command = Command::new(program);
    if !subcommand.is_empty() {
        command.arg(subcommand);
    }
    for address in ["COLLECTOR_GRPC", "COLLECTOR_HTTP", "COLLECTOR_HEALTH"] {
        command.env(address, "127.0.0.1:0");
    }
    command.env("COLLECTOR_METRICS", "none").arg("--config");
    command
}

fn folder_of_recipes() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("deploy/collector")
}
