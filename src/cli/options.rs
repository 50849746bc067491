//! Options that all commands share.

use std::path::PathBuf;

use clap::{Args, ValueEnum};

use crate::config::{Config, Settings};
use crate::exception::Class;
use crate::trace::ErrorEvents;

/// How spans become events. What is given here comes before the file, the file before the environment.
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
    #[arg(long)]
    no_content: bool,
    /// Write credentials as they are.
    #[arg(long)]
    no_redact: bool,
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
    pub fn config(&self) -> Result<Config, String> {
        let mut config = self.file()?.apply(Config::from_env()).map_err(|error| match &self.config {
            Some(path) => format!("{}: {error}", path.display()),
            None => error.to_string(),
        })?;
        if let Some(environment) = &self.environment {
            config = config.with_environment(environment).map_err(|error| format!("--environment: {error}"))?;
        }
        if let Some(session_id) = &self.session_id {
            config = config.with_session_id(session_id).map_err(|error| format!("--session-id: {error}"))?;
        }
        if self.no_content {
            config = config.with_capture_content(false);
        }
        if self.no_redact {
            config = config.with_redaction(false);
        }
        if let Some(which) = self.error_events {
            config = config.with_error_events(match which {
                Which::Once => ErrorEvents::Once,
                Which::UnlessLeaf => ErrorEvents::UnlessLeaf,
            });
        }
        let classes = [
            ("--tool-failure", Class::ToolFailure, &self.tool_failure),
            ("--control-flow", Class::ControlFlow, &self.control_flow),
            ("--cancellation", Class::Cancellation, &self.cancellation),
        ];
        for (flag, class, names) in classes {
            for name in names {
                config = config.with_exception(name, class).map_err(|error| format!("{flag}: {error}"))?;
            }
        }
        Ok(config)
    }

    fn file(&self) -> Result<Settings, String> {
        let Some(path) = &self.config else { return Ok(Settings::default()) };
        let text = std::fs::read_to_string(path).map_err(|error| format!("{}: {error}", path.display()))?;
        toml::from_str(&text).map_err(|error| format!("{}: {}", path.display(), error.to_string().trim_end()))
    }
}
