//! From the bytes of a body to the journal and the delivery: the same for both transports.

use std::collections::HashMap;
use std::fmt::Write;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread::available_parallelism;
use std::time::Duration;

use bytes::Bytes;
use tokio::sync::{Semaphore, oneshot};

use super::Summary;
use super::body::{Limits, unpack};
use super::events::EventService;
use super::in_flight::Share;
use super::journal::{Frames, Journal, OnDisk};
use super::metrics::Metrics;
use super::readiness::Hindrance;
use super::refused::Refused;
use crate::delivery::{Delivery, DeliveryError};
use crate::otlp::decompress::Encoding;
use crate::otlp::{Budget, Spans, json, protobuf};
use crate::span::{Span, TraceId};
use crate::trace::pending::{Entry, lighten};

/// How many of the things that were not taken over an answer tells one by one.
const MAX_TOLD: usize = 10;

/// How many bytes of notes about spans wait for the delivery at most: some 80,000 spans that are on disk already.
const MAX_QUEUED_BYTES: usize = 4 << 20;

/// How a request is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Format {
    Protobuf,
    Json,
}

/// A request that was taken, at least in part.
#[derive(Debug, Default)]
pub(super) struct Accepted {
    /// How many spans can never be taken.
    pub rejected_spans: usize,
    /// What was not taken over, and why; empty if nothing.
    pub message: String,
}

/// The spans of a request, by trace, ready for the journal.
struct Portions {
    frames: Frames,
    /// What has to be known of the spans of each.
    entries: Vec<(TraceId, Vec<Entry>)>,
    /// For the bytes of the frames, until they are on disk.
    share: Share,
}

/// What the spans that wait may take.
#[derive(Clone, Copy, Debug)]
pub(super) struct Room {
    /// Bytes of the journal.
    pub journal: u64,
    /// Bytes of memory.
    pub memory: usize,
}

/// Takes requests, and counts them.
pub(super) struct Admission {
    delivery: Arc<Delivery<OnDisk>>,
    journal: Arc<Journal>,
    room: Room,
    events: EventService,
    decoders: Arc<Semaphore>,
    limits: Limits,
    metrics: Arc<Metrics>,
}

impl Admission {
    pub fn new(
        delivery: Delivery<OnDisk>,
        journal: Arc<Journal>,
        room: Room,
        events: EventService,
        limits: Limits,
        metrics: Arc<Metrics>,
    ) -> Self {
        // Decoding keeps a core busy; more at once would be no faster, and each may hold a whole unpacked body.
        let decoders = Arc::new(Semaphore::new(available_parallelism().map_or(1, usize::from)));
        Admission { delivery: Arc::new(delivery), journal, room, events, decoders, limits, metrics }
    }

    /// What is counted.
    pub fn metrics(&self) -> &Arc<Metrics> {
        &self.metrics
    }

    /// Whether more is taken at all, before a body is read.
    pub fn is_open(&self) -> Result<(), Refused> {
        if self.metrics.readiness.has(Hindrance::Draining) { Err(Refused::Draining) } else { Ok(()) }
    }

    /// What a body may take.
    pub fn limits(&self) -> &Limits {
        &self.limits
    }

    /// Takes a body. When this answers, its good spans are safe on disk.
    ///
    /// It is unpacked and read always on a thread for blocking work: a few bytes may unpack to 64 MiB, so that their number
    /// does not tell how long a body takes, and the way there costs microseconds, once for hundreds of spans.
    pub async fn accept(
        self: &Arc<Self>,
        body: Bytes,
        format: Format,
        encoding: Option<Encoding>,
    ) -> Result<Accepted, Refused> {
        self.check_room()?;
        let held = self.metrics.body(body.len());
        let permit = self.decoders.clone().acquire_owned().await.map_err(|_closed| Refused::Failed)?;
        let admission = self.clone();
        let taken = tokio::task::spawn_blocking(move || {
            let (_permit, _held) = (permit, held);
            admission.read(&body, format, encoding)
        });
        let (portions, accepted) = taken.await.unwrap_or(Err(Refused::Failed))?;
        if !portions.entries.is_empty() {
            self.store(portions).await?;
        }
        Ok(accepted)
    }

    /// Refuses what could not be kept within the bounds.
    fn check_room(&self) -> Result<(), Refused> {
        if self.journal.bytes() >= self.room.journal {
            return Err(Refused::JournalFull { limit: self.room.journal });
        }
        let counters = self.delivery.counters();
        let is_beyond = counters.bytes_waiting.load(Ordering::Relaxed) > self.room.memory
            || counters.is_full.load(Ordering::Relaxed);
        // Beyond the bounds traces are told early, unless the sink takes nothing.
        let is_stuck = is_beyond && counters.is_stalled.load(Ordering::Relaxed);
        if is_stuck || self.delivery.queued_bytes() > MAX_QUEUED_BYTES {
            return Err(Refused::Full);
        }
        Ok(())
    }

    /// Has the spans written to the journal, then handed to the delivery.
    async fn store(&self, portions: Portions) -> Result<(), Refused> {
        let (answer, answered) = oneshot::channel();
        let delivery = self.delivery.clone();
        let Portions { frames, entries, share } = portions;
        self.journal.append(frames, move |appended| {
            drop(share);
            let result = appended.map(|places| {
                let bytes = entries.iter().map(|(_, entries)| size_of_val(&entries[..])).sum();
                // If the thread has ended already, they are found at the next start.
                delivery.post(bytes, move |pending, now| {
                    let count = entries.iter().map(|(_, entries)| entries.len()).sum();
                    for ((trace, entries), place) in entries.into_iter().zip(places) {
                        pending.add(trace, &entries, place, now);
                    }
                    count
                });
            });
            let _ = answer.send(result);
        });
        answered.await.map_err(|_| Refused::Failed)?.map_err(Refused::Unsafe)
    }

    fn read(&self, body: &[u8], format: Format, encoding: Option<Encoding>) -> Result<(Portions, Accepted), Refused> {
        let unpacked;
        let bytes = match encoding {
            None => body,
            Some(encoding) => {
                unpacked = unpack(body, encoding, &self.limits)?;
                &unpacked
            }
        };
        let mut read = match format {
            Format::Protobuf => protobuf::read(bytes, &Budget::REQUEST)?,
            Format::Json => json::read(bytes, &Budget::REQUEST)?,
        };
        let portions = Portions::of(std::mem::take(&mut read.spans), self.limits.in_flight.becoming())?;
        Ok((portions, Accepted { rejected_spans: read.rejected_spans, message: tell(&read) }))
    }

    /// Counts what was not taken of a request, and tells once if not all of one was.
    pub fn note_accepted(&self, accepted: &Accepted, peer: SocketAddr) {
        self.metrics.rejected_spans.fetch_add(accepted.rejected_spans as u64, Ordering::Relaxed);
        if !accepted.message.is_empty() {
            crate::once::warn("rejected-spans", || {
                format!("not all of a request from {peer} was taken: {}", accepted.message)
            });
        }
    }

    /// Tells of each kind of trouble once.
    pub fn note_refused(&self, refused: &Refused, peer: SocketAddr) {
        crate::once::warn(refused.answer().kind, || format!("a request from {peer} was refused: {refused}"));
        tracing::debug!("a request from {peer} was refused: {refused}");
    }

    /// What takes and shows events.
    pub fn events(&self) -> &EventService {
        &self.events
    }

    /// Writes lines that are events already. Blocks until they are safe or refused: had it an end before, lines could be
    /// written that their sender sends again.
    pub fn write_events(&self, lines: Vec<u8>) -> Result<(), DeliveryError> {
        self.delivery.write_events(lines, Duration::MAX)
    }

    /// Writes all that is complete. Blocks until then.
    #[cfg(test)]
    pub fn flush(&self, limit: Duration) -> Result<(), DeliveryError> {
        self.delivery.flush(limit)
    }

    /// Writes all that waits and ends the delivery. Blocks until then.
    pub fn stop(&self, limit: Duration) -> Result<(), DeliveryError> {
        self.delivery.stop(limit)
    }

    pub fn summary(&self) -> Summary {
        let delivered = self.delivery.counters();
        let (requests, refused) = self.metrics.requests();
        Summary {
            requests,
            refused,
            spans: delivered.spans.load(Ordering::Relaxed),
            rejected_spans: self.metrics.rejected_spans.load(Ordering::Relaxed),
            rejected_events: self.events.rejected(),
            events: delivered.sink.events(),
            spans_lost: delivered.spans_lost.load(Ordering::Relaxed),
        }
    }
}

impl Portions {
    fn of(spans: Vec<Span<'_>>, mut share: Share) -> Result<Self, Refused> {
        let mut traces: Vec<(TraceId, Vec<Span<'_>>)> = Vec::new();
        let mut places: HashMap<TraceId, usize> = HashMap::new();
        for span in spans {
            let place = *places.entry(span.trace_id).or_insert_with(|| {
                traces.push((span.trace_id, Vec::new()));
                traces.len() - 1
            });
            traces[place].1.push(lighten(span));
        }
        let (mut frames, mut entries) = (Frames::default(), Vec::with_capacity(traces.len()));
        for (trace, spans) in traces {
            frames.add_portion(trace, &spans);
            entries.push((trace, spans.iter().map(Entry::of).collect()));
        }
        share.grow(frames.len())?;
        Ok(Portions { frames, entries, share })
    }
}

/// What was not taken over, in one line.
fn tell(read: &Spans<'_>) -> String {
    let mut message = String::new();
    for rejected in read.rejected.iter().take(MAX_TOLD) {
        let separator = if message.is_empty() { "" } else { "; " };
        let _ = write!(message, "{separator}{}: {}", rejected.place, rejected.cause);
    }
    let more = read.rejected.len().saturating_sub(MAX_TOLD) + read.more_rejected;
    if more > 0 {
        let _ = write!(message, "; and {more} more");
    }
    message
}
