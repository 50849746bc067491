//! What is counted, whether or not anybody asks.

use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize};

use crate::count::{CountBy, Histogram};
use crate::event::EventType;
use crate::sink::{Sink, SinkCounters};

/// What was counted since the start.
#[derive(Debug, Default)]
pub struct Counters {
    /// Spans that were taken.
    pub spans: AtomicU64,
    /// Spans that were lost: the queue was full, or the sink failed for too long.
    pub spans_lost: AtomicU64,
    /// Events that lost something to a limit of their payload.
    pub events_truncated: AtomicU64,
    /// Traces with spans that have not been told, now.
    pub traces_waiting: AtomicUsize,
    /// Bytes of memory that what waits takes, roughly, now.
    pub bytes_waiting: AtomicUsize,
    /// Whether the sink fails, now.
    pub is_stalled: AtomicBool,
    /// Whether a trace waits that is bigger than what is told at once, now.
    pub is_full: AtomicBool,
    /// From the arrival of the last span of a trace until its events are written.
    pub delay: Histogram,
    /// The writes to the sink.
    pub sink: SinkCounters,
    events_by: CountBy<(EventType, &'static str)>,
}

impl Counters {
    /// Nothing counted yet.
    pub(super) fn of(sink: &dyn Sink) -> Self {
        Counters { sink: SinkCounters::new(sink.describe()), ..Counters::default() }
    }

    /// The events that were made, by type and by the dialect of the span that they tell.
    pub fn events_by(&self) -> Vec<(EventType, &'static str, u64)> {
        self.events_by.all().into_iter().map(|((kind, dialect), count)| (kind, dialect, count)).collect()
    }

    /// Counts an event that was made.
    pub(super) fn count_event(&self, kind: EventType, dialect: &'static str) {
        self.events_by.add((kind, dialect));
    }
}
