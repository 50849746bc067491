//! What sends from a queue: the part that knows its receiver.

use std::hash::{BuildHasher, Hasher, RandomState};
use std::time::Duration;

/// Sends batches to one receiver. Runs on the queue's own thread: it may block, but not for ever.
pub trait Sender: Send {
    /// Sends a batch; returns only when the receiver has it. The same batch comes again after a failure, also from
    /// another process: [`Batch::stem`] is the same then.
    ///
    /// # Errors
    /// If the receiver has not taken all of it, or has not said so.
    fn send(&mut self, batch: &Batch) -> Result<(), SendError>;

    /// The kind and the address, for a log or a person: `ingest https://example.com/v1/events`. No secrets.
    fn describe(&self) -> String;
}

impl<S: Sender + ?Sized> Sender for Box<S> {
    fn send(&mut self, batch: &Batch) -> Result<(), SendError> {
        (**self).send(batch)
    }

    fn describe(&self) -> String {
        (**self).describe()
    }
}

/// Some events that are sent together.
#[derive(Clone, Debug)]
pub struct Batch {
    stem: String,
    lines: Vec<u8>,
}

impl Batch {
    /// A batch with the name of its file.
    pub fn new(stem: impl Into<String>, lines: impl Into<Vec<u8>>) -> Self {
        Batch { stem: stem.into(), lines: lines.into() }
    }

    /// Its name: the one of its file without an ending. Unique in its queue.
    pub fn stem(&self) -> &str {
        &self.stem
    }

    /// Its events, one JSON object a line, each with its newline.
    pub fn lines(&self) -> &[u8] {
        &self.lines
    }
}

/// Why a batch was not sent.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SendError {
    /// It may be taken later: it waits, and what comes after it too.
    #[error("{cause}")]
    Retry {
        /// When, if the receiver said so; at most 300 seconds are kept to.
        after: Option<Duration>,
        /// What went wrong. No secrets.
        cause: String,
    },
    /// It would be refused again: it is kept aside.
    #[error("{cause}")]
    Refused {
        /// What the receiver says. No secrets.
        cause: String,
    },
}

/// How long to wait after a failed attempt: twice as long each time, up to a limit. Of that a random part of up to a half
/// is left out, so that many senders do not come back at the same moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Backoff {
    /// After the first failure. 1 second by default.
    pub first: Duration,
    /// At most. 60 seconds by default.
    pub limit: Duration,
}

/// How long a receiver's own word is kept to at most.
const LONGEST_AFTER: Duration = Duration::from_secs(300);

impl Default for Backoff {
    fn default() -> Self {
        Backoff { first: Duration::from_secs(1), limit: Duration::from_secs(60) }
    }
}

impl Backoff {
    /// How long to wait after so many failures before this one, if the receiver did not say or did.
    pub(super) fn delay(&self, failures: u32, after: Option<Duration>) -> Duration {
        if let Some(after) = after {
            return after.min(LONGEST_AFTER);
        }
        let whole = self.first.saturating_mul(2u32.saturating_pow(failures)).min(self.limit);
        whole.mul_f64(1.0 - random() as f64 / u64::MAX as f64 / 2.0)
    }
}

/// Any number, another one each time: the seeds of the standard library's hash maps are random.
pub(in crate::sink) fn random() -> u64 {
    RandomState::new().build_hasher().finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_wait_doubles_up_to_its_limit_and_loses_up_to_a_half() {
        let backoff = Backoff { first: Duration::from_secs(1), limit: Duration::from_secs(60) };
        for (failures, whole) in [(0, 1), (1, 2), (2, 4), (5, 32), (6, 60), (40, 60), (u32::MAX, 60)] {
            let waits: Vec<_> = (0..100).map(|_| backoff.delay(failures, None)).collect();
            let whole = Duration::from_secs(whole);
            assert!(waits.iter().all(|wait| (whole / 2..=whole).contains(wait)), "{waits:?}");
            assert!(waits.iter().any(|wait| *wait != waits[0]), "no jitter");
        }
    }

    #[test]
    fn the_receivers_word_counts_up_to_five_minutes() {
        let backoff = Backoff::default();
        assert_eq!(backoff.delay(9, Some(Duration::from_secs(2))), Duration::from_secs(2));
        assert_eq!(backoff.delay(0, Some(Duration::from_secs(4_000))), Duration::from_secs(300));
    }
}
