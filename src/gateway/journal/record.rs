//! What the journal holds, and how it is written.
//!
//! A record is its length, a checksum, and its bytes, of which the first says what it is. All numbers have their lowest
//! byte first.

use std::sync::Arc;

use twox_hash::XxHash3_64;

use crate::delivery::Told;
use crate::otlp::write;
use crate::span::{Span, SpanId, TraceId};

/// What stands before the bytes of a record: their length and their checksum.
pub(super) const HEAD: usize = 4 + 8;

const HEADER: u8 = 0;
const PORTION: u8 = 1;
const TOLD: u8 = 2;
const DONE: u8 = 3;
const KNOWN: u8 = 4;

/// What the header of a file starts with: the form of all that follows.
const FORM: &[u8] = b"failproof-otel journal 1\n";

/// A record.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Record<'a> {
    /// The first of each file: what the names of batches start with, and the number of the next.
    Header { family: &'a str, next_batch: u64 },
    /// Spans of one trace, as `otlp::write` writes them.
    Portion { trace: TraceId, spans: &'a [u8] },
    /// A batch is about to be written.
    Told { batch: u64, told: Vec<Told> },
    /// It has been written.
    Done { batch: u64 },
    /// Spans came again whose trace was told and forgotten.
    Known { trace: TraceId, spans: Vec<SpanId> },
}

/// Records ready to be appended.
#[derive(Debug, Default)]
pub(crate) struct Frames {
    pub(super) bytes: Vec<u8>,
    /// Where each of them starts.
    pub(super) starts: Vec<usize>,
    /// How many of them are spans, which are read again.
    pub(super) portions: usize,
}

impl Frames {
    /// The only record.
    pub fn of(record: &Record<'_>) -> Self {
        let mut frames = Frames::default();
        frames.add(|bytes| record.write(bytes));
        frames
    }

    /// How many bytes they have.
    pub fn len(&self) -> usize {
        self.bytes.len()
    }

    /// Adds the spans of one trace.
    pub fn add_portion<'s>(&mut self, trace: TraceId, spans: impl IntoIterator<Item = &'s Span<'s>>) {
        self.portions += 1;
        self.add(|bytes| {
            bytes.push(PORTION);
            bytes.extend_from_slice(&trace.to_bytes());
            write::write(spans, bytes);
        });
    }

    /// Adds a record of spans as it stands elsewhere.
    pub fn add_again(&mut self, record: &[u8]) {
        self.portions += 1;
        self.add(|bytes| bytes.extend_from_slice(record));
    }

    fn add(&mut self, content: impl FnOnce(&mut Vec<u8>)) {
        let start = self.bytes.len();
        self.starts.push(start);
        self.bytes.extend_from_slice(&[0; HEAD]);
        content(&mut self.bytes);
        let record = &self.bytes[start + HEAD..];
        let length = u32::try_from(record.len()).unwrap_or(u32::MAX).to_le_bytes();
        let checksum = XxHash3_64::oneshot(record).to_le_bytes();
        self.bytes[start..start + 4].copy_from_slice(&length);
        self.bytes[start + 4..start + HEAD].copy_from_slice(&checksum);
    }
}

/// The length and the checksum that stand before a record.
pub(super) fn head(bytes: [u8; HEAD]) -> (usize, u64) {
    let [length @ .., _, _, _, _, _, _, _, _] = bytes;
    let [_, _, _, _, checksum @ ..] = bytes;
    (u32::from_le_bytes(length) as usize, u64::from_le_bytes(checksum))
}

/// Whether these are the bytes that were written.
pub(super) fn is_whole(record: &[u8], checksum: u64) -> bool {
    XxHash3_64::oneshot(record) == checksum
}

impl<'a> Record<'a> {
    fn write(&self, bytes: &mut Vec<u8>) {
        match self {
            Record::Header { family, next_batch } => {
                bytes.push(HEADER);
                bytes.extend_from_slice(FORM);
                bytes.extend_from_slice(&next_batch.to_le_bytes());
                bytes.extend_from_slice(family.as_bytes());
            }
            Record::Portion { trace, spans } => {
                bytes.push(PORTION);
                bytes.extend_from_slice(&trace.to_bytes());
                bytes.extend_from_slice(spans);
            }
            Record::Told { batch, told } => {
                bytes.push(TOLD);
                bytes.extend_from_slice(&batch.to_le_bytes());
                for told in told {
                    write_told(told, bytes);
                }
            }
            Record::Done { batch } => {
                bytes.push(DONE);
                bytes.extend_from_slice(&batch.to_le_bytes());
            }
            Record::Known { trace, spans } => {
                bytes.push(KNOWN);
                bytes.extend_from_slice(&trace.to_bytes());
                spans.iter().for_each(|span| bytes.extend_from_slice(&span.to_bytes()));
            }
        }
    }

    /// Reads a record; `None` if it is none of ours.
    pub fn read(bytes: &'a [u8]) -> Option<Self> {
        let (kind, rest) = bytes.split_first()?;
        let mut rest = Rest(rest);
        Some(match *kind {
            HEADER => {
                rest.0 = rest.0.strip_prefix(FORM)?;
                Record::Header { next_batch: rest.number()?, family: std::str::from_utf8(rest.0).ok()? }
            }
            PORTION => Record::Portion { trace: TraceId::from_bytes(rest.take()?), spans: rest.0 },
            TOLD => {
                let batch = rest.number()?;
                let mut told = Vec::new();
                while !rest.0.is_empty() {
                    told.push(rest.told()?);
                }
                Record::Told { batch, told }
            }
            DONE => Record::Done { batch: rest.number()? },
            KNOWN => {
                let trace = TraceId::from_bytes(rest.take()?);
                let mut spans = Vec::new();
                while !rest.0.is_empty() {
                    spans.push(SpanId::from_bytes(rest.take()?));
                }
                Record::Known { trace, spans }
            }
            _ => return None,
        })
    }
}

fn write_told(told: &Told, bytes: &mut Vec<u8>) {
    bytes.extend_from_slice(&told.trace.to_bytes());
    let numbers = [told.covers, told.keys.len(), told.sessions.len()];
    numbers.iter().for_each(|number| bytes.extend_from_slice(&(*number as u64).to_le_bytes()));
    told.keys.iter().for_each(|key| bytes.extend_from_slice(&key.to_le_bytes()));
    for (span, session) in &told.sessions {
        bytes.extend_from_slice(&span.to_bytes());
        bytes.extend_from_slice(&(session.len() as u64).to_le_bytes());
        bytes.extend_from_slice(session.as_bytes());
    }
}

/// What is left to be read of a record.
struct Rest<'a>(&'a [u8]);

impl<'a> Rest<'a> {
    fn take<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (taken, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(*taken)
    }

    fn number(&mut self) -> Option<u64> {
        self.take().map(u64::from_le_bytes)
    }

    fn count(&mut self) -> Option<usize> {
        usize::try_from(self.number()?).ok()
    }

    fn text(&mut self) -> Option<&'a str> {
        let length = self.count()?;
        let (text, rest) = self.0.split_at_checked(length)?;
        self.0 = rest;
        std::str::from_utf8(text).ok()
    }

    fn told(&mut self) -> Option<Told> {
        let trace = TraceId::from_bytes(self.take()?);
        let (covers, keys, sessions) = (self.count()?, self.count()?, self.count()?);
        // Not reserved: the counts are but what the bytes say.
        let keys = (0..keys).map(|_| self.number()).collect::<Option<Vec<_>>>()?;
        let mut session = || Some((SpanId::from_bytes(self.take()?), Arc::from(self.text()?)));
        let sessions = (0..sessions).map(|_| session()).collect::<Option<Vec<_>>>()?;
        Some(Told { trace, keys, sessions, covers })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_record_is_read_as_it_was_written() {
        let trace = TraceId::from(0x1234_5678_9abc_def0_1122_3344_5566_7788_u128);
        let sessions = vec![(SpanId::from(7), Arc::from("chat-7")), (SpanId::from(8), Arc::from(""))];
        let told = Told { trace, keys: vec![1, u64::MAX], sessions, covers: 3 };
        for record in [
            Record::Header { family: "event-2026-01-02T03-04-05-678Z-4711", next_batch: 12 },
            Record::Portion { trace, spans: b"spans" },
            Record::Told { batch: 7, told: vec![told.clone(), Told { keys: vec![], sessions: vec![], ..told }] },
            Record::Done { batch: u64::MAX },
            Record::Known { trace, spans: vec![SpanId::from(1), SpanId::from(2)] },
        ] {
            let frames = Frames::of(&record);
            let (length, checksum) = head(*frames.bytes.first_chunk().unwrap());
            let bytes = &frames.bytes[HEAD..];
            assert_eq!((bytes.len(), true), (length, is_whole(bytes, checksum)));
            assert_eq!(Record::read(bytes), Some(record));
            assert!(!is_whole(&bytes[..length - 1], checksum));
        }
        assert_eq!(Record::read(b""), None);
        assert_eq!(Record::read(&[9, 1, 2]), None);
        assert_eq!(Record::read(&[TOLD, 0, 0, 0, 0, 0, 0, 0, 0, 1]), None);
    }
}
