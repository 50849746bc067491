//! `EventService`: events from other gateways and programs, and events for those who look on.
//!
//! A chained gateway trusts nobody: what comes in is checked against the contract, redacted and limited again, and safe in
//! the sinks before it is acknowledged.

use std::collections::{HashSet, VecDeque};
use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;
use prost::Message;
use tokio::sync::Semaphore;
use twox_hash::XxHash3_128;

use super::admission::Admission;
use super::body::{Limits, unpack};
use super::live::{Filter, Live, Subscriber};
use super::refused::{Refused, shorten};
use crate::encode::{Policy, encode_into};
use crate::event::{BATCH_LIMIT, Event};
use crate::otlp::decompress::Encoding;
use crate::proto::{self, ExportEventsResponse, RejectedEvent, SubscribeRequest};
use crate::redact::redact_text;

/// Where events are sent.
pub(super) const EXPORT: &str = "/failproof.events.v1.EventService/Export";
/// Where events are followed.
pub(super) const SUBSCRIBE: &str = "/failproof.events.v1.EventService/Subscribe";

/// How many bytes the message of a `Subscribe` may have: it is unpacked and read where others wait.
const SUBSCRIBE_BYTES: usize = 64 << 10;
/// How many events a request may hold, as spans.
const MAX_EVENTS: usize = 65_536;
/// How many of the rejected events an answer tells one by one.
const MAX_TOLD: usize = 1_000;
/// How many of the last events are known again. Two minutes of a busy gateway; a client that waits longer to send again
/// gives the same bytes, which the server's own deduplication finds.
const RECENT_LIMIT: usize = 65_536;
/// How many requests are taken at once. They are written one after the other, so that more would only wait.
const EXPORTS: usize = 2;

/// Takes events and shows them.
pub(super) struct EventService {
    policy: Policy,
    live: Arc<Live>,
    exports: Arc<Semaphore>,
    recent: Mutex<Recent>,
    rejected: AtomicU64,
}

impl EventService {
    pub fn new(policy: Policy, live: Arc<Live>) -> Self {
        let exports = Arc::new(Semaphore::new(EXPORTS));
        EventService { policy, live, exports, recent: Mutex::default(), rejected: AtomicU64::new(0) }
    }

    /// Takes the message of an `Export`. When this answers, all events but the rejected ones are safe.
    pub async fn export(
        admission: &Arc<Admission>,
        message: Bytes,
        encoding: Option<Encoding>,
        peer: SocketAddr,
    ) -> Result<ExportEventsResponse, Refused> {
        let exports = admission.events().exports.clone();
        let permit = exports.acquire_owned().await.map_err(|_closed| Refused::Failed)?;
        let admission = admission.clone();
        // The sinks block, and a few bytes may unpack to 64 MiB.
        let taken = tokio::task::spawn_blocking(move || {
            let _permit = permit;
            let message = unpacked(message, encoding, admission.limits())?;
            admission.events().take(&admission, &message, peer)
        });
        taken.await.unwrap_or(Err(Refused::Failed))
    }

    fn take(&self, admission: &Admission, request: &[u8], peer: SocketAddr) -> Result<ExportEventsResponse, Refused> {
        // A request that breaks off is refused before anything of it is written.
        let mut count = 0;
        for event in proto::events(request) {
            event?;
            count += 1;
        }
        if count > MAX_EVENTS {
            return Err(Refused::TooManyEvents { limit: MAX_EVENTS });
        }
        let mut response = ExportEventsResponse::default();
        // Held until all is written: the same events in two requests at once are written once.
        let mut recent = self.recent.lock().unwrap_or_else(PoisonError::into_inner);
        let mut batch = Batch::default();
        for (index, message) in proto::events(request).enumerate() {
            match self.line(message?) {
                Ok(line) => {
                    if batch.lines.len() + line.len() > BATCH_LIMIT {
                        batch.write(admission, &mut recent)?;
                    }
                    batch.add(&line, &recent);
                }
                Err(reason) => reject(&mut response, index, &reason, peer),
            }
        }
        batch.write(admission, &mut recent)?;
        self.rejected.fetch_add(response.rejected_events, Ordering::Relaxed);
        Ok(response)
    }

    /// The line of an event that keeps the contract; else what is wrong with it.
    fn line(&self, message: &[u8]) -> Result<Vec<u8>, String> {
        let members = proto::decode(message).map_err(|error| error.to_string())?;
        let event = Event::from_members(members).map_err(|error| error.to_string())?;
        let mut line = Vec::new();
        encode_into(event, self.policy, &mut line);
        Ok(line)
    }

    /// Takes the message of a `Subscribe`.
    pub fn subscribe(admission: &Admission, message: Bytes, encoding: Option<Encoding>) -> Result<Subscriber, Refused> {
        let limits = Limits { bytes: SUBSCRIBE_BYTES, ..admission.limits().clone() };
        let message = unpacked(message, encoding, &limits)?;
        let request =
            SubscribeRequest::decode(message).map_err(|_| Refused::Framing("the message is no SubscribeRequest"))?;
        admission.events().live.subscribe(Filter::new(request)?)
    }

    /// How many events were rejected.
    pub fn rejected(&self) -> u64 {
        self.rejected.load(Ordering::Relaxed)
    }

    /// Ends the streams of all subscribers.
    pub fn close(&self) {
        self.live.close();
    }
}

fn unpacked(message: Bytes, encoding: Option<Encoding>, limits: &Limits) -> Result<Bytes, Refused> {
    match encoding {
        None if message.len() > limits.bytes => Err(Refused::TooLarge { limit: limits.bytes }),
        None => Ok(message),
        Some(encoding) => unpack(&message, encoding, limits),
    }
}

fn reject(response: &mut ExportEventsResponse, index: usize, reason: &str, peer: SocketAddr) {
    // It may quote what was sent; a credential that is cut would be recognized no more.
    let reason = shorten(&redact_text(reason));
    crate::once::warn("rejected-events", || format!("an event from {peer} was rejected: {reason}"));
    response.rejected_events += 1;
    if response.rejected.len() < MAX_TOLD {
        response.rejected.push(RejectedEvent { index: index as u64, reason });
    }
}

/// New lines that are written at once.
#[derive(Default)]
struct Batch {
    lines: Vec<u8>,
    hashes: Vec<u128>,
    known: HashSet<u128>,
}

impl Batch {
    /// Adds a line, unless it was written lately or stands here already.
    fn add(&mut self, line: &[u8], recent: &Recent) {
        let hash = XxHash3_128::oneshot(line);
        if !recent.known.contains(&hash) && self.known.insert(hash) {
            self.hashes.push(hash);
            self.lines.extend_from_slice(line);
        }
    }

    fn write(&mut self, admission: &Admission, recent: &mut Recent) -> Result<(), Refused> {
        let Batch { lines, hashes, .. } = std::mem::take(self);
        if !lines.is_empty() {
            admission.write_events(lines).map_err(Refused::Unwritten)?;
            hashes.into_iter().for_each(|hash| recent.remember(hash));
        }
        Ok(())
    }
}

/// The contents of the last events that were written.
#[derive(Default)]
struct Recent {
    order: VecDeque<u128>,
    known: HashSet<u128>,
}

impl Recent {
    fn remember(&mut self, hash: u128) {
        if self.known.insert(hash) {
            self.order.push_back(hash);
        }
        while self.order.len() > RECENT_LIMIT {
            if let Some(oldest) = self.order.pop_front() {
                self.known.remove(&oldest);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn so_many_events_are_known_again_and_no_more() {
        let mut recent = Recent::default();
        for hash in 0..=RECENT_LIMIT as u128 {
            recent.remember(hash);
            recent.remember(hash);
        }
        assert!(!recent.known.contains(&0) && recent.known.contains(&1));
        assert_eq!((recent.known.len(), recent.order.len()), (RECENT_LIMIT, RECENT_LIMIT));
    }
}
