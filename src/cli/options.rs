//! Options that all commands share.

use std::path::PathBuf;

use clap::{Args, ValueEnum};

use crate::config::{Config, ConfigError, Settings};
use crate::exception::Class;
use crate::trace::ErrorEvents;

/// How spans become events. In the file they stand outside of any table, for they are those of the library too.
#[derive(Args, Debug)]
pub(super) struct Options {
    /// Read settings from a TOML file.
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// The environment of all events [default: the resource's, then AGENTEYE_ENVIRONMENT, then dev].
    #[arg(long, value_name = "NAME")]
    environment: Option<String>,
    /// Put all runs into one session.
    #[arg(long, value_name = "ID")]
    session_id: Option<String>,
    /// Leave out what users and models said, and what tools got and gave.
    #[arg(long, value_name = "BOOL", default_missing_value = "true", num_args = 0..=1, require_equals = true)]
    no_content: Option<bool>,
    /// Write credentials as they are.
    #[arg(long, value_name = "BOOL", default_missing_value = "true", num_args = 0..=1, require_equals = true)]
    no_redact: Option<bool>,
    /// Which failed runs get an `error` event.
    #[arg(long, value_enum, value_name = "WHICH")]
    error_events: Option<Which>,
    /// An exception that is a failed tool: Class, module.Class or module.* (repeatable).
    #[arg(long, value_name = "NAME")]
    tool_failure: Vec<String>,
    /// An exception that only steers the run (repeatable).
    #[arg(long, value_name = "NAME")]
    control_flow: Vec<String>,
    /// An exception that cancels the run (repeatable).
    #[arg(long, value_name = "NAME")]
    cancellation: Vec<String>,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Which {
    /// One for each exception, on the innermost run that it escapes.
    Once,
    /// None for a run of which a leaf reported the same exception.
    UnlessLeaf,
}

impl Options {
    /// The configuration that they make together.
    ///
    /// # Errors
    /// All that is wrong, a line each.
    pub fn config(&self) -> Result<Config, String> {
        let mut problems = Vec::new();
        let file = self.file().unwrap_or_else(|problem| {
            problems.push(problem);
            Settings::default()
        });
        let mut config = Config::from_env();
        let mut set =
            |named: String, change: &dyn Fn(Config) -> Result<Config, ConfigError>| match change(config.clone()) {
                Ok(changed) => config = changed,
                Err(error) => problems.push(format!("{named}: {error}")),
            };
        let named = self.config.as_ref().map_or_else(String::new, |path| path.display().to_string());
        set(named, &|config| file.clone().apply(config));
        if let Some(environment) = &self.environment {
            set("--environment".to_owned(), &|config| config.with_environment(environment));
        }
        if let Some(session_id) = &self.session_id {
            set("--session-id".to_owned(), &|config| config.with_session_id(session_id));
        }
        let classes = [
            ("--tool-failure", Class::ToolFailure, &self.tool_failure),
            ("--control-flow", Class::ControlFlow, &self.control_flow),
            ("--cancellation", Class::Cancellation, &self.cancellation),
        ];
        for (flag, class, names) in classes {
            for name in names {
                set(flag.to_owned(), &|config| config.with_exception(name, class));
            }
        }
        if !problems.is_empty() {
            return Err(problems.join("\n"));
        }
        if let Some(no_content) = self.no_content {
            config = config.with_capture_content(!no_content);
        }
        if let Some(no_redact) = self.no_redact {
            config = config.with_redaction(!no_redact);
        }
        if let Some(which) = self.error_events {
            config = config.with_error_events(match which {
                Which::Once => ErrorEvents::Once,
                Which::UnlessLeaf => ErrorEvents::UnlessLeaf,
            });
        }
        Ok(config)
    }

    fn file(&self) -> Result<Settings, String> {
        let Some(path) = &self.config else { return Ok(Settings::default()) };
        let place = path.display();
        let text = std::fs::read_to_string(path).map_err(|error| format!("{place}: {error}"))?;
        toml::from_str(&text).map_err(|error| {
            let Some(span) = error.span() else { return format!("{place}: {}", error.message()) };
            let line = line_number(&text, span.start);
            // The key alone: what stands behind it may be nobody's business.
            let key = text.lines().nth(line - 1).and_then(|line| line.split('=').next()).unwrap_or_default().trim();
            format!("{place}:{line}: {key}: {}", error.message())
        })
    }
}

/// The line on which a byte of a text stands, from 1.
pub(super) fn line_number(text: &str, at: usize) -> usize {
    text.as_bytes().iter().take(at).filter(|byte| **byte == b'\n').count() + 1
}
