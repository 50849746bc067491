//! Sets up the processor and the exporter alike.

use std::fmt;
use std::marker::PhantomData;

use crate::config::Config;
use crate::delivery::Delivery;
use crate::sink::{Several, Sink, Spool};
use crate::trace::Timing;
use crate::trace::pending::{Bounds, InMemory, Tell};

/// Sets up a [`FailproofSpanProcessor`](crate::FailproofSpanProcessor) or a
/// [`FailproofSpanExporter`](crate::FailproofSpanExporter): how spans become events, and where those go.
#[must_use = "a builder does nothing before it is built"]
pub struct Builder<T> {
    config: Config,
    sinks: Vec<Box<dyn Sink>>,
    max_bytes: usize,
    pub(crate) timing: Timing,
    builds: PhantomData<T>,
}

/// Why a processor or an exporter could not be set up.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BuildError {
    /// Its sink could not be opened.
    #[error(transparent)]
    Sink(#[from] crate::sink::SinkError),
    /// The system gave it no thread.
    #[error("no thread to deliver from: {0}")]
    Thread(#[from] std::io::Error),
}

impl<T> Builder<T> {
    pub(crate) fn new() -> Self {
        Builder {
            config: Config::from_env(),
            sinks: Vec::new(),
            max_bytes: Bounds::LIBRARY.bytes,
            timing: Timing::default(),
            builds: PhantomData,
        }
    }

    /// How spans become events; [`Config::from_env`] if it is not set.
    pub fn with_config(mut self, config: Config) -> Self {
        self.config = config;
        self
    }

    /// Where events go; the spool if it is not set. Given several times, everything goes to all of them, each with its own
    /// progress ([`Several`]).
    pub fn with_sink(mut self, sink: impl Sink + 'static) -> Self {
        self.sinks.push(Box::new(sink));
        self
    }

    /// How many bytes of spans are held at most (256 MiB if it is not set); beyond, the oldest traces are told before they
    /// are complete.
    pub fn with_max_bytes(mut self, max_bytes: usize) -> Self {
        self.max_bytes = max_bytes;
        self
    }

    pub(crate) fn start(mut self, tell: Tell) -> Result<Delivery, BuildError> {
        let sink = match self.sinks.len() {
            0 => Box::new(Spool::open_default()?),
            1 => self.sinks.remove(0),
            _ => Box::new(Several::new(self.sinks)),
        };
        let bounds = Bounds { bytes: self.max_bytes, ..Bounds::LIBRARY };
        Ok(Delivery::start(self.config, InMemory, tell, bounds, sink)?)
    }
}

impl<T> fmt::Debug for Builder<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Builder").field("config", &self.config).field("timing", &self.timing).finish_non_exhaustive()
    }
}
