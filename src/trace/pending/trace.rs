//! A trace that waits: what is known of it, and when it is due.

use std::time::Duration;

use super::super::Said;
use super::index::Index;
use super::{Store, Tell};

/// Milliseconds since the epoch of a [`Pending`](super::Pending).
pub(super) type Moment = u64;
pub(super) const NEVER: Moment = Moment::MAX;

/// A trace told at once keeps no more spans than this; then those that have been told and lead to nothing open are
/// forgotten, and with them their part in the sums of their run.
const MAX_TOLD_SPANS: usize = 8_192;

#[derive(Debug)]
pub(super) struct Trace<H> {
    pub held: H,
    pub index: Index,
    /// When its first span started, in nanoseconds since 1970.
    pub start: u64,
    pub first: Moment,
    /// When the last span came, or the trace was told.
    pub last: Moment,
    /// When it is on the agenda.
    pub wake: Moment,
    /// The memory that it takes, as it was last counted.
    pub memory: usize,
    /// Whether spans came that have not been told.
    pub is_dirty: bool,
    /// Whether something of it may be told before it is complete.
    pub may_be_certain: bool,
    /// Whether that was looked at since the last span came.
    pub was_early: bool,
    /// Whether it is to be forgotten as soon as it has been told.
    pub is_leaving: bool,
    pub said: Option<Box<Said>>,
}

impl<H: Default> Trace<H> {
    pub fn new(now: Moment) -> Self {
        Trace {
            held: H::default(),
            index: Index::default(),
            start: u64::MAX,
            first: now,
            last: now,
            wake: NEVER,
            memory: 0,
            is_dirty: false,
            may_be_certain: false,
            was_early: false,
            is_leaving: false,
            said: None,
        }
    }

    /// Whether nothing of it has been told yet.
    pub fn is_untold(&self) -> bool {
        self.is_dirty && self.said.as_ref().is_none_or(|said| said.keys.is_empty())
    }

    pub fn next_wake(&self, tell: Tell) -> Moment {
        match tell {
            _ if self.is_dirty && self.is_leaving => 0,
            Tell::AtOnce(_) if self.is_dirty => 0,
            Tell::AtOnce(_) if self.index.has_open() => NEVER,
            Tell::AtOnce(remember) => after(self.last, remember),
            Tell::WhenDue(timing) if self.is_dirty => {
                let is_early_due = self.may_be_certain && !self.was_early;
                let is_grace_enough = self.index.is_complete() || is_early_due;
                let patience = if is_grace_enough { timing.grace.min(timing.idle) } else { timing.idle };
                after(self.last, patience).min(after(self.first, timing.max_wait))
            }
            Tell::WhenDue(timing) => after(self.last, timing.idle),
        }
    }

    pub fn count_memory<S: Store<Held = H>>(&self) -> usize {
        /// Its places in the map and on the agenda.
        const PLACES: usize = 96;
        let said = self.said.as_ref().map_or(0, |said| said.memory());
        PLACES + size_of::<Self>() + self.index.memory() + S::memory(&self.held) + said
    }

    /// Forgets spans that have been told and that nothing open hangs on, if there are too many.
    pub fn forget_told<S: Store<Held = H>>(&mut self) {
        if self.index.len() > MAX_TOLD_SPANS
            && let Some(needed) = S::keep_open(&mut self.held)
        {
            self.index.retain(|id| needed.contains(&id));
        }
    }
}

impl Tell {
    /// Whether no more can be told of a trace than what is certain.
    pub(super) fn is_early<H>(self, trace: &Trace<H>, now: Moment) -> bool {
        let is_closed = trace.said.as_ref().is_some_and(|said| said.closed_at.is_some());
        match self {
            Tell::AtOnce(_) => false,
            Tell::WhenDue(timing) => {
                let is_over = now >= after(trace.last, timing.idle) || now >= after(trace.first, timing.max_wait);
                !trace.index.is_complete() && !trace.is_leaving && !is_closed && !is_over
            }
        }
    }
}

fn after(moment: Moment, time: Duration) -> Moment {
    moment.saturating_add(Moment::try_from(time.as_millis()).unwrap_or(NEVER)).min(NEVER - 1)
}
