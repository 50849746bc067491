//! OTLP/HTTP.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http_body_util::Full;
use hyper::body::{Body as _, Incoming};
use hyper::header::{
    ACCEPT_ENCODING, ALLOW, CONNECTION, CONTENT_ENCODING, CONTENT_TYPE, EXPECT, HeaderValue, RETRY_AFTER,
    WWW_AUTHENTICATE,
};
use hyper::http::request::Parts;
use hyper::{HeaderMap, Method, Request, Response, StatusCode, Version};
use prost::Message;
use serde::Serialize;

use super::admission::{Accepted, Admission, Format};
use super::body;
use super::connections::Body;
use super::messages::ExportResponse;
use super::metrics::{self, Transport};
use super::refused::{Refused, shorten};
use crate::otlp::decompress::Encoding;
use crate::proto::RpcStatus;

/// Where spans are sent.
pub(super) const TRACES: &str = "/v1/traces";
/// Where to ask whether the gateway is alive.
pub(super) const HEALTH: &str = "/healthz";
/// Where to ask whether it takes requests.
pub(super) const READY: &str = "/readyz";
/// Where to ask what it has counted.
const METRICS: &str = "/metrics";
/// What of a body is still read for a client that may not send one: a usual batch, so that the client, which may read
/// the answer only when it has sent everything, sees it.
const UNWANTED: (usize, Duration) = (1 << 20, Duration::from_secs(5));

pub(super) async fn respond(
    request: Request<Incoming>,
    admission: &Arc<Admission>,
    peer: SocketAddr,
) -> Response<Body> {
    let (head, body) = request.into_parts();
    if head.method == Method::GET
        && let Some(page) = page(head.uri.path(), admission).await
    {
        return page;
    }
    // What cannot be answered as it was asked is answered in JSON, which people can read.
    let format = Format::of(&head.headers).unwrap_or(Format::Json);
    let counted = admission.metrics().request(Transport::Http);
    match export(&head, body, admission, peer).await {
        Ok(accepted) => {
            admission.note_accepted(&accepted, peer);
            counted.answered(None);
            answer(StatusCode::OK, format.content_type(), format.write(&ExportResponse::from(&accepted)))
        }
        Err(refused) => {
            admission.note_refused(&refused, peer);
            counted.answered(Some(&refused));
            failure(&refused, format)
        }
    }
}

/// Answers a request that may not be looked at.
pub(super) async fn refuse(request: Request<Incoming>, refused: &Refused) -> Response<Body> {
    let (head, body) = request.into_parts();
    let mut response = failure(refused, Format::of(&head.headers).unwrap_or(Format::Json));
    // Whoever asks before sending sends nothing.
    if !head.headers.contains_key(EXPECT) && body.size_hint().lower() <= UNWANTED.0 as u64 {
        body::discard(body, UNWANTED.0, UNWANTED.1).await;
    } else if head.version < Version::HTTP_2 {
        response.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
    }
    response
}

/// What whoever looks after the gateway asks for.
async fn page(path: &str, admission: &Admission) -> Option<Response<Body>> {
    const TEXT: &str = "text/plain; charset=utf-8";
    Some(match path {
        HEALTH => answer(StatusCode::OK, TEXT, "ok\n".into()),
        READY => match admission.metrics().hindrances().as_slice() {
            [] => answer(StatusCode::OK, TEXT, "ready\n".into()),
            reasons => answer(StatusCode::SERVICE_UNAVAILABLE, TEXT, (reasons.join("\n") + "\n").into()),
        },
        METRICS => {
            let metrics = admission.metrics().clone();
            let text = tokio::task::spawn_blocking(|| metrics::text(metrics)).await;
            answer(StatusCode::OK, metrics::CONTENT_TYPE, text.unwrap_or_default().into())
        }
        _ => return None,
    })
}

async fn export(
    head: &Parts,
    body: Incoming,
    admission: &Arc<Admission>,
    peer: SocketAddr,
) -> Result<Accepted, Refused> {
    let limits = admission.limits();
    match admission.is_open().and_then(|()| check(head)) {
        Ok((format, encoding)) => {
            let body = body::read(body, limits, 0, peer.ip()).await?;
            admission.accept(body, format, encoding).await
        }
        Err(refused) => {
            body::discard(body, limits.bytes, limits.time).await;
            Err(refused)
        }
    }
}

/// What the head of a request says of its body, if it is one that we take.
fn check(head: &Parts) -> Result<(Format, Option<Encoding>), Refused> {
    let allowed = match head.uri.path() {
        TRACES => "POST",
        HEALTH | READY | METRICS => "GET",
        path => return Err(Refused::Unknown { path: shorten(path) }),
    };
    if head.method.as_str() != allowed {
        return Err(Refused::Method { method: shorten(head.method.as_str()), allowed });
    }
    let Some(format) = Format::of(&head.headers) else {
        return Err(Refused::ContentType { found: shorten(&text(&head.headers, CONTENT_TYPE)) });
    };
    Ok((format, encoding(&text(&head.headers, CONTENT_ENCODING))?))
}

/// The encoding that a header names; `None` if there is none.
pub(super) fn encoding(name: &str) -> Result<Option<Encoding>, Refused> {
    if name.is_empty() || name.eq_ignore_ascii_case("identity") {
        return Ok(None);
    }
    Encoding::from_name(name).map(Some).ok_or_else(|| Refused::Encoding { found: shorten(name) })
}

/// A header as text; empty if it is missing. One that stands twice is joined, as HTTP has it.
pub(super) fn text(headers: &HeaderMap, name: impl hyper::header::AsHeaderName) -> String {
    let values = headers.get_all(name).into_iter().map(|value| String::from_utf8_lossy(value.as_bytes()));
    values.collect::<Vec<_>>().join(", ").trim().to_owned()
}

impl Format {
    fn of(headers: &HeaderMap) -> Option<Format> {
        let content_type = text(headers, CONTENT_TYPE);
        let essence = content_type.split(';').next().unwrap_or_default().trim();
        [Format::Protobuf, Format::Json].into_iter().find(|format| essence.eq_ignore_ascii_case(format.content_type()))
    }

    fn content_type(self) -> &'static str {
        match self {
            Format::Protobuf => "application/x-protobuf",
            Format::Json => "application/json",
        }
    }

    fn write(self, message: &(impl Message + Serialize)) -> Bytes {
        match self {
            Format::Protobuf => message.encode_to_vec().into(),
            // Numbers and text always have a JSON form.
            Format::Json => serde_json::to_vec(message).unwrap_or_else(|_| b"{}".to_vec()).into(),
        }
    }
}

fn failure(refused: &Refused, format: Format) -> Response<Body> {
    let told = refused.answer();
    let body = format.write(&RpcStatus::new(told.code as i32, refused.to_string(), told.retry));
    let mut response = answer(told.status, format.content_type(), body);
    let headers = response.headers_mut();
    if let Some(delay) = told.retry {
        headers.insert(RETRY_AFTER, delay.as_secs().into());
    }
    match refused {
        Refused::Method { allowed, .. } => {
            headers.insert(ALLOW, HeaderValue::from_static(allowed));
        }
        Refused::Encoding { .. } => {
            headers.insert(ACCEPT_ENCODING, HeaderValue::from_static("gzip, zstd"));
        }
        Refused::Token => {
            headers.insert(WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
        }
        _ => {}
    }
    response
}

fn answer(status: StatusCode, content_type: &'static str, body: Bytes) -> Response<Body> {
    let mut response = Response::new(Body::new(Full::new(body)));
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(content_type));
    response
}
