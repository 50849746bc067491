//! Why a request is not taken, and what its sender is told: the one place that chooses statuses.

use std::time::Duration;

use hyper::StatusCode;
use tonic::Code;

use crate::delivery::DeliveryError;
use crate::otlp::ReadError;
use crate::otlp::decompress::DecompressError;
use crate::proto::ConversionError;

/// How long a sender should wait before it tries again.
const RETRY_DELAY: Duration = Duration::from_secs(1);

/// Why a request is not taken. The texts are for whoever runs the sender.
#[derive(Debug, thiserror::Error)]
pub(super) enum Refused {
    #[error("no token of this gateway; send `Authorization: Bearer TOKEN` with one from its token file")]
    Token,
    /// Nothing but a browser says where its page comes from.
    #[error("a web page ({found}) may not talk to this gateway; send spans from a program or through a Collector")]
    Origin { found: String },
    /// A name that somebody else may have made to point here.
    #[error(
        "host {found:?} is a name that anybody may have given to this machine; use its address or localhost, or start the gateway with a token file"
    )]
    Host { found: String },
    /// A path or a service that is not ours.
    #[error(
        "nothing is served at {path}; POST spans to {}, or send them by gRPC to {}",
        super::http::TRACES,
        super::grpc::EXPORT
    )]
    Unknown { path: String },
    #[error("{method} is not allowed here; use {allowed}")]
    Method { method: String, allowed: &'static str },
    #[error("content type {found:?} is not OTLP; send application/x-protobuf or application/json")]
    ContentType { found: String },
    #[error("encoding {found:?} is not known; send gzip, zstd or no encoding at all")]
    Encoding { found: String },
    #[error("more than {limit} bytes in one request; send smaller batches")]
    TooLarge { limit: usize },
    #[error("the body did not arrive within {limit:?}; send smaller batches or look at the network")]
    TooSlow { limit: Duration },
    #[error("the body broke off: {0}")]
    BrokenOff(String),
    #[error("not one whole gRPC message: {0}")]
    Framing(&'static str),
    #[error(transparent)]
    Packed(#[from] DecompressError),
    #[error(transparent)]
    Undecodable(#[from] ReadError),
    #[error("more bytes of requests are on their way than there is room for; try again later")]
    Busy,
    #[error(transparent)]
    Message(#[from] ConversionError),
    #[error("more than {limit} events in one request; send smaller batches")]
    TooManyEvents { limit: usize },
    #[error("{found:?} is no type of event")]
    EventType { found: String },
    #[error("{limit} subscribers follow already; end one of them")]
    TooManySubscribers { limit: usize },
    /// No sink has them.
    #[error("the events could not be written: {0}; try again later")]
    Unwritten(DeliveryError),
    /// More waits than may.
    #[error("more spans arrive than can be written; try again later")]
    Full,
    #[error("the journal holds the {limit} bytes that it may; try again later")]
    JournalFull { limit: u64 },
    #[error("the spans cannot be made safe on disk: {0}; try again later")]
    Unsafe(String),
    #[error("the gateway is ending; try again later")]
    Draining,
    /// A fault of ours.
    #[error("the request could not be handled because of a fault in the gateway; please report it")]
    Failed,
}

/// A refusal as the transports say it.
pub(super) struct Answer {
    /// A name for logs, unlike any other kind that is told once.
    pub kind: &'static str,
    /// For gRPC, and for the body that OTLP/HTTP gives to every failure.
    pub code: Code,
    /// For HTTP.
    pub status: StatusCode,
    /// When to send the same again; `None` if that cannot help.
    pub retry: Option<Duration>,
}

impl Refused {
    /// OTLP lets senders try again after UNAVAILABLE and DEADLINE_EXCEEDED, after 503 and 504, and after nothing else
    /// that is here.
    pub fn answer(&self) -> Answer {
        let (kind, code, status) = match self {
            Refused::Token => ("request-token", Code::Unauthenticated, StatusCode::UNAUTHORIZED),
            Refused::Origin { .. } => ("request-origin", Code::PermissionDenied, StatusCode::FORBIDDEN),
            Refused::Host { .. } => ("request-host", Code::PermissionDenied, StatusCode::FORBIDDEN),
            Refused::Unknown { .. } => ("request-unknown-path", Code::Unimplemented, StatusCode::NOT_FOUND),
            Refused::Method { .. } => ("request-method", Code::Unimplemented, StatusCode::METHOD_NOT_ALLOWED),
            Refused::ContentType { .. } => {
                ("request-content-type", Code::InvalidArgument, StatusCode::UNSUPPORTED_MEDIA_TYPE)
            }
            Refused::Encoding { .. } => ("request-encoding", Code::Unimplemented, StatusCode::UNSUPPORTED_MEDIA_TYPE),
            Refused::TooLarge { .. }
            | Refused::Packed(DecompressError::TooLarge { .. } | DecompressError::WindowTooLarge)
            | Refused::Undecodable(ReadError::TooManySpans { .. } | ReadError::TooManyParts { .. }) => {
                ("request-too-large", Code::ResourceExhausted, StatusCode::PAYLOAD_TOO_LARGE)
            }
            Refused::TooSlow { .. } => ("request-too-slow", Code::DeadlineExceeded, StatusCode::GATEWAY_TIMEOUT),
            Refused::BrokenOff(_) => ("request-broken-off", Code::InvalidArgument, StatusCode::BAD_REQUEST),
            Refused::Framing(_) => ("request-framing", Code::InvalidArgument, StatusCode::BAD_REQUEST),
            Refused::Packed(DecompressError::Corrupt { .. }) => {
                ("request-corrupt", Code::InvalidArgument, StatusCode::BAD_REQUEST)
            }
            Refused::Undecodable(_) => ("request-undecodable", Code::InvalidArgument, StatusCode::BAD_REQUEST),
            Refused::Message(_) => ("request-message", Code::InvalidArgument, StatusCode::BAD_REQUEST),
            Refused::TooManyEvents { .. } => {
                ("request-too-many-events", Code::ResourceExhausted, StatusCode::PAYLOAD_TOO_LARGE)
            }
            Refused::EventType { .. } => ("request-event-type", Code::InvalidArgument, StatusCode::BAD_REQUEST),
            Refused::TooManySubscribers { .. } => {
                ("request-subscribers", Code::ResourceExhausted, StatusCode::TOO_MANY_REQUESTS)
            }
            Refused::Unwritten(_) => ("request-unwritten", Code::Unavailable, StatusCode::SERVICE_UNAVAILABLE),
            Refused::Busy | Refused::Packed(DecompressError::NoRoom) => {
                ("request-busy", Code::Unavailable, StatusCode::SERVICE_UNAVAILABLE)
            }
            Refused::Full => ("request-queue-full", Code::Unavailable, StatusCode::SERVICE_UNAVAILABLE),
            Refused::JournalFull { .. } => ("request-journal-full", Code::Unavailable, StatusCode::SERVICE_UNAVAILABLE),
            Refused::Unsafe(_) => ("request-unsafe", Code::Unavailable, StatusCode::SERVICE_UNAVAILABLE),
            Refused::Draining => ("request-draining", Code::Unavailable, StatusCode::SERVICE_UNAVAILABLE),
            Refused::Failed => ("request-fault", Code::Internal, StatusCode::INTERNAL_SERVER_ERROR),
        };
        let is_retryable = matches!(code, Code::Unavailable | Code::DeadlineExceeded);
        Answer { kind, code, status, retry: is_retryable.then_some(RETRY_DELAY) }
    }
}

/// What a sender wrote, short enough to be told back.
pub(super) fn shorten(text: &str) -> String {
    const LONGEST: usize = 100;
    let mut short: String = text.chars().take(LONGEST).collect();
    if short.len() < text.len() {
        short.push('…');
    }
    short
}
