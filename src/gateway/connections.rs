//! Connections: from a listening socket to requests, and to a good end.

use std::convert::Infallible;
use std::io::{self, ErrorKind};
use std::net::SocketAddr;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http_body_util::combinators::BoxBody;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto::Builder;
use hyper_util::server::graceful::GracefulShutdown;
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;

use super::admission::Admission;
use super::{grpc, http};

/// How long requests on their way may take to be answered after the end was asked for.
const IN_FLIGHT_LIMIT: Duration = Duration::from_secs(5);
/// How long the head of an HTTP/1 request may take; also how long such a connection may idle.
const HEADER_LIMIT: Duration = Duration::from_secs(30);
/// How many requests an HTTP/2 connection may carry at once.
const MAX_STREAMS: u32 = 128;
/// How long an HTTP/2 connection may be silent before it is asked whether its client still lives.
const PING_INTERVAL: Duration = Duration::from_secs(60);
/// How long accepting rests when the system is out of descriptors or memory.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// The body of every answer.
pub(super) type Body = BoxBody<Bytes, Infallible>;

/// Serves connections to the sockets until `shutdown` resolves and all requests on their way are answered, or their
/// time is over.
pub(super) async fn serve(
    sockets: [Option<TcpListener>; 2],
    admission: &Arc<Admission>,
    shutdown: impl Future<Output = ()>,
) {
    let builder = builder();
    let graceful = GracefulShutdown::new();
    let mut connections = JoinSet::new();
    let mut shutdown = pin!(shutdown);
    loop {
        let (stream, peer) = tokio::select! {
            () = &mut shutdown => break,
            accepted = accept(sockets[0].as_ref()) => accepted,
            accepted = accept(sockets[1].as_ref()) => accepted,
            Some(_) = connections.join_next() => continue,
        };
        // Answers are small and somebody waits for them.
        let _ = stream.set_nodelay(true);
        let admission = admission.clone();
        let respond = service_fn(move |request| {
            let admission = admission.clone();
            async move {
                let answer = if grpc::is_meant(&request) {
                    grpc::respond(request, &admission, peer).await
                } else {
                    http::respond(request, &admission, peer).await
                };
                Ok::<_, Infallible>(answer)
            }
        });
        let connection = graceful.watch(builder.serve_connection(TokioIo::new(stream), respond).into_owned());
        connections.spawn(async move {
            if let Err(error) = connection.await {
                note_broken(peer, error.as_ref());
            }
        });
    }
    drop(sockets);
    if tokio::time::timeout(IN_FLIGHT_LIMIT, graceful.shutdown()).await.is_err() {
        tracing::warn!(
            "{} connections still open {IN_FLIGHT_LIMIT:?} after the end was asked for: closed",
            connections.len()
        );
    }
    connections.shutdown().await;
}

/// HTTP/1.1 and HTTP/2 on one socket, told apart by how a client starts. What is not set here keeps hyper's defaults,
/// which bound the head of a request and what a client may reset.
fn builder() -> Builder<TokioExecutor> {
    let mut builder = Builder::new(TokioExecutor::new());
    builder.http1().timer(TokioTimer::new()).header_read_timeout(HEADER_LIMIT);
    builder.http2().timer(TokioTimer::new()).max_concurrent_streams(MAX_STREAMS).keep_alive_interval(PING_INTERVAL);
    builder
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

/// Rubbish is worth a word, a client that went away is not.
fn note_broken(peer: SocketAddr, error: &(dyn std::error::Error + Send + Sync + 'static)) {
    if error.downcast_ref::<hyper::Error>().is_some_and(hyper::Error::is_parse) {
        crate::once::warn("no-http", || {
            format!("{peer} speaks neither HTTP/1.1 nor HTTP/2 in the clear: {error}; is it set to use TLS?")
        });
    }
    tracing::debug!("connection from {peer} ended: {error}");
}
