//! Whether requests can be taken.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

/// Why requests cannot be taken for now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Hindrance {
    /// The end was asked for.
    Draining,
    /// What is written does not arrive.
    SinkFailing,
    /// What is taken cannot be made safe.
    JournalFailing,
    /// There is no room for more.
    JournalFull,
}

impl Hindrance {
    /// All of them, with what is told to whoever asks.
    const ALL: [(Hindrance, &'static str); 4] = [
        (Hindrance::Draining, "draining: the end was asked for"),
        (Hindrance::SinkFailing, "sink: events cannot be written, see the log"),
        (Hindrance::JournalFailing, "journal: spans cannot be made safe, see the log"),
        (Hindrance::JournalFull, "journal: it holds all that it may"),
    ];

    fn bit(self) -> u32 {
        1 << self as u32
    }
}

/// The hindrances of a gateway, for all who know of one and for all who ask. Ready is who has none.
#[derive(Clone, Debug, Default)]
pub(super) struct Readiness(Arc<AtomicU32>);

impl Readiness {
    /// Says whether something is in the way now.
    pub fn set(&self, hindrance: Hindrance, is_there: bool) {
        match is_there {
            true => self.0.fetch_or(hindrance.bit(), Ordering::Relaxed),
            false => self.0.fetch_and(!hindrance.bit(), Ordering::Relaxed),
        };
    }

    /// Whether that is in the way.
    pub fn has(&self, hindrance: Hindrance) -> bool {
        self.0.load(Ordering::Relaxed) & hindrance.bit() != 0
    }

    /// What is in the way, in words; nothing if requests can be taken.
    pub fn reasons(&self) -> Vec<&'static str> {
        let is_there = |(hindrance, reason)| self.has(hindrance).then_some(reason);
        Hindrance::ALL.into_iter().filter_map(is_there).collect()
    }
}
