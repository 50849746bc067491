//! The spool: a directory from which the Failproof daemon takes finished files, uploads and deletes them.
//!
//! A batch is written to `<stem>.tmp`, which the daemon ignores, and renamed to `<stem>.jsonl` when it is complete and
//! on disk. A file whose sync failed is never synced again, because the system may have dropped what it could not
//! write; it is removed, and its lines come again under a new name.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, ErrorKind, Write};
use std::iter;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::process;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

use super::batches::batches;
use super::{Home, Sink, SinkError};
use crate::event::format_timestamp;

/// The files hold what users said: nobody else reads them.
const FILE_MODE: u32 = 0o600;
const DIRECTORY_MODE: u32 = 0o700;
/// How many taken names to pass over; more than a few mean that something else is wrong.
const ATTEMPTS: usize = 1_000;
const ROOT: u32 = 0;

/// A spool directory. Any number of these, in any number of processes, can share one.
#[derive(Clone, Debug)]
pub struct Spool {
    directory: PathBuf,
}

impl Spool {
    /// The spool in a directory, which is made if it is missing. A relative one is meant from where the process is now.
    ///
    /// # Errors
    /// If no file can be created there; or if the directory is a symbolic link, no directory, or belongs to a user other
    /// than this one and root.
    pub fn open(directory: impl AsRef<Path>) -> Result<Self, SinkError> {
        let directory = directory.as_ref();
        let absolute = std::path::absolute(directory).map_err(failed("find", directory))?;
        // From its components: a slash at the end would make the system look through a symbolic link.
        let spool = Spool { directory: absolute.components().collect() };
        // A draft that goes at once shows now, and not at the first batch, whether this place will do.
        drop(spool.create_draft()?);
        Ok(spool)
    }

    /// The spool of the Failproof home ([`Home::from_env`]).
    ///
    /// # Errors
    /// As [`Spool::open`], and if there is no home.
    pub fn open_default() -> Result<Self, SinkError> {
        Self::open(Home::from_env().ok_or(SinkError::NoHome)?.spool())
    }

    /// The directory, absolute.
    pub fn directory(&self) -> &Path {
        &self.directory
    }

    fn write_batch(&self, batch: &[u8]) -> Result<(), SinkError> {
        let mut draft = self.create_draft()?;
        let written = draft.file.write_all(batch).and_then(|()| draft.file.sync_all());
        written.map_err(failed("write", &draft.path))?;
        draft.finish().map_err(failed("finish", &draft.path))?;
        sync_directory(&self.directory).map_err(failed("sync", &self.directory))?;
        draft.keep = true;
        Ok(())
    }

    /// An empty draft. The directory is looked at each time: it can be removed or replaced while the process runs.
    fn create_draft(&self) -> Result<Draft, SinkError> {
        let owner = self.check_directory()?;
        let creating = failed("create a file in", &self.directory);
        let draft = Draft::create(&self.directory, stems()).map_err(creating)?;
        // A file that we created tells who we are, without asking the system by unsafe means.
        let us = draft.file.metadata().map_err(failed("look at", &draft.path))?.uid();
        if owner != us && owner != ROOT {
            return Err(self.refused(format!("belongs to user {owner}, and this is user {us}")));
        }
        Ok(draft)
    }

    /// Makes the directory if it is missing; returns its owner.
    fn check_directory(&self) -> Result<u32, SinkError> {
        let look = || fs::symlink_metadata(&self.directory);
        let found = look().or_else(|cause| match cause.kind() {
            ErrorKind::NotFound => create_directory(&self.directory).and_then(|()| look()),
            _ => Err(cause),
        });
        let found = found.map_err(failed("create the directory", &self.directory))?;
        if found.is_symlink() {
            return Err(self.refused("is a symbolic link".to_owned()));
        }
        if !found.is_dir() {
            return Err(self.refused("is not a directory".to_owned()));
        }
        Ok(found.uid())
    }

    fn refused(&self, why: String) -> SinkError {
        SinkError::Refused { path: self.directory.clone(), why, written: 0 }
    }
}

impl Sink for Spool {
    fn write(&mut self, lines: &[u8]) -> Result<(), SinkError> {
        let mut written = 0;
        for batch in batches(lines) {
            self.write_batch(batch).map_err(|error| error.after(written))?;
            written += batch.len();
        }
        Ok(())
    }

    fn describe(&self) -> String {
        format!("spool {}", self.directory.display())
    }
}

/// A file that is not safe yet. It is removed when dropped, unless it is kept.
struct Draft {
    file: File,
    path: PathBuf,
    keep: bool,
}

impl Draft {
    /// Creates `<stem>.tmp` for the first stem that is free.
    ///
    /// While a draft exists nobody else can create it, and a `.jsonl` only ever comes from its draft. So a stem that has
    /// no `.jsonl` once we hold its draft stays free until we rename, and renaming overwrites nothing.
    fn create(directory: &Path, stems: impl Iterator<Item = String>) -> io::Result<Self> {
        for stem in stems {
            let path = directory.join(stem).with_extension("tmp");
            // Exclusive creation does not follow a symbolic link, not even one that leads nowhere.
            let file = match OpenOptions::new().write(true).create_new(true).mode(FILE_MODE).open(&path) {
                Err(cause) if cause.kind() == ErrorKind::AlreadyExists => continue,
                file => file?,
            };
            let draft = Draft { file, path, keep: false };
            match fs::symlink_metadata(draft.finished()) {
                Ok(_) => continue,
                Err(cause) if cause.kind() == ErrorKind::NotFound => return Ok(draft),
                Err(cause) => return Err(cause),
            }
        }
        Err(ErrorKind::AlreadyExists.into())
    }

    fn finished(&self) -> PathBuf {
        self.path.with_extension("jsonl")
    }

    /// Gives it the name that the daemon looks for.
    fn finish(&mut self) -> io::Result<()> {
        let finished = self.finished();
        fs::rename(&self.path, &finished)?;
        self.path = finished;
        Ok(())
    }
}

impl Drop for Draft {
    fn drop(&mut self) {
        if !self.keep {
            // What can't be removed either stays a `.tmp`, which nobody reads, or is a complete batch that comes twice,
            // byte for byte the same.
            let _ = fs::remove_file(&self.path);
        }
    }
}

/// Names for files, unique in this process and, but for a rare chance that [`Draft::create`] sees to, among all.
fn stems() -> impl Iterator<Item = String> {
    static SEQUENCE: AtomicU64 = AtomicU64::new(0);
    iter::repeat_with(|| stem(SystemTime::now(), process::id(), SEQUENCE.fetch_add(1, Ordering::Relaxed)))
        .take(ATTEMPTS)
}

/// `event-2026-01-02T03-04-05-678Z-4711-0`, as Failproof's own SDK names its files. It holds no `.`, after which the
/// daemon notes its retries.
fn stem(time: SystemTime, process: u32, sequence: u64) -> String {
    let since_1970 = time.duration_since(UNIX_EPOCH).unwrap_or_default();
    let mut time = format_timestamp(u64::try_from(since_1970.as_nanos()).unwrap_or(u64::MAX)).replace([':', '.'], "-");
    time.truncate("2026-01-02T03-04-05-678".len());
    format!("event-{time}Z-{process}-{sequence}")
}

/// Makes a directory and the parents that it lacks, for us alone.
fn create_directory(path: &Path) -> io::Result<()> {
    let create = || DirBuilder::new().mode(DIRECTORY_MODE).create(path);
    let Some(parent) = path.parent() else { return create() };
    let created = create().or_else(|cause| match cause.kind() {
        ErrorKind::NotFound => create_directory(parent).and_then(|()| create()),
        _ => Err(cause),
    });
    match created {
        // Another process was faster.
        Err(cause) if cause.kind() == ErrorKind::AlreadyExists => Ok(()),
        Err(cause) => Err(cause),
        // One that might not last goes again, so that the next attempt does not take it for safe.
        Ok(()) => sync_directory(parent).inspect_err(|_| drop(fs::remove_dir(path))),
    }
}

/// Makes the names in a directory last through a power cut.
fn sync_directory(path: &Path) -> io::Result<()> {
    match File::open(path)?.sync_all() {
        // Some network file systems have no such operation; they keep names by themselves or not at all.
        Err(cause) if matches!(cause.kind(), ErrorKind::InvalidInput | ErrorKind::Unsupported) => Ok(()),
        synced => synced,
    }
}

fn failed(action: &'static str, path: &Path) -> impl FnOnce(io::Error) -> SinkError {
    let path = path.to_owned();
    move |source| SinkError::Spool { action, path, written: 0, source }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;
    use std::time::Duration;

    use super::*;

    fn first_free(directory: &Path) -> io::Result<String> {
        let draft = Draft::create(directory, ["one", "two", "three"].map(String::from).into_iter())?;
        Ok(draft.path.file_name().unwrap().to_str().unwrap().to_owned())
    }

    #[test]
    fn a_name_has_the_form_of_the_sdk() {
        let time = UNIX_EPOCH + Duration::from_micros(1_767_323_045_678_901);
        assert_eq!(stem(time, 4711, 12), "event-2026-01-02T03-04-05-678Z-4711-12");
        assert_eq!(stem(UNIX_EPOCH - Duration::from_secs(1), 1, 0), "event-1970-01-01T00-00-00-000Z-1-0");
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
        assert_eq!(first_free(directory).unwrap_err().kind(), ErrorKind::AlreadyExists);
        let mut left = fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().file_name()).collect::<Vec<_>>();
        left.sort();
        assert_eq!(left, ["one.jsonl", "three.jsonl", "two.tmp"]);
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
    fn a_finished_file_that_is_not_kept_goes_too() {
        let directory = tempfile::tempdir().unwrap();
        let mut draft = Draft::create(directory.path(), stems()).unwrap();
        draft.finish().unwrap();
        assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 1);
        drop(draft);
        assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 0);
    }
}
