//! `serve --check-config`: all that is wrong, before anything is begun.

use std::io::{self, Write};
use std::sync::Arc;

use clap::ArgMatches;

use super::super::Failure;
use super::super::sources::{Effective, Sources};
use super::{Serve, Settings};
use crate::config::Config;
use crate::disk::Directory;
use crate::redact::redact_text;
use crate::trace::ErrorEvents;

impl Serve {
    /// Prints the settings, as a file would hold them, and fails with all that is wrong, a line each.
    pub fn check(&self, sources: &Sources, matches: &ArgMatches) -> Result<(), Failure> {
        let mut problems = sources.problems.clone();
        let mut text = String::new();
        match self.options.config() {
            Ok(config) => text.push_str(&shared(&config)),
            Err(wrong) => problems.push(wrong),
        }
        problems.extend(self.settings.problems());
        text.push_str(&format!("\n[{}]\n", super::NAME));
        text.extend(sources.effective::<Settings>(matches).iter().map(line));
        // Whoever closed the pipe has seen enough.
        let _ = io::stdout().lock().write_all(text.as_bytes());
        if problems.is_empty() { Ok(()) } else { Err(Some(problems.join("\n"))) }
    }
}

impl Settings {
    fn problems(&self) -> Vec<String> {
        let mut problems = Vec::new();
        let data_dir =
            self.data_dir().and_then(|path| Directory::check(&path).map(|()| path).map_err(|error| error.to_string()));
        problems.extend(data_dir.err().map(|error| format!("data_dir: {error}")));
        let receivers = self.receivers.settings();
        let wrong = self.to.iter().filter_map(|destination| destination.check(&receivers).err());
        problems.extend(wrong.map(|error| format!("to: {error}")));
        let guards =
            self.guards().and_then(|guards| guards.check([self.grpc, self.http]).map_err(|error| error.to_string()));
        problems.extend(guards.err());
        if self.grpc == self.http && self.grpc.port() != 0 {
            problems.push(format!("grpc, http: both are {}, though one address takes either; choose two", self.grpc));
        }
        problems
    }
}

/// The settings that all commands share, as a file holds them.
fn shared(config: &Config) -> String {
    let (mapping, policy) = (config.mapping(), config.policy());
    let named = |key: &str, value: &Option<Arc<str>>, otherwise: &str| match value {
        Some(value) => format!("{key} = {}\n", quoted(value)),
        None => format!("# {key} is not set: {otherwise}\n"),
    };
    let environment = format!("the resource's, else {}", quoted(&mapping.default_environment));
    let error_events = match mapping.error_events {
        ErrorEvents::Once => "once",
        ErrorEvents::UnlessLeaf => "unless-leaf",
    };
    named("environment", &mapping.environment, &environment)
        + &named("session_id", &mapping.session_id, "the spans'")
        + &format!("capture_content = {}\nredact = {}\n", policy.capture_content, policy.redact)
        + &format!("error_events = {}\n", quoted(error_events))
}

/// A setting as a file holds it, and where it comes from.
fn line(setting: &Effective) -> String {
    let Effective { key, values, origin } = setting;
    match values.as_slice() {
        [] => format!("# {key} is not set\n"),
        [value] => format!("{key} = {} # {origin}\n", quoted(value)),
        values => {
            let values: Vec<String> = values.iter().map(|value| quoted(value)).collect();
            format!("{key} = [{}] # {origin}\n", values.join(", "))
        }
    }
}

/// A value, without any secret that it may hold: credentials as events hide them, and those before the host of a URL.
fn quoted(value: &str) -> String {
    let mut text = redact_text(value).into_owned();
    if let Some((scheme, rest)) = text.split_once("://") {
        let authority = rest.split(['/', '?', '#']).next().unwrap_or_default();
        if let Some(at) = authority.rfind('@') {
            text = format!("{scheme}://[redacted]{}", &rest[at..]);
        }
    }
    // What JSON escapes is what TOML escapes.
    serde_json::Value::from(text).to_string()
}

#[cfg(test)]
mod tests {
    use super::quoted;

    #[test]
    fn what_stands_before_the_host_of_a_url_is_hidden() {
        assert_eq!(quoted("ingest:https://ann:pass@word@host/a@b"), r#""ingest:https://[redacted]@host/a@b""#);
        assert_eq!(quoted("ingest:https://host/a@b"), r#""ingest:https://host/a@b""#);
    }
}
