//! Directories of our own, and the few things that are done in them.
//!
//! Everything that must survive a power cut goes through here: files are made anew (never followed, never overwritten),
//! synced, renamed, and the directory that names them synced too. A directory is looked at when it is opened and held by
//! its handle from then on, so that nothing put in its place in the meantime is written to.

#[cfg(test)]
pub(crate) mod fault;

use std::fs::{self, DirBuilder, File};
use std::io::{self, ErrorKind, Write};
use std::os::fd::OwnedFd;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use rustix::fs::{Access, AtFlags, FileType, FlockOperation, Mode, OFlags, RenameFlags};
use rustix::io::Errno;

/// The files hold what users said: nobody else reads them.
const FILE_MODE: Mode = Mode::RUSR.union(Mode::WUSR);
const DIRECTORY_MODE: u32 = 0o700;
/// Group and others may write.
const WRITABLE_BY_OTHERS: u32 = 0o022;
/// Whoever may write may still not touch the files of others, as in `/tmp`.
const STICKY: u32 = 0o1000;
const ROOT: u32 = 0;

/// What went wrong with a directory or a file in it.
#[derive(Debug, thiserror::Error)]
pub(crate) enum DiskError {
    /// Somebody else could have put the directory there, or could change what is in it.
    #[error("{} {why}", path.display())]
    Refused { path: PathBuf, why: String },
    /// The file system did not do what was asked.
    #[error("cannot {action} {}: {source}", path.display())]
    Failed { action: &'static str, path: PathBuf, source: io::Error },
}

/// A directory that is ours, open.
#[derive(Debug)]
pub(crate) struct Directory {
    path: PathBuf,
    handle: OwnedFd,
}

/// A new file in a [`Directory`].
#[derive(Debug)]
pub(crate) struct NewFile {
    path: PathBuf,
    file: File,
}

/// What is known of a file from the outside.
#[derive(Clone, Copy, Debug)]
pub(crate) struct FileFacts {
    pub bytes: u64,
    pub modified: SystemTime,
}

impl Directory {
    /// Opens a directory, which is made with the parents that it lacks if it is missing, for this user alone.
    ///
    /// # Errors
    /// [`DiskError::Refused`] if it is a symbolic link or no directory, belongs to a user other than this one and root, or
    /// others may write in it.
    pub fn open(path: &Path) -> Result<Self, DiskError> {
        Directory::open_or(path, || create_directory(path))
    }

    /// What keeps it from being opened and written to, as far as that shows without making anything.
    ///
    /// # Errors
    /// As for [`Directory::open`]; and if this user may not write in it, or where it would have to be made.
    pub fn check(path: &Path) -> Result<(), DiskError> {
        let is_there = |path: &&Path| fs::symlink_metadata(path).is_ok();
        let place = path.ancestors().find(is_there).unwrap_or(path);
        if place == path {
            Directory::open_or(path, || Err(ErrorKind::NotFound.into()))?;
        }
        let failed =
            |source: Errno| DiskError::Failed { action: "write in", path: place.to_owned(), source: source.into() };
        // The second for an ancestor that is no directory.
        rustix::fs::access(place, Access::WRITE_OK | Access::EXEC_OK)
            .and_then(|()| rustix::fs::open(place, OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty()))
            .map_or_else(|cause| Err(failed(cause)), |_| Ok(()))
    }

    fn open_or(path: &Path, make: impl Fn() -> io::Result<()>) -> Result<Self, DiskError> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let open = || rustix::fs::open(path, flags, Mode::empty());
        let opened = open().or_else(|cause| match cause {
            Errno::NOENT => make().and_then(|()| Ok(open()?)),
            cause => Err(cause.into()),
        });
        let refused = |why: &str| Err(DiskError::Refused { path: path.to_owned(), why: why.to_owned() });
        let handle = match opened {
            Ok(handle) => handle,
            Err(source) => match fs::symlink_metadata(path) {
                Ok(found) if found.is_symlink() => return refused("is a symbolic link"),
                Ok(found) if !found.is_dir() => return refused("is not a directory"),
                _ => return Err(DiskError::Failed { action: "create the directory", path: path.to_owned(), source }),
            },
        };
        let directory = Directory { path: path.to_owned(), handle };
        let found = rustix::fs::fstat(&directory.handle).map_err(directory.failed("look at", ""))?;
        let us = rustix::process::geteuid().as_raw();
        if found.st_uid != us && found.st_uid != ROOT {
            return refused(&format!("belongs to user {}, and this is user {us}", found.st_uid));
        }
        if found.st_mode & WRITABLE_BY_OTHERS != 0 && found.st_mode & STICKY == 0 {
            return refused(&format!("can be written by others (mode {:o})", found.st_mode & 0o7777));
        }
        Ok(directory)
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Creates a file. Exclusive creation follows no symbolic link, not even one that leads nowhere.
    ///
    /// # Errors
    /// If the name is taken ([`DiskError::is_taken`]), or it cannot be created.
    pub fn create(&self, name: &str) -> Result<NewFile, DiskError> {
        let flags = OFlags::RDWR | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let create = || Ok(rustix::fs::openat(&self.handle, name, flags, FILE_MODE)?);
        let file = step(&self.path, Step::Create(name), create).map_err(self.failed("create a file in", ""))?;
        Ok(NewFile { path: self.path.join(name), file: file.into() })
    }

    /// Gives a file its final name, which must be free.
    ///
    /// # Errors
    /// If the name is taken ([`DiskError::is_taken`]), or the file cannot be renamed.
    pub fn rename(&self, from: &str, to: &str) -> Result<(), DiskError> {
        let rename = || match rustix::fs::renameat_with(&self.handle, from, &self.handle, to, RenameFlags::NOREPLACE) {
            // A file system that cannot look and rename at once.
            Err(Errno::INVAL | Errno::NOSYS | Errno::NOTSUP) if !self.has(to)? => {
                Ok(rustix::fs::renameat(&self.handle, from, &self.handle, to)?)
            }
            renamed => Ok(renamed?),
        };
        step(&self.path, Step::Rename(from, to), rename).map_err(self.failed("rename", from))
    }

    /// Moves a file into another directory of the same file system, over what has its name there.
    ///
    /// # Errors
    /// If it cannot be moved. One that is gone already is no error.
    pub fn move_to(&self, other: &Directory, name: &str) -> Result<(), DiskError> {
        let rename = || match rustix::fs::renameat(&self.handle, name, &other.handle, name) {
            Err(Errno::NOENT) => Ok(()),
            moved => Ok(moved?),
        };
        step(&self.path, Step::Rename(name, name), rename).map_err(self.failed("move", name))
    }

    /// What is known of a file; `None` if it is gone, or no regular file.
    ///
    /// # Errors
    /// If it cannot be looked at.
    pub fn facts(&self, name: &str) -> Result<Option<FileFacts>, DiskError> {
        let found = match rustix::fs::statat(&self.handle, name, AtFlags::SYMLINK_NOFOLLOW) {
            Err(Errno::NOENT) => return Ok(None),
            found => found.map_err(self.failed("look at", name))?,
        };
        if FileType::from_raw_mode(found.st_mode) != FileType::RegularFile {
            return Ok(None);
        }
        let since_1970 = Duration::new(u64::try_from(found.st_mtime).unwrap_or(0), found.st_mtime_nsec as u32);
        let (bytes, modified) = (u64::try_from(found.st_size).unwrap_or(0), UNIX_EPOCH + since_1970);
        Ok(Some(FileFacts { bytes, modified }))
    }

    /// # Errors
    /// If the file cannot be removed. One that is gone already is no error.
    pub fn remove(&self, name: &str) -> Result<(), DiskError> {
        let remove = || match rustix::fs::unlinkat(&self.handle, name, AtFlags::empty()) {
            Err(Errno::NOENT) => Ok(()),
            removed => Ok(removed?),
        };
        step(&self.path, Step::Remove(name), remove).map_err(self.failed("remove", name))
    }

    /// Whether there is a file, or anything else, of that name.
    pub fn holds(&self, name: &str) -> Result<bool, DiskError> {
        self.has(name).map_err(self.failed("look at", name))
    }

    /// How many bytes the files in it have.
    ///
    /// # Errors
    /// If it cannot be read.
    pub fn bytes(&self) -> Result<u64, DiskError> {
        let facts = self.names()?.into_iter().map(|name| Ok(self.facts(&name)?.map_or(0, |facts| facts.bytes)));
        facts.sum()
    }

    /// The names of all that is in it, in order.
    ///
    /// # Errors
    /// If it cannot be read.
    pub fn names(&self) -> Result<Vec<String>, DiskError> {
        let read = || -> io::Result<Vec<String>> {
            let entries = rustix::fs::Dir::read_from(&self.handle)?;
            let names = entries.map(|entry| Ok(entry?.file_name().to_string_lossy().into_owned()));
            let mut names = names.collect::<io::Result<Vec<_>>>()?;
            names.retain(|name| name != "." && name != "..");
            names.sort_unstable();
            Ok(names)
        };
        read().map_err(self.failed("read", ""))
    }

    /// Opens a file to be read; a symbolic link is not followed.
    ///
    /// # Errors
    /// If it cannot be opened.
    pub fn read(&self, name: &str) -> Result<File, DiskError> {
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let opened = rustix::fs::openat(&self.handle, name, flags, Mode::empty());
        Ok(opened.map_err(self.failed("read", name))?.into())
    }

    /// Keeps every other process that asks for the same lock out, for as long as the file is open. `None` if another one
    /// has it.
    ///
    /// # Errors
    /// If the file of the lock cannot be created.
    pub fn lock(&self, name: &str) -> Result<Option<File>, DiskError> {
        let flags = OFlags::RDWR | OFlags::CREATE | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let file = rustix::fs::openat(&self.handle, name, flags, FILE_MODE).map_err(self.failed("create", name))?;
        match rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => Ok(Some(file.into())),
            Err(Errno::WOULDBLOCK) => Ok(None),
            Err(cause) => Err(self.failed("lock", name)(cause)),
        }
    }

    /// Makes the names in it last through a power cut.
    ///
    /// # Errors
    /// If the file system says so; or if another directory, or none, is found by its path now: what was written is not
    /// where anybody looks for it.
    pub fn sync(&self) -> Result<(), DiskError> {
        let sync = || match rustix::fs::fsync(&self.handle) {
            // Some network file systems have no such operation; they keep names by themselves or not at all.
            Err(Errno::INVAL | Errno::NOTSUP) => Ok(()),
            synced => Ok(synced?),
        };
        step(&self.path, Step::SyncDirectory, sync).map_err(self.failed("sync", ""))?;
        let (found, ours) = (fs::symlink_metadata(&self.path), rustix::fs::fstat(&self.handle));
        let is_here = found.is_ok_and(|found| {
            ours.is_ok_and(|ours| (found.dev(), found.ino()) == (ours.st_dev, ours.st_ino) && found.is_dir())
        });
        let gone = || io::Error::new(ErrorKind::NotFound, "it was moved or removed while it was written to");
        if is_here { Ok(()) } else { Err(self.failed("sync", "")(gone())) }
    }

    fn has(&self, name: &str) -> io::Result<bool> {
        match rustix::fs::statat(&self.handle, name, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(_) => Ok(true),
            Err(Errno::NOENT) => Ok(false),
            Err(cause) => Err(cause.into()),
        }
    }

    fn failed<E: Into<io::Error>>(&self, action: &'static str, name: &str) -> impl FnOnce(E) -> DiskError {
        let path = if name.is_empty() { self.path.clone() } else { self.path.join(name) };
        move |source| DiskError::Failed { action, path, source: source.into() }
    }
}

impl NewFile {
    /// Appends.
    ///
    /// # Errors
    /// If not all of it could be written; a part may be.
    pub fn write(&mut self, bytes: &[u8]) -> Result<(), DiskError> {
        let NewFile { path, file } = self;
        let written = write_step(path, bytes, |bytes| file.write_all(bytes));
        written.map_err(|source| DiskError::Failed { action: "write", path: path.clone(), source })
    }

    /// Makes its bytes last through a power cut. A file whose sync failed is not to be synced again: the system may have
    /// dropped what it could not write, and would say that all is well.
    ///
    /// # Errors
    /// If the file system says so.
    pub fn sync(&self) -> Result<(), DiskError> {
        let synced = step(&self.path, Step::SyncFile, || self.file.sync_data());
        synced.map_err(|source| DiskError::Failed { action: "sync", path: self.path.clone(), source })
    }

    /// Whether it is still found by its path. In a directory that was removed or replaced, nobody would find it.
    pub fn is_here(&self) -> bool {
        let found = fs::symlink_metadata(&self.path).map(|found| (found.dev(), found.ino()));
        let ours = self.file.metadata().map(|ours| (ours.dev(), ours.ino()));
        found.is_ok_and(|found| ours.is_ok_and(|ours| found == ours))
    }

    /// The same file, to be read while it is written here.
    ///
    /// # Errors
    /// If the process has too many open files.
    pub fn reader(&self) -> Result<File, DiskError> {
        let cloned = self.file.try_clone();
        cloned.map_err(|source| DiskError::Failed { action: "read", path: self.path.clone(), source })
    }
}

impl DiskError {
    /// Whether a name was taken already.
    pub fn is_taken(&self) -> bool {
        matches!(self, DiskError::Failed { source, .. } if source.kind() == ErrorKind::AlreadyExists)
    }
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
        Ok(()) => sync_parent(parent).inspect_err(|_| drop(fs::remove_dir(path))),
    }
}

fn sync_parent(path: &Path) -> io::Result<()> {
    match File::open(path)?.sync_all() {
        Err(cause) if matches!(cause.kind(), ErrorKind::InvalidInput | ErrorKind::Unsupported) => Ok(()),
        synced => synced,
    }
}

/// What is about to be done to a directory or a file; tests let it fail or break off there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(not(test), allow(dead_code, reason = "looked at by tests alone"))]
pub(crate) enum Step<'a> {
    Create(&'a str),
    Rename(&'a str, &'a str),
    Remove(&'a str),
    SyncDirectory,
    SyncFile,
}

#[cfg(test)]
use fault::{step, write_step};

#[cfg(not(test))]
fn step<T>(_: &Path, _: Step<'_>, act: impl FnOnce() -> io::Result<T>) -> io::Result<T> {
    act()
}

#[cfg(not(test))]
fn write_step(_: &Path, bytes: &[u8], write: impl FnOnce(&[u8]) -> io::Result<()>) -> io::Result<()> {
    write(bytes)
}
