//! Where events go: the spool that the Failproof daemon reads, standard output, or a receiver that can fail, with a queue
//! on disk before it.
//!
//! A sink takes whole lines and answers only when they are safe. It keeps nothing: whoever calls it holds the lines
//! until then, and gives them again after an error.

mod batches;
#[cfg(any(feature = "grpc", feature = "otlp-logs"))]
mod calls;
mod counters;
mod destination;
mod error;
#[cfg(feature = "grpc")]
mod grpc;
mod home;
#[cfg(any(feature = "ingest", feature = "otlp-logs"))]
mod http;
#[cfg(feature = "ingest")]
mod ingest;
#[cfg(feature = "otlp-logs")]
mod otlp_logs;
mod queue;
mod several;
mod spool;
mod stdout;
mod url;

pub use counters::SinkCounters;
pub use destination::{Destination, Receiver, Settings, open};
pub use error::SinkError;
#[cfg(feature = "grpc")]
pub use grpc::{Grpc, GrpcOptions};
pub use home::Home;
#[cfg(feature = "ingest")]
pub use ingest::{ApiKey, Ingest, IngestOptions};
#[cfg(feature = "otlp-logs")]
pub use otlp_logs::{OtlpLogs, OtlpLogsOptions, Protocol};
pub use queue::{Backoff, Batch, Progress, Queue, QueueOptions, QueueStatus, SendError, Sender};
pub use several::Several;
pub use spool::Spool;
#[cfg(feature = "gateway")]
pub(crate) use spool::family;
pub use stdout::Stdout;
pub use url::ReceiverUrl;

use std::time::Instant;

/// Takes events as NDJSON.
pub trait Sink: Send {
    /// Delivers whole lines, each with its newline; returns only when they are safe (for the spool: on disk, with the
    /// directory that names them). Blocks for as long as that takes. No lines, no work.
    ///
    /// # Errors
    /// If not all of them are safe. [`SinkError::written`] says how many bytes at the start are; the caller keeps the rest.
    fn write(&mut self, lines: &[u8]) -> Result<(), SinkError>;

    /// [`Sink::write`] for a batch with a name of its own, at most [`BATCH_LIMIT`](crate::event::BATCH_LIMIT) bytes. Given
    /// again under the same name, after an error or in another process, it changes nothing where it has arrived. A sink
    /// that keeps no names takes it like any other lines.
    ///
    /// # Errors
    /// If it is not safe. None of it counts as written then.
    fn write_named(&mut self, stem: &str, batch: &[u8]) -> Result<(), SinkError> {
        let _ = stem;
        self.write(batch)
    }

    /// The batch of that name, if it is still here: a process that takes up the work of one that was killed asks whether
    /// the last batch arrived.
    ///
    /// # Errors
    /// If that cannot be seen.
    fn find(&self, stem: &str) -> Result<Option<Vec<u8>>, SinkError> {
        let _ = stem;
        Ok(None)
    }

    /// What it is and where, for a log or a person: `spool /home/ann/.failproofai/custom-agents/events`.
    fn describe(&self) -> String;

    /// Gives what was written until `deadline` to reach its receiver, and ends what works in the background. Not for
    /// safety: what was written is safe already. Sinks that have nothing in the background do nothing.
    ///
    /// # Errors
    /// [`SinkError::Unsent`] if something still waits.
    fn close(&mut self, _deadline: Instant) -> Result<(), SinkError> {
        Ok(())
    }

    /// How far the queues of this sink are, for as long as somebody looks; none if nothing stands between.
    fn progress(&self) -> Vec<Progress> {
        Vec::new()
    }
}
