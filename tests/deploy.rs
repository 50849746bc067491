//! What `deploy/` says of the program is what the program says of itself.
#![cfg(all(feature = "cli", feature = "gateway"))]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod support;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;

use support::serving::Gateway;

/// Those that start the gateway.
const STARTERS: [&str; 4] = ["Dockerfile", "compose.yaml", "kubernetes/gateway.yaml", "systemd/failproof-otel.service"];
/// Those that start a Collector, and the recipe that they start it with.
const COLLECTORS: [(&str, &str); 2] = [("compose.yaml", "durable.yaml"), ("kubernetes/collector.yaml", "fan-out.yaml")];

#[test]
fn every_flag_exists() {
    let help = Command::new(env!("CARGO_BIN_EXE_failproof-otel")).args(["serve", "--help"]).output().unwrap().stdout;
    let known = words(&String::from_utf8(help).unwrap(), "--");
    for file in STARTERS {
        let text = read(&deploy().join(file));
        // Of a line of words those behind `serve`; of a list in YAML each that is an item.
        let of_lines = text.lines().filter_map(|line| match line.split_once("serve") {
            Some((_, behind)) if !line.trim_start().starts_with('#') => Some(behind),
            _ => line.trim_start().strip_prefix("- --").map(|_| line.split('=').next().unwrap()),
        });
        let flags: BTreeSet<String> = of_lines.flat_map(|line| words(line, "--")).collect();
        assert!(flags.contains("--data-dir"), "{file}: {flags:?}");
        let unknown: Vec<&String> = flags.difference(&known).collect();
        assert!(unknown.is_empty(), "{file}: {unknown:?}");
    }
}

#[test]
fn every_variable_is_read_by_the_recipe() {
    for (file, recipe) in COLLECTORS {
        let recipe = read(&deploy().join("collector").join(recipe));
        let reads: BTreeSet<&str> =
            recipe.split("${env:").skip(1).filter_map(|rest| rest.split([':', '}']).next()).collect();
        let text = read(&deploy().join(file));
        let sets: BTreeSet<String> = ["COLLECTOR_", "FAILPROOF_GATEWAY", "FAILPROOF_TOKEN"]
            .iter()
            .flat_map(|start| words(&text, start))
            .collect();
        assert!(sets.len() >= 4, "{file}: {sets:?}");
        let unread: Vec<&String> = sets.iter().filter(|name| !reads.contains(name.as_str())).collect();
        assert!(unread.is_empty(), "{file}: {unread:?}");
    }
}

#[test]
fn the_image_knows_whether_it_is_healthy() {
    let dockerfile = read(&deploy().join("Dockerfile"));
    let (_, check) = dockerfile.split_once("HEALTHCHECK").unwrap();
    let words = check.split_once("CMD ").unwrap().1.lines().next().unwrap();
    let folder = tempfile::tempdir().unwrap();
    let gateway = Gateway::start(folder.path());
    let port = gateway.http.rsplit(':').next().unwrap();
    let words: Vec<String> = serde_json::from_str(&words.replace("4318", port)).unwrap();
    let is_healthy = || Command::new(&words[0]).args(&words[1..]).output().unwrap().status.success();
    assert!(is_healthy());
    gateway.stop();
    assert!(!is_healthy());
}

/// All words of letters, digits, `-` and `_` that begin like that.
fn words(text: &str, start: &str) -> BTreeSet<String> {
    let of_word = |char: char| char.is_ascii_alphanumeric() || char == '-' || char == '_';
    let found = text.split(|char| !of_word(char)).filter(|word| word.starts_with(start) && *word != "--");
    found.map(str::to_owned).collect()
}

fn read(path: &Path) -> String {
    std::fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

fn deploy() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("deploy")
}
