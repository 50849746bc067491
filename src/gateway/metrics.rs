//! What a gateway counts; `table` tells it to those who ask.

mod table;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Instant;

pub(super) use table::{CONTENT_TYPE, text};

use super::journal::Journal;
use super::readiness::{Hindrance, Readiness};
use super::refused::Refused;
use crate::count::{CountBy, Histogram};
use crate::delivery::Counters;
use crate::sink::Progress;

/// How a request came.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Transport {
    Grpc,
    Http,
    /// Events over gRPC, not spans.
    Events,
}

/// What a request became, beside a kind of refusal.
const ACCEPTED: &str = "accepted";
/// Its client went away before it was answered.
const ABANDONED: &str = "abandoned";

/// What a gateway counts.
pub(super) struct Metrics {
    requests: CountBy<(Transport, &'static str)>,
    /// From the head of a request to its answer.
    durations: [Histogram; Transport::ALL.len()],
    /// Spans that can never be taken, in requests that were.
    pub rejected_spans: AtomicU64,
    body_bytes: AtomicU64,
    in_flight: Arc<AtomicUsize>,
    in_flight_bytes: Arc<AtomicUsize>,
    connections: Arc<AtomicUsize>,
    pub readiness: Readiness,
    delivered: Arc<Counters>,
    journal: Arc<Journal>,
    max_journal_bytes: u64,
    queues: Vec<Progress>,
}

/// Something that counts for as long as it lives.
pub(super) struct Held(Arc<AtomicUsize>, usize);

/// A request that is not answered yet.
pub(super) struct Request<'m> {
    metrics: &'m Metrics,
    transport: Transport,
    begun: Instant,
    result: &'static str,
    _held: Held,
}

impl Metrics {
    /// Nothing yet, but what the delivery, the journal and the queues before receivers count themselves.
    pub fn new(delivered: Arc<Counters>, journal: Arc<Journal>, max_journal_bytes: u64, queues: Vec<Progress>) -> Self {
        Metrics {
            requests: CountBy::default(),
            durations: Default::default(),
            rejected_spans: AtomicU64::new(0),
            body_bytes: AtomicU64::new(0),
            in_flight: Arc::default(),
            in_flight_bytes: Arc::default(),
            connections: Arc::default(),
            readiness: Readiness::default(),
            delivered,
            journal,
            max_journal_bytes,
            queues,
        }
    }

    /// Counts a request until its answer.
    pub fn request(&self, transport: Transport) -> Request<'_> {
        let held = Held::new(&self.in_flight, 1);
        Request { metrics: self, transport, begun: Instant::now(), result: ABANDONED, _held: held }
    }

    /// Counts the bytes of a body for as long as it is held.
    pub fn body(&self, bytes: usize) -> Held {
        self.body_bytes.fetch_add(bytes as u64, Ordering::Relaxed);
        Held::new(&self.in_flight_bytes, bytes)
    }

    /// Counts a connection for as long as it is open.
    pub fn connection(&self) -> Held {
        Held::new(&self.connections, 1)
    }

    /// Why requests cannot be taken for now; nothing if they can.
    pub fn hindrances(&self) -> Vec<&'static str> {
        self.readiness.set(Hindrance::SinkFailing, self.delivered.is_stalled.load(Ordering::Relaxed));
        self.readiness.set(Hindrance::JournalFailing, self.journal.is_failing());
        self.readiness.set(Hindrance::JournalFull, self.journal.bytes() >= self.max_journal_bytes);
        self.readiness.reasons()
    }

    /// What is not done yet, in words.
    pub fn left(&self) -> String {
        let requests = self.in_flight.load(Ordering::Relaxed);
        let traces = self.delivered.traces_waiting.load(Ordering::Relaxed);
        let sink = &self.delivered.sink;
        let stuck = if sink.lag().is_zero() { String::new() } else { format!("; {} has not taken all", sink.name()) };
        format!("{requests} requests are not answered, {traces} traces are not told{stuck}")
    }

    /// Requests with spans that were taken, at least in part, and all that were refused.
    pub fn requests(&self) -> (u64, u64) {
        let (mut taken, mut refused) = (0, 0);
        for ((transport, result), count) in self.requests.all() {
            match result {
                ACCEPTED if transport != Transport::Events => taken += count,
                ACCEPTED | ABANDONED => {}
                _ => refused += count,
            }
        }
        (taken, refused)
    }
}

impl Held {
    fn new(gauge: &Arc<AtomicUsize>, by: usize) -> Self {
        gauge.fetch_add(by, Ordering::Relaxed);
        Held(gauge.clone(), by)
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        self.0.fetch_sub(self.1, Ordering::Relaxed);
    }
}

impl Request<'_> {
    /// Notes what became of it: taken, unless it was refused.
    pub fn answered(mut self, refused: Option<&Refused>) {
        self.result = refused.map_or(ACCEPTED, |refused| refused.answer().kind.trim_start_matches("request-"));
    }
}

impl Drop for Request<'_> {
    fn drop(&mut self) {
        self.metrics.requests.add((self.transport, self.result));
        self.metrics.durations[self.transport as usize].observe(self.begun.elapsed());
    }
}

impl Transport {
    const ALL: [Transport; 3] = [Transport::Grpc, Transport::Http, Transport::Events];

    fn name(self) -> &'static str {
        match self {
            Transport::Grpc => "grpc",
            Transport::Http => "http",
            Transport::Events => "events",
        }
    }
}
