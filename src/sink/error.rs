//! Why a sink did not take lines.

use std::io::{self, ErrorKind};
use std::path::PathBuf;

use thiserror::Error;

use crate::disk::DiskError;

/// What went wrong, where, and what to do about it.
#[derive(Debug, Error)]
pub enum SinkError {
    /// Something is no destination.
    #[error("`{text}`: {why}; possible are {}", super::destination::FORMS)]
    Destination {
        /// What was asked for; without what could be a secret.
        text: String,
        /// What is wrong with it.
        why: &'static str,
    },
    /// What a receiver needs is not there.
    #[error("{receiver}: {why}")]
    Setup {
        /// What kind of receiver, and where.
        receiver: String,
        /// What is wrong, and what to do about it.
        why: String,
    },
    /// No variable says where the Failproof home is, and the user has no home directory.
    #[error("no Failproof home: set FAILPROOFAI_HOME or HOME, or name the directory of the spool")]
    NoHome,
    /// A directory that others could have put in the place of the spool, or that is none.
    #[error("the spool {} {why}: remove it, or name another directory", path.display())]
    Refused {
        /// The directory of the spool.
        path: PathBuf,
        /// What is wrong with it.
        why: String,
        /// The bytes at the start of the given lines that had been safe before.
        written: usize,
    },
    /// The spool's file system did not do what was asked.
    #[error("cannot {action} {}: {source}; {}", path.display(), remedy(source))]
    Spool {
        /// What was asked.
        action: &'static str,
        /// Of which file or directory.
        path: PathBuf,
        /// The bytes at the start of the given lines that are safe in earlier files.
        written: usize,
        /// Its answer.
        source: io::Error,
    },
    /// A spool or a queue has reached its bound: for long nobody has taken what was written.
    #[error("{} holds the {limit} bytes that it may: {remedy}", path.display())]
    Full {
        /// The directory.
        path: PathBuf,
        /// How many bytes it may hold.
        limit: u64,
        /// What to do about it.
        remedy: &'static str,
    },
    /// A queue was closed before its receiver had taken everything. Nothing is lost.
    #[error("{bytes} bytes of events wait in {} for {receiver}: the next start sends them", path.display())]
    Unsent {
        /// The directory of the queue.
        path: PathBuf,
        /// Who has not taken them yet.
        receiver: String,
        /// How many bytes, at least.
        bytes: u64,
    },
    /// One of several sinks failed.
    #[error("{source}")]
    OneOfSeveral {
        /// The bytes at the start of the given lines that all of them have.
        written: usize,
        /// Why.
        source: Box<SinkError>,
    },
    /// Nobody reads standard output any more: a reason to end, not to complain.
    #[error("standard output is closed")]
    Closed,
    /// Standard output can't be written.
    #[error("cannot write to standard output: {source}; {}", remedy(source))]
    Stdout {
        /// Its answer.
        source: io::Error,
    },
}

impl SinkError {
    /// How many bytes at the start of the given lines are safe all the same: whole lines, not to be given again. Zero
    /// for standard output, whose reader does not say what it took.
    pub fn written(&self) -> usize {
        match self {
            SinkError::Spool { written, .. }
            | SinkError::Refused { written, .. }
            | SinkError::OneOfSeveral { written, .. } => *written,
            _ => 0,
        }
    }

    /// The same error where so many bytes before had been safe already.
    pub(super) fn after(mut self, bytes: usize) -> Self {
        if let SinkError::Spool { written, .. } | SinkError::Refused { written, .. } = &mut self {
            *written += bytes;
        }
        self
    }
}

impl From<DiskError> for SinkError {
    fn from(error: DiskError) -> Self {
        match error {
            DiskError::Refused { path, why } => SinkError::Refused { path, why, written: 0 },
            DiskError::Failed { action, path, source } => SinkError::Spool { action, path, written: 0, source },
        }
    }
}

fn remedy(cause: &io::Error) -> &'static str {
    match cause.kind() {
        ErrorKind::StorageFull | ErrorKind::QuotaExceeded | ErrorKind::FileTooLarge => "free or allow more space",
        ErrorKind::PermissionDenied | ErrorKind::ReadOnlyFilesystem => {
            "let this user write there, or choose another place"
        }
        _ => "check that place, or choose another",
    }
}
