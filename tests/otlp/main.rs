//! Bytes to spans: what is read, what is refused, and that nothing breaks.

// The helpers of tests may unwrap as tests do, which clippy can't tell by itself.
#![allow(clippy::unwrap_used)]

#[cfg(feature = "compression")]
mod compression;
mod files;
mod hostile;
mod lenient;
mod limits;
mod refused;
mod same;
mod support;
