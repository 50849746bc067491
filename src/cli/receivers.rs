//! What sinks need to know beside where they are, a row each.

use std::path::PathBuf;

use clap::Args;

use super::units::Size;
use crate::sink::Settings;

/// How events get to where `--to` names.
#[derive(Args, Clone, Debug)]
pub(super) struct Receivers {
    /// The file with the key to the platform, for ingest [default: the key in FAILPROOF_API_KEY].
    #[arg(long, value_name = "FILE")]
    api_key_file: Option<PathBuf>,
    /// The file with the token that a gateway asks for, for grpc.
    #[arg(long, value_name = "FILE")]
    grpc_token_file: Option<PathBuf>,
    /// The certificates that receivers may show [default: those that the system trusts].
    #[arg(long, value_name = "FILE")]
    ca_file: Option<PathBuf>,
    /// Compress what goes to ingest: not every server takes that.
    #[arg(long, value_name = "BOOL", default_missing_value = "true", num_args = 0..=1, require_equals = true)]
    #[arg(default_value_t = false)]
    ingest_gzip: bool,
    /// Where what waits for receivers is kept [default: custom-agents/queues of the Failproof home].
    #[arg(long, value_name = "DIR")]
    queue_dir: Option<PathBuf>,
    /// How many bytes may wait for each receiver [default: 1GiB].
    #[arg(long, value_name = "SIZE")]
    queue_max_bytes: Option<Size>,
    /// How many bytes may wait in the spool for the daemon [default: 4GiB].
    #[arg(long, value_name = "SIZE")]
    spool_max_bytes: Option<Size>,
}

impl Receivers {
    pub fn settings(&self) -> Settings {
        Settings {
            api_key_file: self.api_key_file.clone(),
            grpc_token_file: self.grpc_token_file.clone(),
            ca_file: self.ca_file.clone(),
            gzip: self.ingest_gzip,
            queue_dir: self.queue_dir.clone(),
            queue_max_bytes: self.queue_max_bytes.map(|size| size.0 as u64),
            spool_max_bytes: self.spool_max_bytes.map(|size| size.0 as u64),
        }
    }
}
