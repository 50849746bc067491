//! Bodies of requests, within a size and a time.

use std::time::Duration;

use bytes::Bytes;
use http_body_util::BodyExt;
use hyper::body::{Body, Incoming};
use tokio::time::timeout;

use super::refused::Refused;

/// How many bytes are taken for a body on its word alone; more only as it arrives.
const TRUSTED_BYTES: usize = 1 << 20;

/// What a body may take.
#[derive(Clone, Copy, Debug)]
pub(super) struct Limits {
    /// Before and after decompression.
    pub bytes: usize,
    /// From its head to its end.
    pub time: Duration,
}

/// Reads a body within the limits, to whose size the transport adds `framing` bytes.
pub(super) async fn read(mut body: Incoming, limits: Limits, framing: usize) -> Result<Bytes, Refused> {
    match timeout(limits.time, collect(&mut body, limits.bytes.saturating_add(framing))).await {
        Ok(Ok(Some(whole))) => Ok(whole.into()),
        Ok(Ok(None)) => {
            discard(body, limits).await;
            Err(Refused::TooLarge { limit: limits.bytes })
        }
        Ok(Err(error)) => Err(Refused::BrokenOff(error.to_string())),
        Err(_) => Err(Refused::TooSlow { limit: limits.time }),
    }
}

/// Reads a body that is refused, within the limits: an HTTP/1 client that is still sending when its connection is
/// closed never sees why.
pub(super) async fn discard(mut body: Incoming, limits: Limits) {
    let end = async {
        let mut left = limits.bytes;
        while let Some(Ok(frame)) = body.frame().await {
            let Some(rest) = left.checked_sub(frame.data_ref().map_or(0, Bytes::len)) else { return };
            left = rest;
        }
    };
    // Whoever sends too slowly has waived the answer.
    let _ = timeout(limits.time, end).await;
}

/// The body; `None` if it is longer than `limit`.
async fn collect(body: &mut Incoming, limit: usize) -> Result<Option<Vec<u8>>, hyper::Error> {
    let announced = usize::try_from(body.size_hint().lower()).unwrap_or(usize::MAX);
    if announced > limit {
        return Ok(None);
    }
    let mut whole = Vec::with_capacity(announced.min(TRUSTED_BYTES));
    while let Some(frame) = body.frame().await.transpose()? {
        let Some(data) = frame.data_ref() else { continue };
        if data.len() > limit - whole.len() {
            return Ok(None);
        }
        whole.extend_from_slice(data);
    }
    Ok(Some(whole))
}
