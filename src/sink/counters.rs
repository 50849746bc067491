//! What is counted of the writes to a sink, by whoever writes to it.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use crate::count::Histogram;

/// The writes to one sink.
#[derive(Debug, Default)]
pub struct SinkCounters {
    name: String,
    events: AtomicU64,
    failures: AtomicU64,
    retries: AtomicU64,
    writes: Histogram,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    /// Since when what is being written, or waits to be written again, has waited.
    waiting_since: Option<Instant>,
    is_failing: bool,
}

impl SinkCounters {
    /// For a sink of that name: [`Sink::describe`](super::Sink::describe).
    pub fn new(name: String) -> Self {
        SinkCounters { name, ..SinkCounters::default() }
    }

    /// Notes that something is to be written next that has waited since then.
    pub fn wait(&self, since: Instant) {
        self.state().waiting_since = Some(since);
    }

    /// Counts a write. `write` does it, and says how it went and how many events the sink has taken.
    ///
    /// # Errors
    /// Those of the write.
    pub fn count<E>(&self, write: impl FnOnce() -> (Result<(), E>, u64)) -> Result<(), E> {
        self.retries.fetch_add(self.is_failing().into(), Ordering::Relaxed);
        let begun = Instant::now();
        let (result, events) = write();
        self.writes.observe(begun.elapsed());
        self.events.fetch_add(events, Ordering::Relaxed);
        self.failures.fetch_add(result.is_err().into(), Ordering::Relaxed);
        let mut state = self.state();
        state.is_failing = result.is_err();
        if result.is_ok() {
            state.waiting_since = None;
        }
        result
    }

    /// What the sink is and where.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Events that it has taken.
    pub fn events(&self) -> u64 {
        self.events.load(Ordering::Relaxed)
    }

    /// Writes that failed.
    pub fn failures(&self) -> u64 {
        self.failures.load(Ordering::Relaxed)
    }

    /// Writes of what had failed before.
    pub fn retries(&self) -> u64 {
        self.retries.load(Ordering::Relaxed)
    }

    /// How long writes take, good and bad ones.
    pub fn writes(&self) -> &Histogram {
        &self.writes
    }

    /// How long the oldest thing that is not written has waited.
    pub fn lag(&self) -> Duration {
        self.state().waiting_since.map_or(Duration::ZERO, |since| since.elapsed())
    }

    /// Whether the last write failed.
    pub fn is_failing(&self) -> bool {
        self.state().is_failing
    }

    fn state(&self) -> std::sync::MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
