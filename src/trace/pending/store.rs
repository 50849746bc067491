//! Where spans are while they wait.

use std::collections::HashSet;

use crate::span::{Span, SpanId, TraceId};

/// Where spans are while they wait.
pub(crate) trait Store {
    /// The spans of one trace.
    type Held: Default + Send;
    /// Spans of one trace that came together.
    type Portion;

    /// Adds a portion, unless it holds nothing new; whether it did.
    fn keep(&mut self, held: &mut Self::Held, portion: Self::Portion) -> bool;

    /// Lets a portion go that is not kept.
    fn discard(&mut self, portion: Self::Portion);

    /// Makes room where that is needed by now: moves spans of traces of which nothing has been told (`true`), or names the
    /// traces that it cannot keep. What waits of them is told before they are complete, then they are forgotten.
    fn make_room(&mut self, traces: &mut dyn Iterator<Item = (TraceId, bool, &mut Self::Held)>) -> Vec<TraceId>;

    /// Takes note that spans came again which were told, perhaps so long ago that their trace is forgotten.
    fn note_known(&mut self, trace: TraceId, spans: &[SpanId]);

    /// Lets the spans of a trace go.
    fn forget(&mut self, held: Self::Held);

    /// Hands the spans of a trace to `then`, one span perhaps several times.
    ///
    /// # Errors
    /// In words, if they cannot be read.
    fn read<R>(&self, held: &Self::Held, then: impl FnOnce(&[&Span<'_>]) -> R) -> Result<R, String>;

    /// How many bytes of memory they take.
    fn memory(held: &Self::Held) -> usize;

    /// How many portions there are.
    fn portions(held: &Self::Held) -> usize;

    /// How many bytes they have, wherever they are.
    fn bytes(held: &Self::Held) -> usize;

    /// Lets go of all spans but those that are open and those above them; which these are. `None` if it cannot.
    fn keep_open(held: &mut Self::Held) -> Option<HashSet<SpanId>>;
}
