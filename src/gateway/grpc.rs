//! gRPC: OTLP's service, and that of events.

use std::net::SocketAddr;
use std::sync::Arc;

use bytes::{BufMut, Bytes, BytesMut};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::header::{CONTENT_TYPE, HeaderName, HeaderValue};
use hyper::{HeaderMap, Request, Response, Version};
use prost::Message;

use super::admission::{Admission, Format};
use super::body;
use super::connections::Body;
use super::events::{self, EventService};
use super::http::{encoding, text};
use super::messages::ExportResponse;
use super::metrics::Transport;
use super::refused::{Refused, shorten};
use crate::otlp::decompress::Encoding;
use crate::proto::RpcStatus;

/// Where spans are sent.
pub(super) const EXPORT: &str = "/opentelemetry.proto.collector.trace.v1.TraceService/Export";
/// What stands before a message: whether it is compressed, and its length in four bytes.
const PREFIX: usize = 5;

/// Whether a request is gRPC, to whatever service.
pub(super) fn is_meant<B>(request: &Request<B>) -> bool {
    let content_type = text(request.headers(), CONTENT_TYPE).to_ascii_lowercase();
    let essence = content_type.split(';').next().unwrap_or_default().trim();
    // What answers say at their end is lost in HTTP/1.
    request.version() == Version::HTTP_2 && matches!(essence, "application/grpc" | "application/grpc+proto")
}

pub(super) async fn respond(
    request: Request<Incoming>,
    admission: &Arc<Admission>,
    peer: SocketAddr,
) -> Response<Body> {
    let counted = admission.metrics().request(transport(&request));
    let mut response = match call(request, admission, peer).await {
        Ok(response) => {
            counted.answered(None);
            response
        }
        Err(refused) => {
            admission.note_refused(&refused, peer);
            counted.answered(Some(&refused));
            failure(&refused)
        }
    };
    let accepted = HeaderValue::from_static("identity,gzip,zstd");
    response.headers_mut().insert(HeaderName::from_static("grpc-accept-encoding"), accepted);
    response
}

/// What a request is counted as.
pub(super) fn transport<B>(request: &Request<B>) -> Transport {
    match request.uri().path() {
        events::EXPORT | events::SUBSCRIBE => Transport::Events,
        _ => Transport::Grpc,
    }
}

async fn call(
    request: Request<Incoming>,
    admission: &Arc<Admission>,
    peer: SocketAddr,
) -> Result<Response<Body>, Refused> {
    let path = request.uri().path().to_owned();
    if ![EXPORT, events::EXPORT, events::SUBSCRIBE].contains(&path.as_str()) {
        return Err(Refused::Unknown { path: shorten(&path) });
    }
    admission.is_open()?;
    let (message, encoding) = read(request, admission, peer).await?;
    match path.as_str() {
        events::EXPORT => {
            let response = EventService::export(admission, message, encoding, peer).await?;
            Ok(success(&response))
        }
        events::SUBSCRIBE => {
            let subscriber = EventService::subscribe(admission, message, encoding)?;
            Ok(answer(Body::new(subscriber.into_body())))
        }
        _ => {
            let accepted = admission.accept(message, Format::Protobuf, encoding).await?;
            admission.note_accepted(&accepted, peer);
            Ok(success(&ExportResponse::from(&accepted)))
        }
    }
}

/// The only message of a request, and how it is compressed.
async fn read(
    request: Request<Incoming>,
    admission: &Admission,
    peer: SocketAddr,
) -> Result<(Bytes, Option<Encoding>), Refused> {
    let encoding = encoding(&text(request.headers(), "grpc-encoding"))?;
    let framed = body::read(request.into_body(), admission.limits(), PREFIX, peer.ip()).await?;
    match (unframe(framed)?, encoding) {
        ((true, _), None) => Err(Refused::Framing("it is compressed, and `grpc-encoding` does not say how")),
        ((true, message), encoding) => Ok((message, encoding)),
        ((false, message), _) => Ok((message, None)),
    }
}

/// Whether the only message of a body is compressed, and its bytes.
fn unframe(mut body: Bytes) -> Result<(bool, Bytes), Refused> {
    let Some(&[flag, ref length @ ..]) = body.first_chunk::<PREFIX>() else {
        return Err(Refused::Framing("the body ends before the message begins"));
    };
    let (length, is_packed) = (u32::from_be_bytes(*length) as usize, flag == 1);
    let message = body.split_off(PREFIX);
    if flag > 1 {
        Err(Refused::Framing("its first byte is neither 0 nor 1"))
    } else if message.len() < length {
        Err(Refused::Framing("the body ends before the message does"))
    } else if message.len() > length {
        Err(Refused::Framing("more follows behind the message"))
    } else {
        Ok((is_packed, message))
    }
}

/// The message, and the status behind it.
fn success(message: &impl Message) -> Response<Body> {
    let mut trailers = HeaderMap::new();
    trailers.insert(HeaderName::from_static("grpc-status"), HeaderValue::from_static("0"));
    let body = Full::new(framed(&message.encode_to_vec()));
    answer(Body::new(body.with_trailers(std::future::ready(Some(Ok(trailers))))))
}

/// A message with what stands before it.
pub(super) fn framed(message: &[u8]) -> Bytes {
    let mut framed = BytesMut::with_capacity(PREFIX + message.len());
    framed.put_u8(0);
    // Answers tell of a thousand events at most, and an event has a few megabytes.
    framed.put_u32(u32::try_from(message.len()).unwrap_or(u32::MAX));
    framed.put_slice(message);
    framed.freeze()
}

fn answer(body: Body) -> Response<Body> {
    let mut response = Response::new(body);
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/grpc"));
    response
}

pub(super) fn failure(refused: &Refused) -> Response<Body> {
    let answer = refused.answer();
    let message = refused.to_string();
    let details = match answer.retry {
        Some(_) => RpcStatus::new(answer.code as i32, message.clone(), answer.retry).encode_to_vec(),
        None => Vec::new(),
    };
    tonic::Status::with_details(answer.code, message, details.into()).into_http()
}
