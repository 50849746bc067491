//! `serve`: the gateway on the command line.

mod check;
mod settings;

use std::io::Write;
use std::path::PathBuf;

use clap::{ArgMatches, Args};
use tokio::runtime::Runtime;
use tokio::signal;

use super::logs::LogFormat;
use super::options::Options;
use super::sources::Sources;
use super::{Failure, example};
use crate::gateway::{self, Gateway, GatewayError, Summary};
use crate::sink;

pub(super) use settings::Settings;

/// The command's name, and that of its table in a file.
pub(super) const NAME: &str = "serve";

/// A setting, for example --read-timeout, can also stand in the environment, as FAILPROOF_OTEL_READ_TIMEOUT, and in the file
/// of --config, as read_timeout in the table [serve]. Flags come first, then the environment, then the file.
#[derive(Args, Debug)]
pub(super) struct Serve {
    #[command(flatten)]
    settings: Settings,
    /// Send a recorded run to a gateway of its own over gRPC, print what comes out, and end.
    #[arg(long, conflicts_with_all = ["grpc", "http"])]
    example: bool,
    /// Check the settings and the files and directories that they name, print the settings, and end. Nothing is opened for
    /// writing.
    #[arg(long, conflicts_with = "example")]
    check_config: bool,
    #[command(flatten)]
    options: Options,
}

impl Serve {
    pub fn log_format(&self) -> LogFormat {
        self.settings.log_format
    }

    pub fn run(self, sources: &Sources, matches: &ArgMatches) -> Result<(), Failure> {
        if self.check_config {
            return self.check(sources, matches.subcommand_matches(NAME).unwrap_or(matches));
        }
        sources.check()?;
        let runtime = Runtime::new().map_err(|error| Some(format!("no runtime: {error}")))?;
        runtime.block_on(self.serve())
    }

    async fn serve(self) -> Result<(), Failure> {
        let Settings { to, receivers, .. } = &self.settings;
        let place = to.iter().map(ToString::to_string).collect::<Vec<_>>().join(" and ");
        let sink = sink::open(to, &receivers.settings()).map_err(|error| Some(error.to_string()))?;
        // The example leaves nothing behind.
        let scratch = self.example.then(Scratch::new);
        let data_dir = match &scratch {
            Some(scratch) => scratch.0.clone(),
            None => self.settings.data_dir().map_err(Some)?,
        };
        let mut options = gateway::Options::new(sink, data_dir);
        options.config = self.options.config().map_err(Some)?;
        self.settings.apply(&mut options);
        options.guards = self.settings.guards().map_err(Some)?;
        if self.example {
            (options.grpc, options.http) = (Some(example::ADDRESS), None);
        }
        let gateway = Gateway::bind(options).await.map_err(in_words)?;
        let addresses = [("gRPC", gateway.grpc_addr()), ("HTTP", gateway.http_addr())];
        for (transport, address) in addresses {
            if let Some(address) = address {
                tracing::info!("OTLP/{transport} on {address}, events go to {place}");
            }
        }
        let summary = match (self.example, gateway.grpc_addr()) {
            (true, Some(address)) => {
                let (sent, send) = tokio::sync::oneshot::channel();
                let sending = tokio::spawn(async move {
                    let result = example::send(address).await;
                    let _ = sent.send(());
                    result
                });
                let summary = gateway.serve(async { _ = send.await }).await.map_err(in_words)?;
                sending.await.map_err(|error| Some(error.to_string()))?.map_err(Some)?;
                summary
            }
            _ => gateway.serve(stopped()).await.map_err(in_words)?,
        };
        let Summary { spans, events, .. } = summary;
        tracing::info!("{spans} spans became {events} events");
        Ok(())
    }
}

/// A directory that goes when it is dropped.
struct Scratch(PathBuf);

impl Scratch {
    fn new() -> Self {
        Scratch(std::env::temp_dir().join(format!("failproof-otel-example-{}", std::process::id())))
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn in_words(error: GatewayError) -> Failure {
    Some(error.to_string())
}

/// Resolves at Ctrl-C or `SIGTERM`.
async fn stopped() {
    let interrupt = async {
        if signal::ctrl_c().await.is_err() {
            std::future::pending::<()>().await;
        }
    };
    #[cfg(unix)]
    let terminate = async {
        match signal::unix::signal(signal::unix::SignalKind::terminate()) {
            Ok(mut terminate) => _ = terminate.recv().await,
            Err(_) => std::future::pending::<()>().await,
        }
    };
    #[cfg(not(unix))]
    let terminate = std::future::pending::<()>();
    tokio::select! {
        () = interrupt => {}
        () = terminate => {}
    }
    // Somebody who looks on wants to know that it was heard.
    tracing::info!("stopping: what is held is written");
    let _ = std::io::stderr().flush();
}
