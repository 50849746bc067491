//! `serve`: the gateway on the command line.

use std::io::Write;
use std::net::SocketAddr;
use std::time::Duration;

use clap::Args;
use tokio::runtime::Runtime;
use tokio::signal;

use super::options::Options;
use super::{Failure, example};
use crate::gateway::{self, Gateway, GatewayError, Summary};
use crate::sink::Destination;
use crate::trace::Timing;

#[derive(Args, Debug)]
pub(super) struct Serve {
    /// Where OTLP/gRPC is served.
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:4317")]
    grpc: SocketAddr,
    /// Where OTLP/HTTP is served (/v1/traces).
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:4318")]
    http: SocketAddr,
    /// Where events go: spool, spool:DIR or stdout [default: spool; stdout for the example].
    #[arg(long, value_name = "SINK")]
    to: Option<Destination>,
    /// How long a complete trace waits for late spans: 500ms, 2s, 10m.
    #[arg(long, value_name = "TIME", default_value = "2s", value_parser = duration)]
    grace: Duration,
    /// How long a trace waits for a parent that does not come, since its last span.
    #[arg(long, value_name = "TIME", default_value = "30s", value_parser = duration)]
    idle_timeout: Duration,
    /// How long a trace waits at most.
    #[arg(long, value_name = "TIME", default_value = "10m", value_parser = duration)]
    max_wait: Duration,
    /// Send a recorded run to a gateway of its own over gRPC, print what comes out, and end.
    #[arg(long, conflicts_with_all = ["grpc", "http"])]
    example: bool,
    #[command(flatten)]
    options: Options,
}

impl Serve {
    pub fn run(self) -> Result<(), Failure> {
        let runtime = Runtime::new().map_err(|error| Some(format!("no runtime: {error}")))?;
        runtime.block_on(self.serve())
    }

    async fn serve(self) -> Result<(), Failure> {
        let default = if self.example { Destination::Stdout } else { Destination::default() };
        let destination = self.to.clone().unwrap_or(default);
        let place = destination.to_string();
        let sink = destination.open().map_err(|error| Some(error.to_string()))?;
        let mut options = gateway::Options::new(sink);
        options.config = self.options.config().map_err(Some)?;
        options.timing = Timing { grace: self.grace, idle: self.idle_timeout, max_wait: self.max_wait };
        (options.grpc, options.http) = match self.example {
            true => (Some(example::ADDRESS), None),
            false => (Some(self.grpc), Some(self.http)),
        };
        let gateway = Gateway::bind(options).await.map_err(in_words)?;
        let addresses = [("gRPC", gateway.grpc_addr()), ("HTTP", gateway.http_addr())];
        for (transport, address) in addresses {
            if let Some(address) = address {
                tracing::info!("OTLP/{transport} on {address}, events go to {place}");
                if !address.ip().is_loopback() {
                    tracing::warn!("{address} is open to other hosts: whoever reaches it can write events");
                }
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

/// A time as people write it: `500ms`, `2s`, `10m`, `1h`, or seconds alone.
fn duration(text: &str) -> Result<Duration, String> {
    let wrong = || format!("{text:?} is no time; write 500ms, 2s, 10m or 1h");
    let number_end = text.find(|char: char| !char.is_ascii_digit()).unwrap_or(text.len());
    let (number, unit) = text.split_at(number_end);
    let number: u64 = number.parse().map_err(|_| wrong())?;
    let milliseconds = match unit.trim() {
        "ms" => 1,
        "s" | "" => 1_000,
        "m" => 60_000,
        "h" => 3_600_000,
        _ => return Err(wrong()),
    };
    number.checked_mul(milliseconds).map(Duration::from_millis).ok_or_else(wrong)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_read_as_people_write_them() {
        assert_eq!(duration("500ms"), Ok(Duration::from_millis(500)));
        assert_eq!(duration("2s"), Ok(Duration::from_secs(2)));
        assert_eq!(duration("10m"), Ok(Duration::from_secs(600)));
        assert_eq!(duration("3"), Ok(Duration::from_secs(3)));
        for wrong in ["", "s", "2 weeks", "-1s", "99999999999999999999h"] {
            assert!(duration(wrong).is_err(), "{wrong:?}");
        }
    }
}
