//! Turns the OpenTelemetry spans of AI-agent frameworks into Failproof events.

mod config;
mod delivery;
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

pub use config::{Config, ConfigError, Exceptions, Settings};
pub use delivery::{Counters, DeliveryError};
pub use encode::{Policy, encode};
