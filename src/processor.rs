//! The live way: a span processor that sees starts.

use std::sync::Arc;
use std::time::Duration;

use opentelemetry::Context;
use opentelemetry_sdk::error::OTelSdkResult;
use opentelemetry_sdk::trace::{Span, SpanData, SpanProcessor};

use crate::builder::{BuildError, Builder};
use crate::delivery::{Counters, Delivery, FLUSH_TIMEOUT, as_sdk_result};
use crate::otlp::sdk::{open_span_from_sdk, resource_from_sdk, span_from_sdk, weight};
use crate::scope::copy_scope;
use crate::span::Resource;
use crate::trace::pending::Tell;

/// How long a trace is remembered after its last span has ended.
const REMEMBER: Duration = Duration::from_secs(30);

/// Writes events while agents run.
///
/// An agent's start is written when it starts; so is the start of a call, as soon as its name and id are known (some
/// frameworks set them later: then with its end). The caller's thread only hands spans over. Nothing here panics, blocks it
/// or raises. Needs no async runtime.
///
/// `force_flush` writes all that is known; `shutdown` also closes what is still open, with `fw_incomplete`. Both fail if
/// something could not be written or was lost.
///
/// ```
/// use opentelemetry_failproof::{FailproofSpanProcessor, sink::Stdout};
/// use opentelemetry_sdk::trace::SdkTracerProvider;
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let processor = FailproofSpanProcessor::builder().with_sink(Stdout).build()?;
/// let provider = SdkTracerProvider::builder().with_span_processor(processor).build();
/// provider.shutdown()?;
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct FailproofSpanProcessor {
    delivery: Delivery,
    resource: Arc<Resource>,
}

impl FailproofSpanProcessor {
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

impl Builder<FailproofSpanProcessor> {
    /// Starts the processor.
    ///
    /// # Errors
    /// If the spool cannot be opened, or the system gives no thread.
    pub fn build(self) -> Result<FailproofSpanProcessor, BuildError> {
        let delivery = self.start(Tell::AtOnce(REMEMBER))?;
        Ok(FailproofSpanProcessor { delivery, resource: Arc::default() })
    }
}

impl SpanProcessor for FailproofSpanProcessor {
    fn on_start(&self, span: &mut Span, context: &Context) {
        copy_scope(span, context);
        if let Some(data) = span.exported_data() {
            let resource = self.resource.clone();
            self.delivery.send(1, weight(&data), move || vec![open_span_from_sdk(data, &resource)]);
        }
    }

    fn on_end(&self, span: SpanData) {
        let resource = self.resource.clone();
        self.delivery.send(1, weight(&span), move || vec![span_from_sdk(span, &resource)]);
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
