//! A queue on disk before a receiver that can fail.
//!
//! A queue is a spool directory from which a thread of our own takes the files, as the daemon does from the real one.
//! Lines are safe when they are written there, whatever the receiver does. A batch that is sent is deleted; one that the
//! receiver refuses for good moves to `parked`, with a note of the cause beside it, and is never deleted. What a process
//! leaves behind, however it ends, a later one sends.
//!
//! Any number of processes write to one queue. The one that holds the lock on the file `lock` sends; the system lets go
//! of it when that process ends, even by a kill, and another takes over. So there is nothing to adopt and nothing to
//! tell a dead process from a slow one by.

mod files;
mod sender;
mod worker;

use std::path::{Path, PathBuf};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant, SystemTime};

use self::files::{Files, on_disk};
pub(super) use self::sender::random;
pub use self::sender::{Backoff, Batch, SendError, Sender};
use self::worker::Worker;
use super::{Sink, SinkError, Spool};

/// How many bytes a queue holds at most, if nobody says otherwise.
const DEFAULT_MAX_BYTES: u64 = 1 << 30;

/// What a [`Queue`] is made of. Start from [`QueueOptions::new`] and change what shall differ.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct QueueOptions {
    /// Its directory, made if it is missing. See [`Home::queue`](super::Home::queue).
    pub directory: PathBuf,
    /// How many bytes the directory holds at most, with what is parked, in blocks of 4 KiB; beyond, writing fails. 1 GiB
    /// by default.
    pub max_bytes: u64,
    /// How long it waits after a failed attempt.
    pub backoff: Backoff,
}

impl QueueOptions {
    /// The defaults, in a directory.
    pub fn new(directory: impl Into<PathBuf>) -> Self {
        QueueOptions { directory: directory.into(), max_bytes: DEFAULT_MAX_BYTES, backoff: Backoff::default() }
    }
}

/// A sink that writes to disk and sends from there: slow and dead receivers never slow those who write.
///
/// ```
/// use std::net::UdpSocket;
///
/// use opentelemetry_failproof::FailproofSpanProcessor;
/// use opentelemetry_failproof::sink::{Batch, Queue, QueueOptions, SendError, Sender};
///
/// /// A receiver of one's own.
/// struct Udp(UdpSocket);
///
/// impl Sender for Udp {
///     fn send(&mut self, batch: &Batch) -> Result<(), SendError> {
///         let sent = self.0.send(batch.lines());
///         sent.map(drop).map_err(|cause| SendError::Retry { after: None, cause: cause.to_string() })
///     }
///
///     fn describe(&self) -> String {
///         "the receiver on this machine".to_owned()
///     }
/// }
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let directory = tempfile::tempdir()?;
/// # let directory = directory.path();
/// let receiver = Udp(UdpSocket::bind("127.0.0.1:0")?);
/// let processor =
///     FailproofSpanProcessor::builder().with_sink(Queue::start(QueueOptions::new(directory), receiver)?).build()?;
/// # drop(processor);
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct Queue {
    spool: Spool,
    max_bytes: u64,
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

impl Queue {
    /// Opens the directory and starts to send, first what an earlier process has left there.
    ///
    /// The sender lives in a thread of its own, where it may block. It is dropped there too.
    ///
    /// # Errors
    /// As [`Spool::open`], and if the directory can't be locked or the system gives no thread.
    pub fn start(options: QueueOptions, sender: impl Sender + 'static) -> Result<Self, SinkError> {
        // Its bound is our own, which counts what is parked too.
        let spool = Spool::open(options.directory)?.with_max_bytes(u64::MAX);
        let mut files = Files::open(spool.directory())?;
        // Before anybody asks how much waits.
        let look = files.look()?;
        let state = State { waiting: look.waiting, parked_bytes: look.parked, ..State::default() };
        let shared = Arc::new(Shared {
            receiver: sender.describe(),
            directory: spool.directory().to_owned(),
            state: Mutex::new(state),
            changed: Condvar::new(),
        });
        let worker = Worker::new(files, Box::new(sender), options.backoff, shared.clone());
        let thread = thread::Builder::new().name("failproof-queue".to_owned()).spawn(move || worker.run());
        let failed = |source| SinkError::Spool {
            action: "start a thread for",
            path: spool.directory().to_owned(),
            written: 0,
            source,
        };
        let thread = thread.map_err(failed)?;
        Ok(Queue { spool, max_bytes: options.max_bytes, shared, thread: Some(thread) })
    }
}

impl Queue {
    /// Writes to the spool within the bound, and wakes the thread.
    fn add(&mut self, bytes: usize, write: impl FnOnce(&mut Spool) -> Result<(), SinkError>) -> Result<(), SinkError> {
        if self.shared.state().held().saturating_add(on_disk(bytes as u64)) > self.max_bytes {
            return Err(SinkError::Full {
                path: self.spool.directory().to_owned(),
                limit: self.max_bytes,
                remedy: "see why its receiver does not take them, empty its `parked`, or allow more",
            });
        }
        let result = write(&mut self.spool);
        let written = on_disk(result.as_ref().map_or_else(SinkError::written, |()| bytes) as u64);
        let mut state = self.shared.state();
        state.waiting += written;
        state.added += written;
        state.has_news |= written > 0;
        drop(state);
        self.shared.changed.notify_all();
        result
    }
}

impl Sink for Queue {
    fn write(&mut self, lines: &[u8]) -> Result<(), SinkError> {
        self.add(lines.len(), |spool| spool.write(lines))
    }

    fn write_named(&mut self, stem: &str, batch: &[u8]) -> Result<(), SinkError> {
        self.add(batch.len(), |spool| spool.write_named(stem, batch))
    }

    fn find(&self, stem: &str) -> Result<Option<Vec<u8>>, SinkError> {
        self.spool.find(stem)
    }

    fn describe(&self) -> String {
        format!("{} through {}", self.shared.receiver, self.spool.directory().display())
    }

    fn close(&mut self, deadline: Instant) -> Result<(), SinkError> {
        let bytes = self.shared.wait_until_empty(deadline);
        self.shared.stop();
        if bytes > 0 {
            let path = self.spool.directory().to_owned();
            // Its thread may be in the middle of an attempt: nobody waits for that.
            return Err(SinkError::Unsent { path, receiver: self.shared.receiver.clone(), bytes });
        }
        if let Some(thread) = self.thread.take() {
            // It has nothing left to do but to end.
            let _ = thread.join();
        }
        Ok(())
    }

    fn progress(&self) -> Vec<Progress> {
        vec![Progress(self.shared.clone())]
    }
}

impl Drop for Queue {
    fn drop(&mut self) {
        self.shared.stop();
    }
}

/// How far a queue is, to look at while it works.
#[derive(Clone, Debug)]
pub struct Progress(Arc<Shared>);

impl Progress {
    /// The receiver, as its sender describes it.
    pub fn receiver(&self) -> &str {
        &self.0.receiver
    }

    /// The directory of the queue; what is parked is in `parked` below it.
    pub fn directory(&self) -> &Path {
        &self.0.directory
    }

    pub(super) fn count_lost(&self, events: u64) {
        self.0.state().lost += events;
    }

    /// The state of this moment.
    pub fn status(&self) -> QueueStatus {
        let state = self.0.state();
        QueueStatus {
            sent: state.sent,
            retried: state.retried,
            parked: state.parked,
            lost: state.lost,
            waiting_bytes: state.waiting,
            parked_bytes: state.parked_bytes,
            oldest: state.oldest.and_then(|since| since.elapsed().ok()),
        }
    }
}

/// What a queue has done since its start, and what it holds. Of several processes with one queue each knows what it did
/// itself, and what all of them hold.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct QueueStatus {
    /// Batches that the receiver has taken.
    pub sent: u64,
    /// Attempts that failed and are made again.
    pub retried: u64,
    /// Batches that the receiver has refused for good.
    pub parked: u64,
    /// Events that were lost because the queue was full while another sink took them ([`Several`](super::Several)).
    pub lost: u64,
    /// Bytes on disk that wait.
    pub waiting_bytes: u64,
    /// Bytes on disk that are parked, also by earlier processes.
    pub parked_bytes: u64,
    /// How long the oldest batch that waits has waited.
    pub oldest: Option<Duration>,
}

/// What the sink and its thread share.
#[derive(Debug)]
struct Shared {
    receiver: String,
    directory: PathBuf,
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    /// Something was written since the thread last looked.
    has_news: bool,
    is_stopped: bool,
    sent: u64,
    retried: u64,
    parked: u64,
    lost: u64,
    /// Bytes on disk.
    waiting: u64,
    parked_bytes: u64,
    /// Bytes that this process has written since its start.
    added: u64,
    oldest: Option<SystemTime>,
}

impl State {
    fn held(&self) -> u64 {
        self.waiting.saturating_add(self.parked_bytes)
    }
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn stop(&self) {
        self.state().is_stopped = true;
        self.changed.notify_all();
    }

    /// Waits until nothing waits any more; the bytes that do at the deadline.
    fn wait_until_empty(&self, deadline: Instant) -> u64 {
        let mut state = self.state();
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            if state.waiting == 0 || state.is_stopped || left.is_zero() {
                return state.waiting;
            }
            state = self.changed.wait_timeout(state, left).unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    /// Waits for so long, or until the queue is stopped, or if asked for until something is written. Whether to go on.
    fn pause(&self, time: Duration, or_news: bool) -> bool {
        let deadline = Instant::now() + time;
        let mut state = self.state();
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            if state.is_stopped || left.is_zero() || (or_news && state.has_news) {
                return !state.is_stopped;
            }
            state = self.changed.wait_timeout(state, left).unwrap_or_else(PoisonError::into_inner).0;
        }
    }
}
