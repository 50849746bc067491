//! Logs that are written once for each kind of thing, however often it happens; how often is counted.

use crate::count::CountBy;

static SAID: CountBy<&str> = CountBy::new();

/// Warns of a kind of thing the first time that it happens in this process.
pub(crate) fn warn(kind: &'static str, message: impl FnOnce() -> String) {
    if SAID.add(kind) == 1 {
        tracing::warn!(target: "opentelemetry_failproof", kind, "{}", message());
    }
}

/// How often each kind of thing has happened in this process.
#[cfg(feature = "gateway")]
pub(crate) fn counts() -> Vec<(&'static str, u64)> {
    SAID.all()
}
