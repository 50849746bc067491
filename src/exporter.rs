//! The way after the fact: a span exporter behind a batch processor.

use std::sync::Arc;
use std::time::Duration;

use opentelemetry_sdk::error::{OTelSdkError, OTelSdkResult};
use opentelemetry_sdk::trace::{SpanData, SpanExporter};

use crate::builder::{BuildError, Builder};
use crate::delivery::{Counters, Delivery, FLUSH_TIMEOUT, as_sdk_result};
use crate::otlp::sdk::{resource_from_sdk, span_from_sdk, weight};
use crate::span::Resource;
use crate::trace::Timing;
use crate::trace::pending::Tell;

/// Writes events when agents have run.
///
/// Spans come in batches, children first. A run's spans are held until the agent that they belong to is known, and a short
/// grace for late ones has passed ([`Timing`]). Use [`FailproofSpanProcessor`](crate::FailproofSpanProcessor) to see runs
/// while they last. Needs no async runtime.
///
/// `force_flush` writes the runs that are complete; `shutdown` writes everything. Both fail if something could not be
/// written or was lost.
///
/// ```
/// use opentelemetry_failproof::{FailproofSpanExporter, sink::Stdout};
/// use opentelemetry_sdk::trace::SdkTracerProvider;
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let exporter = FailproofSpanExporter::builder().with_sink(Stdout).build()?;
/// let provider = SdkTracerProvider::builder().with_batch_exporter(exporter).build();
/// provider.shutdown()?;
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct FailproofSpanExporter {
    delivery: Delivery,
    resource: Arc<Resource>,
}

impl FailproofSpanExporter {
    /// With the configuration of the environment, writing to the spool.
    ///
    /// # Errors
    /// If the spool cannot be opened.
    pub fn new() -> Result<Self, BuildError> {
        Self::builder().build()
    }

    /// Sets one up.
    pub fn builder() -> Builder<Self> {
        Builder::new()
    }

    /// What was counted since the start.
    pub fn counters(&self) -> Arc<Counters> {
        self.delivery.counters().clone()
    }
}

impl Builder<FailproofSpanExporter> {
    /// How long runs wait for spans that are on their way.
    pub fn with_timing(mut self, timing: Timing) -> Self {
        self.timing = timing;
        self
    }

    /// Starts the exporter.
    ///
    /// # Errors
    /// If the spool cannot be opened, or the system gives no thread.
    pub fn build(self) -> Result<FailproofSpanExporter, BuildError> {
        let tell = Tell::WhenDue(self.timing);
        Ok(FailproofSpanExporter { delivery: self.start(tell)?, resource: Arc::default() })
    }
}

impl SpanExporter for FailproofSpanExporter {
    async fn export(&self, batch: Vec<SpanData>) -> OTelSdkResult {
        let resource = self.resource.clone();
        let (count, bytes) = (batch.len(), batch.iter().map(weight).sum());
        let spans = move || batch.into_iter().map(|span| span_from_sdk(span, &resource)).collect();
        if self.delivery.send(count, bytes, spans) {
            Ok(())
        } else {
            Err(OTelSdkError::InternalFailure(
                "the delivery's queue is full or shut down: the batch is refused".to_owned(),
            ))
        }
    }

    fn force_flush(&self) -> OTelSdkResult {
        as_sdk_result(self.delivery.flush(FLUSH_TIMEOUT))
    }

    fn shutdown_with_timeout(&self, timeout: Duration) -> OTelSdkResult {
        as_sdk_result(self.delivery.stop(timeout))
    }

    fn set_resource(&mut self, resource: &opentelemetry_sdk::Resource) {
        self.resource = Arc::new(resource_from_sdk(resource));
    }
}
