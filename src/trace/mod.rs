//! The rules across spans: whose agent, which session, which error, in which order.
//!
//! [`map`] takes a set of spans and gives their events; the result depends on the set and the [`Mapping`] alone, never on
//! order, batching or repetition. The steps, a file each:
//!
//! | file | says |
//! |---|---|
//! | `link` | which spans there are, each once, parents before their children |
//! | `tree` | the role of each span: agent, leaf, or nothing of its own |
//! | `twice`, `elsewhere` | which spans tell one thing, in one trace and in two |
//! | `unseen` | which agents have no span of their own |
//! | `ending` | which exception ended a span |
//! | `identity` | whose agent, which session |
//! | `pause` | where a run stopped for a person, or goes on from there |
//! | `outcome` | how the runs ended, and which of them tell of the error |
//! | `run`, `calls` | what has to be known of a run as a whole |
//! | `events`, `order` | the events, and their order |
//!
//! `early` says what can be told before a trace is complete,
//! `pending` holds spans until all of this can be known; `explain` tells a person what came of it.

mod calls;
mod early;
mod elsewhere;
mod ending;
mod events;
mod explain;
mod identity;
mod link;
mod order;
mod outcome;
mod pause;
pub(crate) mod pending;
mod run;
mod tree;
mod twice;
mod unseen;

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;

use crate::event::Event;
use crate::exception::Classifier;
use crate::span::{Span, SpanId};

pub use explain::{Explained, explain};
pub(crate) use identity::session_text;
pub use pending::Timing;

/// What the events depend on beside the spans.
#[derive(Clone, Debug)]
pub struct Mapping {
    /// Pins all runs to one session; `None` leaves it to the spans.
    pub session_id: Option<Arc<str>>,
    /// Pins the environment; `None` leaves it to the spans' resource.
    pub environment: Option<Arc<str>>,
    /// The environment of spans whose resource names none.
    pub default_environment: Arc<str>,
    /// Which failed runs get an `error` event.
    pub error_events: ErrorEvents,
    /// The classes of exceptions.
    pub classifier: Classifier,
}

/// Which failed runs get an `error` event.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ErrorEvents {
    /// One for each exception: on the innermost run that it escapes.
    #[default]
    Once,
    /// None for a run of which a leaf reported that same exception, as the official adapters do (0.0.1b6).
    UnlessLeaf,
}

impl Default for Mapping {
    fn default() -> Self {
        Mapping {
            session_id: None,
            environment: None,
            default_environment: Arc::from("dev"),
            error_events: ErrorEvents::default(),
            classifier: Classifier::default(),
        }
    }
}

/// Events of one trace, each with the span and the part of it that it tells: a key that stays the same however often and
/// in whatever company the span is mapped.
pub(crate) type KeyedEvents = Vec<(EventKey, Event)>;

/// See [`KeyedEvents`].
pub(crate) type EventKey = (SpanId, &'static str, u32);

/// What has been said already of a trace that is mapped while it grows.
#[derive(Clone, Debug, Default)]
pub(crate) struct Said {
    /// The session of each tree of agents, by the span of its root: once said, it stays.
    pub sessions: HashMap<SpanId, Arc<str>>,
    /// When all that is still open was closed, in nanoseconds since 1970: at the end of the process.
    pub closed_at: Option<u64>,
    /// The events, by a number of their key.
    pub keys: HashSet<u64>,
    /// Spans of which all has been said, long ago.
    pub spans: HashSet<SpanId>,
}

impl Said {
    /// Roughly how many bytes of memory it takes.
    fn memory(&self) -> usize {
        let of_keys = (self.keys.capacity() + self.spans.capacity()) * size_of::<u64>() * 5 / 4;
        size_of::<Self>() + of_keys + self.sessions.capacity() * 2 * size_of::<(SpanId, Arc<str>)>()
    }
}

/// The events of a set of spans, in any order, of any number of traces.
///
/// Traces come one after the other, by their first event. Within a trace: by time; at equal times starts before leaves
/// before ends, parents before children at starts and after them at ends.
pub fn map(spans: &[Span<'_>], mapping: &Mapping) -> Vec<Event> {
    let traces = by_trace(spans);
    let told_elsewhere = told_elsewhere(&traces);
    let mut traces: Vec<KeyedEvents> = traces
        .into_iter()
        .filter(|(trace_id, _)| !told_elsewhere.contains(trace_id))
        .map(|(_, spans)| map_trace(&spans, mapping, &Said::default()))
        .filter(|events| !events.is_empty())
        .collect();
    traces.sort_by_key(|events| events.first().map(|(_, event)| event.time));
    traces.into_iter().flatten().map(|(_, event)| event).collect()
}

/// The events of the spans of one trace.
pub(crate) fn map_trace(spans: &[&Span<'_>], mapping: &Mapping, said: &Said) -> KeyedEvents {
    order::in_order(events::of_tree(&settled(spans, mapping, said), mapping))
}

/// [`map_trace`] for a trace that grows: what is said of sessions from now on is noted.
pub(crate) fn map_growing(spans: &[&Span<'_>], mapping: &Mapping, said: &mut Said) -> KeyedEvents {
    let tree = settled(spans, mapping, said);
    said.sessions.extend(tree.root_sessions());
    order::in_order(events::of_tree(&tree, mapping))
}

/// [`map_growing`] for a trace of which spans are still awaited: what they cannot change any more.
pub(crate) fn map_early(spans: &[&Span<'_>], mapping: &Mapping, said: &Said) -> KeyedEvents {
    let tree = settled(spans, mapping, said);
    let mut events = order::in_order(events::of_tree(&tree, mapping));
    early::keep_certain(&mut events, &tree, mapping);
    events
}

fn settled<'s>(spans: &[&'s Span<'s>], mapping: &Mapping, said: &Said) -> tree::Tree<'s> {
    let mut tree = tree::Tree::build(spans, mapping, said);
    pause::settle(&mut tree);
    outcome::settle(&mut tree, mapping.error_events);
    tree
}

/// The traces that are one model call alone, which another trace tells.
fn told_elsewhere(traces: &BTreeMap<[u8; 16], Vec<&Span<'_>>>) -> HashSet<[u8; 16]> {
    let lonely: Vec<_> = traces.iter().filter_map(|(id, spans)| Some((*id, elsewhere::is_lonely(spans)?))).collect();
    if lonely.is_empty() {
        return HashSet::new();
    }
    let others = traces.values().filter(|spans| spans.len() > 1).flatten();
    let nested: Vec<&&Span<'_>> = others.filter(|span| elsewhere::is_nested(span)).collect();
    let is_told = |lonely: &Span<'_>| nested.iter().any(|nested| elsewhere::tells(nested, lonely));
    lonely.into_iter().filter(|(_, span)| is_told(span)).map(|(id, _)| id).collect()
}

fn by_trace<'r, 's>(spans: &'r [Span<'s>]) -> BTreeMap<[u8; 16], Vec<&'r Span<'s>>> {
    let mut traces: BTreeMap<_, Vec<_>> = BTreeMap::new();
    for span in spans {
        traces.entry(span.trace_id.to_bytes()).or_default().push(span);
    }
    traces
}
