//! Events on their way to the sink, and what is noted of them.

use std::sync::Arc;
use std::time::Instant;

use twox_hash::XxHash3_128;

use crate::event::BATCH_LIMIT;
use crate::sink::Sink;
use crate::span::{SpanId, TraceId};
use crate::trace::pending::{InMemory, Pending, Store};

/// How many bytes a batch has when it is written: half of what consumers take, for it is held in memory until then.
const BATCH_BYTES: usize = BATCH_LIMIT / 2;

/// Lines that are written together, at most [`BATCH_BYTES`] or one line.
#[derive(Clone, Debug, Default)]
pub(crate) struct Batch {
    pub lines: Vec<u8>,
    /// What the lines tell.
    pub told: Vec<Told>,
    pub name: Name,
    /// When the last span of the first trace in it came.
    pub since: Option<Instant>,
}

/// What a batch is called.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) enum Name {
    /// It may still grow.
    #[default]
    None,
    /// By its store, which has noted what it tells.
    Numbered(u64),
    /// By its content, where there is nothing that a store could note.
    Own(String),
}

/// Events of one trace that a batch tells.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Told {
    pub trace: TraceId,
    /// The events, by their numbers.
    pub keys: Vec<u64>,
    /// The sessions that are said from now on, by the span of the root.
    pub sessions: Vec<(SpanId, Arc<str>)>,
    /// How many portions of the trace have been told with this, all of them together; 0 if more of them follows.
    pub covers: usize,
}

impl Batch {
    /// Batches of lines that are events already. They are named by their content: when whoever sent them does so again,
    /// because this process was killed before it could answer, a spool that has them takes none twice.
    pub fn of(lines: &[u8]) -> Vec<Batch> {
        let mut batches: Vec<Batch> = Vec::new();
        for line in lines.split_inclusive(|byte| *byte == b'\n') {
            if batches.last().is_none_or(|batch| !batch.has_room(line.len())) {
                batches.push(Batch::default());
            }
            batches.last_mut().into_iter().for_each(|batch| batch.lines.extend_from_slice(line));
        }
        for batch in &mut batches {
            batch.name = Name::Own(own_name(&batch.lines));
        }
        batches
    }

    /// Whether so many bytes more fit, into a batch that has no name yet. Anything fits into an empty one.
    pub fn has_room(&self, bytes: usize) -> bool {
        self.name == Name::None && (self.lines.is_empty() || self.lines.len() + bytes <= BATCH_BYTES)
    }

    /// Notes what some of its lines tell.
    pub fn note(&mut self, told: Told) {
        if !told.keys.is_empty() || told.covers > 0 {
            self.told.push(told);
        }
    }
}

/// A name for lines by their content. It begins with the latest of their times, so that files in order of their names are
/// about in the order in which things happened.
fn own_name(lines: &[u8]) -> String {
    const BEFORE: &[u8] = b"{\"timestamp\":\"";
    const TIME: usize = "2026-01-02T03:04:05.678".len();
    let times = lines.split(|byte| *byte == b'\n').filter_map(|line| line.strip_prefix(BEFORE)?.get(..TIME));
    let time = times.max().map(String::from_utf8_lossy).unwrap_or_default();
    // No `.`, behind which the daemon notes its retries.
    let time = time.replace(|char: char| !char.is_ascii_alphanumeric(), "-");
    format!("event-{time}Z-{:032x}", XxHash3_128::oneshot(lines))
}

/// A store that notes what has been told of the spans that it keeps.
pub(crate) trait Notes: Store + Send + 'static {
    /// Whether spans that wait are still there for the next process.
    const OUTLIVES_PROCESS: bool;

    /// Takes up what a process before this one left; the batches that it had begun to write.
    fn recover(pending: &mut Pending<Self>, sink: &mut dyn Sink, now: Instant) -> Vec<Batch>
    where
        Self: Sized;

    /// Notes that a batch is about to be written, and under which name; once for each batch.
    ///
    /// # Errors
    /// In words, if that could not be noted. The batch must wait.
    fn begin(&mut self, batch: &mut Batch) -> Result<Option<String>, String>;

    /// Notes that it has been written.
    fn done(&mut self, batch: &Batch);

    /// Called now and then, to tidy up, while all that has been told is written.
    fn tick(&mut self);
}

impl Notes for InMemory {
    const OUTLIVES_PROCESS: bool = false;

    fn recover(_: &mut Pending<Self>, _: &mut dyn Sink, _: Instant) -> Vec<Batch> {
        Vec::new()
    }

    fn begin(&mut self, _: &mut Batch) -> Result<Option<String>, String> {
        Ok(None)
    }

    fn done(&mut self, _: &Batch) {}

    fn tick(&mut self) {}
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_batch_of_events_has_a_name_of_its_latest_time_and_its_content() {
        let line = |second: u32| format!("{{\"timestamp\":\"2026-01-02T03:04:{second:02}.678901Z\",\"x\":1}}\n");
        let name = |lines: &str| match &Batch::of(lines.as_bytes())[..] {
            [Batch { name: Name::Own(name), .. }] => name.clone(),
            other => panic!("{other:?}"),
        };
        let later = line(1) + &line(9) + &line(4);
        assert!(name(&later).starts_with("event-2026-01-02T03-04-09-678Z-"), "{}", name(&later));
        assert_eq!(name(&later), name(&later));
        assert_ne!(name(&later), name(&(line(1) + &line(9))));
        assert!(
            !name("{}\n").contains('.')
                && !name("{\"timestamp\":\"../../../../../../../../../../..\"}\n").contains(['.', '/'])
        );
    }
}
