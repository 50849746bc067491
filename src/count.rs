//! Counting by kind, and by how long things take: cheap enough for every request and event.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// The bounds of the buckets, in seconds; what takes longer is in one more.
const BOUNDS: [f64; 18] = [
    0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 60.0, 600.0,
];

/// Counts by kind. There must be few of them, whatever anybody sends.
#[derive(Debug)]
pub(crate) struct CountBy<K>(Mutex<BTreeMap<K, u64>>);

impl<K: Ord + Copy> CountBy<K> {
    pub const fn new() -> Self {
        CountBy(Mutex::new(BTreeMap::new()))
    }

    /// Counts one; how many of its kind there are now.
    pub fn add(&self, kind: K) -> u64 {
        let mut counts = self.counts();
        let count = counts.entry(kind).or_default();
        *count += 1;
        *count
    }

    /// How many there are, by kind.
    pub fn all(&self) -> Vec<(K, u64)> {
        self.counts().iter().map(|(kind, count)| (*kind, *count)).collect()
    }

    fn counts(&self) -> MutexGuard<'_, BTreeMap<K, u64>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<K: Ord + Copy> Default for CountBy<K> {
    fn default() -> Self {
        CountBy::new()
    }
}

/// Counts durations.
#[derive(Debug, Default)]
pub struct Histogram {
    buckets: [AtomicU64; BOUNDS.len() + 1],
    nanoseconds: AtomicU64,
}

impl Histogram {
    /// Counts one.
    pub fn observe(&self, duration: Duration) {
        let seconds = duration.as_secs_f64();
        let at = BOUNDS.partition_point(|bound| *bound < seconds);
        if let Some(bucket) = self.buckets.get(at) {
            bucket.fetch_add(1, Ordering::Relaxed);
        }
        self.nanoseconds.fetch_add(u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX), Ordering::Relaxed);
    }

    /// The buckets from the shortest: up to how many seconds, the last without a bound, and how many took that long and
    /// longer than the bucket before.
    pub fn buckets(&self) -> Vec<(f64, u64)> {
        let bounds = BOUNDS.into_iter().chain([f64::INFINITY]);
        bounds.zip(&self.buckets).map(|(bound, count)| (bound, count.load(Ordering::Relaxed))).collect()
    }

    /// What all took together.
    pub fn sum(&self) -> Duration {
        Duration::from_nanos(self.nanoseconds.load(Ordering::Relaxed))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_duration_is_in_the_first_bucket_that_it_fits() {
        let histogram = Histogram::default();
        for milliseconds in [1, 2, 2, 700_000] {
            histogram.observe(Duration::from_millis(milliseconds));
        }
        let counted: Vec<_> = histogram.buckets().into_iter().filter(|(_, count)| *count > 0).collect();
        assert_eq!(counted, [(0.001, 1), (0.0025, 2), (f64::INFINITY, 1)]);
        assert_eq!(histogram.sum(), Duration::from_millis(700_005));
    }
}
