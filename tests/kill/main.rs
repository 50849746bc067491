//! `failproof-otel serve` as a process that is killed, ended, started twice, filled and made to run long: what it has
//! acknowledged comes out, each event once and byte for byte as the mapping gives it.
#![cfg(all(feature = "cli", feature = "gateway"))]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::print_stderr)]

mod again;
mod bounds;
mod client;
mod daemon;
mod ended;
mod load;
mod ready;
mod rounds;
mod runs;
mod soak;
#[path = "../support/mod.rs"]
mod support;
mod tally;

use std::path::PathBuf;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Where one test keeps the gateway's data and its spool.
struct Place {
    folder: tempfile::TempDir,
}

impl Place {
    fn new() -> Self {
        Place { folder: tempfile::tempdir().unwrap() }
    }

    fn spool(&self) -> PathBuf {
        self.folder.path().join("spool")
    }

    /// A gateway on it.
    fn gateway(&self, arguments: &[&str]) -> support::serving::Gateway {
        support::serving::Gateway::start_with(self.folder.path(), &self.spool(), arguments)
    }
}

/// One test at a time: each keeps the machine busy, and some measure.
fn alone() -> MutexGuard<'static, ()> {
    static ALONE: Mutex<()> = Mutex::new(());
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// What `/proc` says of a process under that key, in KiB.
fn kib(process: u32, key: &str) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{process}/status")).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix(key)).unwrap();
    line.trim_matches(|char: char| !char.is_ascii_digit()).parse().unwrap()
}
