//! `serve`: the gateway on the command line.

mod check;
mod settings;

use std::future::poll_fn;
use std::io;
use std::path::PathBuf;
use std::task::Poll;

use clap::{ArgMatches, Args};
use tokio::runtime::Runtime;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::oneshot;

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
        let result = runtime.block_on(self.serve());
        // Whoever wants an end at once does not wait for a sink.
        runtime.shutdown_background();
        result
    }

    async fn serve(self) -> Result<(), Failure> {
        let mut signals = Signals::listen().map_err(|error| Some(format!("cannot listen to signals: {error}")))?;
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
        self.settings.apply(&mut options).map_err(Some)?;
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
        let (monitor, address) = (gateway.monitor(), gateway.grpc_addr());
        let (stop, stopped) = oneshot::channel();
        let serving = gateway.serve(async { _ = stopped.await });
        let stopping = async {
            match address.filter(|_| self.example) {
                Some(address) => example::send(address).await.map_err(Some)?,
                None => {
                    signals.next().await;
                    // Somebody who looks on wants to know that it was heard.
                    tracing::info!("stopping: what is held is written; once more, and it ends at once");
                }
            }
            let _ = stop.send(());
            signals.next().await;
            Err(Some(format!("ended at once: {}", monitor.left())))
        };
        let summary = tokio::select! {
            summary = serving => summary.map_err(in_words)?,
            failure = stopping => return failure,
        };
        let Summary { requests, refused, spans, rejected_spans, rejected_events, spans_lost, events } = summary;
        tracing::info!(
            requests,
            refused,
            rejected_spans,
            rejected_events,
            spans_lost,
            "{spans} spans became {events} events"
        );
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

/// Ctrl-C and `SIGTERM`, from the start on.
struct Signals(Vec<Signal>);

impl Signals {
    fn listen() -> io::Result<Self> {
        let kinds = [SignalKind::interrupt(), SignalKind::terminate()];
        kinds.into_iter().map(signal).collect::<io::Result<_>>().map(Signals)
    }

    /// The next of them.
    async fn next(&mut self) {
        poll_fn(|context| match self.0.iter_mut().any(|signal| signal.poll_recv(context).is_ready()) {
            true => Poll::Ready(()),
            false => Poll::Pending,
        })
        .await
    }
}
