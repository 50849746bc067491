//! The program `failproof-otel`.

mod convert;
#[cfg(feature = "gateway")]
mod example;
mod explain;
mod options;
#[cfg(feature = "gateway")]
mod serve;

use std::io::{self, Write};
use std::process::ExitCode;

use clap::{Parser, Subcommand};
use tracing_subscriber::EnvFilter;

/// Turns the OpenTelemetry spans of AI agents into Failproof events.
#[derive(Debug, Parser)]
#[command(name = "failproof-otel", version, propagate_version = true)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Convert recorded spans into events: OTLP/JSON, JSON lines, protobuf; gzip or zstd of these.
    Convert(convert::Convert),
    /// Say what became of every recorded span, by which dialect and rule, and why some gave nothing.
    Explain(explain::Explain),
    /// Receive spans over OTLP (gRPC and HTTP) and write events.
    #[cfg(feature = "gateway")]
    Serve(serve::Serve),
}

/// What was wrong, in one line for a person; nothing if it has been told already.
type Failure = Option<String>;

/// Runs the program with the arguments of the process. 0: all went well; 1: something did not, and standard error says
/// what; 2: the arguments make no sense.
pub fn main() -> ExitCode {
    let filter = EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new("info"));
    tracing_subscriber::fmt().with_env_filter(filter).with_writer(io::stderr).with_target(false).init();
    let result = match Cli::parse().command {
        Command::Convert(convert) => convert.run(),
        Command::Explain(explain) => explain.run(),
        #[cfg(feature = "gateway")]
        Command::Serve(serve) => serve.run(),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            if let Some(failure) = failure {
                complain(&failure);
            }
            ExitCode::FAILURE
        }
    }
}

/// One line on standard error.
fn complain(line: &str) {
    // If standard error is gone, there is nobody left to tell.
    let _ = writeln!(io::stderr().lock(), "{line}");
}
