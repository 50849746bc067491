//! Which spans of a trace there are, and which parents are awaited.

use std::collections::HashMap;
use std::collections::hash_map;

use super::super::link::measure;
use super::super::{early, elsewhere};
use super::ledger::hash;
use crate::span::{Span, SpanId};

/// What has to be known of a span while it waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Entry {
    pub span_id: SpanId,
    /// When it started, in nanoseconds since 1970.
    pub start: u64,
    /// Its parent, if that is awaited from the same process.
    parent: Option<SpanId>,
    state: State,
    /// Whether something of its trace may be told before that is complete.
    pub may_be_certain: bool,
    /// The time of a model call within something else.
    pub nested_call: Option<(u64, u64)>,
}

/// A report of a span, as a number of its [`measure`], or the lack of one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct State(u64);

impl State {
    /// A parent of which nothing is known but its id.
    const AWAITED: State = State(0);
    /// The lowest bit of a span that has not ended.
    const OPEN: u64 = 1;
    /// Set for every span, so that none looks awaited.
    const HERE: u64 = 2;

    fn is_awaited(self) -> bool {
        self == State::AWAITED
    }

    fn is_open(self) -> bool {
        self.0 & State::OPEN != 0
    }
}

impl Entry {
    pub fn of(span: &Span<'_>) -> Self {
        let is_open = if span.end.is_none() { State::OPEN } else { 0 };
        let (end, attributes, events, weight) = measure(span);
        let measures = [end.unwrap_or_default(), attributes as u64, events as u64, weight as u64];
        let number = hash(&measures.map(u64::to_le_bytes).each_ref().map(|bytes| &bytes[..]));
        Entry {
            span_id: span.span_id,
            start: span.start,
            parent: span.parent.filter(|_| span.parent_is_remote != Some(true)),
            state: State(number & !(State::OPEN | State::HERE) | State::HERE | is_open),
            may_be_certain: early::may_be_certain(span),
            nested_call: span.end.filter(|_| elsewhere::is_nested(span)).map(|end| (span.start, end)),
        }
    }
}

/// The spans of one trace.
#[derive(Debug, Default)]
pub(super) struct Index {
    spans: HashMap<SpanId, State>,
    awaited: u32,
    open: u32,
}

impl Index {
    /// Whether that very report of the span is here.
    pub fn knows(&self, entry: &Entry) -> bool {
        self.spans.get(&entry.span_id) == Some(&entry.state)
    }

    /// Whether some report of the span is here.
    pub fn has(&self, id: SpanId) -> bool {
        self.spans.get(&id).is_some_and(|state| !state.is_awaited())
    }

    /// Whether the span is the parent of another, and is not here.
    pub fn awaits(&self, id: SpanId) -> bool {
        self.spans.get(&id).is_some_and(|state| state.is_awaited())
    }

    pub fn add(&mut self, entry: &Entry) {
        let before = self.spans.insert(entry.span_id, entry.state);
        match before {
            Some(state) if state.is_awaited() => self.awaited -= 1,
            // A span that has ended stays so.
            Some(state) if !state.is_open() => {
                self.spans.insert(entry.span_id, State(entry.state.0 & !State::OPEN));
                return;
            }
            Some(_) => self.open -= 1,
            None => {}
        }
        self.open += u32::from(entry.state.is_open());
        if let Some(parent) = entry.parent
            && let hash_map::Entry::Vacant(vacant) = self.spans.entry(parent)
        {
            vacant.insert(State::AWAITED);
            self.awaited += 1;
        }
    }

    /// How many spans there are.
    pub fn len(&self) -> usize {
        self.spans.len() - self.awaited as usize
    }

    pub fn spans(&self) -> impl Iterator<Item = SpanId> {
        self.spans.iter().filter(|(_, state)| !state.is_awaited()).map(|(id, _)| *id)
    }

    /// Whether every chain of parents ends at a root, or at a parent in another process.
    pub fn is_complete(&self) -> bool {
        self.awaited == 0
    }

    pub fn has_open(&self) -> bool {
        self.open > 0
    }

    pub fn retain(&mut self, is_needed: impl Fn(SpanId) -> bool) {
        self.spans.retain(|id, state| state.is_awaited() || is_needed(*id));
        self.spans.shrink_to_fit();
    }

    pub fn memory(&self) -> usize {
        // An entry, its control byte, and the free places of a table that doubles.
        self.spans.capacity() * (size_of::<(SpanId, State)>() + 1) * 8 / 7
    }
}
