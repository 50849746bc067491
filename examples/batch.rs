//! Events when the agent has run: `cargo run --example batch`.

mod inventory;

use std::error::Error;

use opentelemetry::trace::TracerProvider as _;
use opentelemetry_failproof::sink::Stdout;
use opentelemetry_failproof::{Config, FailproofSpanExporter};
use opentelemetry_sdk::trace::SdkTracerProvider;

fn main() -> Result<(), Box<dyn Error>> {
    let config = Config::from_env().with_environment("staging")?;
    // Without a sink of its own it writes to the spool of the Failproof daemon.
    let exporter = FailproofSpanExporter::builder().with_config(config).with_sink(Stdout).build()?;
    let provider = SdkTracerProvider::builder().with_batch_exporter(exporter).build();

    inventory::run(&provider.tracer("inventory-bot"));

    provider.shutdown()?;
    Ok(())
}
