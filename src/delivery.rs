//! One thread that maps, encodes and writes: whoever hands spans over never waits for it.
//!
//! The processor, the exporter and the gateway stand on it. Its queue is bounded; what does not fit is refused, counted and
//! logged once. A sink that fails keeps its lines waiting, also bounded, and is tried again.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, TrySendError, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use opentelemetry::Context;
use opentelemetry_sdk::error::{OTelSdkError, OTelSdkResult};

use crate::config::Config;
use crate::encode::encode_into;
use crate::event::Event;
use crate::sink::{Sink, SinkError};
use crate::span::Span;
use crate::trace::pending::{Pending, Tell};

/// How many messages wait in the queue at most.
const QUEUE_LIMIT: usize = 8_192;
/// How many bytes of spans wait in the queue at most.
const QUEUE_BYTES_LIMIT: usize = 128 << 20;
/// How often the thread looks for what is due, and how long it gathers lines for one file.
const TICK: Duration = Duration::from_millis(50);
/// How long a sink that failed is left alone: from the first failure to any later one.
const RETRY: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(5));
/// How many bytes of lines wait for a sink that fails at most.
const UNWRITTEN_LIMIT: usize = 64 << 20;

/// How long `force_flush` of the processor and the exporter waits: as long as the SDK's own batch processor.
pub(crate) const FLUSH_TIMEOUT: Duration = Duration::from_secs(5);

/// A function that makes spans on the delivery's own thread.
type Make = Box<dyn FnOnce() -> Vec<Span<'static>> + Send>;

enum Message {
    /// So many bytes of spans.
    Spans(usize, Make),
    Flush(SyncSender<Result<(), DeliveryError>>),
    Stop(SyncSender<Result<(), DeliveryError>>),
}

/// Why not all has been delivered.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DeliveryError {
    /// The sink failed; its lines wait to be tried again.
    #[error("{0}")]
    Sink(String),
    /// Some were lost to the bounds since the last flush.
    #[error("{0} spans and {1} events were lost since the last flush: more came than could be delivered")]
    Lost(u64, u64),
    /// It takes longer than the caller wanted to wait.
    #[error("not delivered within {0:?}")]
    Timeout(Duration),
    /// It was stopped before.
    #[error("already shut down")]
    Stopped,
}

/// What was counted since the start.
#[derive(Debug, Default)]
pub struct Counters {
    /// Spans that were taken.
    pub spans: AtomicU64,
    /// Spans that were refused because the queue was full.
    pub spans_lost: AtomicU64,
    /// Events that were written.
    pub events: AtomicU64,
    /// Events that were lost because the sink failed for too long.
    pub events_lost: AtomicU64,
    /// Failed attempts to write.
    pub sink_failures: AtomicU64,
}

/// The thread, from outside.
#[derive(Debug)]
pub(crate) struct Delivery {
    queue: SyncSender<Message>,
    queued_bytes: Arc<AtomicUsize>,
    counters: Arc<Counters>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

impl Delivery {
    /// Starts the thread.
    ///
    /// # Errors
    /// If the system gives no thread.
    pub fn start(config: Config, tell: Tell, max_bytes: usize, sink: Box<dyn Sink>) -> std::io::Result<Self> {
        let (queue, messages) = sync_channel(QUEUE_LIMIT);
        let counters = Arc::new(Counters::default());
        let queued_bytes = Arc::new(AtomicUsize::new(0));
        let worker = Worker {
            queued_bytes: queued_bytes.clone(),
            pending: Pending::new(config.mapping().clone(), tell, max_bytes),
            config,
            sink,
            counters: counters.clone(),
            unwritten: Vec::new(),
            retry_at: None,
            retry_delay: RETRY.0,
            last_error: None,
            lost_told: (0, 0),
        };
        let thread =
            std::thread::Builder::new().name("failproof-delivery".to_owned()).spawn(move || worker.run(messages))?;
        Ok(Delivery { queue, queued_bytes, counters, thread: Mutex::new(Some(thread)) })
    }

    /// Hands that many spans over, of so many bytes in all; `false` if the queue is full and they are refused. `make` runs
    /// on the delivery's own thread.
    pub fn send(&self, spans: usize, bytes: usize, make: impl FnOnce() -> Vec<Span<'static>> + Send + 'static) -> bool {
        let queued = self.queued_bytes.fetch_add(bytes, Ordering::AcqRel);
        // One message always fits, however big: it is in memory already.
        let fits = queued == 0 || queued.saturating_add(bytes) <= QUEUE_BYTES_LIMIT;
        let message = Message::Spans(bytes, Box::new(make));
        match if fits { self.queue.try_send(message) } else { Err(TrySendError::Full(message)) } {
            Ok(()) => true,
            Err(TrySendError::Full(_) | TrySendError::Disconnected(_)) => {
                self.queued_bytes.fetch_sub(bytes, Ordering::AcqRel);
                self.counters.spans_lost.fetch_add(spans as u64, Ordering::Relaxed);
                crate::once::warn("queue-full", || "the delivery's queue is full: spans are refused".to_owned());
                false
            }
        }
    }

    /// Writes all that is known by now.
    pub fn flush(&self, timeout: Duration) -> Result<(), DeliveryError> {
        self.ask(Message::Flush, timeout)
    }

    /// Closes all that is open, writes everything and ends the thread.
    pub fn stop(&self, timeout: Duration) -> Result<(), DeliveryError> {
        let Some(thread) = self.thread.lock().unwrap_or_else(PoisonError::into_inner).take() else {
            return Err(DeliveryError::Stopped);
        };
        let result = self.ask(Message::Stop, timeout);
        if result != Err(DeliveryError::Timeout(timeout)) {
            // The answer was its last act.
            let _ = thread.join();
        }
        result
    }

    /// What was counted.
    pub fn counters(&self) -> &Arc<Counters> {
        &self.counters
    }

    fn ask(
        &self,
        message: impl FnOnce(SyncSender<Result<(), DeliveryError>>) -> Message,
        timeout: Duration,
    ) -> Result<(), DeliveryError> {
        let deadline = Instant::now() + timeout;
        let (answer, answered) = sync_channel(1);
        let mut message = message(answer);
        // The queue has no send with a timeout.
        loop {
            match self.queue.try_send(message) {
                Ok(()) => break,
                Err(TrySendError::Disconnected(_)) => return Err(DeliveryError::Stopped),
                Err(TrySendError::Full(_)) if Instant::now() >= deadline => {
                    return Err(DeliveryError::Timeout(timeout));
                }
                Err(TrySendError::Full(back)) => message = back,
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        match answered.recv_timeout(deadline.saturating_duration_since(Instant::now())) {
            Ok(result) => result,
            Err(RecvTimeoutError::Timeout) => Err(DeliveryError::Timeout(timeout)),
            Err(RecvTimeoutError::Disconnected) => Err(DeliveryError::Stopped),
        }
    }
}

struct Worker {
    queued_bytes: Arc<AtomicUsize>,
    config: Config,
    pending: Pending,
    sink: Box<dyn Sink>,
    counters: Arc<Counters>,
    /// Lines that are not written yet.
    unwritten: Vec<u8>,
    retry_at: Option<Instant>,
    retry_delay: Duration,
    last_error: Option<String>,
    /// The losses that a flush has told of.
    lost_told: (u64, u64),
}

impl Worker {
    fn run(mut self, messages: Receiver<Message>) {
        // Nothing that this thread does is an event of the program that it watches.
        let _suppressed = Context::enter_telemetry_suppressed_scope();
        let mut next_tick = Instant::now() + TICK;
        loop {
            match messages.recv_timeout(next_tick.saturating_duration_since(Instant::now())) {
                Ok(Message::Spans(bytes, make)) => {
                    self.take(make);
                    self.queued_bytes.fetch_sub(bytes, Ordering::AcqRel);
                }
                Ok(Message::Flush(answer)) => {
                    let events = self.pending.flush();
                    let _ = answer.send(self.deliver_now(events));
                }
                Ok(Message::Stop(answer)) => {
                    let events = self.pending.close(nanoseconds_now());
                    let _ = answer.send(self.deliver_now(events));
                    return;
                }
                Err(RecvTimeoutError::Timeout) => {}
                // Everybody who could send has gone without a word: as good as a stop.
                Err(RecvTimeoutError::Disconnected) => {
                    let events = self.pending.close(nanoseconds_now());
                    let _ = self.deliver_now(events);
                    return;
                }
            }
            let now = Instant::now();
            if now >= next_tick {
                next_tick = now + TICK;
                let events = self.pending.take_due(now);
                self.encode(events);
                if self.retry_at.is_none_or(|retry_at| now >= retry_at) {
                    self.write();
                }
            }
        }
    }

    fn take(&mut self, make: Make) {
        let now = Instant::now();
        for span in make() {
            self.counters.spans.fetch_add(1, Ordering::Relaxed);
            self.pending.add(span, now);
        }
    }

    fn deliver_now(&mut self, events: Vec<Event>) -> Result<(), DeliveryError> {
        self.encode(events);
        self.write();
        if let Some(error) = &self.last_error {
            return Err(DeliveryError::Sink(error.clone()));
        }
        let lost =
            (self.counters.spans_lost.load(Ordering::Relaxed), self.counters.events_lost.load(Ordering::Relaxed));
        let (spans, events) = (lost.0 - self.lost_told.0, lost.1 - self.lost_told.1);
        self.lost_told = lost;
        if spans + events > 0 { Err(DeliveryError::Lost(spans, events)) } else { Ok(()) }
    }

    fn encode(&mut self, events: Vec<Event>) {
        for event in events {
            let before = self.unwritten.len();
            encode_into(event, self.config.policy(), &mut self.unwritten);
            if self.unwritten.len() > UNWRITTEN_LIMIT {
                self.unwritten.truncate(before);
                self.counters.events_lost.fetch_add(1, Ordering::Relaxed);
                crate::once::warn("unwritten-full", || {
                    format!("{} failed for too long: events are lost", self.sink.describe())
                });
            }
        }
    }

    fn write(&mut self) {
        if self.unwritten.is_empty() {
            self.last_error = None;
            return;
        }
        let result = self.sink.write(&self.unwritten);
        let written = result.as_ref().map_or_else(SinkError::written, |()| self.unwritten.len());
        let rest = self.unwritten.split_off(written.min(self.unwritten.len()));
        let lines = self.unwritten.iter().filter(|byte| **byte == b'\n').count() as u64;
        self.counters.events.fetch_add(lines, Ordering::Relaxed);
        self.unwritten = rest;
        match result {
            Ok(()) => {
                (self.last_error, self.retry_at, self.retry_delay) = (None, None, RETRY.0);
            }
            Err(error) => {
                self.counters.sink_failures.fetch_add(1, Ordering::Relaxed);
                if self.last_error.is_none() {
                    tracing::warn!("{} failed, its events wait: {error}", self.sink.describe());
                }
                self.last_error = Some(error.to_string());
                self.retry_at = Some(Instant::now() + self.retry_delay);
                self.retry_delay = (self.retry_delay * 2).min(RETRY.1);
            }
        }
    }
}

/// The result of a flush or a stop in the SDK's words.
pub(crate) fn as_sdk_result(result: Result<(), DeliveryError>) -> OTelSdkResult {
    result.map_err(|error| match error {
        DeliveryError::Stopped => OTelSdkError::AlreadyShutdown,
        DeliveryError::Timeout(timeout) => OTelSdkError::Timeout(timeout),
        DeliveryError::Sink(_) | DeliveryError::Lost(..) => OTelSdkError::InternalFailure(error.to_string()),
    })
}

fn nanoseconds_now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| u64::try_from(since.as_nanos()).unwrap_or(u64::MAX))
}
