//! From the bytes of a body to the delivery: the same for both transports.

use std::fmt::Write;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::available_parallelism;
use std::time::Duration;

use bytes::Bytes;
use tokio::sync::Semaphore;

use super::Summary;
use super::body::Limits;
use super::refused::Refused;
use crate::delivery::{Delivery, DeliveryError};
use crate::otlp::decompress::{Encoding, decompress};
use crate::otlp::{Budget, Spans, json, protobuf};
use crate::span::Span;

/// How many of the things that were not taken over an answer tells one by one.
const MAX_TOLD: usize = 10;

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

/// Takes requests, and counts them.
pub(super) struct Admission {
    delivery: Delivery,
    decoders: Arc<Semaphore>,
    limits: Limits,
    requests: AtomicU64,
    refused: AtomicU64,
    rejected_spans: AtomicU64,
}

impl Admission {
    pub fn new(delivery: Delivery, limits: Limits) -> Self {
        // Decoding keeps a core busy; more at once would be no faster, and each may hold a whole unpacked body.
        let decoders = Arc::new(Semaphore::new(available_parallelism().map_or(1, usize::from)));
        Admission {
            delivery,
            decoders,
            limits,
            requests: AtomicU64::new(0),
            refused: AtomicU64::new(0),
            rejected_spans: AtomicU64::new(0),
        }
    }

    /// What a body may take.
    pub fn limits(&self) -> Limits {
        self.limits
    }

    /// Takes a body. When this answers, its good spans are in the delivery's queue.
    ///
    /// Always on a thread for blocking work: a few bytes may unpack to 64 MiB, so that their number does not tell how
    /// long a body takes, and the way there costs microseconds, once for hundreds of spans.
    pub async fn accept(
        self: &Arc<Self>,
        body: Bytes,
        format: Format,
        encoding: Option<Encoding>,
    ) -> Result<Accepted, Refused> {
        let permit = self.decoders.clone().acquire_owned().await.map_err(|_closed| Refused::Failed)?;
        let admission = self.clone();
        let taken = tokio::task::spawn_blocking(move || {
            let _permit = permit;
            admission.take(&body, format, encoding)
        });
        taken.await.unwrap_or(Err(Refused::Failed))
    }

    fn take(&self, body: &[u8], format: Format, encoding: Option<Encoding>) -> Result<Accepted, Refused> {
        let unpacked;
        let bytes = match encoding {
            None => body,
            Some(encoding) => {
                unpacked = decompress(body, encoding, self.limits.bytes)?;
                &unpacked
            }
        };
        let mut read = match format {
            Format::Protobuf => protobuf::read(bytes, &Budget::REQUEST)?.into_owned(),
            Format::Json => json::read(bytes, &Budget::REQUEST)?,
        };
        let spans = std::mem::take(&mut read.spans);
        let bytes = spans.iter().map(Span::weight).sum();
        if !spans.is_empty() && !self.delivery.send(spans.len(), bytes, move || spans) {
            return Err(Refused::Full);
        }
        Ok(Accepted { rejected_spans: read.rejected_spans, message: tell(&read) })
    }

    /// Counts what became of a request, and tells of each kind of trouble once.
    pub fn note(&self, result: &Result<Accepted, Refused>, peer: SocketAddr) {
        match result {
            Ok(accepted) => {
                self.requests.fetch_add(1, Ordering::Relaxed);
                self.rejected_spans.fetch_add(accepted.rejected_spans as u64, Ordering::Relaxed);
                if !accepted.message.is_empty() {
                    crate::once::warn("rejected-spans", || {
                        format!("not all of a request from {peer} was taken: {}", accepted.message)
                    });
                }
            }
            Err(refused) => self.note_refused(refused, peer),
        }
    }

    /// Counts a request that was refused.
    pub fn note_refused(&self, refused: &Refused, peer: SocketAddr) {
        self.refused.fetch_add(1, Ordering::Relaxed);
        crate::once::warn(refused.answer().kind, || format!("a request from {peer} was refused: {refused}"));
        tracing::debug!("a request from {peer} was refused: {refused}");
    }

    /// Writes all that waits and ends the delivery. Blocks until then.
    pub fn stop(&self, limit: Duration) -> Result<(), DeliveryError> {
        self.delivery.stop(limit)
    }

    pub fn summary(&self) -> Summary {
        let delivered = self.delivery.counters();
        Summary {
            requests: self.requests.load(Ordering::Relaxed),
            refused: self.refused.load(Ordering::Relaxed),
            spans: delivered.spans.load(Ordering::Relaxed),
            rejected_spans: self.rejected_spans.load(Ordering::Relaxed),
            events: delivered.events.load(Ordering::Relaxed),
            spans_lost: delivered.spans_lost.load(Ordering::Relaxed),
        }
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
