//! What makes an answer mean that nothing is lost: spans are on disk before they are acknowledged.
//!
//! | module | does |
//! |---|---|
//! | `record` | what the journal holds, and how it is written |
//! | `log` | files of records: appended to, read at a place, removed when nothing in them is needed |
//! | `commit` | one thread that appends for all: one sync for all that arrived meanwhile |
//! | `store` | where spans wait for their run; what was told of them |
//! | `recover` | takes up the work of a process that was killed |
//!
//! A log of our own, because the embedded stores that were measured for it do not keep up: `fjall` 3.1 and `redb` 4.6
//! made 12,000 to 28,000 spans of 2.8 KB a second durable on two cores where a plain log made 95,000 to 130,000, at four
//! to eight times its processor time and two to twelve times its memory. What a store would add, an index that is
//! searched and changed in place, is not needed: spans are read back once, soon, by the place that was noted in memory.
//!
//! The order of things: spans are appended and synced, then acknowledged. When a batch of events is told, the journal
//! first notes which, then the sink gets the batch under a name of its own, then the journal notes that it has it. A
//! process that is killed in between leaves at most one batch in doubt, and the next one asks the sink for that name.

mod commit;
mod log;
mod record;
mod recover;
mod store;

use std::path::{Path, PathBuf};
use std::sync::Arc;

pub(super) use self::commit::Journal;
use self::log::Log;
pub(super) use self::record::Frames;
pub(super) use self::store::OnDisk;
use crate::disk::{Directory, DiskError};

/// The directory of the journal in the data directory.
const FOLDER: &str = "journal";
/// Whoever has this file locked owns the journal.
const LOCK: &str = "lock";

/// Why the journal cannot be opened.
#[derive(Debug, thiserror::Error)]
pub(super) enum OpenError {
    #[error("the data directory: {0}")]
    Disk(#[from] DiskError),
    #[error("another gateway uses {}; stop it, or give this one a directory of its own (--data-dir)", .0.display())]
    InUse(PathBuf),
    #[error("no thread for the journal: {0}")]
    Thread(std::io::Error),
}

/// Opens the journal in a data directory, which is to have no more than so many bytes: the way to append to it, and what
/// keeps spans in it.
///
/// # Errors
/// If the directory cannot be used, or another process uses it.
pub(super) fn open(data_directory: &Path, max_bytes: u64) -> Result<(Arc<Journal>, OnDisk), OpenError> {
    let path = data_directory.join(FOLDER);
    let directory = Directory::open(&path)?;
    let lock = directory.lock(LOCK)?.ok_or(OpenError::InUse(path))?;
    let log = Arc::new(Log::open(directory, lock, max_bytes)?);
    let journal = Arc::new(Journal::start(log.clone()).map_err(OpenError::Thread)?);
    Ok((journal.clone(), OnDisk::new(journal, log)))
}

#[cfg(test)]
mod tests;
