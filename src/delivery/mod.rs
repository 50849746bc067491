//! One thread that maps, encodes and writes: whoever hands spans over never waits for it.
//!
//! The processor, the exporter and the gateway stand on it. Its queue is bounded; what does not fit is refused, counted and
//! logged once. While the sink fails, nothing more is told: the batch at hand is tried again, and spans wait where their
//! [`Store`] keeps them, also bounded.

mod batch;
mod counters;

use std::collections::VecDeque;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, SyncSender, channel, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use opentelemetry::Context;
use opentelemetry_sdk::error::{OTelSdkError, OTelSdkResult};

pub(crate) use self::batch::{Batch, Name, Notes, Told};
pub use self::counters::Counters;
use crate::config::Config;
use crate::encode::encode_into;
use crate::sink::{Sink, SinkError};
use crate::span::{Span, TraceId};
use crate::trace::pending::{Bounds, InMemory, Pending, Tell, Telling};

/// How many messages wait in the queue at most.
const QUEUE_LIMIT: usize = 8_192;
/// How many bytes of spans wait in the queue at most.
const QUEUE_BYTES_LIMIT: usize = 128 << 20;
/// How often the thread looks for what is due, and how long it gathers lines for one file.
const TICK: Duration = Duration::from_millis(50);
/// How long a sink that failed is left alone: from the first failure to any later one.
const RETRY: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(5));

/// How long `force_flush` of the processor and the exporter waits: as long as the SDK's own batch processor.
pub(crate) const FLUSH_TIMEOUT: Duration = Duration::from_secs(5);

/// What adds spans, on the delivery's own thread; how many it added.
type Add<S> = Box<dyn FnOnce(&mut Pending<S>, Instant) -> usize + Send>;

type Answer = SyncSender<Result<(), DeliveryError>>;

enum Message<S: Notes> {
    /// So many bytes of spans.
    Add(usize, Add<S>),
    /// Lines that are events already.
    Events(Vec<u8>, Answer),
    Flush(Answer),
    /// With the time until which the sink may go on in the background.
    Stop(Instant, Answer),
}

/// Why not all has been delivered.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DeliveryError {
    /// The sink failed; its lines wait to be tried again.
    #[error("{0}")]
    Sink(String),
    /// Some were lost to the bounds since the last flush.
    #[error("{0} spans were lost since the last flush: more came than could be delivered")]
    Lost(u64),
    /// It takes longer than the caller wanted to wait.
    #[error("not delivered within {0:?}")]
    Timeout(Duration),
    /// It was stopped before.
    #[error("already shut down")]
    Stopped,
}

/// The thread, from outside.
pub(crate) struct Delivery<S: Notes = InMemory> {
    messages: Mutex<Sender<Message<S>>>,
    queued: Arc<Queued>,
    counters: Arc<Counters>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

/// What is in the queue.
#[derive(Debug, Default)]
struct Queued {
    messages: AtomicUsize,
    bytes: AtomicUsize,
}

impl Delivery<InMemory> {
    /// Hands that many spans over, of so many bytes in all; `false` if the queue is full and they are refused. `make` runs
    /// on the delivery's own thread.
    pub fn send(&self, spans: usize, bytes: usize, make: impl FnOnce() -> Vec<Span<'static>> + Send + 'static) -> bool {
        // One message always fits, however big: it is in memory already.
        let is_full = self.queued.messages.load(Ordering::Acquire) >= QUEUE_LIMIT
            || self.queued_bytes().saturating_add(bytes) > QUEUE_BYTES_LIMIT && self.queued_bytes() > 0;
        let add = move |pending: &mut Pending<InMemory>, now| {
            let spans = make();
            let count = spans.len();
            spans.into_iter().for_each(|span| pending.add_span(span, now));
            count
        };
        let is_sent = !is_full && self.post(bytes, add);
        if !is_sent {
            self.counters.spans_lost.fetch_add(spans as u64, Ordering::Relaxed);
            crate::once::warn("queue-full", || "the delivery's queue is full: spans are refused".to_owned());
        }
        is_sent
    }
}

impl<S: Notes> Delivery<S> {
    /// Starts the thread.
    ///
    /// # Errors
    /// If the system gives no thread.
    pub fn start(config: Config, store: S, tell: Tell, bounds: Bounds, sink: Box<dyn Sink>) -> std::io::Result<Self> {
        let (sender, messages) = channel();
        let counters = Arc::new(Counters::of(sink.as_ref()));
        let queued = Arc::new(Queued::default());
        let worker = Worker {
            queued: queued.clone(),
            pending: Pending::new(store, config.mapping().clone(), tell, bounds, Instant::now()),
            config,
            sink,
            counters: counters.clone(),
            batches: VecDeque::new(),
            retry_at: None,
            retry_delay: RETRY.0,
            last_error: None,
            lost_told: 0,
        };
        let thread =
            std::thread::Builder::new().name("failproof-delivery".to_owned()).spawn(move || worker.run(messages))?;
        Ok(Delivery { messages: Mutex::new(sender), queued, counters, thread: Mutex::new(Some(thread)) })
    }

    /// Hands spans over that are to be taken, however many wait: so many bytes. `false` if the thread has ended.
    pub fn post(&self, bytes: usize, add: impl FnOnce(&mut Pending<S>, Instant) -> usize + Send + 'static) -> bool {
        self.queued.bytes.fetch_add(bytes, Ordering::AcqRel);
        let is_sent = self.tell(Message::Add(bytes, Box::new(add)));
        if !is_sent {
            self.queued.bytes.fetch_sub(bytes, Ordering::AcqRel);
        }
        is_sent
    }

    /// How many bytes wait in the queue.
    pub fn queued_bytes(&self) -> usize {
        self.queued.bytes.load(Ordering::Acquire)
    }

    /// Writes lines that are events already; returns when the sink has them safe.
    pub fn write_events(&self, lines: Vec<u8>, timeout: Duration) -> Result<(), DeliveryError> {
        self.ask(|answer| Message::Events(lines, answer), timeout)
    }

    /// Writes all that is known by now.
    pub fn flush(&self, timeout: Duration) -> Result<(), DeliveryError> {
        self.ask(Message::Flush, timeout)
    }

    /// Writes everything and ends the thread: all that is open is closed, unless what waits outlives the process.
    pub fn stop(&self, timeout: Duration) -> Result<(), DeliveryError> {
        let Some(thread) = self.thread.lock().unwrap_or_else(PoisonError::into_inner).take() else {
            return Err(DeliveryError::Stopped);
        };
        // Before the caller stops waiting, so that it learns the result.
        let close_at = Instant::now() + timeout - timeout / 10;
        let result = self.ask(|answer| Message::Stop(close_at, answer), timeout);
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

    fn tell(&self, message: Message<S>) -> bool {
        self.queued.messages.fetch_add(1, Ordering::AcqRel);
        let is_sent = self.messages.lock().unwrap_or_else(PoisonError::into_inner).send(message).is_ok();
        if !is_sent {
            self.queued.messages.fetch_sub(1, Ordering::AcqRel);
        }
        is_sent
    }

    fn ask(&self, message: impl FnOnce(Answer) -> Message<S>, timeout: Duration) -> Result<(), DeliveryError> {
        let (answer, answered) = sync_channel(1);
        if !self.tell(message(answer)) {
            return Err(DeliveryError::Stopped);
        }
        match answered.recv_timeout(timeout) {
            Ok(result) => result,
            Err(RecvTimeoutError::Timeout) => Err(DeliveryError::Timeout(timeout)),
            Err(RecvTimeoutError::Disconnected) => Err(DeliveryError::Stopped),
        }
    }
}

impl<S: Notes> std::fmt::Debug for Delivery<S> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Delivery")
            .field("queued", &self.queued)
            .field("counters", &self.counters)
            .finish_non_exhaustive()
    }
}

struct Worker<S: Notes> {
    queued: Arc<Queued>,
    config: Config,
    pending: Pending<S>,
    sink: Box<dyn Sink>,
    counters: Arc<Counters>,
    /// What has been told and is not written yet; the last one may still grow.
    batches: VecDeque<Batch>,
    retry_at: Option<Instant>,
    retry_delay: Duration,
    last_error: Option<String>,
    /// The losses that a flush has told of.
    lost_told: u64,
}

impl<S: Notes> Worker<S> {
    fn run(mut self, messages: Receiver<Message<S>>) {
        // Nothing that this thread does is an event of the program that it watches.
        let _suppressed = Context::enter_telemetry_suppressed_scope();
        self.batches = S::recover(&mut self.pending, self.sink.as_mut(), Instant::now()).into();
        let mut next_tick = Instant::now() + TICK;
        loop {
            let message = messages.recv_timeout(next_tick.saturating_duration_since(Instant::now()));
            if message.is_ok() {
                self.queued.messages.fetch_sub(1, Ordering::AcqRel);
            }
            match message {
                Ok(Message::Add(bytes, add)) => {
                    let spans = add(&mut self.pending, Instant::now());
                    self.counters.spans.fetch_add(spans as u64, Ordering::Relaxed);
                    self.queued.bytes.fetch_sub(bytes, Ordering::AcqRel);
                }
                Ok(Message::Events(lines, answer)) => drop(answer.send(self.write_events(&lines))),
                Ok(Message::Flush(answer)) => {
                    let complete = self.pending.complete();
                    let _ = answer.send(self.deliver_now(complete));
                }
                Ok(Message::Stop(close_at, answer)) => {
                    let _ = answer.send(self.end(close_at));
                    return;
                }
                Err(RecvTimeoutError::Timeout) => {}
                // Everybody who could send has gone without a word: as good as a stop.
                Err(RecvTimeoutError::Disconnected) => {
                    let _ = self.end(Instant::now());
                    return;
                }
            }
            let now = Instant::now();
            if now >= next_tick || self.pending.is_full() {
                next_tick = now + TICK;
                self.tick(now);
            }
        }
    }

    fn tick(&mut self, now: Instant) {
        if self.retry_at.is_some_and(|retry_at| now >= retry_at) {
            self.write_batches();
        }
        if self.retry_at.is_none() {
            let due = self.pending.due(now);
            self.tell(due);
            self.write_batches();
        } else if !S::OUTLIVES_PROCESS {
            let lost = self.pending.drop_over_bounds();
            if lost > 0 {
                self.counters.spans_lost.fetch_add(lost as u64, Ordering::Relaxed);
                let sink = &self.sink;
                crate::once::warn("waiting-full", || {
                    format!("{} failed for too long: spans are lost", sink.describe())
                });
            }
        }
        self.tidy();
        self.counters.traces_waiting.store(self.pending.waiting(), Ordering::Relaxed);
        self.counters.bytes_waiting.store(self.pending.memory(), Ordering::Relaxed);
        self.counters.is_full.store(self.pending.is_full(), Ordering::Relaxed);
    }

    /// What was told and is not written would be lost with what tells it, if this process were killed.
    fn tidy(&mut self) {
        if self.batches.is_empty() {
            self.pending.store.tick();
        }
    }

    fn end(&mut self, close_at: Instant) -> Result<(), DeliveryError> {
        let last = if S::OUTLIVES_PROCESS { self.pending.complete() } else { self.pending.close(nanoseconds_now()) };
        let result = self.deliver_now(last);
        self.tidy();
        if let Err(unsent) = self.sink.close(close_at) {
            tracing::warn!("{unsent}");
        }
        let waiting = self.pending.waiting();
        if waiting > 0 {
            tracing::info!(
                "{waiting} traces wait on disk for the rest of their spans: they are told after the next start"
            );
        }
        result
    }

    fn deliver_now(&mut self, traces: Vec<TraceId>) -> Result<(), DeliveryError> {
        self.write_batches();
        self.tell(traces);
        self.write_batches();
        if let Some(error) = &self.last_error {
            return Err(DeliveryError::Sink(error.clone()));
        }
        let lost = self.counters.spans_lost.load(Ordering::Relaxed);
        match lost - std::mem::replace(&mut self.lost_told, lost) {
            0 => Ok(()),
            lost => Err(DeliveryError::Lost(lost)),
        }
    }

    /// Tells traces one after the other, for as long as the sink takes what they give.
    fn tell(&mut self, traces: Vec<TraceId>) {
        for id in traces {
            let now = Instant::now();
            // One that is not told now comes again when the sink does.
            if self.retry_at.is_some() {
                self.pending.postpone(id, now);
                continue;
            }
            match self.pending.tell(id, now) {
                Ok(Some(telling)) => self.encode(telling),
                Ok(None) => {}
                Err(error) => tracing::warn!("trace {id} cannot be told now: {error}"),
            }
            if self.batches.len() > 1 {
                self.write_batches();
            }
        }
    }

    fn encode(&mut self, telling: Telling) {
        if telling.events.is_empty() {
            return;
        }
        let mut told = Told { trace: telling.trace, keys: Vec::new(), sessions: telling.sessions, covers: 0 };
        let mut line = Vec::new();
        for (key, event) in telling.events {
            line.clear();
            self.counters.count_event(event.kind, event.dialect);
            let is_truncated = encode_into(event, self.config.policy(), &mut line);
            self.counters.events_truncated.fetch_add(is_truncated.into(), Ordering::Relaxed);
            if self.batches.back().is_none_or(|batch| !batch.has_room(line.len())) {
                let full = Told { keys: std::mem::take(&mut told.keys), ..told.clone() };
                self.batches.back_mut().into_iter().for_each(|batch| batch.note(full.clone()));
                self.batches.push_back(Batch::default());
            }
            if let Some(batch) = self.batches.back_mut() {
                batch.lines.extend_from_slice(&line);
                batch.since.get_or_insert(telling.since);
                told.keys.push(key);
            }
        }
        told.covers = telling.covers;
        self.batches.back_mut().into_iter().for_each(|batch| batch.note(told.clone()));
    }

    fn write_events(&mut self, lines: &[u8]) -> Result<(), DeliveryError> {
        self.write_batches();
        if let Some(error) = &self.last_error {
            return Err(DeliveryError::Sink(error.clone()));
        }
        self.batches.extend(Batch::of(lines));
        self.write_batches();
        match &self.last_error {
            None => Ok(()),
            Some(error) => {
                // Whoever sent them does so again.
                let error = error.clone();
                self.batches.clear();
                self.forget_trouble();
                Err(DeliveryError::Sink(error))
            }
        }
    }

    fn write_batches(&mut self) {
        while let Some(mut batch) = self.batches.pop_front() {
            match self.write(&mut batch) {
                Ok(()) => self.clear_trouble(),
                Err(error) => {
                    self.batches.push_front(batch);
                    self.note_trouble(error);
                    return;
                }
            }
        }
        if self.retry_at.is_none() {
            self.last_error = None;
        }
    }

    fn write(&mut self, batch: &mut Batch) -> Result<(), String> {
        self.counters.sink.wait(batch.since.unwrap_or_else(Instant::now));
        let stem = match &batch.name {
            Name::Own(stem) => Some(stem.clone()),
            Name::None | Name::Numbered(_) => self.pending.store.begin(batch)?,
        };
        let result = self.counters.sink.count(|| {
            let result = match stem {
                Some(stem) => self.sink.write_named(&stem, &batch.lines),
                None => self.sink.write(&batch.lines),
            };
            let written = result.as_ref().map_or_else(SinkError::written, |()| batch.lines.len());
            let lines = batch.lines.drain(..written.min(batch.lines.len())).filter(|byte| *byte == b'\n').count();
            (result, lines as u64)
        });
        result.map_err(|error| error.to_string())?;
        batch.since.into_iter().for_each(|since| self.counters.delay.observe(since.elapsed()));
        self.pending.store.done(batch);
        Ok(())
    }

    fn clear_trouble(&mut self) {
        if self.last_error.is_some() {
            tracing::info!("{} works again", self.sink.describe());
        }
        self.forget_trouble();
    }

    fn forget_trouble(&mut self) {
        (self.last_error, self.retry_at, self.retry_delay) = (None, None, RETRY.0);
        self.counters.is_stalled.store(false, Ordering::Relaxed);
    }

    fn note_trouble(&mut self, error: String) {
        self.counters.is_stalled.store(true, Ordering::Relaxed);
        if self.last_error.is_none() {
            tracing::warn!("{} failed, its events wait: {error}", self.sink.describe());
        }
        self.last_error = Some(error);
        self.retry_at = Some(Instant::now() + self.retry_delay);
        self.retry_delay = (self.retry_delay * 2).min(RETRY.1);
    }
}

/// The result of a flush or a stop in the SDK's words.
pub(crate) fn as_sdk_result(result: Result<(), DeliveryError>) -> OTelSdkResult {
    result.map_err(|error| match error {
        DeliveryError::Stopped => OTelSdkError::AlreadyShutdown,
        DeliveryError::Timeout(timeout) => OTelSdkError::Timeout(timeout),
        DeliveryError::Sink(_) | DeliveryError::Lost(_) => OTelSdkError::InternalFailure(error.to_string()),
    })
}

fn nanoseconds_now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| u64::try_from(since.as_nanos()).unwrap_or(u64::MAX))
}
