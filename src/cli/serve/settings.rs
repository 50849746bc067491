//! The settings of `serve`, a row each; see [`super::super::sources`] for what a row gives beside its flag.

use std::net::SocketAddr;
use std::path::PathBuf;

use clap::Args;

use super::super::logs::LogFormat;
use super::super::receivers::Receivers;
use super::super::units::{Size, Time};
use crate::gateway;
use crate::sink::{Destination, Home};
use crate::trace::Timing;

#[derive(Args, Debug)]
#[command(next_help_heading = "Settings of the gateway")]
pub(in crate::cli) struct Settings {
    /// Where OTLP/gRPC is served.
    #[arg(long, value_name = "ADDRESS", default_value_t = gateway::DEFAULT_GRPC)]
    pub grpc: SocketAddr,
    /// Where OTLP/HTTP is served (/v1/traces).
    #[arg(long, value_name = "ADDRESS", default_value_t = gateway::DEFAULT_HTTP)]
    pub http: SocketAddr,
    /// Where events go: spool, spool:DIR, stdout, ingest:URL, otlp-logs:URL or grpc:URL (repeatable); the example prints
    /// them.
    #[arg(long, value_name = "SINK", default_value = "spool", default_value_if("example", "true", "stdout"))]
    pub to: Vec<Destination>,
    #[command(flatten)]
    pub receivers: Receivers,
    /// Where spans are safe before they are acknowledged [default: custom-agents/gateway in the Failproof home].
    #[arg(long, value_name = "DIR")]
    pub data_dir: Option<PathBuf>,
    /// How long a complete trace waits for late spans: 500ms, 2s, 10m.
    #[arg(long, value_name = "TIME", default_value_t = Time(Timing::default().grace))]
    pub grace: Time,
    /// How long a trace waits for a parent that does not come, since its last span.
    #[arg(long, value_name = "TIME", default_value_t = Time(Timing::default().idle))]
    pub idle_timeout: Time,
    /// How long a trace waits at most.
    #[arg(long, value_name = "TIME", default_value_t = Time(Timing::default().max_wait))]
    pub max_wait: Time,
    /// How many bytes the journal in the data directory has; beyond, requests are refused until some are told.
    #[arg(long, value_name = "SIZE", default_value_t = Size(gateway::DEFAULT_MAX_JOURNAL_BYTES as usize))]
    pub max_journal_bytes: Size,
    /// How many bytes of memory the notes about spans that wait take; beyond, the oldest are written as they are.
    #[arg(long, value_name = "SIZE", default_value_t = Size(gateway::DEFAULT_MAX_WAITING_BYTES))]
    pub max_waiting_bytes: Size,
    /// How many spans of one trace are mapped at once; a trace that has more is told in parts. Each takes about 7 KB.
    #[arg(long, value_name = "COUNT", default_value_t = gateway::DEFAULT_MAX_TRACE_SPANS)]
    pub max_trace_spans: usize,
    /// How many bytes a request may have, before and after decompression.
    #[arg(long, value_name = "SIZE", default_value_t = Size(gateway::DEFAULT_MAX_BODY_BYTES))]
    pub max_body_bytes: Size,
    /// How many bytes of requests are in memory at once; beyond, requests are refused for now. One address gets half.
    #[arg(long, value_name = "SIZE", default_value_t = Size(gateway::DEFAULT_MAX_IN_FLIGHT_BYTES))]
    pub max_in_flight_bytes: Size,
    /// How many connections are served at once; beyond, they wait until one ends.
    #[arg(long, value_name = "COUNT", default_value_t = gateway::DEFAULT_MAX_CONNECTIONS)]
    pub max_connections: usize,
    /// How long a client may take for its handshake, for the head of a request, and for its body.
    #[arg(long, value_name = "TIME", default_value_t = Time(gateway::DEFAULT_READ_TIMEOUT))]
    pub read_timeout: Time,
    /// A file of tokens, one a line, readable by its owner alone: requests must show one (Authorization: Bearer TOKEN).
    #[arg(long, value_name = "FILE")]
    pub auth_token_file: Option<PathBuf>,
    /// Serve addresses other than loopback though nothing says who may write there.
    #[arg(long, value_name = "BOOL", default_missing_value = "true", num_args = 0..=1, require_equals = true)]
    #[arg(default_value_t = false)]
    pub insecure_no_auth: bool,
    /// The gateway's TLS certificate, with those up to its authority (PEM).
    #[arg(long, value_name = "FILE")]
    pub tls_cert: Option<PathBuf>,
    /// The key of the certificate (PEM), readable by its owner alone.
    #[arg(long, value_name = "FILE")]
    pub tls_key: Option<PathBuf>,
    /// Authorities (PEM): clients must show a certificate that one of them vouches for.
    #[arg(long, value_name = "FILE")]
    pub tls_client_ca: Option<PathBuf>,
    /// How long the sink may take at the end for all that is left.
    #[arg(long, value_name = "TIME", default_value_t = Time(gateway::DEFAULT_DRAIN_TIMEOUT))]
    pub drain_timeout: Time,
    /// How the log is written.
    #[arg(long, value_enum, value_name = "FORMAT", default_value_t)]
    pub log_format: LogFormat,
}

impl Settings {
    /// The data directory.
    ///
    /// # Errors
    /// In words, if none is given and there is no Failproof home.
    pub fn data_dir(&self) -> Result<PathBuf, String> {
        let of_home = || Home::from_env().map(|home| home.gateway());
        self.data_dir.clone().or_else(of_home).ok_or_else(|| {
            "no Failproof home for what the gateway keeps: set FAILPROOFAI_HOME or HOME, or give --data-dir".to_owned()
        })
    }

    /// Who may talk to the gateway, and how.
    ///
    /// # Errors
    /// In words, if one file is given without another that it needs.
    pub fn guards(&self) -> Result<gateway::Guards, String> {
        let client_ca = self.tls_client_ca.clone();
        let tls = match (self.tls_cert.clone(), self.tls_key.clone()) {
            (Some(certificate), Some(key)) => Some(gateway::Tls { certificate, key, client_ca }),
            (None, None) if client_ca.is_none() => None,
            (None, None) => return Err("--tls-client-ca needs --tls-cert and --tls-key".to_owned()),
            (Some(_), None) => return Err("--tls-cert needs --tls-key".to_owned()),
            (None, Some(_)) => return Err("--tls-key needs --tls-cert".to_owned()),
        };
        Ok(gateway::Guards {
            auth_token_file: self.auth_token_file.clone(),
            insecure_no_auth: self.insecure_no_auth,
            tls,
        })
    }

    /// What a gateway is made of, but for its sink and its mapping.
    ///
    /// # Errors
    /// If some of them need others.
    pub fn apply(&self, options: &mut gateway::Options) -> Result<(), String> {
        (options.grpc, options.http) = (Some(self.grpc), Some(self.http));
        options.timing = Timing { grace: self.grace.0, idle: self.idle_timeout.0, max_wait: self.max_wait.0 };
        options.max_journal_bytes = self.max_journal_bytes.0 as u64;
        options.max_waiting_bytes = self.max_waiting_bytes.0;
        options.max_trace_spans = self.max_trace_spans.max(1);
        options.max_body_bytes = self.max_body_bytes.0;
        options.max_in_flight_bytes = self.max_in_flight_bytes.0;
        options.max_connections = self.max_connections;
        options.read_timeout = self.read_timeout.0;
        options.guards = self.guards()?;
        options.drain_timeout = self.drain_timeout.0;
        Ok(())
    }
}
