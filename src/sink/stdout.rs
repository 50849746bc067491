//! Events for a person or the next program of a pipe.

use std::io::{self, ErrorKind, Write};
use std::path::PathBuf;
use std::time::Instant;

use super::queue::random;
use super::{Batch, Progress, Queue, QueueOptions, SendError, Sender, Sink, SinkError};

/// Standard output, one event a line. Lines of several of these in one process never mix.
#[derive(Clone, Copy, Debug, Default)]
pub struct Stdout;

impl Sink for Stdout {
    fn write(&mut self, lines: &[u8]) -> Result<(), SinkError> {
        deliver(&mut io::stdout().lock(), lines)
    }

    fn describe(&self) -> String {
        "standard output".to_owned()
    }
}

impl Sender for Stdout {
    fn send(&mut self, batch: &Batch) -> Result<(), SendError> {
        match self.write(batch.lines()) {
            // Nobody reads any more: the others go on.
            Ok(()) | Err(SinkError::Closed) => Ok(()),
            Err(error) => Err(SendError::Retry { after: None, cause: error.to_string() }),
        }
    }

    fn describe(&self) -> String {
        Sink::describe(self)
    }
}

/// Standard output beside other sinks: a reader that is slow must not hold them up. Its queue is of this process alone, in
/// the system's directory for such things, and goes with it.
pub(super) struct QueuedStdout {
    queue: Queue,
    directory: PathBuf,
}

impl QueuedStdout {
    pub fn start() -> Result<Self, SinkError> {
        let name = format!("failproof-stdout-{}-{:016x}", std::process::id(), random());
        let directory = std::env::temp_dir().join(name);
        Ok(QueuedStdout { queue: Queue::start(QueueOptions::new(&directory), Stdout)?, directory })
    }
}

impl Sink for QueuedStdout {
    fn write(&mut self, lines: &[u8]) -> Result<(), SinkError> {
        self.queue.write(lines)
    }

    fn write_named(&mut self, stem: &str, batch: &[u8]) -> Result<(), SinkError> {
        self.queue.write_named(stem, batch)
    }

    fn describe(&self) -> String {
        Sink::describe(&Stdout)
    }

    fn close(&mut self, deadline: Instant) -> Result<(), SinkError> {
        self.queue.close(deadline)
    }

    fn progress(&self) -> Vec<Progress> {
        self.queue.progress()
    }
}

impl Drop for QueuedStdout {
    fn drop(&mut self) {
        // Another process would print what this one was told.
        let _ = std::fs::remove_dir_all(&self.directory);
    }
}

fn deliver(out: &mut impl Write, lines: &[u8]) -> Result<(), SinkError> {
    out.write_all(lines).and_then(|()| out.flush()).map_err(|source| match source.kind() {
        ErrorKind::BrokenPipe => SinkError::Closed,
        _ => SinkError::Stdout { source },
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_pass_as_they_are() {
        let mut out = Vec::new();
        deliver(&mut out, b"{}\n{\"a\":1}\n").unwrap();
        assert_eq!(out, b"{}\n{\"a\":1}\n");
    }

    #[test]
    fn a_closed_pipe_is_told_from_other_failures() {
        let (reader, mut writer) = io::pipe().unwrap();
        drop(reader);
        assert!(matches!(deliver(&mut writer, b"{}\n"), Err(SinkError::Closed)));
        let mut full = io::Cursor::new([0; 2]);
        let error = deliver(&mut full, b"{}\n").unwrap_err();
        assert!(matches!(error, SinkError::Stdout { .. }), "{error}");
    }
}
