//! The Failproof home: the directory that the daemon and everything that feeds it agree on.

use std::env;
use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};

use serde_json::Value;
use twox_hash::XxHash3_64;

/// The Failproof home, which need not exist.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Home(PathBuf);

impl Home {
    /// A home in a given directory.
    pub fn new(directory: impl Into<PathBuf>) -> Self {
        Home(directory.into())
    }

    /// The home that the process's environment names, else `.failproofai` in the user's home directory, which the
    /// system knows even where a service runs without `HOME`. None if there is neither.
    pub fn from_env() -> Option<Self> {
        Self::from_variables(|name| env::var_os(name)).or_else(|| env::home_dir().and_then(Self::below))
    }

    /// `$FAILPROOFAI_HOME`, else `$HOME/.failproofai`, with variables from anywhere. A blank variable counts as unset.
    pub fn from_variables(variable: impl Fn(&str) -> Option<OsString>) -> Option<Self> {
        let path = |name| variable(name).and_then(|value| trimmed(value.into()));
        path("FAILPROOFAI_HOME").map(Home).or_else(|| path("HOME").and_then(Self::below))
    }

    fn below(user_home: PathBuf) -> Option<Self> {
        trimmed(user_home).map(|home| Home(home.join(".failproofai")))
    }

    /// The directory itself.
    pub fn path(&self) -> &Path {
        &self.0
    }

    /// The directory of the spool that the daemon reads.
    pub fn spool(&self) -> PathBuf {
        self.0.join("custom-agents").join("events")
    }

    /// The directory where a gateway keeps what it has taken and not told yet.
    pub fn gateway(&self) -> PathBuf {
        self.0.join("custom-agents").join("gateway")
    }

    /// The directory of the queue before a receiver: of the sink of this kind that sends to this URL.
    pub fn queue(&self, kind: &str, url: &str) -> PathBuf {
        Self::queue_below(&self.0.join("custom-agents").join("queues"), kind, url)
    }

    /// The same below another directory.
    pub(super) fn queue_below(directory: &Path, kind: &str, url: &str) -> PathBuf {
        // A URL is no name for a file; this tells the few receivers of one machine apart.
        directory.join(format!("{kind}-{:016x}", XxHash3_64::oneshot(url.as_bytes())))
    }

    /// Whether the daemon's switch turns redaction off: `collector.redact` is `off` in `config.json`. A file that is
    /// missing or can't be read or understood leaves it on.
    pub fn redaction_switched_off(&self) -> bool {
        self.config().is_some_and(|config| config["collector"]["redact"] == "off")
    }

    /// What this machine is called in the server's logs: `collector.machine_id` in `config.json`, if it is there and may
    /// stand in a header.
    pub fn machine_id(&self) -> Option<String> {
        let config = self.config()?;
        let id = config["collector"]["machine_id"].as_str()?.trim();
        let is_fit = (1..=128).contains(&id.len()) && id.bytes().all(|byte| byte.is_ascii_graphic());
        is_fit.then(|| id.to_owned())
    }

    /// The daemon's `config.json`, if it can be read and understood.
    fn config(&self) -> Option<Value> {
        serde_json::from_slice(&fs::read(self.0.join("config.json")).ok()?).ok()
    }
}

/// A path without blanks around it, as the daemon and the other SDKs read it. None if nothing is left: an empty path
/// would be the directory where the process happens to run.
fn trimmed(path: PathBuf) -> Option<PathBuf> {
    let path = path.to_str().map(str::trim).map(PathBuf::from).unwrap_or(path);
    (!path.as_os_str().is_empty()).then_some(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn home(failproof: Option<&str>, user: Option<&str>) -> Option<PathBuf> {
        let value = |name: &str| match name {
            "FAILPROOFAI_HOME" => failproof.map(OsString::from),
            "HOME" => user.map(OsString::from),
            _ => None,
        };
        Home::from_variables(value).map(|home| home.spool())
    }

    #[test]
    fn the_failproof_home_comes_before_the_home_of_the_user() {
        assert_eq!(home(Some("/fp"), Some("/ann")), Some("/fp/custom-agents/events".into()));
        assert_eq!(home(Some(" /fp "), None), Some("/fp/custom-agents/events".into()));
        assert_eq!(home(None, Some("/ann")), Some("/ann/.failproofai/custom-agents/events".into()));
        assert_eq!(home(None, None), None);
    }

    #[test]
    fn a_blank_variable_counts_as_unset() {
        for blank in ["", " ", "\t\n"] {
            assert_eq!(home(Some(blank), Some("/ann")), Some("/ann/.failproofai/custom-agents/events".into()));
            assert_eq!(home(Some(blank), Some(blank)), None);
        }
    }

    #[test]
    fn a_machine_has_the_name_that_the_daemon_gives_it_if_a_header_can_hold_it() {
        let directory = tempfile::tempdir().unwrap();
        let home = Home::new(directory.path());
        assert_eq!(home.machine_id(), None, "without a file");
        let long = "x".repeat(129);
        for (id, expected) in [
            (r#"" m-1 ""#, Some("m-1")),
            ("7", None),
            (r#""""#, None),
            (r#""a\r\nb""#, None),
            (r#""a b""#, None),
            (&format!("\"{long}\""), None),
        ] {
            fs::write(directory.path().join("config.json"), format!(r#"{{"collector":{{"machine_id":{id}}}}}"#))
                .unwrap();
            assert_eq!(home.machine_id().as_deref(), expected, "{id}");
        }
    }

    #[test]
    fn each_receiver_has_a_queue_of_its_own() {
        let queue = |kind, url| Home::new("/fp").queue(kind, url);
        let first = queue("ingest", "https://a.example/events");
        assert!(first.starts_with("/fp/custom-agents/queues"));
        assert_eq!(first, queue("ingest", "https://a.example/events"), "the same in another process");
        assert_ne!(first, queue("ingest", "https://b.example/events"));
        assert_ne!(first, queue("grpc", "https://a.example/events"));
    }

    #[test]
    fn only_the_word_off_switches_redaction_off() {
        let directory = tempfile::tempdir().unwrap();
        let home = Home::new(directory.path());
        assert!(!home.redaction_switched_off(), "without a file");
        for (config, off) in [
            (r#"{"collector":{"redact":"off"}}"#, true),
            (r#"{"collector":{"redact":"minimal"}}"#, false),
            (r#"{"collector":{"redact":false}}"#, false),
            (r#"{"collector":"off"}"#, false),
            (r#"{"redact":"off"}"#, false),
            (r#"[{"collector":{"redact":"off"}}]"#, false),
            (r#"{"collector":{"redact":"off"}"#, false),
            ("", false),
        ] {
            fs::write(directory.path().join("config.json"), config).unwrap();
            assert_eq!(home.redaction_switched_off(), off, "{config}");
        }
    }
}
