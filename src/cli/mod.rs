//! The program `failproof-otel`.

mod convert;
#[cfg(feature = "gateway")]
mod example;
mod explain;
mod logs;
mod options;
mod receivers;
#[cfg(feature = "gateway")]
mod serve;
#[cfg_attr(not(feature = "gateway"), allow(dead_code, reason = "`serve` alone has a table in the file"))]
mod sources;
#[cfg(feature = "grpc")]
mod tail;
#[cfg_attr(not(feature = "gateway"), allow(dead_code, reason = "`serve` alone has times"))]
mod units;

use std::io::{self, Write};
#[cfg(feature = "gateway")]
use std::path::PathBuf;
use std::process::ExitCode;

#[cfg(feature = "gateway")]
use clap::Args;
use clap::{ArgMatches, CommandFactory, FromArgMatches, Parser, Subcommand};

use logs::LogFormat;
use options::Options;
use sources::Sources;

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
    Serve(Box<serve::Serve>),
    /// Follow the events of a running gateway as they are written.
    #[cfg(feature = "grpc")]
    Tail(tail::Tail),
}

/// What was wrong, in one line for a person; nothing if it has been told already.
type Failure = Option<String>;

/// Runs the program with the arguments of the process. 0: all went well; 1: something did not, and standard error says
/// what; 2: the arguments make no sense.
pub fn main() -> ExitCode {
    let (matches, sources) = settle();
    let cli = Cli::from_arg_matches(&matches).unwrap_or_else(|error| error.exit());
    logs::start(cli.command.log_format());
    let result = match cli.command {
        Command::Convert(convert) => sources.check().and_then(|()| convert.run()),
        Command::Explain(explain) => sources.check().and_then(|()| explain.run()),
        #[cfg(feature = "gateway")]
        Command::Serve(serve) => serve.run(&sources, &matches),
        #[cfg(feature = "grpc")]
        Command::Tail(tail) => tail.run(),
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

/// What flags, environment and file say together; ends the process if the flags make no sense.
fn settle() -> (ArgMatches, Sources) {
    let mut sources = Sources::default();
    // What is asked for decides whose variables count.
    let asked = Cli::command().get_matches();
    let name = asked.subcommand_name().unwrap_or_default();
    #[cfg(feature = "grpc")]
    if name == tail::NAME {
        // What it shows is made already.
        return (asked, sources);
    }
    let command = Cli::command().mut_subcommand(name, |command| sources.environment::<Options>(command));
    #[cfg(feature = "gateway")]
    let command =
        if name == serve::NAME { settle_own::<serve::Settings>(command, name, &mut sources) } else { command };
    (command.get_matches(), sources)
}

/// The same for the settings that a command has for itself.
#[cfg(feature = "gateway")]
fn settle_own<G: Args>(command: clap::Command, name: &str, sources: &mut Sources) -> clap::Command {
    let command = command.mut_subcommand(name, |command| sources.environment::<G>(command));
    let matches = command.clone().get_matches();
    let matches = matches.subcommand_matches(name);
    match matches.and_then(|matches| matches.get_one::<PathBuf>("config")) {
        Some(path) => command.mut_subcommand(name, |command| sources.file::<G>(command, path, name)),
        None => command,
    }
}

impl Command {
    fn log_format(&self) -> LogFormat {
        match self {
            #[cfg(feature = "gateway")]
            Command::Serve(serve) => serve.log_format(),
            _ => LogFormat::default(),
        }
    }
}

/// One line on standard error.
fn complain(line: &str) {
    // If standard error is gone, there is nobody left to tell.
    let _ = writeln!(io::stderr().lock(), "{line}");
}
