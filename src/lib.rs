#![doc = include_str!("../README.md")]
// With all features, everything is looked at.
#![cfg_attr(
    not(feature = "gateway"),
    allow(dead_code, reason = "the gateway stands on parts of the core that nothing else does")
)]

mod builder;
#[cfg(feature = "cli")]
pub mod cli;
mod config;
mod count;
mod delivery;
pub mod dialect;
mod disk;
mod encode;
pub mod event;
pub mod exception;
mod exporter;
#[cfg(feature = "gateway")]
pub mod gateway;
mod once;
pub mod otlp;
mod processor;
#[cfg(feature = "grpc")]
pub mod proto;
pub mod redact;
mod scope;
#[cfg(any(feature = "grpc", feature = "ingest", feature = "otlp-logs"))]
#[cfg_attr(
    not(any(feature = "grpc", feature = "ingest")),
    allow(dead_code, reason = "`otlp-logs` reads certificates alone")
)]
mod secret;
pub mod sink;
pub mod span;
pub mod trace;

pub use builder::{BuildError, Builder};
pub use config::{Config, ConfigError, Exceptions, Settings};
pub use count::Histogram;
pub use delivery::{Counters, DeliveryError};
pub use encode::{Policy, encode};
pub use exporter::FailproofSpanExporter;
pub use processor::FailproofSpanProcessor;
pub use scope::{AgentGuard, AgentScope, ScopeSpanProcessor, SessionGuard, SessionScope, agent, session};
