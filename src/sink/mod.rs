//! Where events go: the spool that the Failproof daemon reads, or standard output.
//!
//! A sink takes whole lines and answers only when they are safe. It keeps nothing: whoever calls it holds the lines
//! until then, and gives them again after an error.

mod batches;
mod destination;
mod error;
mod home;
mod spool;
mod stdout;

pub use destination::Destination;
pub use error::SinkError;
pub use home::Home;
pub use spool::Spool;
pub use stdout::Stdout;

/// Takes events as NDJSON.
pub trait Sink: Send {
    /// Delivers whole lines, each with its newline; returns only when they are safe (for the spool: on disk, with the
    /// directory that names them). Blocks for as long as that takes. No lines, no work.
    ///
    /// # Errors
    /// If not all of them are safe. [`SinkError::written`] says how many bytes at the start are; the caller keeps the rest.
    fn write(&mut self, lines: &[u8]) -> Result<(), SinkError>;

    /// What it is and where, for a log or a person: `spool /home/ann/.failproofai/custom-agents/events`.
    fn describe(&self) -> String;
}
