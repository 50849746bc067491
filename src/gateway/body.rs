//! Bodies of requests, within a size, a time and what there is room for.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http_body_util::BodyExt;
use hyper::body::{Body, Incoming};
use tokio::time::timeout;

use super::in_flight::{InFlight, Share};
use super::refused::Refused;
use crate::otlp::decompress::{Encoding, decompress_into_room};

/// How many bytes are taken for a body on its word alone; more only as it arrives.
const TRUSTED_BYTES: usize = 16 << 10;

/// What a body may take.
#[derive(Clone, Debug)]
pub(super) struct Limits {
    /// Before and after decompression.
    pub bytes: usize,
    /// From its head to its end.
    pub time: Duration,
    /// What it shares with all others.
    pub in_flight: Arc<InFlight>,
}

/// A body and its share. [`Bytes`] of it keep both.
struct InMemory {
    bytes: Vec<u8>,
    share: Share,
}

/// Reads a body within the limits, to whose size the transport adds `framing` bytes. Its bytes are in flight until the
/// last part of what this returns is dropped.
pub(super) async fn read(mut body: Incoming, limits: &Limits, framing: usize, peer: IpAddr) -> Result<Bytes, Refused> {
    let limit = limits.bytes.saturating_add(framing);
    let mut arrived = match limits.in_flight.request(peer) {
        Ok(share) => InMemory { bytes: Vec::new(), share },
        Err(busy) => {
            discard(body, limits.bytes, limits.time).await;
            return Err(busy);
        }
    };
    match timeout(limits.time, arrived.collect(&mut body, limit)).await {
        Ok(Ok(())) => Ok(Bytes::from_owner(arrived)),
        Ok(Err(refused)) => {
            drop(arrived);
            if matches!(refused, Refused::TooLarge { .. } | Refused::Busy) {
                discard(body, limits.bytes, limits.time).await;
            }
            Err(match refused {
                // Nobody counts the bytes of a transport.
                Refused::TooLarge { .. } => Refused::TooLarge { limit: limits.bytes },
                other => other,
            })
        }
        Err(_) => Err(Refused::TooSlow { limit: limits.time }),
    }
}

/// Unpacks a body within the limits. Its bytes are in flight, beside those that arrived, until they are dropped.
pub(super) fn unpack(body: &[u8], encoding: Encoding, limits: &Limits) -> Result<Bytes, Refused> {
    let mut share = limits.in_flight.becoming();
    let bytes = decompress_into_room(body, encoding, limits.bytes, |bytes| share.grow(bytes).is_ok())?;
    Ok(Bytes::from_owner(InMemory { bytes, share }))
}

/// Reads a body that is refused, so many bytes and so long: an HTTP/1 client that is still sending when its connection
/// is closed never sees why.
pub(super) async fn discard(mut body: Incoming, bytes: usize, time: Duration) {
    let end = async {
        let mut left = bytes;
        while let Some(Ok(frame)) = body.frame().await {
            let Some(rest) = left.checked_sub(frame.data_ref().map_or(0, Bytes::len)) else { return };
            left = rest;
        }
    };
    // Whoever sends too slowly has waived the answer.
    let _ = timeout(time, end).await;
}

impl InMemory {
    /// Takes the whole body, unless it is longer than `limit`.
    async fn collect(&mut self, body: &mut Incoming, limit: usize) -> Result<(), Refused> {
        let announced = usize::try_from(body.size_hint().lower()).unwrap_or(usize::MAX);
        if announced > limit {
            return Err(Refused::TooLarge { limit });
        }
        while let Some(frame) = body.frame().await {
            let frame = frame.map_err(|error| Refused::BrokenOff(error.to_string()))?;
            let Some(data) = frame.data_ref() else { continue };
            let needed = self.bytes.len() + data.len();
            if needed > limit {
                return Err(Refused::TooLarge { limit });
            }
            let room = self.bytes.capacity();
            if needed > room {
                // Doubled, but not past what can come.
                let most = if announced > 0 { announced } else { limit };
                let better = needed.max(most.min((2 * room).max(TRUSTED_BYTES)));
                self.share.grow(better - room)?;
                self.bytes.reserve_exact(better - self.bytes.len());
            }
            self.bytes.extend_from_slice(data);
        }
        Ok(())
    }
}

impl AsRef<[u8]> for InMemory {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}
