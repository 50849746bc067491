//! Spans that wait until the run that they belong to is known.
//!
//! Exporters and gateways see a span when it has ended, children first: its agent and session are known only when the
//! chain of parents is complete. [`Pending`] knows of each trace which spans there are and which parents are awaited, and
//! remembers what it has said, so that a late or repeated span adds what is missing and repeats nothing. The spans
//! themselves are kept by a [`Store`]: in memory, or on disk. The caller gives the time; nothing here reads a clock.

mod index;
mod ledger;
mod memory;
mod store;
mod trace;

use std::collections::{BTreeSet, HashMap, VecDeque};
use std::sync::Arc;
use std::time::{Duration, Instant};

pub(crate) use self::index::Entry;
use self::ledger::{Ledger, hash};
pub(crate) use self::memory::InMemory;
pub(crate) use self::store::Store;
use self::trace::{Moment, NEVER, Trace};
use super::{Mapping, Said, elsewhere, events, map_early, map_growing};
use crate::dialect;
use crate::event::Event;
use crate::span::{Attributes, Span, SpanId, TraceId};

/// When a trace's events are due.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timing {
    /// How long a trace waits for late children once all chains of parents are complete.
    pub grace: Duration,
    /// How long a trace waits for a parent that does not come, since its last span; and how long it is remembered after it
    /// was told.
    pub idle: Duration,
    /// How long a trace waits at most, however many spans keep coming.
    pub max_wait: Duration,
}

impl Default for Timing {
    fn default() -> Self {
        Timing { grace: Duration::from_secs(2), idle: Duration::from_secs(30), max_wait: Duration::from_secs(600) }
    }
}

/// When events of a growing trace are told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Tell {
    /// When the trace is due, all at once.
    WhenDue(Timing),
    /// As soon as they are known; a trace is forgotten when nothing of it is open and nothing came for that long.
    AtOnce(Duration),
}

/// How much may wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Bounds {
    /// Bytes of memory; beyond, the oldest traces are told before they are complete.
    pub bytes: usize,
    /// Spans of one trace; beyond, what there is of it is told.
    pub trace_spans: usize,
    /// Bytes that the store keeps of one trace; beyond, what there is of it is told.
    pub trace_bytes: usize,
}

impl Bounds {
    /// For a process that watches itself.
    pub const LIBRARY: Bounds = Bounds { bytes: 256 << 20, trace_spans: usize::MAX, trace_bytes: usize::MAX };
}

/// What is told of a trace at one time.
#[derive(Debug)]
pub(crate) struct Telling {
    pub trace: TraceId,
    /// Each event with a number that stays the same however often the trace is mapped.
    pub events: Vec<(u64, Event)>,
    /// The sessions that are said from now on, by the span of the root.
    pub sessions: Vec<(SpanId, Arc<str>)>,
    /// How many portions it had then.
    pub covers: usize,
    /// When its last span came.
    pub since: Instant,
}

/// The traces that wait.
#[derive(Debug)]
pub(crate) struct Pending<S: Store> {
    pub store: S,
    mapping: Mapping,
    tell: Tell,
    bounds: Bounds,
    /// What the moments count from.
    epoch: Instant,
    memory: usize,
    /// How many traces have spans that have not been told.
    waiting: usize,
    traces: HashMap<TraceId, Box<Trace<S::Held>>>,
    /// Whether a trace has grown beyond its bounds since [`Pending::due`] was asked.
    is_full: bool,
    /// When to look at a trace again: one entry each, but for those that nothing can make due.
    agenda: BTreeSet<(Moment, [u8; 16])>,
    /// Spans of traces that were told and forgotten.
    ledger: Ledger,
    /// The newest model calls within runs: what a call that stands alone in its trace can be the same as.
    nested_calls: VecDeque<NestedCall>,
}

#[derive(Debug)]
struct NestedCall {
    trace: TraceId,
    span: SpanId,
    start: u64,
    end: u64,
}

/// How many calls within runs are remembered to compare with those that stand alone.
const MAX_NESTED_CALLS: usize = 4_096;

/// How many traces are due at one time at most: what is remembered of those that were told counts against the bounds too,
/// which are kept in between.
const MAX_DUE: usize = 1_024;

/// When a trace that could not be read is tried again.
const READ_AGAIN: Moment = 5_000;

impl<S: Store> Pending<S> {
    pub fn new(store: S, mapping: Mapping, tell: Tell, bounds: Bounds, epoch: Instant) -> Self {
        Pending {
            store,
            mapping,
            tell,
            bounds,
            epoch,
            memory: 0,
            waiting: 0,
            traces: HashMap::new(),
            is_full: false,
            agenda: BTreeSet::new(),
            ledger: Ledger::within(bounds.bytes),
            nested_calls: VecDeque::new(),
        }
    }

    /// Takes spans of one trace, first or again.
    pub fn add(&mut self, id: TraceId, entries: &[Entry], portion: S::Portion, now: Instant) {
        let now = self.moment(now);
        let trace = self.traces.get(&id);
        let is_known = |entry: &Entry| trace.is_some_and(|trace| trace.index.knows(entry));
        let is_told = |entry: &Entry| {
            trace.is_none_or(|trace| !trace.index.has(entry.span_id)) && self.ledger.holds(id, entry.span_id)
        };
        let told: Vec<SpanId> = entries.iter().filter(|entry| is_told(entry)).map(|entry| entry.span_id).collect();
        if !told.is_empty() {
            self.store.note_known(id, &told);
        }
        // One that was told still says whose the others are, if they wait for it.
        let is_awaited = |id: SpanId| trace.is_some_and(|trace| trace.index.awaits(id));
        let is_needless = |id: SpanId| told.contains(&id) && !is_awaited(id);
        if entries.iter().all(|entry| is_known(entry) || is_needless(entry.span_id)) {
            if trace.is_some_and(|trace| !trace.is_dirty) {
                let spans: Vec<SpanId> = entries.iter().map(|entry| entry.span_id).collect();
                self.store.note_known(id, &spans);
            }
            self.store.discard(portion);
            return;
        }
        let trace = self.traces.entry(id).or_insert_with(|| Box::new(Trace::new(now)));
        trace.last = now;
        if !self.store.keep(&mut trace.held, portion) {
            return;
        }
        trace.was_early = false;
        for entry in entries {
            trace.may_be_certain |= entry.may_be_certain || self.mapping.session_id.is_some();
            trace.start = trace.start.min(entry.start);
            trace.index.add(entry);
            if let Some((start, end)) = entry.nested_call {
                self.nested_calls.push_back(NestedCall { trace: id, span: entry.span_id, start, end });
                if self.nested_calls.len() > MAX_NESTED_CALLS {
                    self.nested_calls.pop_front();
                }
            }
        }
        self.waiting += usize::from(!std::mem::replace(&mut trace.is_dirty, true));
        if !told.is_empty() {
            trace.said.get_or_insert_default().spans.extend(told);
        }
        let is_too_big = trace.index.len() > self.bounds.trace_spans || S::bytes(&trace.held) > self.bounds.trace_bytes;
        if is_too_big && !trace.is_leaving {
            (trace.is_leaving, self.is_full) = (true, true);
            crate::once::warn("trace-too-big", || {
                format!(
                    "trace {id} has more than {} spans or {} bytes: it is told in parts",
                    self.bounds.trace_spans, self.bounds.trace_bytes
                )
            });
        }
        self.settle(id);
    }

    /// Takes note of what a process before this one has told of a trace, when it had so many portions.
    pub fn restore(&mut self, id: TraceId, keys: &[u64], sessions: &[(SpanId, Arc<str>)], covers: usize) {
        let Some(trace) = self.traces.get_mut(&id) else { return };
        let said = trace.said.get_or_insert_default();
        said.keys.extend(keys);
        said.sessions.extend(sessions.iter().cloned());
        if covers >= S::portions(&trace.held) {
            self.waiting -= usize::from(std::mem::replace(&mut trace.is_dirty, false));
        }
        self.settle(id);
    }

    /// Takes note of spans that were told so long ago that their trace is forgotten.
    pub fn remember(&mut self, id: TraceId, spans: &[SpanId]) {
        self.ledger.note(id, spans.iter().copied());
    }

    /// Lets a trace that is due wait for another moment.
    pub fn postpone(&mut self, id: TraceId, now: Instant) {
        let now = self.moment(now);
        self.wake_at(id, now);
    }

    /// Whether a trace is due at once: with more of its spans, telling it would take more memory than there is for it.
    pub fn is_full(&self) -> bool {
        self.is_full
    }

    /// The traces that are due, or the first of them. Those that have been told long enough ago are forgotten.
    pub fn due(&mut self, now: Instant) -> Vec<TraceId> {
        let now = self.moment(now);
        self.is_full = false;
        let mut due = Vec::new();
        while due.len() < MAX_DUE
            && let Some((_, id)) = self.agenda.first().copied().filter(|(wake, _)| *wake <= now)
        {
            self.agenda.pop_first();
            let id = TraceId::from_bytes(id);
            let Some(trace) = self.traces.get_mut(&id) else { continue };
            trace.wake = NEVER;
            if trace.is_dirty {
                due.push(id);
            } else {
                self.forget(id);
            }
        }
        due.extend(self.over_bounds());
        self.in_order(due)
    }

    /// The traces that are complete, without waiting for the grace to pass. A trace whose parents are still on their way
    /// waits on: told now, its calls would belong to nobody.
    pub fn complete(&self) -> Vec<TraceId> {
        let at_once = matches!(self.tell, Tell::AtOnce(_));
        let is_known = |trace: &Trace<S::Held>| trace.is_dirty && (at_once || trace.index.is_complete());
        self.in_order(self.traces.iter().filter(|(_, trace)| is_known(trace)).map(|(id, _)| *id).collect())
    }

    /// All traces, of which all that is open is closed at that time, in nanoseconds since 1970.
    pub fn close(&mut self, time: u64) -> Vec<TraceId> {
        for trace in self.traces.values_mut() {
            trace.said.get_or_insert_default().closed_at = Some(time);
        }
        self.in_order(self.traces.keys().copied().collect())
    }

    /// What there is to tell of a trace that has not been told; nothing if it is unknown.
    ///
    /// # Errors
    /// In words, if its spans cannot be read. It is due again after a while.
    pub fn tell(&mut self, id: TraceId, now: Instant) -> Result<Option<Telling>, String> {
        let now = self.moment(now);
        let Some(trace) = self.traces.get_mut(&id) else { return Ok(None) };
        let is_early = self.tell.is_early(trace, now);
        let mut said = trace.said.take().unwrap_or_default();
        let told = if is_early { self.map_early(id, &said) } else { self.map(id, &mut said) };
        let Some(trace) = self.traces.get_mut(&id) else { return Ok(None) };
        let mapped = match told {
            Ok(mapped) => mapped,
            Err(error) => {
                trace.said = Some(said);
                self.wake_at(id, now + READ_AGAIN);
                return Err(error);
            }
        };
        let since = self.epoch + Duration::from_millis(trace.last);
        let covers = if is_early {
            trace.was_early = true;
            0
        } else {
            self.waiting -= usize::from(std::mem::replace(&mut trace.is_dirty, false));
            trace.last = now;
            S::portions(&trace.held)
        };
        let mut events: Vec<(u64, Event)> = Vec::with_capacity(mapped.len());
        for (key, event) in mapped {
            let (span, kind, part) = &key;
            let number = hash(&[&span.to_bytes(), &part.to_le_bytes(), kind.as_bytes()]);
            if !said.spans.contains(&key.0) && said.keys.insert(number) {
                events.push((number, event));
            }
        }
        let sessions = said.sessions.iter().map(|(span, session)| (*span, session.clone())).collect();
        let is_of_no_agent = said.keys.is_empty() && !trace.index.has_open() && trace.index.is_complete();
        trace.said = Some(said);
        if trace.is_leaving || is_of_no_agent {
            self.forget(id);
        } else {
            if matches!(self.tell, Tell::AtOnce(_)) {
                trace.forget_told::<S>();
            }
            self.settle(id);
        }
        Ok(Some(Telling { trace: id, events, sessions, covers, since }))
    }

    /// Forgets the traces that have waited longest, untold, until the bounds are kept; how many spans are lost so.
    pub fn drop_over_bounds(&mut self) -> usize {
        let over = self.over_bounds();
        over.into_iter()
            .map(|id| {
                let spans = self.traces.get(&id).map_or(0, |trace| trace.index.len());
                self.forget(id);
                spans
            })
            .sum()
    }

    /// How many traces have spans that have not been told.
    pub fn waiting(&self) -> usize {
        self.waiting
    }

    /// Roughly how many bytes of memory all this takes.
    pub fn memory(&self) -> usize {
        self.memory + self.ledger.memory()
    }

    fn map(&self, id: TraceId, said: &mut Said) -> Result<super::KeyedEvents, String> {
        let Some(trace) = self.traces.get(&id) else { return Ok(Vec::new()) };
        self.store.read(&trace.held, |spans| {
            let is_alone = trace.index.len() == 1;
            if is_alone && self.is_told_elsewhere(spans) {
                return Vec::new();
            }
            map_growing(spans, &self.mapping, said)
        })
    }

    fn map_early(&self, id: TraceId, said: &Said) -> Result<super::KeyedEvents, String> {
        let Some(trace) = self.traces.get(&id) else { return Ok(Vec::new()) };
        self.store.read(&trace.held, |spans| map_early(spans, &self.mapping, said))
    }

    /// Whether the trace is a model call alone that another trace tells, of those that are here.
    fn is_told_elsewhere(&self, spans: &[&Span<'_>]) -> bool {
        elsewhere::is_lonely(spans).is_some_and(|lonely| {
            let during = |nested: &&NestedCall| nested.start <= lonely.start && lonely.end <= Some(nested.end);
            self.nested_calls.iter().rev().filter(during).any(|nested| {
                let Some(other) = self.traces.get(&nested.trace) else { return false };
                let tells = |spans: &[&Span<'_>]| {
                    let mut reports = spans.iter().filter(|span| span.span_id == nested.span);
                    reports.any(|nested| elsewhere::tells(nested, lonely))
                };
                self.store.read(&other.held, tells).unwrap_or(false)
            })
        })
    }

    /// Forgets traces that have been told, until the bounds are kept, and gives those that have waited longest if that is
    /// not enough: they are forgotten as soon as they have been told.
    fn over_bounds(&mut self) -> Vec<TraceId> {
        let mut traces = self.traces.iter_mut().map(|(id, trace)| (*id, trace.is_untold(), &mut trace.held));
        let in_the_way = self.store.make_room(&mut traces);
        let early = self.let_go(in_the_way);
        if self.memory() <= self.bounds.bytes {
            return early;
        }
        let mut all: Vec<(bool, Moment, TraceId)> =
            self.traces.iter().map(|(id, trace)| (trace.is_dirty || trace.index.has_open(), trace.last, *id)).collect();
        all.sort_unstable_by_key(|(waits, last, id)| (*waits, *last, id.to_bytes()));
        let mut excess = self.memory() - self.bounds.bytes;
        let oldest = all.into_iter().map_while(|(_, _, id)| {
            let memory = self.traces.get(&id).filter(|_| excess > 0)?.memory;
            excess = excess.saturating_sub(memory);
            Some(id)
        });
        let oldest = oldest.collect();
        [early, self.let_go(oldest)].concat()
    }

    /// Forgets those of the traces that have been told, and gives the others, which are forgotten as soon as they are.
    fn let_go(&mut self, traces: Vec<TraceId>) -> Vec<TraceId> {
        let mut early = Vec::new();
        for id in traces {
            let Some(trace) = self.traces.get_mut(&id) else { continue };
            if trace.is_dirty || trace.index.has_open() {
                trace.is_leaving = true;
                early.push(id);
            } else {
                self.forget(id);
            }
        }
        if !early.is_empty() {
            crate::once::warn("told-early", || {
                "more waits than may: the oldest traces are told before they are complete".to_owned()
            });
        }
        early
    }

    /// Counts a trace's memory and puts it on the agenda anew.
    fn settle(&mut self, id: TraceId) {
        let Some(trace) = self.traces.get_mut(&id) else { return };
        let memory = trace.count_memory::<S>();
        self.memory = self.memory - std::mem::replace(&mut trace.memory, memory) + memory;
        let wake = trace.next_wake(self.tell);
        self.wake_at(id, wake);
    }

    fn wake_at(&mut self, id: TraceId, wake: Moment) {
        let Some(trace) = self.traces.get_mut(&id) else { return };
        let before = std::mem::replace(&mut trace.wake, wake);
        if before != wake {
            self.agenda.remove(&(before, id.to_bytes()));
            if wake != NEVER {
                self.agenda.insert((wake, id.to_bytes()));
            }
        }
    }

    fn forget(&mut self, id: TraceId) {
        let Some(trace) = self.traces.remove(&id) else { return };
        self.agenda.remove(&(trace.wake, id.to_bytes()));
        self.memory -= trace.memory;
        self.waiting -= usize::from(trace.is_dirty);
        let was_told = trace.said.as_ref().is_some_and(|said| !said.keys.is_empty());
        if was_told && matches!(self.tell, Tell::WhenDue(_)) {
            self.ledger.note(id, trace.index.spans());
        }
        self.store.forget(trace.held);
    }

    /// The traces by their start, whatever order they came in.
    fn in_order(&self, mut ids: Vec<TraceId>) -> Vec<TraceId> {
        ids.sort_by_cached_key(|id| (self.traces.get(id).map(|trace| trace.start), id.to_bytes()));
        ids
    }

    fn moment(&self, now: Instant) -> Moment {
        Moment::try_from(now.duration_since(self.epoch).as_millis()).unwrap_or(NEVER - 1)
    }
}

/// A span that no dialect recognizes is kept as a link between others: without its content.
pub(crate) fn lighten<'s>(mut span: Span<'s>) -> Span<'s> {
    if dialect::read(&span).is_some() || events::has_events_by_hand(&span) {
        return span;
    }
    let said = span.attributes.text(dialect::SESSION_ID).map(|session| session.to_owned());
    span.attributes = said.into_iter().map(|session| (dialect::SESSION_ID, session)).collect::<Attributes<'s>>();
    span.events = Vec::new();
    span
}

#[cfg(test)]
mod tests;
