//! Events as they are written, for those who look on: a window of the last lines, which every subscriber reads at its own
//! pace. Whoever is too slow finds lines gone and is told how many; nobody slows the delivery.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, ready};
use std::time::Instant;

use bytes::Bytes;
use hyper::body::{Body, Frame};
use hyper::header::{HeaderMap, HeaderValue};
use prost::Message;
use serde_json::{Map, Value};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};

use super::grpc::framed;
use super::refused::Refused;
use crate::event::EventType;
use crate::proto::{Event, SubscribeRequest, SubscribeResponse, subscribe_response};
use crate::sink::{Progress, Sink, SinkError};

/// How many bytes of lines a slow subscriber can be behind.
const WINDOW_BYTES: usize = 16 << 20;
/// How many subscribers there can be at once.
const SUBSCRIBERS: usize = 64;
/// How many lines that a subscriber does not want are passed over before others have their turn.
const PASSED_OVER: usize = 32;

/// The window and its subscribers.
pub(super) struct Live {
    window: Mutex<Window>,
    /// Says that something was added, or that it is over.
    changed: watch::Sender<()>,
    places: Arc<Semaphore>,
}

#[derive(Default)]
struct Window {
    lines: VecDeque<Bytes>,
    bytes: usize,
    /// The number of the first line, counted from the start.
    first: u64,
    is_closed: bool,
}

impl Live {
    pub fn new() -> Arc<Self> {
        let places = Arc::new(Semaphore::new(SUBSCRIBERS));
        Arc::new(Live { window: Mutex::default(), changed: watch::Sender::new(()), places })
    }

    /// A sink whose lines are shown once they are safe.
    pub fn watch(self: &Arc<Self>, sink: Box<dyn Sink>) -> Box<dyn Sink> {
        Box::new(Watched { sink, live: self.clone() })
    }

    /// Follows all lines from now on.
    pub fn subscribe(self: &Arc<Self>, filter: Filter) -> Result<Subscriber, Refused> {
        let place = self.places.clone().try_acquire_owned();
        let place = place.map_err(|_| Refused::TooManySubscribers { limit: SUBSCRIBERS })?;
        let changed = self.changed.subscribe();
        let next = self.window().end();
        Ok(Subscriber { live: self.clone(), changed, filter, next, _place: place })
    }

    /// Ends all streams.
    pub fn close(&self) {
        self.window().is_closed = true;
        self.changed.send_replace(());
    }

    fn publish(&self, lines: &[u8]) {
        // Held while lines are added: whoever subscribes meanwhile sees all of them or none.
        let mut window = self.window();
        if self.changed.receiver_count() == 0 {
            window.clear();
            return;
        }
        for line in lines.split_inclusive(|byte| *byte == b'\n') {
            window.push(Bytes::copy_from_slice(line));
        }
        drop(window);
        self.changed.send_replace(());
    }

    fn window(&self) -> MutexGuard<'_, Window> {
        self.window.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Window {
    fn push(&mut self, line: Bytes) {
        self.bytes += line.len();
        self.lines.push_back(line);
        while self.bytes > WINDOW_BYTES {
            let Some(gone) = self.lines.pop_front() else { return };
            self.bytes -= gone.len();
            self.first += 1;
        }
    }

    fn clear(&mut self) {
        self.first = self.end();
        self.lines.clear();
        self.bytes = 0;
    }

    /// The number of the line that comes next.
    fn end(&self) -> u64 {
        self.first + self.lines.len() as u64
    }
}

struct Watched {
    sink: Box<dyn Sink>,
    live: Arc<Live>,
}

impl Sink for Watched {
    fn write(&mut self, lines: &[u8]) -> Result<(), SinkError> {
        let result = self.sink.write(lines);
        let written = result.as_ref().map_or_else(SinkError::written, |()| lines.len());
        self.live.publish(lines.get(..written).unwrap_or(lines));
        result
    }

    fn write_named(&mut self, stem: &str, batch: &[u8]) -> Result<(), SinkError> {
        self.sink.write_named(stem, batch).inspect(|()| self.live.publish(batch))
    }

    fn find(&self, stem: &str) -> Result<Option<Vec<u8>>, SinkError> {
        self.sink.find(stem)
    }

    fn describe(&self) -> String {
        self.sink.describe()
    }

    fn close(&mut self, deadline: Instant) -> Result<(), SinkError> {
        self.sink.close(deadline)
    }

    fn progress(&self) -> Vec<Progress> {
        self.sink.progress()
    }
}

/// What a subscriber wants to see.
pub(super) struct Filter {
    session_id: Option<String>,
    agent_id: Option<String>,
    types: Vec<EventType>,
}

impl Filter {
    pub fn new(request: SubscribeRequest) -> Result<Self, Refused> {
        let type_of = |name: &String| {
            EventType::from_name(name).ok_or_else(|| Refused::EventType { found: super::refused::shorten(name) })
        };
        let types = request.types.iter().map(type_of).collect::<Result<_, _>>()?;
        Ok(Filter { session_id: request.session_id, agent_id: request.agent_id, types })
    }

    fn lets_through(&self, event: &Map<String, Value>) -> bool {
        let text = |name: &str| event.get(name).and_then(Value::as_str);
        let is = |wanted: &Option<String>, name: &str| wanted.is_none() || wanted.as_deref() == text(name);
        is(&self.session_id, "session_id")
            && is(&self.agent_id, "agent_id")
            && (self.types.is_empty() || self.types.iter().any(|kind| Some(kind.name()) == text("type")))
    }
}

/// One who follows.
pub(super) struct Subscriber {
    live: Arc<Live>,
    changed: watch::Receiver<()>,
    filter: Filter,
    /// The number of the line that it has not seen yet.
    next: u64,
    _place: OwnedSemaphorePermit,
}

enum Read {
    Line(Bytes),
    Missed(u64),
    Nothing,
    Closed,
}

impl Subscriber {
    /// The stream of what it sees, as the body of an answer.
    pub fn into_body(self) -> impl Body<Data = Bytes, Error = Infallible> + Send + Sync + 'static {
        Following(Some(Box::pin(self.step())))
    }

    /// The next frame, and the subscriber unless it was the last one.
    async fn step(mut self) -> (Option<Self>, Frame<Bytes>) {
        let mut passed_over = 0;
        loop {
            self.changed.mark_unchanged();
            let message = match self.read() {
                Read::Line(line) => self.message(&line),
                Read::Missed(count) => Some(subscribe_response::Message::MissedEvents(count)),
                Read::Closed => return (None, end()),
                // The sender lives as long as `live`.
                Read::Nothing => {
                    let _ = self.changed.changed().await;
                    continue;
                }
            };
            if message.is_some() {
                let frame = framed(&SubscribeResponse { message }.encode_to_vec());
                return (Some(self), Frame::data(frame));
            }
            passed_over += 1;
            if passed_over % PASSED_OVER == 0 {
                tokio::task::yield_now().await;
            }
        }
    }

    fn read(&mut self) -> Read {
        let window = self.live.window();
        let Some(behind) = self.next.checked_sub(window.first) else {
            let missed = window.first - self.next;
            crate::once::warn("subscriber-slow", || format!("a subscriber is too slow: it misses {missed} events"));
            self.next = window.first;
            return Read::Missed(missed);
        };
        match usize::try_from(behind).ok().and_then(|at| window.lines.get(at)) {
            Some(line) => {
                self.next += 1;
                Read::Line(line.clone())
            }
            None if window.is_closed => Read::Closed,
            None => Read::Nothing,
        }
    }

    fn message(&self, line: &[u8]) -> Option<subscribe_response::Message> {
        let event: Map<String, Value> = serde_json::from_slice(line).ok()?;
        if !self.filter.lets_through(&event) {
            return None;
        }
        // What is too big for a message has been missed.
        Some(
            Event::from_object(&event).map_or(subscribe_response::Message::MissedEvents(1), |event| {
                subscribe_response::Message::Event(event)
            }),
        )
    }
}

/// The gateway stops: a client that wants to see more comes back.
fn end() -> Frame<Bytes> {
    let status = tonic::Status::unavailable("the gateway stops");
    let mut trailers = HeaderMap::new();
    if status.add_header(&mut trailers).is_err() {
        trailers.insert("grpc-status", HeaderValue::from_static("14"));
    }
    Frame::trailers(trailers)
}

type Step = Pin<Box<dyn Future<Output = (Option<Subscriber>, Frame<Bytes>)> + Send + Sync>>;

/// A body of frames that come one by one.
struct Following(Option<Step>);

impl Body for Following {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let Some(step) = &mut self.0 else { return Poll::Ready(None) };
        let (subscriber, frame) = ready!(step.as_mut().poll(context));
        self.0 = subscriber.map(|subscriber| Box::pin(subscriber.step()) as Step);
        Poll::Ready(Some(Ok(frame)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all() -> Filter {
        Filter { session_id: None, agent_id: None, types: Vec::new() }
    }

    #[test]
    fn a_subscriber_that_is_too_slow_is_told_how_many_lines_it_missed() {
        let live = Live::new();
        let mut slow = live.subscribe(all()).unwrap();
        let line = [vec![b'x'; WINDOW_BYTES / 4 - 1], vec![b'\n']].concat();
        for _ in 0..3 {
            live.publish(&line);
        }
        assert!(matches!(slow.read(), Read::Line(first) if first == line));
        for _ in 0..4 {
            live.publish(&line);
        }
        assert!(live.window().bytes <= WINDOW_BYTES);
        assert!(matches!(slow.read(), Read::Missed(2)));
        for _ in 0..4 {
            assert!(matches!(slow.read(), Read::Line(_)));
        }
        assert!(matches!(slow.read(), Read::Nothing));
        live.close();
        assert!(matches!(slow.read(), Read::Closed));
    }

    #[test]
    fn nothing_is_kept_for_nobody_and_places_are_given_back() {
        let live = Live::new();
        live.publish(b"{}\n");
        let subscribers: Vec<_> = (0..SUBSCRIBERS).map(|_| live.subscribe(all()).unwrap()).collect();
        assert!(matches!(live.subscribe(all()), Err(Refused::TooManySubscribers { .. })));
        live.publish(b"{}\n{}\n");
        assert_eq!(live.window().lines.len(), 2);
        drop(subscribers);
        let mut late = live.subscribe(all()).unwrap();
        assert!(matches!(late.read(), Read::Nothing), "it sees what is written from now on");
        drop(late);
        live.publish(b"{}\n");
        assert!(live.window().lines.is_empty());
    }
}
