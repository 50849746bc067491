//! Which spans were told, long after their traces are forgotten.

use std::collections::HashSet;

use twox_hash::XxHash3_64;

use crate::span::{SpanId, TraceId};

/// How many spans a generation holds: 5 MiB of memory, at most twice.
const GENERATION: usize = 262_144;

/// The newest spans that were told and forgotten: at least [`GENERATION`] of them, at most twice as many. It knows them by
/// numbers of 64 bits; that two of a million have the same is one chance in thirty million.
#[derive(Debug, Default)]
pub(super) struct Ledger {
    newest: HashSet<u64>,
    older: HashSet<u64>,
}

impl Ledger {
    pub fn note(&mut self, trace: TraceId, spans: impl Iterator<Item = SpanId>) {
        for span in spans {
            if self.newest.len() >= GENERATION {
                self.older = std::mem::take(&mut self.newest);
            }
            self.newest.insert(number(trace, span));
        }
    }

    pub fn holds(&self, trace: TraceId, span: SpanId) -> bool {
        if self.newest.is_empty() && self.older.is_empty() {
            return false;
        }
        let number = number(trace, span);
        self.newest.contains(&number) || self.older.contains(&number)
    }
}

/// A number for some bytes, the same in every process.
pub(super) fn hash(parts: &[&[u8]]) -> u64 {
    XxHash3_64::oneshot(&parts.concat())
}

fn number(trace: TraceId, span: SpanId) -> u64 {
    hash(&[&trace.to_bytes(), &span.to_bytes()])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_are_known_and_memory_is_bounded() {
        let mut ledger = Ledger::default();
        let (trace, count) = (TraceId::from(7), 5 * GENERATION as u64);
        ledger.note(trace, (0..count).map(SpanId::from));
        let is_known = |span: u64| ledger.holds(trace, SpanId::from(span));
        assert!((count - GENERATION as u64..count).all(is_known));
        assert!(!is_known(0) && !ledger.holds(TraceId::from(8), SpanId::from(count - 1)));
        assert!(ledger.newest.len() + ledger.older.len() <= 2 * GENERATION);
    }
}
