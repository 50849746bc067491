//! Files of records: appended to, read at a place, removed when nothing in them is needed.
//!
//! A file is never appended to by a second process, nor after a write or a sync of it has failed: what the system has
//! dropped then, nobody knows. Files are removed from the oldest on, so that what was noted of a span is never gone before
//! the span is.

use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::SystemTime;

use super::LOCK;
use super::record::{Frames, HEAD, Record, head, is_whole};
use crate::disk::{Directory, DiskError, NewFile};
use crate::sink::family;

/// A file that has grown beyond this is followed by another, unless the log is to have but a few times as much in all.
const FILE_BYTES: u64 = 64 << 20;
/// How many files the log has at least when it has as many bytes as it may.
const FILES: u64 = 8;

/// Where a record is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    pub file: u32,
    start: u32,
    pub length: u32,
}

#[derive(Debug)]
pub(super) struct Log {
    path: PathBuf,
    max_bytes: u64,
    /// What the names of batches start with.
    pub family: String,
    /// The number of the next batch.
    pub next_batch: AtomicU64,
    files: Mutex<Files>,
}

#[derive(Debug)]
struct Files {
    by_number: BTreeMap<u32, LogFile>,
    /// Held for as long as the journal is ours.
    lock: File,
}

#[derive(Debug)]
struct LogFile {
    file: Arc<File>,
    bytes: u64,
    /// How many of its records are needed.
    needed: u64,
    is_growing: bool,
}

impl Log {
    /// The log in a directory, with the files of earlier processes: each of them needed until [`Log::release`].
    ///
    /// # Errors
    /// If the directory cannot be read.
    pub fn open(directory: Directory, lock: File, max_bytes: u64) -> Result<Self, DiskError> {
        let mut by_number = BTreeMap::new();
        let (mut found_family, mut next_batch) = (None, 0);
        for name in directory.names()? {
            let Some(number) = number_of(&name) else { continue };
            let file = directory.read(&name)?;
            let bytes = file.metadata().map_or(0, |found| found.len());
            if let Some((family, next)) = header(&file) {
                found_family.get_or_insert(family);
                next_batch = next_batch.max(next);
            }
            by_number.insert(number, LogFile { file: Arc::new(file), bytes, needed: 1, is_growing: false });
        }
        let family = found_family.unwrap_or_else(|| family(SystemTime::now(), std::process::id()));
        let files = Mutex::new(Files { by_number, lock });
        Ok(Log { path: directory.path().to_owned(), max_bytes, family, next_batch: AtomicU64::new(next_batch), files })
    }

    /// The name of a batch.
    pub fn stem(&self, number: u64) -> String {
        format!("{}-{number}", self.family)
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    /// How many bytes its files have.
    pub fn bytes(&self) -> u64 {
        self.files().by_number.values().map(|file| file.bytes).sum()
    }

    /// How many bytes a file has when it is followed by another.
    pub fn file_bytes(&self) -> u64 {
        FILE_BYTES.min(self.max_bytes / FILES)
    }

    /// The oldest file, if there is more than three quarters of what may be and it does not grow any more.
    pub fn oldest_if_crowded(&self) -> Option<u32> {
        if self.bytes() <= self.max_bytes / 4 * 3 {
            return None;
        }
        let files = self.files();
        files.by_number.first_key_value().filter(|(_, oldest)| !oldest.is_growing).map(|(number, _)| *number)
    }

    /// How many files there are.
    pub fn file_count(&self) -> usize {
        self.files().by_number.len()
    }

    /// The files, oldest first.
    pub fn numbers(&self) -> Vec<u32> {
        self.files().by_number.keys().copied().collect()
    }

    /// Appends the bytes of a record to `bytes`.
    ///
    /// # Errors
    /// In words, if it cannot be read or is not what was written.
    pub fn read(&self, place: Place, bytes: &mut Vec<u8>) -> Result<(), String> {
        let file = self.files().by_number.get(&place.file).map(|file| file.file.clone());
        let file = file.ok_or_else(|| format!("{} is gone", name(place.file)))?;
        let whole =
            read_at(&file, place.start.into(), bytes).map_err(|error| format!("{}: {error}", name(place.file)))?;
        whole.map(|_| ()).ok_or_else(|| format!("{} is damaged at byte {}", name(place.file), place.start))
    }

    /// Hands each record of a file to `then`, up to the first that is not whole. How many bytes lie behind that.
    pub fn scan(&self, number: u32, mut then: impl FnMut(Place, &[u8])) -> u64 {
        let Some((file, length)) = self.files().by_number.get(&number).map(|file| (file.file.clone(), file.bytes))
        else {
            return 0;
        };
        let (mut start, mut record) = (0, Vec::new());
        while start < length {
            record.clear();
            let Ok(Some(record_length)) = read_at(&file, start, &mut record) else { break };
            if let (Ok(start), Ok(length)) = (u32::try_from(start), u32::try_from(record_length)) {
                then(Place { file: number, start, length }, &record);
            }
            start += (HEAD + record_length) as u64;
        }
        length - start.min(length)
    }

    /// Notes that one more record of a file is needed.
    pub fn hold(&self, number: u32) {
        if let Some(file) = self.files().by_number.get_mut(&number) {
            file.needed += 1;
        }
    }

    /// Notes that one record less is needed.
    pub fn release(&self, number: u32) {
        if let Some(file) = self.files().by_number.get_mut(&number) {
            file.needed = file.needed.saturating_sub(1);
        }
    }

    /// Removes the oldest files in which nothing is needed.
    ///
    /// # Errors
    /// If one cannot be removed. It is tried again next time.
    pub fn trim(&self) -> Result<(), DiskError> {
        while let Some(number) = self.oldest_needless() {
            let directory = Directory::open(&self.path)?;
            directory.remove(&name(number))?;
            // Before a younger one is: that has what was noted of the spans in this one.
            directory.sync()?;
            self.files().by_number.remove(&number);
        }
        Ok(())
    }

    fn oldest_needless(&self) -> Option<u32> {
        let files = self.files();
        let (number, oldest) = files.by_number.first_key_value()?;
        (oldest.needed == 0 && !oldest.is_growing).then_some(*number)
    }

    fn files(&self) -> MutexGuard<'_, Files> {
        self.files.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The end that grows.
pub(super) struct Writer {
    log: Arc<Log>,
    current: Option<Current>,
}

struct Current {
    number: u32,
    file: NewFile,
    bytes: u64,
}

impl Writer {
    pub fn new(log: Arc<Log>) -> Self {
        Writer { log, current: None }
    }

    /// Appends records, and syncs them if that is wanted. Where each of them is; each is needed from now on if it is one
    /// that is read again.
    ///
    /// # Errors
    /// If they are not safe. The file is not appended to again.
    pub fn append(&mut self, all: &[Frames], sync: bool) -> Result<Vec<Vec<Place>>, DiskError> {
        let result = self.try_append(all, sync);
        if result.is_err() {
            self.close();
        }
        result
    }

    /// Appends to another file from now on.
    pub fn close(&mut self) {
        if let Some(current) = self.current.take()
            && let Some(file) = self.log.files().by_number.get_mut(&current.number)
        {
            file.is_growing = false;
        }
    }

    fn try_append(&mut self, all: &[Frames], sync: bool) -> Result<Vec<Vec<Place>>, DiskError> {
        if self
            .current
            .as_ref()
            .is_some_and(|current| current.bytes >= self.log.file_bytes() || !current.file.is_here())
        {
            self.close();
        }
        let current = match &mut self.current {
            Some(current) => current,
            none => none.insert(create(&self.log)?),
        };
        let mut places = Vec::with_capacity(all.len());
        for frames in all {
            places.push(current.places(frames));
            current.file.write(&frames.bytes)?;
            current.bytes += frames.bytes.len() as u64;
        }
        if sync {
            current.file.sync()?;
        }
        let mut files = self.log.files();
        if let Some(file) = files.by_number.get_mut(&current.number) {
            file.bytes = current.bytes;
            // Needed before anybody knows of them, or the file could be removed first.
            file.needed += all.iter().map(|frames| frames.portions as u64).sum::<u64>();
        }
        Ok(places)
    }
}

impl Current {
    fn places(&self, frames: &Frames) -> Vec<Place> {
        let ends = frames.starts.iter().skip(1).copied().chain([frames.bytes.len()]);
        let place = |(start, end): (&usize, usize)| Place {
            file: self.number,
            start: u32::try_from(self.bytes + *start as u64).unwrap_or(u32::MAX),
            length: u32::try_from(end - start - HEAD).unwrap_or(u32::MAX),
        };
        frames.starts.iter().zip(ends).map(place).collect()
    }
}

/// A new file behind all others, with its header.
fn create(log: &Log) -> Result<Current, DiskError> {
    let directory = Directory::open(&log.path)?;
    if !directory.holds(LOCK)? {
        // The directory was removed and is a new one.
        if let Some(lock) = directory.lock(LOCK)? {
            log.files().lock = lock;
        }
    }
    let mut number = log.files().by_number.last_key_value().map_or(0, |(number, _)| number + 1);
    let file = loop {
        match directory.create(&name(number)) {
            // Left by an attempt that failed, and could not be removed.
            Err(error) if error.is_taken() => number += 1,
            file => break file?,
        }
    };
    let begun = begin(log, &directory, number, file);
    if begun.is_err() {
        let _ = directory.remove(&name(number));
    }
    begun
}

/// Writes the header.
fn begin(log: &Log, directory: &Directory, number: u32, mut file: NewFile) -> Result<Current, DiskError> {
    let next_batch = log.next_batch.load(Ordering::Relaxed);
    let header = Frames::of(&Record::Header { family: &log.family, next_batch });
    file.write(&header.bytes)?;
    file.sync()?;
    directory.sync()?;
    let bytes = header.bytes.len() as u64;
    let entry = LogFile { file: Arc::new(file.reader()?), bytes, needed: 0, is_growing: true };
    log.files().by_number.insert(number, entry);
    Ok(Current { number, file, bytes })
}

/// Appends the record that starts there to `bytes`; its length, or `None` if it is not whole.
fn read_at(file: &File, start: u64, bytes: &mut Vec<u8>) -> io::Result<Option<usize>> {
    let mut first = [0; HEAD];
    if !is_read(file.read_exact_at(&mut first, start))? {
        return Ok(None);
    }
    let (length, checksum) = head(first);
    // Not more than there is: the length may be anything.
    if length as u64 > file.metadata()?.len().saturating_sub(start) {
        return Ok(None);
    }
    let before = bytes.len();
    bytes.resize(before + length, 0);
    let is_whole =
        is_read(file.read_exact_at(&mut bytes[before..], start + HEAD as u64))? && is_whole(&bytes[before..], checksum);
    Ok(is_whole.then_some(length))
}

fn is_read(result: io::Result<()>) -> io::Result<bool> {
    match result {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Ok(false),
        Err(error) => Err(error),
    }
}

fn header(file: &File) -> Option<(String, u64)> {
    let mut record = Vec::new();
    read_at(file, 0, &mut record).ok()??;
    match Record::read(&record)? {
        Record::Header { family, next_batch } => Some((family.to_owned(), next_batch)),
        _ => None,
    }
}

fn name(number: u32) -> String {
    format!("{number:08x}.log")
}

fn number_of(name: &str) -> Option<u32> {
    u32::from_str_radix(name.strip_suffix(".log")?, 16).ok()
}
