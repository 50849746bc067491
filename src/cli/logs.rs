//! The log of the program, on standard error.

use std::io::IsTerminal;
use std::{env, io};

use clap::ValueEnum;
use tracing_subscriber::EnvFilter;
use tracing_subscriber::filter::LevelFilter;

/// How the log is written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(super) enum LogFormat {
    /// For people.
    #[default]
    Text,
    /// One JSON object a line.
    Json,
}

/// Starts the log. `RUST_LOG` says what is in it; where that says nothing, `OTEL_LOG_LEVEL`; else what matters to whoever
/// runs the program.
pub(super) fn start(format: LogFormat) {
    let filter = EnvFilter::try_from_default_env().unwrap_or_else(|_| {
        let level = env::var("OTEL_LOG_LEVEL").ok().and_then(|level| level.trim().parse::<LevelFilter>().ok());
        EnvFilter::default().add_directive(level.unwrap_or(LevelFilter::INFO).into())
    });
    let log = tracing_subscriber::fmt().with_env_filter(filter).with_writer(io::stderr).with_target(false);
    let log = log.with_ansi(is_coloured(&io::stderr()));
    match format {
        LogFormat::Text => log.init(),
        LogFormat::Json => log.json().flatten_event(true).init(),
    }
}

/// Whether colours are wanted there: by a person who looks on, and has not set `NO_COLOR`.
pub(super) fn is_coloured(stream: &impl IsTerminal) -> bool {
    stream.is_terminal() && env::var_os("NO_COLOR").is_none_or(|value| value.is_empty())
}
