//! Where spans wait for their run; what was told of them.

use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::commit::Journal;
use super::log::{Log, Place};
use super::record::{Frames, Record};
use crate::delivery::{Batch, Name, Notes};
use crate::otlp::{Budget, protobuf};
use crate::sink::Sink;
use crate::span::{Span, SpanId, TraceId};
use crate::trace::pending::{Pending, Store};

/// Keeps spans in the journal.
pub(crate) struct OnDisk {
    journal: Arc<Journal>,
    pub(super) log: Arc<Log>,
    /// Spans that came again. It is noted when all that has been told is written: noted before, it would keep the next
    /// process from telling what this one was killed with.
    known: Vec<(TraceId, Vec<SpanId>)>,
}

/// How many traces with spans that came again are kept until it is noted; those beyond may be told twice after a kill.
const MAX_KNOWN: usize = 16_384;

/// Spans that wait are moved out of a file if they are no more than this part of it; else they are told. Of what was told
/// nothing is moved: the note of it would be gone with the file.
const MOVED_PART: u64 = 4;

/// The spans of one trace: where they are.
#[derive(Debug, Default)]
pub(crate) struct Places(Vec<Place>);

impl OnDisk {
    pub(super) fn new(journal: Arc<Journal>, log: Arc<Log>) -> Self {
        OnDisk { journal, log, known: Vec::new() }
    }

    fn move_to_the_end(&self, moving: Vec<&mut Place>) -> Result<(), String> {
        if moving.is_empty() {
            return Ok(());
        }
        let mut frames = Frames::default();
        for place in &moving {
            let mut record = Vec::with_capacity(place.length as usize);
            self.log.read(**place, &mut record)?;
            frames.add_again(&record);
        }
        let places = self.journal.append_and_wait(frames)?;
        for (old, new) in moving.into_iter().zip(places) {
            self.log.release(std::mem::replace(old, new).file);
        }
        Ok(())
    }

    /// The bytes of the spans, one portion behind the other: which is a request of its own.
    fn bytes_of(&self, places: &[Place]) -> Result<Vec<u8>, String> {
        let mut bytes = Vec::with_capacity(places.iter().map(|place| place.length as usize).sum());
        for place in places {
            let start = bytes.len();
            self.log.read(*place, &mut bytes)?;
            match Record::read(&bytes[start..]) {
                // What stands before the spans goes.
                Some(Record::Portion { spans, .. }) => drop(bytes.drain(start..bytes.len() - spans.len())),
                _ => return Err(format!("no spans at {place:?}")),
            }
        }
        Ok(bytes)
    }
}

impl Store for OnDisk {
    type Held = Places;
    type Portion = Place;

    fn keep(&mut self, held: &mut Places, place: Place) -> bool {
        held.0.push(place);
        true
    }

    fn discard(&mut self, place: Place) {
        self.log.release(place.file);
    }

    fn make_room(&mut self, traces: &mut dyn Iterator<Item = (TraceId, bool, &mut Places)>) -> Vec<TraceId> {
        let Some(oldest) = self.log.oldest_if_crowded() else { return Vec::new() };
        let is_there = |place: &Place| place.file == oldest;
        let in_the_way: Vec<_> = traces.filter(|(_, _, held)| held.0.iter().any(is_there)).collect();
        let waiting = in_the_way.iter().filter(|(_, is_untold, _)| *is_untold).flat_map(|(_, _, held)| &held.0);
        let bytes: usize = waiting.filter(|place| is_there(place)).map(|place| place.length as usize).sum();
        let is_worth_it = bytes as u64 <= self.log.file_bytes() / MOVED_PART;
        let mut cannot_stay = Vec::new();
        let mut moving = Vec::new();
        for (id, is_untold, held) in in_the_way {
            if is_untold && is_worth_it {
                moving.extend(held.0.iter_mut().filter(|place| is_there(place)));
            } else {
                cannot_stay.push(id);
            }
        }
        if let Err(error) = self.move_to_the_end(moving) {
            crate::once::warn("journal-move", || format!("the journal cannot be tidied up for now: {error}"));
        }
        cannot_stay
    }

    fn note_known(&mut self, trace: TraceId, spans: &[SpanId]) {
        if self.known.len() < MAX_KNOWN {
            self.known.push((trace, spans.to_vec()));
        }
    }

    fn forget(&mut self, held: Places) {
        held.0.iter().for_each(|place| self.log.release(place.file));
    }

    fn read<R>(&self, held: &Places, then: impl FnOnce(&[&Span<'_>]) -> R) -> Result<R, String> {
        let bytes = self.bytes_of(&held.0)?;
        let read = protobuf::read(&bytes, &Budget::FILE).map_err(|error| error.to_string())?;
        Ok(then(&read.spans.iter().collect::<Vec<_>>()))
    }

    fn memory(held: &Places) -> usize {
        held.0.capacity() * size_of::<Place>()
    }

    fn portions(held: &Places) -> usize {
        held.0.len()
    }

    fn bytes(held: &Places) -> usize {
        held.0.iter().map(|place| place.length as usize).sum()
    }

    fn keep_open(_: &mut Places) -> Option<HashSet<SpanId>> {
        None
    }
}

impl Notes for OnDisk {
    const OUTLIVES_PROCESS: bool = true;

    fn recover(pending: &mut Pending<Self>, sink: &mut dyn Sink, now: std::time::Instant) -> Vec<Batch> {
        super::recover::recover(pending, sink, now)
    }

    fn begin(&mut self, batch: &mut Batch) -> Result<Option<String>, String> {
        let number = match batch.name {
            Name::Numbered(number) => number,
            Name::Own(_) | Name::None => {
                let number = self.log.next_batch.load(Ordering::Relaxed);
                let told = std::mem::take(&mut batch.told);
                let record = Record::Told { batch: number, told };
                let noted = self.journal.append_and_wait(Frames::of(&record));
                if let Record::Told { told, .. } = record {
                    batch.told = told;
                }
                noted?;
                self.log.next_batch.store(number + 1, Ordering::Relaxed);
                batch.name = Name::Numbered(number);
                number
            }
        };
        Ok(Some(self.log.stem(number)))
    }

    fn done(&mut self, batch: &Batch) {
        if let Name::Numbered(number) = batch.name {
            self.journal.append_lazily(Frames::of(&Record::Done { batch: number }));
        }
    }

    fn tick(&mut self) {
        for (trace, spans) in self.known.drain(..) {
            self.journal.append_lazily(Frames::of(&Record::Known { trace, spans }));
        }
        if let Err(error) = self.log.trim() {
            crate::once::warn("journal-trim", || format!("the journal cannot be tidied up for now: {error}"));
        }
    }
}
