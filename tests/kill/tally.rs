//! Lines, and how often each came.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use twox_hash::XxHash3_128;

/// How often each line came; lines are known by a hash, so that millions of them fit.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Tally {
    counts: HashMap<u128, u32>,
    total: usize,
    bytes: u64,
}

impl Tally {
    pub fn add(&mut self, lines: &str) {
        assert!(lines.is_empty() || lines.ends_with('\n'), "a torn line: {:?}", lines.lines().last());
        self.bytes += lines.len() as u64;
        for line in lines.lines() {
            *self.counts.entry(XxHash3_128::oneshot(line.as_bytes())).or_default() += 1;
            self.total += 1;
        }
    }

    /// The lines of a spool.
    pub fn of_spool(spool: &Path) -> Self {
        let mut tally = Tally::default();
        tally.add_spool(spool);
        tally
    }

    pub fn add_spool(&mut self, spool: &Path) {
        for file in finished(spool) {
            self.add(&std::fs::read_to_string(file).unwrap());
        }
    }

    /// How many lines there are.
    pub fn total(&self) -> usize {
        self.total
    }

    /// How many bytes they have.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// How many lines of `expected` are missing here, how many came too often, and how many are none of it.
    pub fn faults(&self, expected: &Tally) -> Faults {
        let mut faults = Faults::default();
        for (line, count) in &expected.counts {
            let found = self.counts.get(line).copied().unwrap_or_default();
            faults.lost += count.saturating_sub(found) as usize;
            faults.doubled += found.saturating_sub(*count) as usize;
        }
        let foreign = self.counts.iter().filter(|(line, _)| !expected.counts.contains_key(*line));
        faults.foreign = foreign.map(|(_, count)| *count as usize).sum();
        faults
    }
}

/// What is wrong with lines.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Faults {
    pub lost: usize,
    pub doubled: usize,
    pub foreign: usize,
}

impl Faults {
    pub const NONE: Faults = Faults { lost: 0, doubled: 0, foreign: 0 };
}

/// The files in a spool that a daemon would take.
pub fn finished(spool: &Path) -> Vec<PathBuf> {
    let Ok(entries) = std::fs::read_dir(spool) else { return Vec::new() };
    let paths = entries.map(|entry| entry.unwrap().path());
    paths.filter(|path| path.extension().is_some_and(|extension| extension == "jsonl")).collect()
}

/// How many bytes the files in a spool have that a daemon would take.
pub fn written(spool: &Path) -> u64 {
    finished(spool).iter().map(|file| file.metadata().unwrap().len()).sum()
}
