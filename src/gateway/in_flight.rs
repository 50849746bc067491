//! How many bytes of requests are in memory at once: bodies that arrive, what they unpack to, what waits to be decoded.
//!
//! A request is charged for bytes as it takes them, not for what it announces, so that a client that stalls holds little.
//! What does not fit is refused, and its sender told to try again: waiting for room with half a body in hand would let
//! two halves wait for each other.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, PoisonError};

use super::refused::Refused;

/// What a request costs before its body: its head and what goes with it.
const REQUEST_BYTES: usize = 32 << 10;

/// The bytes of all requests.
#[derive(Debug)]
pub(super) struct InFlight {
    limit: usize,
    held: Mutex<Held>,
}

#[derive(Debug, Default)]
struct Held {
    bytes: usize,
    by_peer: HashMap<IpAddr, usize>,
}

/// The bytes of one request, or of what becomes of it; given back when it is dropped.
#[derive(Debug)]
pub(super) struct Share {
    all: Arc<InFlight>,
    peer: Option<IpAddr>,
    bytes: usize,
}

impl InFlight {
    /// Room for so many bytes, and for one request of the largest size in any case: packed, unpacked, and as the journal
    /// has it.
    pub fn new(limit: usize, max_body_bytes: usize) -> Arc<Self> {
        let least = max_body_bytes.saturating_add(2 * REQUEST_BYTES).saturating_mul(3);
        Arc::new(InFlight { limit: limit.max(least), held: Mutex::default() })
    }

    /// The share of a request that begins.
    ///
    /// # Errors
    /// [`Refused::Busy`] if there is no room for it.
    pub fn request(self: &Arc<Self>, peer: IpAddr) -> Result<Share, Refused> {
        let mut share = Share { all: self.clone(), peer: Some(peer), bytes: 0 };
        share.grow(REQUEST_BYTES)?;
        Ok(share)
    }

    /// The share of what becomes of a request: unpacked, or on its way to the journal. It is nobody's: a request has both
    /// for a moment, if the disk works.
    pub fn becoming(self: &Arc<Self>) -> Share {
        Share { all: self.clone(), peer: None, bytes: 0 }
    }
}

impl Share {
    /// Takes room for more bytes.
    ///
    /// # Errors
    /// [`Refused::Busy`] if there is none: all requests together have so much, and those of one address half of it, so
    /// that one busy sender leaves room for the others.
    pub fn grow(&mut self, bytes: usize) -> Result<(), Refused> {
        let limit = self.all.limit;
        let mut held = self.all.held.lock().unwrap_or_else(PoisonError::into_inner);
        let of_all = held.bytes.saturating_add(bytes);
        if of_all > limit {
            return Err(Refused::Busy);
        }
        if let Some(peer) = self.peer {
            let of_peer = held.by_peer.entry(peer).or_default();
            if bytes > (limit / 2).saturating_sub(*of_peer) {
                return Err(Refused::Busy);
            }
            *of_peer += bytes;
        }
        held.bytes = of_all;
        self.bytes += bytes;
        Ok(())
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        let mut held = self.all.held.lock().unwrap_or_else(PoisonError::into_inner);
        held.bytes -= self.bytes;
        let Some(peer) = self.peer else { return };
        // A peer that holds nothing is forgotten.
        if let Entry::Occupied(mut of_peer) = held.by_peer.entry(peer) {
            *of_peer.get_mut() -= self.bytes;
            if *of_peer.get() == 0 {
                of_peer.remove();
            }
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    const PEERS: [IpAddr; 3] = [
        IpAddr::V4(std::net::Ipv4Addr::LOCALHOST),
        IpAddr::V6(std::net::Ipv6Addr::LOCALHOST),
        IpAddr::V4(std::net::Ipv4Addr::BROADCAST),
    ];

    #[test]
    fn a_peer_gets_half_and_all_together_no_more_than_there_is() {
        let all = InFlight::new(8 * REQUEST_BYTES, 0);
        let mut first = all.request(PEERS[0]).unwrap();
        first.grow(3 * REQUEST_BYTES).unwrap();
        assert!(matches!(first.grow(1), Err(Refused::Busy)), "half of it");
        assert!(matches!(all.request(PEERS[0]), Err(Refused::Busy)), "also for another request");
        let mut second = all.request(PEERS[1]).unwrap();
        second.grow(2 * REQUEST_BYTES).unwrap();
        let third = all.request(PEERS[2]).unwrap();
        assert!(matches!(second.grow(1), Err(Refused::Busy)), "all of it");
        drop(third);
        second.grow(REQUEST_BYTES).unwrap();
        drop((first, second));
        let mut unpacking = all.becoming();
        unpacking.grow(8 * REQUEST_BYTES).unwrap();
        assert!(matches!(all.request(PEERS[0]), Err(Refused::Busy)), "nobody's bytes are bytes too");
        drop(unpacking);
        let held = all.held.lock().unwrap();
        assert_eq!((held.bytes, held.by_peer.len()), (0, 0));
    }

    #[test]
    fn what_did_not_fit_is_not_charged() {
        let all = InFlight::new(4 * REQUEST_BYTES, 0);
        let mut share = all.request(PEERS[0]).unwrap();
        assert!(share.grow(usize::MAX).is_err());
        share.grow(REQUEST_BYTES).unwrap();
    }
}
