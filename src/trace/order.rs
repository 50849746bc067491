//! The order of events within a trace.

use super::KeyedEvents;
use super::events::Placed;

/// When an event comes among others of the same moment.
///
/// Starts before leaves before ends; parents before children at starts and after them at ends; `error` right before the
/// `agent_end` of its agent. All else is decided by the spans themselves.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Place {
    /// The start of an agent: how deep it is nested, and its number.
    Start(usize, usize),
    /// Something that an agent does: which part of it, and the number of its span.
    Leaf(u32, usize),
    /// The end of an agent: how deep it is nested from the deepest up, its number, and which part.
    End(std::cmp::Reverse<usize>, usize, u32),
}

pub(super) fn in_order(mut events: Vec<Placed>) -> KeyedEvents {
    events.sort_by_key(|placed| (placed.event.time, placed.place));
    events.into_iter().map(|placed| (placed.key, placed.event)).collect()
}
