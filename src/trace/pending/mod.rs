//! Spans that wait until the run that they belong to is known.
//!
//! Exporters and gateways see a span when it has ended, children first: its agent and session are known only when the
//! chain of parents is complete. [`Pending`] holds the spans of each trace until then, within bounds, and remembers what it
//! has said, so that a late or repeated span adds what is missing and repeats nothing. The caller gives the time; nothing
//! here reads a clock.

use std::collections::{HashMap, HashSet, VecDeque};
use std::time::{Duration, Instant};

use super::{EventKey, Mapping, Said, elsewhere, events, map_growing};
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

/// How many bytes of spans wait at most by default.
pub(crate) const DEFAULT_MAX_BYTES: usize = 256 << 20;

/// When events of a growing trace are told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Tell {
    /// When the trace is due, all at once.
    WhenDue(Timing),
    /// As soon as they are known; a trace is forgotten when nothing of it is open and nothing came for that long.
    AtOnce(Duration),
}

/// A trace told at once keeps no more spans than this; then those that have been told and lead to nothing open are
/// forgotten, and with them their part in the sums of their run.
const MAX_TOLD_SPANS: usize = 8_192;

/// The spans that wait, by trace.
#[derive(Debug)]
pub(crate) struct Pending {
    mapping: Mapping,
    tell: Tell,
    max_bytes: usize,
    bytes: usize,
    traces: HashMap<TraceId, Trace>,
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

#[derive(Debug)]
struct Trace {
    spans: HashMap<SpanId, Span<'static>>,
    bytes: usize,
    first: Instant,
    last: Instant,
    /// Whether spans came that have not been told.
    is_dirty: bool,
    /// Whether every chain of parents is complete, if that has been looked at since the last span came.
    is_complete: Option<bool>,
    said: Said,
    told: HashSet<EventKey>,
}

impl Pending {
    pub fn new(mapping: Mapping, tell: Tell, max_bytes: usize) -> Self {
        Pending { mapping, tell, max_bytes, bytes: 0, traces: HashMap::new(), nested_calls: VecDeque::new() }
    }

    /// Takes a span, open or ended, first or again.
    pub fn add(&mut self, span: Span<'static>, now: Instant) {
        let span = lighten(span);
        let trace = self.traces.entry(span.trace_id).or_insert_with(|| Trace::new(now));
        trace.last = now;
        let weight = span.weight();
        if let Some(known) = trace.spans.get(&span.span_id) {
            // A span that has ended stays; of two reports of an end the fuller one does, as in any other mapping.
            let is_news = (span.end, span.attributes.len(), span.events.len(), weight)
                > (known.end, known.attributes.len(), known.events.len(), known.weight());
            if !is_news {
                return;
            }
            trace.bytes -= known.weight();
            self.bytes -= known.weight();
        }
        (trace.is_dirty, trace.is_complete) = (true, None);
        trace.bytes += weight;
        self.bytes += weight;
        if let Some(end) = span.end.filter(|_| elsewhere::is_nested(&span)) {
            self.nested_calls.push_back(NestedCall {
                trace: span.trace_id,
                span: span.span_id,
                start: span.start,
                end,
            });
            if self.nested_calls.len() > MAX_NESTED_CALLS {
                self.nested_calls.pop_front();
            }
        }
        trace.spans.insert(span.span_id, span);
    }

    /// The events that are due, trace by trace.
    pub fn take_due(&mut self, now: Instant) -> Vec<Event> {
        let mut due: Vec<TraceId> = Vec::new();
        let mut done: Vec<TraceId> = Vec::new();
        for (id, trace) in &mut self.traces {
            match self.tell {
                Tell::AtOnce(_) if trace.is_dirty => due.push(*id),
                Tell::AtOnce(remember) if !trace.has_open() && now.duration_since(trace.last) >= remember => {
                    done.push(*id)
                }
                Tell::WhenDue(timing) if trace.is_dirty && trace.is_due(timing, now) => due.push(*id),
                Tell::WhenDue(timing) if !trace.is_dirty && now.duration_since(trace.last) >= timing.idle => {
                    done.push(*id)
                }
                Tell::AtOnce(_) | Tell::WhenDue(_) => {}
            }
        }
        for id in done {
            self.forget(id);
        }
        let mut events = self.tell_all(due);
        events.extend(self.keep_bounds());
        events
    }

    /// The events of all that is complete, without waiting for the grace to pass. A trace whose parents are still on their
    /// way waits on: told now, its calls would belong to nobody.
    pub fn flush(&mut self) -> Vec<Event> {
        let at_once = matches!(self.tell, Tell::AtOnce(_));
        let known = self
            .traces
            .iter_mut()
            .filter_map(|(id, trace)| (trace.is_dirty && (at_once || trace.is_complete())).then_some(*id));
        let known = known.collect();
        self.tell_all(known)
    }

    /// The events that close all that is open at that time, in nanoseconds since 1970, and the events of everything else.
    pub fn close(&mut self, time: u64) -> Vec<Event> {
        for trace in self.traces.values_mut() {
            trace.said.closed_at = Some(time);
        }
        let all = self.traces.keys().copied().collect();
        let events = self.tell_all(all);
        self.traces.clear();
        self.bytes = 0;
        events
    }

    fn tell_all(&mut self, mut ids: Vec<TraceId>) -> Vec<Event> {
        // As everywhere: traces by their first event, whatever order they came in.
        ids.sort_unstable_by_key(|id| id.to_bytes());
        let mut told: Vec<Vec<Event>> =
            ids.into_iter().map(|id| self.tell(id)).filter(|events| !events.is_empty()).collect();
        told.sort_by_key(|events| events.first().map(|event| event.time));
        told.into_iter().flatten().collect()
    }

    fn tell(&mut self, id: TraceId) -> Vec<Event> {
        let Some(trace) = self.traces.get_mut(&id) else { return Vec::new() };
        trace.is_dirty = false;
        if self.is_told_elsewhere(id) {
            return Vec::new();
        }
        let Some(trace) = self.traces.get_mut(&id) else { return Vec::new() };
        let spans: Vec<&Span<'_>> = trace.spans.values().collect();
        let mapped = map_growing(&spans, &self.mapping, &mut trace.said);
        let told = &mut trace.told;
        let events: Vec<Event> =
            mapped.into_iter().filter_map(|(key, event)| told.insert(key).then_some(event)).collect();
        let is_of_no_agent = trace.told.is_empty() && !trace.has_open() && trace.is_complete();
        if is_of_no_agent {
            self.forget(id);
        } else if matches!(self.tell, Tell::AtOnce(_)) {
            self.bytes -= trace.forget_told();
        }
        events
    }

    /// Whether the trace is a model call alone that another trace tells, of those that are here.
    fn is_told_elsewhere(&self, id: TraceId) -> bool {
        let Some(trace) = self.traces.get(&id).filter(|trace| trace.spans.len() == 1) else { return false };
        let spans: Vec<&Span<'_>> = trace.spans.values().collect();
        elsewhere::is_lonely(&spans).is_some_and(|lonely| {
            let during = |nested: &&NestedCall| nested.start <= lonely.start && lonely.end <= Some(nested.end);
            let candidates = self.nested_calls.iter().rev().filter(during);
            candidates
                .filter_map(|nested| self.traces.get(&nested.trace)?.spans.get(&nested.span))
                .any(|nested| elsewhere::tells(nested, lonely))
        })
    }

    /// Tells and forgets the traces that have waited longest, until the bounds are kept.
    fn keep_bounds(&mut self) -> Vec<Event> {
        if self.bytes <= self.max_bytes {
            return Vec::new();
        }
        let mut ids: Vec<(bool, Instant, TraceId)> =
            self.traces.iter().map(|(id, trace)| (trace.is_dirty || trace.has_open(), trace.last, *id)).collect();
        // Those that were told already go first.
        ids.sort_unstable_by_key(|(waits, last, id)| (*waits, *last, id.to_bytes()));
        let mut events = Vec::new();
        for (waits, _, id) in ids {
            if self.bytes <= self.max_bytes {
                break;
            }
            if waits {
                crate::once::warn("told-early", || {
                    format!(
                        "more than {} bytes of spans wait: the oldest traces are told before they are complete",
                        self.max_bytes
                    )
                });
                events.extend(self.tell(id));
            }
            self.forget(id);
        }
        events
    }

    fn forget(&mut self, id: TraceId) {
        if let Some(trace) = self.traces.remove(&id) {
            self.bytes -= trace.bytes;
        }
    }
}

impl Trace {
    fn new(now: Instant) -> Self {
        Trace {
            spans: HashMap::new(),
            bytes: 0,
            first: now,
            last: now,
            is_dirty: false,
            is_complete: None,
            said: Said::default(),
            told: HashSet::new(),
        }
    }

    fn is_due(&mut self, timing: Timing, now: Instant) -> bool {
        let quiet = now.duration_since(self.last);
        (quiet >= timing.grace && self.is_complete())
            || quiet >= timing.idle
            || now.duration_since(self.first) >= timing.max_wait
    }

    /// Whether every chain of parents ends at a root, or at a parent in another process.
    fn is_complete(&mut self) -> bool {
        let spans = &self.spans;
        *self.is_complete.get_or_insert_with(|| {
            spans.values().all(|span| {
                span.parent.is_none_or(|parent| spans.contains_key(&parent) || span.parent_is_remote == Some(true))
            })
        })
    }

    fn has_open(&self) -> bool {
        self.spans.values().any(|span| span.end.is_none())
    }

    /// Forgets spans that have been told and that nothing open hangs on, if there are too many. The bytes that it freed.
    fn forget_told(&mut self) -> usize {
        if self.spans.len() <= MAX_TOLD_SPANS {
            return 0;
        }
        let mut needed: HashSet<SpanId> = HashSet::new();
        for span in self.spans.values().filter(|span| span.end.is_none()) {
            let mut at = Some(span.span_id);
            while let Some(id) = at.filter(|id| needed.insert(*id)) {
                at = self.spans.get(&id).and_then(|span| span.parent);
            }
        }
        self.spans.retain(|id, _| needed.contains(id));
        let bytes = self.spans.values().map(Span::weight).sum();
        std::mem::replace(&mut self.bytes, bytes).saturating_sub(bytes)
    }
}

/// A span that no dialect recognizes is kept as a link between others: without its content.
fn lighten(mut span: Span<'static>) -> Span<'static> {
    if dialect::read(&span).is_some() || events::has_events_by_hand(&span) {
        return span;
    }
    let said = span.attributes.text(dialect::SESSION_ID).map(|session| session.to_owned());
    span.attributes = said.into_iter().map(|session| (dialect::SESSION_ID, session)).collect::<Attributes<'static>>();
    span.events = Vec::new();
    span
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::span::{Resource, Scope};

    const SECOND: Duration = Duration::from_secs(1);

    fn span(id: u64, parent: Option<u64>, operation: &str) -> Span<'static> {
        let blank = Span::blank(&Arc::new(Scope::default()), &Arc::new(Resource::default()));
        let attributes = [("gen_ai.operation.name", operation), ("gen_ai.agent.name", "bot")];
        Span {
            trace_id: TraceId::from(1),
            span_id: SpanId::from(id),
            parent: parent.map(SpanId::from),
            start: id,
            end: Some(100 - id),
            attributes: attributes.into_iter().map(|(key, value)| (key.to_owned(), value.to_owned())).collect(),
            ..blank
        }
    }

    fn pending(max_bytes: usize) -> (Pending, Instant) {
        (Pending::new(Mapping::default(), Tell::WhenDue(Timing::default()), max_bytes), Instant::now())
    }

    fn told(events: &[Event]) -> Vec<String> {
        events.iter().map(|event| format!("{} {}", event.kind.name(), event.agent_id)).collect()
    }

    #[test]
    fn a_call_waits_for_its_run_longer_than_the_grace() {
        let (mut pending, start) = pending(DEFAULT_MAX_BYTES);
        pending.add(span(2, Some(1), "chat"), start);
        assert_eq!(told(&pending.take_due(start + 10 * SECOND)), [""; 0]);
        pending.add(span(1, None, "invoke_agent"), start + 10 * SECOND);
        assert_eq!(told(&pending.take_due(start + 11 * SECOND)), [""; 0], "within the grace");
        let events = pending.take_due(start + 12 * SECOND);
        assert_eq!(told(&events), ["agent_start bot", "model_request bot", "model_response bot", "agent_end bot"]);
        assert!(events.iter().all(|event| event.extra("fw_synthetic").is_none()));
    }

    #[test]
    fn a_run_that_never_comes_is_waited_for_no_longer_than_the_idle_time() {
        let (mut pending, start) = pending(DEFAULT_MAX_BYTES);
        pending.add(span(2, Some(1), "chat"), start);
        assert_eq!(told(&pending.take_due(start + 29 * SECOND)), [""; 0]);
        assert_eq!(pending.take_due(start + 30 * SECOND).len(), 4);
    }

    #[test]
    fn a_late_span_adds_its_own_events_and_one_sent_again_adds_none() {
        let (mut pending, start) = pending(DEFAULT_MAX_BYTES);
        pending.add(span(1, None, "invoke_agent"), start);
        assert_eq!(told(&pending.take_due(start + 2 * SECOND)), ["agent_start bot", "agent_end bot"]);
        pending.add(span(1, None, "invoke_agent"), start + 3 * SECOND);
        pending.add(span(2, Some(1), "chat"), start + 3 * SECOND);
        assert_eq!(told(&pending.take_due(start + 5 * SECOND)), ["model_request bot", "model_response bot"]);
    }

    #[test]
    fn over_the_bound_the_oldest_trace_is_told_early() {
        let (mut pending, start) = pending(span(1, None, "invoke_agent").weight());
        pending.add(span(1, None, "invoke_agent"), start);
        assert_eq!(told(&pending.take_due(start)), [""; 0]);
        pending.add(Span { trace_id: TraceId::from(2), ..span(1, None, "invoke_agent") }, start + SECOND);
        let events = pending.take_due(start + SECOND);
        assert_eq!(told(&events), ["agent_start bot", "agent_end bot"]);
        assert_eq!(&*events[0].session_id, &TraceId::from(1).to_string());
    }
}
