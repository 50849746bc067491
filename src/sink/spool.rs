//! The spool: a directory from which the Failproof daemon takes finished files, uploads and deletes them.
//!
//! A batch is written to `<stem>.tmp`, which the daemon ignores, and renamed to `<stem>.jsonl` when it is complete and
//! on disk. A file whose sync failed is never synced again, because the system may have dropped what it could not
//! write; it is removed, and its lines come again under a new name.

use std::io::Read;
use std::path::{Path, PathBuf};
use std::process;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};
use std::{io, iter};

use super::batches::batches;
use super::{Home, Sink, SinkError};
use crate::disk::{Directory, DiskError, NewFile};
use crate::event::format_timestamp;

/// How many taken names to pass over; more than a few mean that something else is wrong.
const ATTEMPTS: usize = 1_000;

/// How many bytes a spool holds at most, if nobody says otherwise.
const DEFAULT_MAX_BYTES: u64 = 4 << 30;

/// A spool directory. Any number of these, in any number of processes, can share one.
#[derive(Clone, Debug)]
pub struct Spool {
    directory: PathBuf,
    max_bytes: u64,
    /// How many bytes may be written before the directory is looked through again.
    room: u64,
}

impl Spool {
    /// The spool in a directory, which is made if it is missing. A relative one is meant from where the process is now.
    ///
    /// # Errors
    /// If no file can be created there; or if the directory is a symbolic link, no directory, belongs to a user other
    /// than this one and root, or can be written by others.
    pub fn open(directory: impl AsRef<Path>) -> Result<Self, SinkError> {
        let spool = Spool::at(directory.as_ref())?;
        // A draft that goes at once shows now, and not at the first batch, whether this place will do.
        drop(Draft::create(spool.look()?, stems())?);
        Ok(spool)
    }

    /// What keeps it from being opened, as far as that shows without making anything.
    ///
    /// # Errors
    /// As [`Spool::open`].
    pub(super) fn check(directory: &Path) -> Result<(), SinkError> {
        Ok(Directory::check(&Spool::at(directory)?.directory)?)
    }

    fn at(directory: &Path) -> Result<Self, SinkError> {
        let absolute = std::path::absolute(directory).map_err(|source| SinkError::Spool {
            action: "find",
            path: directory.to_owned(),
            written: 0,
            source,
        })?;
        // From its components: a slash at the end would make the system look through a symbolic link.
        Ok(Spool { directory: absolute.components().collect(), max_bytes: DEFAULT_MAX_BYTES, room: 0 })
    }

    /// The spool of the Failproof home ([`Home::from_env`]).
    ///
    /// # Errors
    /// As [`Spool::open`], and if there is no home.
    pub fn open_default() -> Result<Self, SinkError> {
        Self::open(Home::from_env().ok_or(SinkError::NoHome)?.spool())
    }

    /// Bounds what the directory holds; 4 GiB if it is not called. Beyond, writing fails until the daemon has taken some.
    /// Several that write to one directory can together exceed it by what one of them may write.
    #[must_use]
    pub fn with_max_bytes(mut self, max_bytes: u64) -> Self {
        (self.max_bytes, self.room) = (max_bytes, 0);
        self
    }

    /// The directory, absolute.
    pub fn directory(&self) -> &Path {
        &self.directory
    }

    /// The directory, looked at each time: it can be removed or replaced while the process runs.
    fn look(&self) -> Result<Directory, SinkError> {
        Ok(Directory::open(&self.directory)?)
    }

    /// Counts what is there only when what was free then has been used up: a spool can have many files.
    fn take_room(&mut self, directory: &Directory, bytes: u64) -> Result<(), SinkError> {
        if self.room < bytes {
            // Into an empty one anything fits, or a batch bigger than the bound would wait for ever.
            let used = directory.bytes()?;
            self.room = self.max_bytes.saturating_sub(used).max(if used == 0 { bytes } else { 0 });
        }
        let full = || SinkError::Full {
            path: self.directory.clone(),
            limit: self.max_bytes,
            remedy: "see whether Failproof's daemon runs and can upload, or allow more",
        };
        self.room = self.room.checked_sub(bytes).ok_or_else(full)?;
        Ok(())
    }

    fn write_batch(&mut self, stems: impl Iterator<Item = String>, batch: &[u8]) -> Result<(), SinkError> {
        let directory = self.look()?;
        self.take_room(&directory, batch.len() as u64)?;
        let mut draft = Draft::create(directory, stems)?;
        draft.file.write(batch)?;
        draft.file.sync()?;
        Ok(draft.finish()?)
    }
}

impl Sink for Spool {
    fn write(&mut self, lines: &[u8]) -> Result<(), SinkError> {
        let mut written = 0;
        for batch in batches(lines) {
            self.write_batch(stems(), batch).map_err(|error| error.after(written))?;
            written += batch.len();
        }
        Ok(())
    }

    fn write_named(&mut self, stem: &str, batch: &[u8]) -> Result<(), SinkError> {
        let directory = self.look()?;
        if directory.holds(&finished(stem))? {
            return Ok(());
        }
        // Left behind by a process that was killed: the name is ours alone.
        directory.remove(&draft(stem))?;
        self.write_batch(iter::once(stem.to_owned()), batch)
    }

    fn find(&self, stem: &str) -> Result<Option<Vec<u8>>, SinkError> {
        let directory = self.look()?;
        // Behind a dot the daemon notes its retries.
        let is_meant = |name: &String| name.strip_prefix(stem).is_some_and(|rest| rest.starts_with('.'));
        // What a process that was killed had begun to write is not the batch.
        directory.remove(&draft(stem))?;
        let names = directory.names()?;
        let Some(name) = names.iter().find(|name| is_meant(name)) else { return Ok(None) };
        let mut lines = Vec::new();
        let read = directory.read(name)?.read_to_end(&mut lines);
        let path = self.directory.join(name);
        read.map_err(|source| SinkError::Spool { action: "read", path, written: 0, source })?;
        Ok(Some(lines))
    }

    fn describe(&self) -> String {
        format!("spool {}", self.directory.display())
    }
}

/// A file that is not safe yet. It is removed when dropped before it is finished.
struct Draft {
    directory: Directory,
    file: NewFile,
    name: String,
    finished: String,
    is_finished: bool,
}

impl Draft {
    /// Creates `<stem>.tmp` for the first stem that is free.
    ///
    /// While a draft exists nobody else can create it, and a `.jsonl` only ever comes from its draft. So a stem that has
    /// no `.jsonl` once we hold its draft stays free until we rename, and renaming overwrites nothing.
    fn create(directory: Directory, stems: impl Iterator<Item = String>) -> Result<Self, DiskError> {
        for stem in stems {
            let (name, finished) = (draft(&stem), finished(&stem));
            let file = match directory.create(&name) {
                Err(error) if error.is_taken() => continue,
                file => file?,
            };
            if directory.holds(&finished)? {
                directory.remove(&name)?;
                continue;
            }
            return Ok(Draft { directory, file, name, finished, is_finished: false });
        }
        let (path, source) = (directory.path().to_owned(), io::ErrorKind::AlreadyExists.into());
        Err(DiskError::Failed { action: "create a file in", path, source })
    }

    /// Gives it the name that the daemon looks for.
    fn finish(mut self) -> Result<(), DiskError> {
        self.directory.rename(&self.name, &self.finished)?;
        self.name.clone_from(&self.finished);
        self.directory.sync()?;
        self.is_finished = true;
        Ok(())
    }
}

impl Drop for Draft {
    fn drop(&mut self) {
        if !self.is_finished {
            // What can't be removed either stays a `.tmp`, which nobody reads, or is a complete batch that comes twice,
            // byte for byte the same.
            let _ = self.directory.remove(&self.name);
        }
    }
}

fn draft(stem: &str) -> String {
    format!("{stem}.tmp")
}

fn finished(stem: &str) -> String {
    format!("{stem}.jsonl")
}

/// Names for files, unique in this process and, but for a rare chance that [`Draft::create`] sees to, among all.
fn stems() -> impl Iterator<Item = String> {
    static SEQUENCE: AtomicU64 = AtomicU64::new(0);
    let family = family(SystemTime::now(), process::id());
    iter::repeat_with(move || format!("{family}-{}", SEQUENCE.fetch_add(1, Ordering::Relaxed))).take(ATTEMPTS)
}

/// `event-2026-01-02T03-04-05-678Z-4711`, to which a number is added, as Failproof's own SDK names its files. It holds no
/// `.`, after which the daemon notes its retries.
pub(crate) fn family(time: SystemTime, process: u32) -> String {
    let since_1970 = time.duration_since(UNIX_EPOCH).unwrap_or_default();
    let mut time = format_timestamp(u64::try_from(since_1970.as_nanos()).unwrap_or(u64::MAX)).replace([':', '.'], "-");
    time.truncate("2026-01-02T03-04-05-678".len());
    format!("event-{time}Z-{process}")
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;
    use std::time::Duration;

    use super::*;

    fn first_free(directory: &Path) -> Result<String, DiskError> {
        let stems = ["one", "two", "three"].map(String::from).into_iter();
        Ok(Draft::create(Directory::open(directory)?, stems)?.name.clone())
    }

    fn spool(directory: &Path) -> Spool {
        Spool::open(directory).unwrap()
    }

    fn names(directory: &Path) -> Vec<String> {
        Directory::open(directory).unwrap().names().unwrap()
    }

    #[test]
    fn a_name_has_the_form_of_the_sdk() {
        let time = UNIX_EPOCH + Duration::from_micros(1_767_323_045_678_901);
        assert_eq!(family(time, 4711), "event-2026-01-02T03-04-05-678Z-4711");
        assert_eq!(family(UNIX_EPOCH - Duration::from_secs(1), 1), "event-1970-01-01T00-00-00-000Z-1");
    }

    #[test]
    fn a_taken_name_is_passed_over() {
        let directory = tempfile::tempdir().unwrap();
        let directory = directory.path();
        assert_eq!(first_free(directory).unwrap(), "one.tmp");
        fs::write(directory.join("one.jsonl"), "theirs").unwrap();
        assert_eq!(first_free(directory).unwrap(), "two.tmp");
        fs::write(directory.join("two.tmp"), "theirs").unwrap();
        assert_eq!(first_free(directory).unwrap(), "three.tmp");
        symlink("nowhere", directory.join("three.jsonl")).unwrap();
        assert!(first_free(directory).unwrap_err().is_taken());
        assert_eq!(names(directory), ["one.jsonl", "three.jsonl", "two.tmp"]);
        assert_eq!(fs::read(directory.join("one.jsonl")).unwrap(), b"theirs");
    }

    #[test]
    fn a_link_in_the_place_of_a_draft_is_not_followed() {
        let directory = tempfile::tempdir().unwrap();
        let target = directory.path().join("target");
        symlink(&target, directory.path().join("one.tmp")).unwrap();
        assert_eq!(first_free(directory.path()).unwrap(), "two.tmp");
        assert!(!target.exists(), "created through the link");
        fs::write(&target, "theirs").unwrap();
        assert_eq!(first_free(directory.path()).unwrap(), "two.tmp");
        assert_eq!(fs::read(&target).unwrap(), b"theirs");
    }

    #[test]
    fn a_batch_with_a_name_is_written_once_and_found_again() {
        let directory = tempfile::tempdir().unwrap();
        let mut spool = spool(directory.path());
        assert_eq!(spool.find("batch-1").unwrap(), None);
        fs::write(directory.path().join("batch-1.tmp"), "half of a li").unwrap();
        assert_eq!(spool.find("batch-1").unwrap(), None, "what is not finished is not there");
        spool.write_named("batch-1", b"{}\n").unwrap();
        spool.write_named("batch-1", b"{}\n").unwrap();
        spool.write_named("batch-10", b"{\"x\":1}\n").unwrap();
        assert_eq!(names(directory.path()), ["batch-1.jsonl", "batch-10.jsonl"]);
        assert_eq!(spool.find("batch-1").unwrap().as_deref(), Some(&b"{}\n"[..]));
        // As the daemon renames what it tries again.
        fs::rename(directory.path().join("batch-1.jsonl"), directory.path().join("batch-1.2.jsonl")).unwrap();
        assert_eq!(spool.find("batch-1").unwrap().as_deref(), Some(&b"{}\n"[..]));
    }

    #[test]
    fn a_finished_file_that_is_not_safe_goes_too() {
        use crate::disk::Step;
        use crate::disk::fault::{Faults, Plan};
        let place = tempfile::tempdir().unwrap();
        let directory = place.path().join("spool");
        let mut spool = spool(&directory);
        let eio = || io::Error::from_raw_os_error(5);
        let faults = Faults::below(place.path(), Plan::Fail(|step| *step == Step::SyncDirectory, eio));
        assert!(spool.write(b"{}\n").is_err());
        assert_eq!(names(&directory), [""; 0]);
        faults.set(Plan::Fail(|step| *step == Step::SyncFile, eio));
        assert!(spool.write(b"{}\n").is_err());
        assert_eq!(names(&directory), [""; 0]);
        faults.set(Plan::Watch);
        spool.write(b"{}\n").unwrap();
        faults.cut_power(|| false);
        let [file] = names(&directory).try_into().unwrap();
        assert_eq!(fs::read(directory.join(file)).unwrap(), b"{}\n", "what was written survives a power cut");
    }
}
