//! Takes up the work of a process that was killed, or stopped while spans waited for their run.

use std::collections::BTreeMap;
use std::sync::atomic::Ordering;
use std::time::Instant;

use super::log::Place;
use super::record::Record;
use super::store::OnDisk;
use crate::delivery::{Batch, Name, Told};
use crate::otlp::{Budget, protobuf};
use crate::sink::Sink;
use crate::span::TraceId;
use crate::trace::pending::{Entry, Pending, Store};

/// Reads the journal's files: spans wait again, what was told is remembered. The batch that had been written when the
/// process before was killed, but not everywhere yet, if there is one.
pub(super) fn recover(pending: &mut Pending<OnDisk>, sink: &mut dyn Sink, now: Instant) -> Vec<Batch> {
    let log = pending.store.log.clone();
    let files = log.numbers();
    if files.is_empty() {
        return Vec::new();
    }
    let mut begun: BTreeMap<u64, Vec<Told>> = BTreeMap::new();
    let (mut next_batch, mut spans) = (log.next_batch.load(Ordering::Relaxed), 0);
    for file in &files {
        // First the spans that came again, to this file, when they had been told: they are not to be taken for new ones.
        // In the files before, if those are still here, they are remembered as what was told.
        log.scan(*file, |_, bytes| {
            if let Some(Record::Known { trace, spans }) = Record::read(bytes) {
                pending.remember(trace, &spans);
            }
        });
        let damaged = log.scan(*file, |place, bytes| match Record::read(bytes) {
            Some(Record::Portion { trace, spans: bytes }) => spans += take(pending, trace, bytes, place, now),
            Some(Record::Told { batch, told }) => {
                next_batch = next_batch.max(batch + 1);
                begun.insert(batch, told);
            }
            Some(Record::Done { batch }) => {
                next_batch = next_batch.max(batch + 1);
                restore(pending, &begun.remove(&batch).unwrap_or_default());
            }
            Some(Record::Header { .. } | Record::Known { .. }) | None => {}
        });
        if damaged > 0 {
            tracing::warn!(
                "{damaged} bytes at the end of file {file:08x} of the journal in {} are no whole record: what was being \
                 written when the process was killed, or damage",
                log.path().display()
            );
        }
    }
    log.next_batch.store(next_batch, Ordering::Relaxed);
    let mut unfinished = Vec::new();
    for (number, told) in begun {
        match sink.find(&log.stem(number)) {
            Ok(Some(lines)) => {
                restore(pending, &told);
                unfinished.push(Batch { lines, told, name: Name::Numbered(number), since: None });
            }
            // It never came to be: what it was to tell is told anew.
            Ok(None) => {}
            Err(error) => {
                tracing::warn!("whether batch {number} was written cannot be seen, it is told again: {error}")
            }
        }
    }
    for file in files {
        log.release(file);
    }
    tracing::info!("the journal holds {spans} spans of {} traces that wait", pending.waiting());
    unfinished
}

fn take(pending: &mut Pending<OnDisk>, trace: TraceId, bytes: &[u8], place: Place, now: Instant) -> usize {
    pending.store.log.hold(place.file);
    match protobuf::read(bytes, &Budget::FILE) {
        Ok(read) => {
            let entries: Vec<Entry> = read.spans.iter().map(Entry::of).collect();
            pending.add(trace, &entries, place, now);
            entries.len()
        }
        Err(error) => {
            tracing::error!("spans of trace {trace} in the journal cannot be read: {error}");
            pending.store.discard(place);
            0
        }
    }
}

fn restore(pending: &mut Pending<OnDisk>, told: &[Told]) {
    for told in told {
        pending.restore(told.trace, &told.keys, &told.sessions, told.covers);
    }
}
