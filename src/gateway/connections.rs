//! Connections: from a listening socket to requests, and to a good end.
//!
//! Every connection is bounded before anything is known of it. So many are served at once; more wait in the system's
//! queue until one ends, which a client sees as a slow start and not as a failure (a 503 would be no answer in a
//! language that a client of HTTP/2 or TLS understands). One that brings no request in time ends, whatever it does
//! instead: nothing at all, half a handshake, half a preface, half a head. So does one that had none for a while.

use std::convert::Infallible;
use std::io::{self, ErrorKind};
use std::net::SocketAddr;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http_body_util::combinators::BoxBody;
use hyper::body::{Frame, Incoming, SizeHint};
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto::Builder;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::timeout;
use tokio_rustls::TlsAcceptor;

use super::access::{Access, Caller};
use super::admission::Admission;
use super::metrics::Transport;
use super::readiness::Hindrance;
use super::refused::Refused;
use super::{grpc, http};

/// How long requests on their way may take to be answered after the end was asked for.
const IN_FLIGHT_LIMIT: Duration = Duration::from_secs(5);
/// How long a connection may be open without a request, after it had one. HTTP/1 has a shorter limit: that of a head.
const IDLE_LIMIT: Duration = Duration::from_secs(300);
/// How many bytes hyper buffers of an HTTP/1 connection, and so how many the head of a request may have.
const MAX_HTTP1_BUFFER: usize = 64 << 10;
/// How many bytes the headers of an HTTP/2 request may have, unpacked.
const MAX_HEADER_LIST_BYTES: u32 = 16 << 10;
/// How many requests an HTTP/2 connection may carry at once.
const MAX_STREAMS: u32 = 128;
/// How many requests a client of HTTP/2 may take back before anybody looked at them.
const MAX_PENDING_RESETS: usize = 20;
/// How many faulty requests of an HTTP/2 connection are answered by a reset before the connection is closed.
const MAX_ERROR_RESETS: usize = 128;
/// How long an HTTP/2 connection may be silent before it is asked whether its client still lives, and how long it may
/// take to say so.
const PING: (Duration, Duration) = (Duration::from_secs(60), Duration::from_secs(20));
/// How long accepting rests when the system is out of descriptors or memory.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// The body of every answer.
pub(super) type Body = BoxBody<Bytes, Infallible>;

/// A failure of a connection, as hyper has it.
type Broken = Box<dyn std::error::Error + Send + Sync>;

/// What connections are served with.
pub(super) struct Service {
    pub admission: Arc<Admission>,
    pub access: Access,
    /// Without it they are in the clear.
    pub tls: Option<TlsAcceptor>,
    /// How many connections are served at once.
    pub max_connections: usize,
    /// How long a client may take until its first request, and for the head of every one.
    pub head_limit: Duration,
}

/// Serves connections to the sockets until `shutdown` resolves and all requests on their way are answered, or their
/// time is over; then runs `drain`. Until that is done, who sends spans is told that it is too late, and who asks how it
/// goes gets an answer.
pub(super) async fn serve<T>(
    sockets: [Option<TcpListener>; 2],
    service: Service,
    shutdown: impl Future<Output = ()>,
    drain: impl Future<Output = T>,
) -> T {
    let service = Arc::new(service);
    let (ending, mut asked) = watch::channel(());
    let mut connections = JoinSet::new();
    serve_until(shutdown, &sockets, &service, &asked, &mut connections).await;
    service.admission.metrics().readiness.set(Hindrance::Draining, true);
    let _ = ending.send(());
    let end = async {
        if timeout(IN_FLIGHT_LIMIT, async { while connections.join_next().await.is_some() {} }).await.is_err() {
            tracing::warn!(
                "{} connections still open {IN_FLIGHT_LIMIT:?} after the end was asked for: closed",
                connections.len()
            );
        }
        connections.shutdown().await;
        drain.await
    };
    asked.mark_unchanged();
    serve_until(end, &sockets, &service, &asked, &mut JoinSet::new()).await
}

/// Serves connections until something is done.
async fn serve_until<T>(
    done: impl Future<Output = T>,
    sockets: &[Option<TcpListener>; 2],
    service: &Arc<Service>,
    asked: &watch::Receiver<()>,
    connections: &mut JoinSet<()>,
) -> T {
    let builder = builder(service.head_limit);
    let mut done = pin!(done);
    loop {
        let has_room = connections.len() < service.max_connections;
        if !has_room {
            note_full(service.max_connections);
        }
        let (stream, peer) = tokio::select! {
            result = &mut done => return result,
            accepted = accept(sockets[0].as_ref()), if has_room => accepted,
            accepted = accept(sockets[1].as_ref()), if has_room => accepted,
            Some(_) = connections.join_next() => continue,
        };
        connections.spawn(connection(stream, peer, service.clone(), builder.clone(), asked.clone()));
    }
}

/// HTTP/1.1 and HTTP/2 on one socket, told apart by how a client starts. Half of these are hyper's own defaults: they
/// bound what anybody may make of us, so they stand here and do not change with a release. Beside them h2 counts frames
/// that carry nothing (CONTINUATION without end, empty DATA) and closes the connection.
fn builder(head_limit: Duration) -> Builder<TokioExecutor> {
    let mut builder = Builder::new(TokioExecutor::new());
    builder.http1().timer(TokioTimer::new()).header_read_timeout(head_limit).max_buf_size(MAX_HTTP1_BUFFER);
    builder
        .http2()
        .timer(TokioTimer::new())
        .max_concurrent_streams(MAX_STREAMS)
        .max_header_list_size(MAX_HEADER_LIST_BYTES)
        .max_pending_accept_reset_streams(MAX_PENDING_RESETS)
        .max_local_error_reset_streams(MAX_ERROR_RESETS)
        .keep_alive_interval(PING.0)
        .keep_alive_timeout(PING.1);
    builder
}

/// Serves a connection to its end.
async fn connection(
    stream: TcpStream,
    peer: SocketAddr,
    service: Arc<Service>,
    builder: Builder<TokioExecutor>,
    mut asked: watch::Receiver<()>,
) {
    // Answers are small and somebody waits for them.
    let _ = stream.set_nodelay(true);
    let _counted = service.admission.metrics().connection();
    let is_local = stream.local_addr().is_ok_and(|address| address.ip().to_canonical().is_loopback());
    let caller = Caller { peer, is_local };
    let result = match &service.tls {
        None => requests(stream, caller, &service, &builder, asked).await,
        Some(tls) => tokio::select! {
            _ = asked.changed() => Ok(()),
            shaken = timeout(service.head_limit, tls.accept(stream)) => match shaken {
                Ok(Ok(stream)) => requests(stream, caller, &service, &builder, asked.clone()).await,
                Ok(Err(error)) => Err(error.into()),
                Err(_) => Err("no TLS handshake in time".into()),
            }
        },
    };
    if let Err(error) = result {
        note_broken(peer, service.tls.is_some(), error.as_ref());
    }
}

/// Serves the requests of a connection until it ends, is asked to, or brings none.
async fn requests(
    stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
    caller: Caller,
    service: &Arc<Service>,
    builder: &Builder<TokioExecutor>,
    mut asked: watch::Receiver<()>,
) -> Result<(), Broken> {
    let in_hand = watch::Sender::new(0);
    let counted = in_hand.subscribe();
    let respond = service_fn(|request: Request<Incoming>| {
        let (in_hand, service) = (InHand::new(&in_hand), service.clone());
        async move {
            let answer = match service.access.check(&request, caller.is_local) {
                Ok(()) if grpc::is_meant(&request) => grpc::respond(request, &service.admission, caller.peer).await,
                Ok(()) => http::respond(request, &service.admission, caller.peer).await,
                Err(refused) => refuse(request, refused, &service.admission, caller.peer).await,
            };
            Ok::<_, Infallible>(answer.map(|body| Body::new(Answer { body, _in_hand: in_hand })))
        }
    });
    let mut connection = pin!(builder.serve_connection(TokioIo::new(stream), respond));
    tokio::select! {
        result = &mut connection => return result,
        _ = asked.changed() => {}
        () = idle(counted, service.head_limit, IDLE_LIMIT) => {}
    }
    connection.as_mut().graceful_shutdown();
    // Who is told to end and does not is not waited for.
    timeout(IN_FLIGHT_LIMIT, connection).await.unwrap_or(Ok(()))
}

/// Answers a request that may not even be looked at, in the form that it has.
async fn refuse(
    request: Request<Incoming>,
    refused: Refused,
    admission: &Admission,
    peer: SocketAddr,
) -> Response<Body> {
    admission.note_refused(&refused, peer);
    if grpc::is_meant(&request) {
        admission.metrics().request(grpc::transport(&request)).answered(Some(&refused));
        grpc::failure(&refused)
    } else {
        admission.metrics().request(Transport::Http).answered(Some(&refused));
        http::refuse(request, &refused).await
    }
}

/// The body of an answer: as long as it goes on, its request does.
struct Answer {
    body: Body,
    _in_hand: InHand,
}

impl hyper::body::Body for Answer {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        Pin::new(&mut self.body).poll_frame(context)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

/// One request of a connection, as long as it is not answered.
struct InHand(watch::Sender<usize>);

impl InHand {
    fn new(count: &watch::Sender<usize>) -> Self {
        count.send_modify(|count| *count += 1);
        InHand(count.clone())
    }
}

impl Drop for InHand {
    fn drop(&mut self) {
        self.0.send_modify(|count| *count -= 1);
    }
}

/// Resolves when there was no request for `first` from now on, or for `later` since the last one was answered.
async fn idle(mut in_hand: watch::Receiver<usize>, first: Duration, later: Duration) {
    let mut limit = first;
    loop {
        let is_idle = *in_hand.borrow_and_update() == 0;
        let change = in_hand.changed();
        if is_idle {
            match timeout(limit, change).await {
                Ok(_) => limit = later,
                Err(_) => return,
            }
        } else if change.await.is_err() {
            return;
        }
    }
}

/// The next connection. There is never one without a socket.
async fn accept(socket: Option<&TcpListener>) -> (TcpStream, SocketAddr) {
    let Some(socket) = socket else { return std::future::pending().await };
    loop {
        match socket.accept().await {
            Ok(accepted) => return accepted,
            Err(error) if is_gone(&error) => {}
            // Out of descriptors or memory: connections that end give some back.
            Err(error) => {
                crate::once::warn("accept", || format!("cannot accept connections for now: {error}"));
                tokio::time::sleep(ACCEPT_PAUSE).await;
            }
        }
    }
}

/// Whether the client gave the connection up before it was accepted.
fn is_gone(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::ConnectionAborted | ErrorKind::ConnectionRefused | ErrorKind::ConnectionReset)
}

fn note_full(limit: usize) {
    crate::once::warn("connections-full", || {
        format!("{limit} connections are open, as many as are served at once: more wait until one ends")
    });
}

/// Rubbish is worth a word, a client that went away is not.
fn note_broken(peer: SocketAddr, is_tls: bool, error: &(dyn std::error::Error + Send + Sync + 'static)) {
    if error.downcast_ref::<hyper::Error>().is_some_and(hyper::Error::is_parse) {
        let hint = if is_tls { "" } else { " in the clear; is it set to use TLS?" };
        crate::once::warn("no-http", || format!("{peer} speaks neither HTTP/1.1 nor HTTP/2: {error}{hint}"));
    }
    if is_tls && error.downcast_ref::<io::Error>().is_some_and(|error| error.kind() == ErrorKind::InvalidData) {
        crate::once::warn("no-tls", || {
            format!(
                "no TLS with {peer}: {error}; is it set to use https, and does it trust and show the right certificates?"
            )
        });
    }
    tracing::debug!("connection from {peer} ended: {error}");
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    const NOW: Duration = Duration::ZERO;
    const NEVER: Duration = Duration::from_secs(1 << 30);

    #[tokio::test]
    async fn a_connection_is_idle_before_its_first_request_and_after_its_last() {
        let count = watch::Sender::new(0);
        idle(count.subscribe(), NOW, NEVER).await;

        let (first, second) = (InHand::new(&count), InHand::new(&count));
        let mut waiting = pin!(idle(count.subscribe(), NOW, NOW));
        assert!(timeout(Duration::from_millis(20), &mut waiting).await.is_err(), "two requests");
        drop(first);
        assert!(timeout(Duration::from_millis(20), &mut waiting).await.is_err(), "one request");
        drop(second);
        waiting.await;

        let mut waiting = pin!(idle(count.subscribe(), NEVER, NOW));
        assert!(timeout(Duration::from_millis(20), &mut waiting).await.is_err(), "its first may come");
        drop(InHand::new(&count));
        waiting.await;
    }
}
