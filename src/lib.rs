//! Turns the OpenTelemetry spans of AI-agent frameworks into Failproof events.

pub mod event;
pub mod span;
