//! The settings of `serve`, through the program.
#![cfg(all(feature = "cli", feature = "gateway"))]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::path::{Path, PathBuf};
use std::process::Command;

/// What `serve --check-config` says: whether all is well, the settings, and what is wrong.
struct Checked {
    is_good: bool,
    settings: String,
    problems: Vec<String>,
}

impl Checked {
    fn of(folder: &Path, file: &str, variables: &[(&str, &str)], flags: &[&str]) -> Self {
        let path = folder.join("gateway.toml");
        std::fs::write(&path, file).unwrap();
        let output = Command::new(env!("CARGO_BIN_EXE_failproof-otel"))
            .args(["serve", "--check-config", "--config"])
            .arg(&path)
            .args(flags)
            .env("FAILPROOFAI_HOME", folder.join("home"))
            .envs(variables.iter().copied())
            .output()
            .unwrap();
        let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap().replace(&format!("{}/", folder.display()), "");
        Checked {
            is_good: output.status.success(),
            settings: text(output.stdout),
            problems: text(output.stderr).lines().map(str::to_owned).collect(),
        }
    }

    #[track_caller]
    fn says(&self, line: &str) {
        assert!(self.settings.lines().any(|found| found == line), "{line:?} is not in\n{}", self.settings);
    }
}

fn folder() -> tempfile::TempDir {
    tempfile::tempdir().unwrap()
}

fn names(folder: &Path) -> Vec<PathBuf> {
    std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name().into()).collect()
}

#[test]
fn a_flag_comes_before_the_environment_the_environment_before_the_file_and_the_file_before_the_default() {
    let folder = folder();
    let file = "environment = \"file\"\ncapture_content = false\n\n[serve]\ngrace = 1\nidle_timeout = \"2m\"\nmax_wait = \"3m\"\n";
    let variables = [
        ("FAILPROOF_OTEL_GRACE", "11s"),
        ("FAILPROOF_OTEL_IDLE_TIMEOUT", "12s"),
        ("FAILPROOF_OTEL_MAX_WAIT", " "),
        ("FAILPROOF_OTEL_ENVIRONMENT", "variable"),
        ("FAILPROOF_OTEL_NO_CONTENT", "false"),
        ("AGENTEYE_ENVIRONMENT", "sdk"),
    ];
    let checked = Checked::of(folder.path(), file, &variables, &["--grace", "111s", "--session-id", "s"]);
    assert_eq!(checked.problems, [""; 0]);
    assert!(checked.is_good);
    checked.says("grace = \"111s\" # --grace");
    checked.says("idle_timeout = \"12s\" # FAILPROOF_OTEL_IDLE_TIMEOUT");
    checked.says("max_wait = \"3m\" # gateway.toml:7");
    checked.says("read_timeout = \"30s\" # default");
    checked.says("environment = \"variable\"");
    checked.says("session_id = \"s\"");
    checked.says("capture_content = true");
    assert_eq!(names(folder.path()), [Path::new("gateway.toml")], "a check makes nothing");
}

#[test]
fn what_is_printed_is_a_file_that_says_the_same() {
    let folder = folder();
    let first = Checked::of(folder.path(), "[serve]\nto = \"stdout\"\nmax_body_bytes = 1000\n", &[], &["--no-redact"]);
    let second = Checked::of(folder.path(), &first.settings, &[], &[]);
    let values = |checked: &Checked| -> Vec<String> {
        checked.settings.lines().map(|line| line.split(" # ").next().unwrap().to_owned()).collect()
    };
    assert_eq!(second.problems, [""; 0]);
    assert_eq!(values(&first), values(&second));
    first.says("redact = false");
    first.says("max_body_bytes = \"1000\" # gateway.toml:3");
}

#[test]
fn all_that_is_wrong_is_told_at_once_with_file_line_and_key() {
    let folder = folder();
    std::fs::write(folder.path().join("taken"), "").unwrap();
    let file = format!(
        "[serve]\ngrcp = \"127.0.0.1:1\"\ngrace = \"3 weeks\"\nhttp = [\"127.0.0.1:2\"]\nmax_body_bytes = 1.5\nto = \"spool:{}\"\n",
        folder.path().join("taken").display(),
    );
    let variables = [("FAILPROOF_OTEL_MAX_WAIT", "soon"), ("FAILPROOF_OTEL_ENVIRONMENT", "a,b")];
    let checked = Checked::of(folder.path(), &file, &variables, &["--tool-failure", "*", "--grpc", "127.0.0.1:4318"]);
    assert!(!checked.is_good);
    let beginnings = [
        "FAILPROOF_OTEL_MAX_WAIT: ",
        "gateway.toml:2: serve.grcp: there is no such setting; there are ",
        "gateway.toml:3: serve.grace: ",
        "gateway.toml:4: serve.http: a value of type array ",
        "gateway.toml:5: serve.max_body_bytes: a value of type float ",
        "--environment: ",
        "--tool-failure: ",
        "to: the spool taken is not a directory: ",
        "grpc, http: both are 127.0.0.1:4318",
    ];
    assert_eq!(checked.problems.len(), beginnings.len(), "{:#?}", checked.problems);
    for (problem, beginning) in checked.problems.iter().zip(beginnings) {
        assert!(problem.starts_with(beginning), "{problem:?} does not begin with {beginning:?}");
    }
    // The rest is told all the same.
    checked.says("idle_timeout = \"30s\" # default");
}

#[test]
fn what_stands_outside_of_the_table_is_told_with_file_line_and_key_too() {
    let folder = folder();
    for (file, beginning) in [
        ("\nenviroment = \"prod\"\n", "gateway.toml:2: enviroment: unknown field `enviroment`, expected one of "),
        ("capture_content = \"sk-secret\"", "gateway.toml:1: capture_content: invalid type: "),
        ("[serve]\ngrace = ", "gateway.toml:2: grace: "),
        ("serve = 3", "gateway.toml:1: serve: a table is needed"),
    ] {
        let checked = Checked::of(folder.path(), file, &[], &[]);
        assert!(!checked.is_good, "{file}");
        assert!(checked.problems[0].starts_with(beginning), "{:?} does not begin with {beginning:?}", checked.problems);
    }
}

#[test]
fn settings_that_are_wrong_keep_the_gateway_from_starting() {
    let output = Command::new(env!("CARGO_BIN_EXE_failproof-otel"))
        .args(["serve", "--to", "stdout", "--grpc", "127.0.0.1:0", "--http", "127.0.0.1:0"])
        .env("FAILPROOF_OTEL_GRACE", "never")
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&output.stderr).starts_with("FAILPROOF_OTEL_GRACE: "));
}

#[test]
fn secrets_are_not_printed() {
    let folder = folder();
    let key = format!("ghp_{}", "x1Y2".repeat(9));
    let checked = Checked::of(folder.path(), "", &[], &["--to", &format!("spool:/srv/{key}")]);
    assert!(!checked.settings.contains(&key), "{}", checked.settings);
    checked.says("to = \"spool:/srv/[redacted:github-token]\" # --to");
}

#[test]
fn a_directory_that_could_not_be_made_is_told_before_anybody_tries() {
    let folder = folder();
    std::fs::write(folder.path().join("taken"), "").unwrap();
    let below = |name: &str| format!("spool:{}", folder.path().join(name).display());
    let checked = Checked::of(folder.path(), "", &[], &["--to", &below("taken/a/b")]);
    assert_eq!(checked.problems.len(), 1, "{:?}", checked.problems);
    assert!(checked.problems[0].starts_with("to: cannot write in taken"), "{:?}", checked.problems);
    assert!(Checked::of(folder.path(), "", &[], &["--to", &below("a/b/c")]).is_good);
    assert!(!folder.path().join("a").exists());
}
