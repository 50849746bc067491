//! To another gateway, or to any server of `EventService`, over gRPC.
//!
//! A batch is sent when the server says that it has it. Whatever goes wrong on the way or on the server's side is tried
//! again; only what is wrong with the events themselves is refused, and so kept aside.

use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use prost::Message;
use tonic::transport::Channel;
use tonic::{Code, Status};

use super::calls::{Calls, retry};
use super::{Batch, ReceiverUrl, SendError, Sender, SinkError};
use crate::proto::client::Remote;
use crate::proto::event_service_client::EventServiceClient;
use crate::proto::{Event, ExportEventsRequest, ExportEventsResponse, RpcStatus};

/// How many bytes of events a request has, unless one event has more: servers of gRPC take 4 MiB if nobody tells them
/// otherwise.
const REQUEST_BYTES: usize = 3 << 20;
/// How many of the rejected events a note tells one by one.
const MAX_TOLD: usize = 20;

/// What a [`Grpc`] is made of. Start from [`GrpcOptions::new`] and change what shall differ.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct GrpcOptions {
    /// The server.
    pub url: ReceiverUrl,
    /// The file with the token that the server asks for, readable by its owner alone; it is read again for each request.
    pub token_file: Option<PathBuf>,
    /// The certificates to trust; those that the system trusts by default.
    pub ca_file: Option<PathBuf>,
    /// How long a request may take. 60 seconds by default.
    pub timeout: Duration,
}

impl GrpcOptions {
    /// The defaults, for a server.
    pub fn new(url: ReceiverUrl) -> Self {
        GrpcOptions { url, token_file: None, ca_file: None, timeout: Duration::from_secs(60) }
    }
}

/// Sends to a server of `EventService`. Put a [`Queue`](super::Queue) before it.
pub struct Grpc {
    options: GrpcOptions,
    remote: Remote,
    calls: Calls<EventServiceClient<Channel>>,
}

impl Grpc {
    /// Sets up the client; connects to nothing yet.
    ///
    /// # Errors
    /// If the token would travel unencrypted, or a file cannot be read.
    pub fn new(options: GrpcOptions) -> Result<Self, SinkError> {
        let wrong = |why: String| SinkError::Setup { receiver: describe(&options.url), why };
        let remote = Remote::new(options.url.as_str(), options.token_file.as_deref(), options.ca_file.as_deref());
        let remote = remote.map_err(wrong)?;
        Ok(Grpc { calls: Calls::new(options.timeout), options, remote })
    }

    fn export(&mut self, events: Vec<Event>) -> Result<ExportEventsResponse, SendError> {
        let request = self.remote.request(ExportEventsRequest { events }).map_err(retry)?;
        let Grpc { remote, calls, .. } = self;
        calls.call(|| remote.client(), async |client| client.export(request).await, refusal)
    }
}

impl Sender for Grpc {
    fn send(&mut self, batch: &Batch) -> Result<(), SendError> {
        let mut rejected = Rejected::default();
        let mut portion = Portion::default();
        for (index, line) in batch.lines().split(|byte| *byte == b'\n').enumerate() {
            if line.is_empty() {
                continue;
            }
            match Event::from_json(line) {
                Ok(event) => {
                    let bytes = event.encoded_len();
                    if portion.bytes + bytes > REQUEST_BYTES {
                        std::mem::take(&mut portion).send(self, &mut rejected)?;
                    }
                    portion.add(index, event, bytes);
                }
                Err(error) => rejected.add(index, &error.to_string()),
            }
        }
        portion.send(self, &mut rejected)?;
        rejected.result()
    }

    fn describe(&self) -> String {
        describe(&self.options.url)
    }
}

impl fmt::Debug for Grpc {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Grpc").field("options", &self.options).finish_non_exhaustive()
    }
}

fn describe(url: &ReceiverUrl) -> String {
    format!("grpc {url}")
}

/// Events for one request, and where they stand in the batch.
#[derive(Default)]
struct Portion {
    events: Vec<Event>,
    indices: Vec<usize>,
    bytes: usize,
}

impl Portion {
    fn add(&mut self, index: usize, event: Event, bytes: usize) {
        self.events.push(event);
        self.indices.push(index);
        self.bytes += bytes;
    }

    fn send(self, grpc: &mut Grpc, rejected: &mut Rejected) -> Result<(), SendError> {
        if self.events.is_empty() {
            return Ok(());
        }
        let answer = grpc.export(self.events)?;
        let told = answer.rejected.len() as u64;
        for event in answer.rejected {
            let index = usize::try_from(event.index).ok().and_then(|index| self.indices.get(index));
            rejected.add(index.copied().unwrap_or_default(), &event.reason);
        }
        rejected.count += answer.rejected_events.saturating_sub(told);
        Ok(())
    }
}

/// What can never be taken.
#[derive(Default)]
struct Rejected {
    count: u64,
    told: Vec<String>,
}

impl Rejected {
    fn add(&mut self, index: usize, reason: &str) {
        self.count += 1;
        if self.told.len() < MAX_TOLD {
            // One line, whatever the server says.
            let reason: String = reason.chars().take(300).flat_map(char::escape_debug).collect();
            self.told.push(format!("line {}: {reason}", index + 1));
        }
    }

    fn result(self) -> Result<(), SendError> {
        match self.count {
            0 => Ok(()),
            count => {
                let more = if count > self.told.len() as u64 { "; …" } else { "" };
                let told = self.told.join("; ");
                Err(SendError::Refused {
                    cause: format!("{count} events were rejected, the others taken: {told}{more}"),
                })
            }
        }
    }
}

/// What a status means for a batch. Only these speak of the batch; all others, and what breaks on the way, of the server.
fn refusal(status: &Status) -> SendError {
    let after = RpcStatus::retry_delay(status.details());
    let cause = format!("{}: {}", status.code().description(), cause(status));
    match status.code() {
        Code::InvalidArgument | Code::OutOfRange | Code::FailedPrecondition => SendError::Refused { cause },
        Code::ResourceExhausted if after.is_none() => SendError::Refused { cause },
        _ => SendError::Retry { after, cause },
    }
}

/// The message, and what lies below it.
fn cause(status: &Status) -> String {
    let mut text = status.message().to_owned();
    let mut source = std::error::Error::source(status);
    while let Some(error) = source {
        let more = error.to_string();
        if !text.contains(&more) {
            text.push_str(": ");
            text.push_str(&more);
        }
        source = error.source();
    }
    text
}
