//! The files of a queue: what waits, what is parked, and the lock.

use std::collections::BinaryHeap;
use std::fs::{self, File};
use std::io::{ErrorKind, Read};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use crate::disk::{Directory, DiskError};
use crate::event::BATCH_LIMIT;

const LOCK: &str = "lock";
const PARKED: &str = "parked";
/// How many batches one look at the directory gives at most.
const LOOK_LIMIT: usize = 1_024;
/// How old a draft is that nobody writes any more. If somebody does, their renaming fails, and the lines come again.
const ABANDONED: Duration = Duration::from_secs(3_600);
const BLOCK: u64 = 4_096;

/// What a file of so many bytes takes on most disks: so the bound also holds for many small ones.
pub(super) fn on_disk(bytes: u64) -> u64 {
    bytes.next_multiple_of(BLOCK)
}

/// The directory of a queue.
pub(super) struct Files {
    path: PathBuf,
    /// Open while this process is the one that sends.
    lock: Option<File>,
    /// When `parked` was last changed, and what it held: it changes seldom and may be big.
    parked_seen: (Option<SystemTime>, u64),
}

/// A batch that waits, in the order in which they are sent.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Waiting {
    pub since: SystemTime,
    /// Before the stem itself: of two stems of one process the shorter has the lower number.
    stem_length: usize,
    pub stem: String,
    /// On disk.
    pub bytes: u64,
}

/// What is in the directory.
pub(super) struct Look {
    /// The oldest batches, at most [`LOOK_LIMIT`].
    pub oldest: Vec<Waiting>,
    /// Bytes on disk of all that wait.
    pub waiting: u64,
    /// Bytes on disk of all that are parked.
    pub parked: u64,
}

impl Files {
    pub fn open(path: &Path) -> Result<Self, DiskError> {
        Directory::open(&path.join(PARKED))?;
        let mut files = Files { path: path.to_owned(), lock: None, parked_seen: (None, 0) };
        // Where there are no locks it shows now.
        files.lock()?;
        Ok(files)
    }

    /// Takes the right to send, or keeps it; `false` while another has it.
    pub fn lock(&mut self) -> Result<bool, DiskError> {
        if self.lock.is_none() {
            self.lock = self.directory()?.lock(LOCK)?;
        }
        Ok(self.lock.is_some())
    }

    /// Looks at what is there, and removes drafts that a process has left behind.
    pub fn look(&mut self) -> Result<Look, DiskError> {
        let directory = self.directory()?;
        let mut oldest = BinaryHeap::new();
        let mut waiting = 0;
        for name in directory.names()? {
            let Some((stem, ending)) = name.rsplit_once('.') else { continue };
            let Some(facts) = directory.facts(&name)? else { continue };
            match ending {
                "jsonl" => {
                    let bytes = on_disk(facts.bytes);
                    waiting += bytes;
                    oldest.push(Waiting {
                        since: facts.modified,
                        stem_length: stem.len(),
                        stem: stem.to_owned(),
                        bytes,
                    });
                    if oldest.len() > LOOK_LIMIT {
                        oldest.pop();
                    }
                }
                "tmp" if facts.modified.elapsed().is_ok_and(|age| age > ABANDONED) => directory.remove(&name)?,
                _ => {}
            }
        }
        Ok(Look { oldest: oldest.into_sorted_vec(), waiting, parked: self.look_at_parked()? })
    }

    fn look_at_parked(&mut self) -> Result<u64, DiskError> {
        let changed = fs::metadata(self.path.join(PARKED)).and_then(|metadata| metadata.modified()).ok();
        if changed.is_none() || changed != self.parked_seen.0 {
            let parked = self.parked()?;
            let mut bytes = 0;
            for name in parked.names()? {
                bytes += parked.facts(&name)?.map_or(0, |facts| on_disk(facts.bytes));
            }
            self.parked_seen = (changed, bytes);
        }
        Ok(self.parked_seen.1)
    }

    /// Reads a batch, and one byte more than [`BATCH_LIMIT`] at most; `None` if it is gone.
    pub fn read(&self, stem: &str) -> Result<Option<Vec<u8>>, DiskError> {
        let name = finished(stem);
        let file = match self.directory()?.read(&name) {
            Err(DiskError::Failed { source, .. }) if source.kind() == ErrorKind::NotFound => return Ok(None),
            file => file?,
        };
        let mut lines = Vec::new();
        let read = file.take(BATCH_LIMIT as u64 + 1).read_to_end(&mut lines);
        read.map_err(|source| DiskError::Failed { action: "read", path: self.path.join(name), source })?;
        Ok(Some(lines))
    }

    /// Removes a batch that was sent.
    pub fn remove(&self, stem: &str) -> Result<(), DiskError> {
        self.directory()?.remove(&finished(stem))
    }

    /// Keeps a batch aside, with the reason beside it.
    pub fn park(&self, stem: &str, reason: &str) -> Result<(), DiskError> {
        let parked = self.parked()?;
        let note = format!("{stem}.txt");
        parked.remove(&note)?;
        parked.create(&note)?.write(reason.as_bytes())?;
        self.directory()?.move_to(&parked, &finished(stem))?;
        // After a power cut it is in one of the two, whichever the disk remembers.
        parked.sync()
    }

    /// Opened each time: it can be removed or replaced while the process runs.
    fn directory(&self) -> Result<Directory, DiskError> {
        Directory::open(&self.path)
    }

    fn parked(&self) -> Result<Directory, DiskError> {
        Directory::open(&self.path.join(PARKED))
    }
}

fn finished(stem: &str) -> String {
    format!("{stem}.jsonl")
}
