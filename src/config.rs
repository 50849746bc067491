//! What can be set: one structure for the library and the program; file, environment and flags fill it.

use std::sync::Arc;

use serde::Deserialize;
use serde::de::IgnoredAny;

use crate::encode::Policy;
use crate::exception::{Class, Pattern, PatternError};
use crate::sink::Home;
use crate::trace::{ErrorEvents, Mapping};

/// The environment variable that the official SDK takes the environment's name from.
const ENVIRONMENT_VARIABLE: &str = "AGENTEYE_ENVIRONMENT";
/// The environment of events when nobody names one.
const DEFAULT_ENVIRONMENT: &str = "dev";

/// How spans become events, and what of them may be written.
#[derive(Clone, Debug, Default)]
pub struct Config {
    mapping: Mapping,
    policy: Policy,
}

/// A setting that cannot be kept.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ConfigError {
    /// The server skips every line whose environment holds a comma.
    #[error("environment {0:?} holds a comma, which Failproof does not store; choose a name without one")]
    Comma(String),
    /// A blank environment or session merges everything that has none.
    #[error("the {0} is blank; leave it out or give it a name")]
    Blank(&'static str),
    /// The name of an exception that could never match.
    #[error(transparent)]
    Exception(#[from] PatternError),
}

impl Config {
    /// The defaults, whatever the environment says: content is captured, credentials are redacted.
    pub fn new() -> Self {
        Config::default()
    }

    /// The defaults, `AGENTEYE_ENVIRONMENT`, and the daemon's own switch for redaction (`collector.redact` in
    /// `config.json` of the Failproof home).
    pub fn from_env() -> Self {
        let mut config = Config::new();
        if let Some(environment) = std::env::var(ENVIRONMENT_VARIABLE).ok().filter(|name| !name.trim().is_empty()) {
            match checked_environment(&environment) {
                Ok(environment) => config.mapping.default_environment = environment,
                Err(error) => {
                    tracing::warn!("{ENVIRONMENT_VARIABLE}: {error}; using {DEFAULT_ENVIRONMENT}");
                }
            }
        }
        config.policy.redact = !Home::from_env().is_some_and(|home| home.redaction_switched_off());
        config
    }

    /// Names the environment of all events, whatever their resource says.
    ///
    /// # Errors
    /// If the name is blank or holds a comma.
    pub fn with_environment(mut self, environment: &str) -> Result<Self, ConfigError> {
        self.mapping.environment = Some(checked_environment(environment)?);
        Ok(self)
    }

    /// Puts all runs into one session.
    ///
    /// # Errors
    /// If the id is blank.
    pub fn with_session_id(mut self, session_id: &str) -> Result<Self, ConfigError> {
        let session_id = crate::trace::session_text(session_id).ok_or(ConfigError::Blank("session id"))?;
        self.mapping.session_id = Some(session_id);
        Ok(self)
    }

    /// Whether goals, messages, inputs, outputs and the like are written. Names, ids, durations, tokens, outcomes and
    /// errors always are.
    pub fn with_capture_content(mut self, capture: bool) -> Self {
        self.policy.capture_content = capture;
        self
    }

    /// Whether credentials are replaced by `[redacted:<kind>]` before anything is written.
    pub fn with_redaction(mut self, redact: bool) -> Self {
        self.policy.redact = redact;
        self
    }

    /// Which failed runs get an `error` event.
    pub fn with_error_events(mut self, error_events: ErrorEvents) -> Self {
        self.mapping.error_events = error_events;
        self
    }

    /// Adds exceptions of your own: `Class`, `module.Class` or `module.*`, and what they mean.
    ///
    /// # Errors
    /// If the name could never match.
    pub fn with_exception(mut self, name: &str, class: Class) -> Result<Self, ConfigError> {
        self.mapping.classifier.add(name.parse::<Pattern>()?, class);
        Ok(self)
    }

    /// What the events depend on beside the spans.
    pub fn mapping(&self) -> &Mapping {
        &self.mapping
    }

    /// What may be written.
    pub fn policy(&self) -> Policy {
        self.policy
    }
}

/// The settings as a file holds them; what is not there keeps its value.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Settings {
    /// See [`Config::with_environment`].
    pub environment: Option<String>,
    /// See [`Config::with_session_id`].
    pub session_id: Option<String>,
    /// See [`Config::with_capture_content`].
    pub capture_content: Option<bool>,
    /// See [`Config::with_redaction`].
    pub redact: Option<bool>,
    /// See [`Config::with_error_events`].
    pub error_events: Option<ErrorEvents>,
    /// See [`Config::with_exception`].
    pub exceptions: Exceptions,
    /// The settings of `failproof-otel serve`, which reads them itself.
    pub serve: IgnoredAny,
}

/// Exceptions of the user's own, by what they mean.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
#[allow(missing_docs, reason = "named as the classes are")]
pub struct Exceptions {
    pub tool_failure: Vec<String>,
    pub control_flow: Vec<String>,
    pub cancellation: Vec<String>,
    pub failure: Vec<String>,
}

impl Settings {
    /// Puts the settings over a configuration.
    ///
    /// # Errors
    /// If one of them cannot be kept.
    pub fn apply(self, mut config: Config) -> Result<Config, ConfigError> {
        if let Some(environment) = &self.environment {
            config = config.with_environment(environment)?;
        }
        if let Some(session_id) = &self.session_id {
            config = config.with_session_id(session_id)?;
        }
        if let Some(capture) = self.capture_content {
            config = config.with_capture_content(capture);
        }
        if let Some(redact) = self.redact {
            config = config.with_redaction(redact);
        }
        if let Some(error_events) = self.error_events {
            config = config.with_error_events(error_events);
        }
        let classes = [
            (Class::ToolFailure, &self.exceptions.tool_failure),
            (Class::ControlFlow, &self.exceptions.control_flow),
            (Class::Cancellation, &self.exceptions.cancellation),
            (Class::Failure, &self.exceptions.failure),
        ];
        for (class, names) in classes {
            for name in names {
                config = config.with_exception(name, class)?;
            }
        }
        Ok(config)
    }
}

fn checked_environment(environment: &str) -> Result<Arc<str>, ConfigError> {
    match environment.trim() {
        "" => Err(ConfigError::Blank("environment")),
        name if name.contains(',') => Err(ConfigError::Comma(name.to_owned())),
        name => Ok(Arc::from(name)),
    }
}
