//! Events while the agent runs: `cargo run --example live`.

mod inventory;

use std::error::Error;

use opentelemetry::trace::TracerProvider as _;
use opentelemetry_failproof::sink::Stdout;
use opentelemetry_failproof::{FailproofSpanProcessor, agent, session};
use opentelemetry_sdk::trace::SdkTracerProvider;

fn main() -> Result<(), Box<dyn Error>> {
    // Without a sink of its own it writes to the spool of the Failproof daemon.
    let processor = FailproofSpanProcessor::builder().with_sink(Stdout).build()?;
    let provider = SdkTracerProvider::builder().with_span_processor(processor).build();
    let tracer = provider.tracer("inventory-bot");

    {
        // Optional: the session and an agent around it, said by hand.
        let _session = session("chat-42").enter();
        let front_desk = agent("front-desk").goal("answer the customer").enter_with(&tracer);
        inventory::run(&tracer);
        front_desk.summary("answered");
    }

    provider.shutdown()?;
    Ok(())
}
