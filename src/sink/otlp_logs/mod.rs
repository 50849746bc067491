//! Events as log records, to a Collector or any other receiver of OTLP, over gRPC or HTTP.
//!
//! | module | does |
//! |---|---|
//! | `options` | where to, and how: what `OTEL_EXPORTER_OTLP_*` say |
//! | `record` | an event as a log record |
//! | `grpc`, `http` | the two transports: one request, and what its answer means |
//!
//! The messages are those of `opentelemetry-proto`, the records are made here. The exporter of `opentelemetry-otlp` was
//! weighed: its values know no null and no order, so that what comes out of a Collector would not be the event any more;
//! it keeps a partial success to itself, and says in words alone whether a failure is for good.

mod grpc;
mod http;
mod options;
mod record;

use std::fmt;

use opentelemetry_proto::tonic::collector::logs::v1::{ExportLogsServiceRequest, ExportLogsServiceResponse};

pub(super) use self::options::endpoint;
pub use self::options::{OtlpLogsOptions, Protocol};
use super::{Batch, SendError, Sender, SinkError};

/// How many bytes of events a request has, unless one event has more: servers of gRPC take 4 MiB if nobody tells them
/// otherwise.
const REQUEST_BYTES: usize = 3 << 20;

/// Sends to a receiver of OTLP logs. Put a [`Queue`](super::Queue) before it.
pub struct OtlpLogs {
    receiver: String,
    transport: Box<dyn Transport>,
    progress: Progress,
}

/// One request and its answer.
trait Transport: Send {
    fn export(&mut self, request: ExportLogsServiceRequest) -> Result<ExportLogsServiceResponse, SendError>;
}

/// How far the batch at hand is. A receiver stores a record again that it is sent again, so that nothing is that it has.
#[derive(Default)]
struct Progress {
    stem: String,
    /// Bytes at the start that were sent.
    sent: usize,
    rejected: i64,
    why: String,
}

impl OtlpLogs {
    /// Sets up the client; connects to nothing yet.
    ///
    /// # Errors
    /// If the certificates can't be read.
    pub fn new(options: OtlpLogsOptions) -> Result<Self, SinkError> {
        let receiver = format!("otlp-logs {}", options.url);
        let transport = match options.protocol {
            Protocol::Grpc => grpc::Grpc::new(&options).map(|grpc| Box::new(grpc) as Box<dyn Transport>),
            Protocol::HttpProtobuf => http::Http::new(options).map(|http| Box::new(http) as Box<dyn Transport>),
        };
        match transport {
            Ok(transport) => Ok(OtlpLogs { receiver, transport, progress: Progress::default() }),
            Err(why) => Err(SinkError::Setup { receiver, why }),
        }
    }
}

impl Sender for OtlpLogs {
    fn send(&mut self, batch: &Batch) -> Result<(), SendError> {
        if self.progress.stem != batch.stem() {
            self.progress = Progress { stem: batch.stem().to_owned(), ..Progress::default() };
        }
        while let Some(rest) = batch.lines().get(self.progress.sent..).filter(|rest| !rest.is_empty()) {
            let lines = &rest[..end_of_request(rest)];
            let (request, unreadable) = record::request(lines);
            let answer = self.transport.export(request)?;
            self.progress.rejected += unreadable;
            if let Some(partial) = answer.partial_success {
                self.progress.rejected += partial.rejected_log_records;
                if partial.rejected_log_records > 0 {
                    self.progress.why = partial.error_message;
                }
            }
            self.progress.sent += lines.len();
        }
        let Progress { rejected, why, .. } = std::mem::take(&mut self.progress);
        match rejected {
            0 => Ok(()),
            // As the specification wants it, they are not sent again.
            _ => Err(SendError::Refused { cause: format!("{rejected} events were rejected, the others taken: {why}") }),
        }
    }

    fn describe(&self) -> String {
        self.receiver.clone()
    }
}

impl fmt::Debug for OtlpLogs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OtlpLogs").field("receiver", &self.receiver).finish_non_exhaustive()
    }
}

/// Where a request of whole lines ends.
fn end_of_request(lines: &[u8]) -> usize {
    let Some(head) = lines.get(..REQUEST_BYTES) else { return lines.len() };
    let end = memchr::memrchr(b'\n', head).or_else(|| memchr::memchr(b'\n', lines));
    end.map_or(lines.len(), |at| at + 1)
}
