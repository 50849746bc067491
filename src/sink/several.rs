//! Several sinks at once.

use std::time::Instant;

use super::{Progress, Sink, SinkError};

/// Writes everything to several sinks, each with its own progress.
///
/// A receiver that can be slow belongs behind a [`Queue`](super::Queue): then none of these waits for anything but its
/// local disk. When that fails, what the one has not taken comes again to it alone. When a queue is full, because its
/// receiver has been away for too long, the others must not pay for it: what it cannot take while another sink does is
/// lost to it alone, counted and logged.
pub struct Several {
    parts: Vec<Part>,
}

struct Part {
    sink: Box<dyn Sink>,
    /// Bytes at the start of the next lines that it has taken already.
    ahead: usize,
    /// The last batch with a name that it has taken.
    last_named: Option<String>,
}

impl Several {
    /// All of these.
    pub fn new(sinks: impl IntoIterator<Item = Box<dyn Sink>>) -> Self {
        let part = |sink| Part { sink, ahead: 0, last_named: None };
        Several { parts: sinks.into_iter().map(part).collect() }
    }
}

impl Sink for Several {
    /// After an error, the lines from [`SinkError::written`] on must come again first.
    fn write(&mut self, lines: &[u8]) -> Result<(), SinkError> {
        let failures: Vec<_> = self.parts.iter_mut().map(|part| part.write(lines).err()).collect();
        let first = self.parts.iter().map(|part| part.ahead).max().unwrap_or(lines.len());
        for (part, failure) in self.parts.iter_mut().zip(&failures) {
            if matches!(failure, Some(SinkError::Full { .. })) && part.ahead < first {
                part.lose(&lines[part.ahead..first]);
                part.ahead = first;
            }
        }
        let last = self.parts.iter().map(|part| part.ahead).min().unwrap_or(lines.len());
        for part in &mut self.parts {
            part.ahead -= last;
        }
        match failures.into_iter().flatten().next() {
            Some(source) if last < lines.len() => {
                Err(SinkError::OneOfSeveral { written: last, source: Box::new(source) })
            }
            _ => Ok(()),
        }
    }

    fn write_named(&mut self, stem: &str, batch: &[u8]) -> Result<(), SinkError> {
        let failures: Vec<_> = self.parts.iter_mut().map(|part| part.write_named(stem, batch).err()).collect();
        let is_taken = failures.iter().any(Option::is_none);
        let mut result = Ok(());
        for (part, failure) in self.parts.iter_mut().zip(failures) {
            match failure {
                Some(SinkError::Full { .. }) if is_taken => {
                    part.lose(batch);
                    part.last_named = Some(stem.to_owned());
                }
                Some(failure) => result = result.and(Err(failure)),
                None => {}
            }
        }
        result
    }

    fn find(&self, stem: &str) -> Result<Option<Vec<u8>>, SinkError> {
        // What one has was begun: whoever asks writes it once more, and it comes to those that lack it.
        for part in &self.parts {
            if let Some(batch) = part.sink.find(stem)? {
                return Ok(Some(batch));
            }
        }
        Ok(None)
    }

    fn describe(&self) -> String {
        let parts: Vec<_> = self.parts.iter().map(|part| part.sink.describe()).collect();
        parts.join(" and ")
    }

    fn close(&mut self, deadline: Instant) -> Result<(), SinkError> {
        let mut result = Ok(());
        for part in &mut self.parts {
            // They all go on meanwhile, whichever is waited for.
            result = result.and(part.sink.close(deadline));
        }
        result
    }

    fn progress(&self) -> Vec<Progress> {
        self.parts.iter().flat_map(|part| part.sink.progress()).collect()
    }
}

impl Part {
    fn write(&mut self, lines: &[u8]) -> Result<(), SinkError> {
        let Some(rest) = lines.get(self.ahead..).filter(|rest| !rest.is_empty()) else { return Ok(()) };
        let result = self.sink.write(rest);
        self.ahead += result.as_ref().map_or_else(SinkError::written, |()| rest.len());
        result
    }

    fn write_named(&mut self, stem: &str, batch: &[u8]) -> Result<(), SinkError> {
        // It may have sent and forgotten what it has taken.
        if self.last_named.as_deref() != Some(stem) {
            self.sink.write_named(stem, batch)?;
            self.last_named = Some(stem.to_owned());
        }
        Ok(())
    }

    fn lose(&self, lines: &[u8]) {
        let events = memchr::memchr_iter(b'\n', lines).count();
        tracing::warn!("{} takes no more: {events} events are lost to it alone", self.sink.describe());
        for progress in self.sink.progress() {
            progress.count_lost(events as u64);
        }
    }
}
