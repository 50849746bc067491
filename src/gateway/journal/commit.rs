//! One thread that appends for all: one sync for all that arrived meanwhile.

use std::sync::mpsc::{Receiver, Sender, channel, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use super::log::{Log, Place, Writer};
use super::record::Frames;
use crate::count::Histogram;

/// How many bytes are appended before a sync at most.
const GROUP_BYTES: usize = 16 << 20;

/// What is told when records are safe, or why they are not.
type Answer = Box<dyn FnOnce(Result<Vec<Place>, String>) + Send>;

struct Commit {
    frames: Frames,
    /// Nobody waits for these to be safe.
    is_lazy: bool,
    answer: Answer,
}

/// The way to append to the journal.
pub(crate) struct Journal {
    commits: Mutex<Option<Sender<Commit>>>,
    thread: Mutex<Option<JoinHandle<()>>>,
    log: Arc<Log>,
    health: Arc<Health>,
}

/// How appending goes.
#[derive(Default)]
struct Health {
    syncs: Histogram,
    failed_at: Mutex<Option<Instant>>,
}

/// How long a failure counts. Nothing may be appended meanwhile, because nobody is sent to a gateway that is not ready.
const FAILURE_COUNTS: Duration = Duration::from_secs(10);

impl Journal {
    pub(super) fn start(log: Arc<Log>) -> std::io::Result<Self> {
        let (sender, commits) = channel();
        let writer = Writer::new(log.clone());
        let health = Arc::new(Health::default());
        let noted = health.clone();
        let thread = thread::Builder::new().name("failproof-journal".to_owned());
        let thread = thread.spawn(move || run(writer, &commits, &noted))?;
        Ok(Journal { commits: Mutex::new(Some(sender)), thread: Mutex::new(Some(thread)), log, health })
    }

    /// Appends records; `answer` is called on the journal's thread when they are safe, and must not block.
    pub fn append(&self, frames: Frames, answer: impl FnOnce(Result<Vec<Place>, String>) + Send + 'static) {
        self.send(Commit { frames, is_lazy: false, answer: Box::new(answer) });
    }

    /// Appends records, and waits until they are safe.
    ///
    /// # Errors
    /// In words, if they are not.
    pub fn append_and_wait(&self, frames: Frames) -> Result<Vec<Place>, String> {
        let (answer, answered) = sync_channel(1);
        self.append(frames, move |result| drop(answer.send(result)));
        answered.recv().unwrap_or_else(|_| Err("the journal is closed".to_owned()))
    }

    /// Appends records that need not be safe before the next ones are.
    pub fn append_lazily(&self, frames: Frames) {
        self.send(Commit { frames, is_lazy: true, answer: Box::new(|_| {}) });
    }

    /// How many bytes its files have.
    pub fn bytes(&self) -> u64 {
        self.log.bytes()
    }

    /// How many files there are.
    pub fn file_count(&self) -> usize {
        self.log.file_count()
    }

    /// How long it takes until records are safe.
    pub fn syncs(&self) -> &Histogram {
        &self.health.syncs
    }

    /// Whether records could not be made safe lately.
    pub fn is_failing(&self) -> bool {
        let failed_at = self.health.failed_at.lock().unwrap_or_else(PoisonError::into_inner);
        failed_at.is_some_and(|failed_at| failed_at.elapsed() < FAILURE_COUNTS)
    }

    fn send(&self, commit: Commit) {
        let commits = self.commits.lock().unwrap_or_else(PoisonError::into_inner);
        let unsent = match commits.as_ref() {
            Some(commits) => commits.send(commit).err().map(|error| error.0),
            None => Some(commit),
        };
        drop(commits);
        if let Some(commit) = unsent {
            (commit.answer)(Err("the journal is closed".to_owned()));
        }
    }
}

impl Drop for Journal {
    /// Ends the thread when it has appended what was given to it.
    fn drop(&mut self) {
        drop(self.commits.lock().unwrap_or_else(PoisonError::into_inner).take());
        if let Some(thread) = self.thread.lock().unwrap_or_else(PoisonError::into_inner).take() {
            let _ = thread.join();
        }
    }
}

fn run(mut writer: Writer, commits: &Receiver<Commit>, health: &Health) {
    let mut was_ill = false;
    while let Ok(first) = commits.recv() {
        let (mut frames, mut answers) = (Vec::new(), Vec::new());
        let (mut bytes, mut sync) = (0, false);
        let mut next = Some(first);
        while let Some(commit) = next {
            bytes += commit.frames.bytes.len();
            sync |= !commit.is_lazy;
            frames.push(commit.frames);
            answers.push(commit.answer);
            next = if bytes < GROUP_BYTES { commits.try_recv().ok() } else { None };
        }
        // Once more in another file: what failed may have been about that one.
        let begun = Instant::now();
        let result = writer.append(&frames, sync).or_else(|_| writer.append(&frames, sync));
        if sync {
            health.syncs.observe(begun.elapsed());
        }
        let failed_at = result.is_err().then(Instant::now);
        *health.failed_at.lock().unwrap_or_else(PoisonError::into_inner) = failed_at;
        match result {
            Ok(places) => {
                was_ill = false;
                answers.into_iter().zip(places).for_each(|(answer, places)| answer(Ok(places)));
            }
            Err(error) => {
                if !std::mem::replace(&mut was_ill, true) {
                    tracing::error!("the journal cannot be written, requests are refused: {error}");
                }
                answers.into_iter().for_each(|answer| answer(Err(error.to_string())));
            }
        }
    }
}
