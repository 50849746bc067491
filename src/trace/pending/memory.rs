//! Spans that wait in memory.

use std::collections::{HashMap, HashSet};

use super::super::link::measure;
use super::{Entry, Pending, Store, lighten};
use crate::span::{Span, SpanId, TraceId};

/// Keeps spans in memory, each once.
#[derive(Debug, Default)]
pub(crate) struct InMemory;

/// The spans of one trace.
#[derive(Debug, Default)]
pub(crate) struct Spans {
    by_id: HashMap<SpanId, Span<'static>>,
    bytes: usize,
}

impl Store for InMemory {
    type Held = Spans;
    type Portion = Span<'static>;

    fn keep(&mut self, held: &mut Spans, span: Span<'static>) -> bool {
        let known = held.by_id.get(&span.span_id);
        // A span that has ended stays; of two reports of an end the fuller one does, as in any other mapping.
        if known.is_some_and(|known| measure(&span) <= measure(known)) {
            return false;
        }
        held.bytes = held.bytes + span.weight() - known.map_or(0, Span::weight);
        held.by_id.insert(span.span_id, span);
        true
    }

    fn discard(&mut self, _: Span<'static>) {}

    fn make_room(&mut self, _: &mut dyn Iterator<Item = (TraceId, bool, &mut Spans)>) -> Vec<TraceId> {
        Vec::new()
    }

    fn note_known(&mut self, _: TraceId, _: &[SpanId]) {}

    fn forget(&mut self, _: Spans) {}

    fn read<R>(&self, held: &Spans, then: impl FnOnce(&[&Span<'_>]) -> R) -> Result<R, String> {
        Ok(then(&held.by_id.values().collect::<Vec<_>>()))
    }

    fn memory(held: &Spans) -> usize {
        held.bytes
    }

    fn portions(held: &Spans) -> usize {
        held.by_id.len()
    }

    fn bytes(held: &Spans) -> usize {
        held.bytes
    }

    fn keep_open(held: &mut Spans) -> Option<HashSet<SpanId>> {
        let mut needed: HashSet<SpanId> = HashSet::new();
        for span in held.by_id.values().filter(|span| span.end.is_none()) {
            let mut at = Some(span.span_id);
            while let Some(id) = at.filter(|id| needed.insert(*id)) {
                at = held.by_id.get(&id).and_then(|span| span.parent);
            }
        }
        held.by_id.retain(|id, _| needed.contains(id));
        held.bytes = held.by_id.values().map(Span::weight).sum();
        Some(needed)
    }
}

impl Pending<InMemory> {
    /// Takes a span, open or ended, first or again.
    pub fn add_span(&mut self, span: Span<'static>, now: std::time::Instant) {
        let span = lighten(span);
        let (trace, entry) = (span.trace_id, Entry::of(&span));
        self.add(trace, &[entry], span, now);
    }
}
