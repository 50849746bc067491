//! Turns the OpenTelemetry spans of AI-agent frameworks into Failproof events.

pub mod dialect;
mod encode;
pub mod event;
pub mod exception;
mod once;
pub mod otlp;
pub mod redact;
pub mod sink;
pub mod span;
pub mod trace;

pub use encode::{Policy, encode};
