//! Logs that are written once for each kind of thing, however often it happens.

use std::collections::HashSet;
use std::sync::{LazyLock, Mutex, PoisonError};

static SAID: LazyLock<Mutex<HashSet<&'static str>>> = LazyLock::new(Mutex::default);

/// Warns of a kind of thing the first time that it happens in this process.
pub(crate) fn warn(kind: &'static str, message: impl FnOnce() -> String) {
    let is_first = SAID.lock().unwrap_or_else(PoisonError::into_inner).insert(kind);
    if is_first {
        tracing::warn!(target: "opentelemetry_failproof", kind, "{}", message());
    }
}
