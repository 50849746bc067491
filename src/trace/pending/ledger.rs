//! Which spans were told, long after their traces are forgotten.

use std::collections::HashSet;

use twox_hash::XxHash3_64;

use crate::span::{SpanId, TraceId};

/// How many spans a generation holds at most: 2.5 MiB of memory, at most twice.
const GENERATION: usize = 131_072;
/// How many bytes of all that is remembered there are for each span of a generation: a third is the ledger's at most.
const BYTES: usize = 64;

/// The newest spans that were told and forgotten: at least a generation of them, at most two. It knows them by numbers of 64
/// bits; that two of them have the same is one chance in hundreds of millions.
#[derive(Debug)]
pub(super) struct Ledger {
    generation: usize,
    newest: HashSet<u64>,
    older: HashSet<u64>,
}

impl Ledger {
    /// For a process that may remember so many bytes in all.
    pub fn within(bytes: usize) -> Self {
        let generation = (bytes / BYTES).clamp(1, GENERATION);
        Ledger { generation, newest: HashSet::new(), older: HashSet::new() }
    }

    pub fn note(&mut self, trace: TraceId, spans: impl Iterator<Item = SpanId>) {
        for span in spans {
            if self.newest.len() >= self.generation {
                self.older = std::mem::take(&mut self.newest);
            }
            self.newest.insert(number(trace, span));
        }
    }

    /// Roughly how many bytes of memory it takes.
    pub fn memory(&self) -> usize {
        (self.newest.capacity() + self.older.capacity()) * (size_of::<u64>() + 1) * 8 / 7
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
        let mut ledger = Ledger::within(usize::MAX);
        let (trace, count) = (TraceId::from(7), 5 * GENERATION as u64);
        ledger.note(trace, (0..count).map(SpanId::from));
        let is_known = |span: u64| ledger.holds(trace, SpanId::from(span));
        assert!((count - GENERATION as u64..count).all(is_known));
        assert!(!is_known(0) && !ledger.holds(TraceId::from(8), SpanId::from(count - 1)));
        assert!(ledger.newest.len() + ledger.older.len() <= 2 * GENERATION);
    }
}
