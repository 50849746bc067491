//! `failproof-otel`: see [`opentelemetry_failproof::cli`].

use std::process::ExitCode;

fn main() -> ExitCode {
    opentelemetry_failproof::cli::main()
}
