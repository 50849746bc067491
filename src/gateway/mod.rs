//! The OTLP server: spans from other processes, over gRPC and HTTP, become events in a sink.
//!
//! | module | does |
//! |---|---|
//! | `connections` | accepts connections, speaks HTTP/1.1 and HTTP/2 on them, ends them in good order |
//! | `guards`, `access` | who may talk to the gateway: loopback, certificates, tokens, and no web pages |
//! | `tls`, `secret` | certificates and keys from files, files that nobody else may read |
//! | `grpc`, `http` | the two transports: what a request says, and how an answer is written |
//! | `body` | reads a body within a size and a time |
//! | `in_flight` | how many bytes of requests are in memory at once |
//! | `admission` | unpacks and decodes, has the journal keep the spans, hands over to the delivery: the same for both |
//! | `journal` | keeps spans on disk, from before they are acknowledged until they are told |
//! | `events` | `EventService`: takes events that others made, once each |
//! | `live` | shows events as they are written |
//! | `refused` | why a request is not taken, and which status that is: the same for both transports |
//! | `metrics`, `readiness` | what is counted, and whether requests can be taken, for `/metrics` and `/readyz` |
//! | `messages` | the few protobuf messages of the answers |
//!
//! gRPC is served without generated code: a request is one message behind five bytes, and this way both transports
//! share one bounded path from the body to the decoder, which borrows from the very bytes that arrived. Both are served at both addresses, for a request says which it is: a client with the wrong port is served all the same.

mod access;
mod admission;
mod body;
mod connections;
mod events;
mod grpc;
mod guards;
mod http;
mod in_flight;
mod journal;
mod live;
mod messages;
mod metrics;
mod readiness;
mod refused;
mod secret;
mod tls;

use std::fmt;
use std::io::{self, ErrorKind};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use tokio::net::TcpListener;

use self::admission::{Admission, Room};
use self::body::Limits;
use self::connections::Service;
use self::events::EventService;
pub use self::guards::Guards;
use self::in_flight::InFlight;
use self::live::Live;
use self::metrics::Metrics;
pub use self::tls::Tls;
use crate::config::Config;
use crate::delivery::{Delivery, DeliveryError};
use crate::sink::Sink;
use crate::trace::Timing;
use crate::trace::pending::{Bounds, Tell};

/// Where OTLP/gRPC is served.
pub(crate) const DEFAULT_GRPC: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 4317);
/// Where OTLP/HTTP is served.
pub(crate) const DEFAULT_HTTP: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 4318);
/// How many bytes a request may have, before and after decompression: what the OTLP specification recommends.
pub(crate) const DEFAULT_MAX_BODY_BYTES: usize = 64 << 20;
/// How many connections are served at once.
pub(crate) const DEFAULT_MAX_CONNECTIONS: usize = 1_024;
/// How many bytes of requests are in memory at once: two of the largest that are compressed, or thousands of usual ones.
pub(crate) const DEFAULT_MAX_IN_FLIGHT_BYTES: usize = 256 << 20;
/// How long the head of a request may take to arrive, and then its body.
pub(crate) const DEFAULT_READ_TIMEOUT: Duration = Duration::from_secs(30);
/// How many bytes of memory the notes about spans that wait take.
pub(crate) const DEFAULT_MAX_WAITING_BYTES: usize = 26 << 20;
/// How many bytes the journal has.
pub(crate) const DEFAULT_MAX_JOURNAL_BYTES: u64 = 2 << 30;
/// More spans of one trace than nearly any run of an agent has. They are mapped at once, which takes about 7 KB of memory
/// each: so many keep a process with a full waiting room below 64 MiB.
pub(crate) const DEFAULT_MAX_TRACE_SPANS: usize = 3_072;
/// How many bytes one trace has at most, however few its spans are.
const MAX_TRACE_BYTES: usize = 64 << 20;
/// How long the sink may take for all that is left at the end.
pub(crate) const DEFAULT_DRAIN_TIMEOUT: Duration = Duration::from_secs(20);

/// What a [`Gateway`] is made of. Start from [`Options::new`] and change what shall differ.
#[non_exhaustive]
pub struct Options {
    /// Where OTLP/gRPC is served; port 0 lets the system choose. 127.0.0.1:4317 by default.
    pub grpc: Option<SocketAddr>,
    /// Where OTLP/HTTP is served; port 0 lets the system choose. 127.0.0.1:4318 by default.
    pub http: Option<SocketAddr>,
    /// How many bytes a request may have, before and after decompression. 64 MiB by default.
    pub max_body_bytes: usize,
    /// How long a client may take for its handshake, for the head of a request, and for its body. 30 seconds by default.
    pub read_timeout: Duration,
    /// How many connections are served at once; more wait until one ends. 1,024 by default.
    pub max_connections: usize,
    /// How many bytes of requests may be in memory at once, as they arrived and unpacked; what is more is refused for now.
    /// The requests of one address get half of it. 256 MiB by default; less than twice [`Options::max_body_bytes`] counts
    /// as that much.
    pub max_in_flight_bytes: usize,
    /// Who may talk to the gateway: whoever reaches its loopback addresses, by default.
    pub guards: Guards,
    /// The directory where spans are safe before they are acknowledged. One gateway at a time uses it; the next one goes on
    /// from there.
    pub data_dir: PathBuf,
    /// How many bytes the journal in the data directory may have; beyond, requests are refused until some are told. What
    /// was told is forgotten earlier, and what waits longest told early, before it comes to that. 2 GiB by default.
    pub max_journal_bytes: u64,
    /// How many bytes of memory the notes about spans that wait for the rest of their trace may take; beyond, the oldest
    /// traces are written as they are. 26 MiB by default: some 80,000 traces.
    pub max_waiting_bytes: usize,
    /// How many spans of one trace are mapped at once, which takes about 7 KB of memory each; a trace that has more is told
    /// in parts. 3,072 by default.
    pub max_trace_spans: usize,
    /// How long the sink may take at the end for all that is left. 20 seconds by default.
    pub drain_timeout: Duration,
    /// How long spans wait for the rest of their trace.
    pub timing: Timing,
    /// How spans become events.
    pub config: Config,
    /// Where the events go.
    pub sink: Box<dyn Sink>,
}

impl Options {
    /// The defaults, with events going to `sink`, and spans that wait in `data_dir`.
    pub fn new(sink: Box<dyn Sink>, data_dir: impl Into<PathBuf>) -> Self {
        Options {
            data_dir: data_dir.into(),
            max_journal_bytes: DEFAULT_MAX_JOURNAL_BYTES,
            grpc: Some(DEFAULT_GRPC),
            http: Some(DEFAULT_HTTP),
            max_body_bytes: DEFAULT_MAX_BODY_BYTES,
            read_timeout: DEFAULT_READ_TIMEOUT,
            max_connections: DEFAULT_MAX_CONNECTIONS,
            max_in_flight_bytes: DEFAULT_MAX_IN_FLIGHT_BYTES,
            guards: Guards::default(),
            max_waiting_bytes: DEFAULT_MAX_WAITING_BYTES,
            max_trace_spans: DEFAULT_MAX_TRACE_SPANS,
            drain_timeout: DEFAULT_DRAIN_TIMEOUT,
            timing: Timing::default(),
            config: Config::default(),
            sink,
        }
    }
}

/// A server that has its addresses and waits to serve.
pub struct Gateway {
    grpc: Option<Listener>,
    http: Option<Listener>,
    service: Service,
    drain_timeout: Duration,
}

/// Looks at a gateway, from anywhere.
#[derive(Clone)]
pub struct Monitor {
    admission: Arc<Admission>,
}

impl Monitor {
    /// What it did until now.
    pub fn summary(&self) -> Summary {
        self.admission.summary()
    }

    /// What it has taken and not written yet, in words.
    pub fn left(&self) -> String {
        self.admission.metrics().left()
    }
}

struct Listener {
    socket: TcpListener,
    address: SocketAddr,
}

/// What a gateway did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Summary {
    /// Requests with spans that were taken, at least in part.
    pub requests: u64,
    /// Requests that were refused as a whole.
    pub refused: u64,
    /// Spans that were taken.
    pub spans: u64,
    /// Spans that were rejected while their neighbours were taken.
    pub rejected_spans: u64,
    /// Events from others that were rejected while their neighbours were taken.
    pub rejected_events: u64,
    /// Events that were written.
    pub events: u64,
    /// Spans that were lost because the sink failed for too long.
    pub spans_lost: u64,
}

/// Why a gateway cannot start, or has not ended well.
#[derive(Debug, thiserror::Error)]
pub enum GatewayError {
    /// Neither address was given.
    #[error("nothing to listen on; give an address for gRPC, for HTTP or for both")]
    NoAddress,
    /// An address that others can reach, and nothing that says who may write.
    #[error(
        "{0} can be reached by others, and whoever reaches it could write events; give a file of tokens \
         (--auth-token-file) or authorities of clients (--tls-client-ca), listen on 127.0.0.1, or accept it \
         (--insecure-no-auth)"
    )]
    Unguarded(SocketAddr),
    /// A file of tokens, certificates or keys that is of no use.
    #[error("{} cannot be {purpose}: {problem}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// What it should have been.
        purpose: &'static str,
        /// What is wrong with it.
        problem: String,
    },
    /// An address cannot be listened on.
    #[error("cannot listen on {address} for {transport}: {source}; {}", remedy(source))]
    Listen {
        /// The address.
        address: SocketAddr,
        /// What for: OTLP/gRPC or OTLP/HTTP.
        transport: &'static str,
        /// What the system says.
        source: io::Error,
    },
    /// The data directory is of no use, or another gateway uses it.
    #[error("{0}")]
    Journal(String),
    /// The system gives no thread for the delivery.
    #[error("cannot start the thread that writes events: {0}; allow this process more threads or memory")]
    Thread(#[source] io::Error),
    /// At the end some events could not be written.
    #[error("not all events were written: {source} ({summary})")]
    Undelivered {
        /// What the delivery says.
        source: DeliveryError,
        /// What was done until then.
        summary: Summary,
    },
}

impl Gateway {
    /// Opens the addresses. Connections wait in the system's queue until [`Gateway::serve`].
    ///
    /// # Errors
    /// If an address cannot be listened on or others could write there unasked, a file of tokens or keys is of no use,
    /// or no thread can be started.
    pub async fn bind(options: Options) -> Result<Self, GatewayError> {
        if options.grpc.is_none() && options.http.is_none() {
            return Err(GatewayError::NoAddress);
        }
        let (guards, addresses) = (options.guards, [options.grpc, options.http]);
        let loaded = tokio::task::spawn_blocking(move || guards.load(addresses.into_iter().flatten())).await;
        let (access, tls) = loaded.map_err(|error| GatewayError::Thread(io::Error::other(error)))??;
        let grpc = Listener::open(options.grpc, "OTLP/gRPC").await?;
        let http = Listener::open(options.http, "OTLP/HTTP").await?;
        let tell = Tell::WhenDue(options.timing);
        let (data_dir, max_bytes) = (options.data_dir, options.max_journal_bytes);
        let opened = tokio::task::spawn_blocking(move || journal::open(&data_dir, max_bytes)).await;
        let opened = opened.map_err(|error| GatewayError::Thread(io::Error::other(error)))?;
        let (journal, store) = opened.map_err(|error| GatewayError::Journal(error.to_string()))?;
        let live = Live::new();
        let events = EventService::new(options.config.policy(), live.clone());
        let bounds = Bounds {
            bytes: options.max_waiting_bytes,
            trace_spans: options.max_trace_spans,
            trace_bytes: MAX_TRACE_BYTES,
        };
        let queues = options.sink.progress();
        let sink = live.watch(options.sink);
        let delivery = Delivery::start(options.config, store, tell, bounds, sink).map_err(GatewayError::Thread)?;
        let room = Room { journal: options.max_journal_bytes, memory: options.max_waiting_bytes };
        let metrics = Metrics::new(delivery.counters().clone(), journal.clone(), room.journal, queues);
        let limits = Limits {
            bytes: options.max_body_bytes,
            time: options.read_timeout,
            in_flight: InFlight::new(options.max_in_flight_bytes, options.max_body_bytes),
        };
        let service = Service {
            admission: Arc::new(Admission::new(delivery, journal, room, events, limits, Arc::new(metrics))),
            access,
            tls,
            max_connections: options.max_connections.max(1),
            head_limit: options.read_timeout,
        };
        Ok(Gateway { grpc, http, service, drain_timeout: options.drain_timeout })
    }

    /// Looks at it while it serves.
    pub fn monitor(&self) -> Monitor {
        Monitor { admission: self.service.admission.clone() }
    }

    /// Where OTLP/gRPC is served, with the real port; `None` if it was not asked for.
    pub fn grpc_addr(&self) -> Option<SocketAddr> {
        self.grpc.as_ref().map(|listener| listener.address)
    }

    /// Where OTLP/HTTP is served, with the real port; `None` if it was not asked for.
    pub fn http_addr(&self) -> Option<SocketAddr> {
        self.http.as_ref().map(|listener| listener.address)
    }

    /// Serves until `shutdown` resolves. Then no more spans are taken, requests on their way get five seconds to be
    /// answered, and all spans that wait become events in the sink. `/readyz` says meanwhile that it ends.
    ///
    /// # Errors
    /// If not all events could be written at the end.
    pub async fn serve(self, shutdown: impl Future<Output = ()>) -> Result<Summary, GatewayError> {
        let sockets = [self.grpc, self.http].map(|listener| listener.map(|listener| listener.socket));
        let admission = self.service.admission.clone();
        let shutdown = async {
            shutdown.await;
            // Streams that have no end would keep their connections open.
            admission.events().close();
        };
        let (stopping, limit) = (admission.clone(), self.drain_timeout);
        // The sink blocks: not on a thread that runs tasks.
        let drain = async { tokio::task::spawn_blocking(move || stopping.stop(limit)).await };
        let stopped = connections::serve(sockets, self.service, shutdown, drain).await;
        let summary = admission.summary();
        match stopped.unwrap_or(Err(DeliveryError::Stopped)) {
            // Batches that found the queue full were refused, and their clients told to send them again.
            Ok(()) | Err(DeliveryError::Lost(_)) => Ok(summary),
            Err(source) => Err(GatewayError::Undelivered { source, summary }),
        }
    }
}

impl Listener {
    async fn open(address: Option<SocketAddr>, transport: &'static str) -> Result<Option<Self>, GatewayError> {
        let Some(address) = address else { return Ok(None) };
        let opened = async {
            let socket = TcpListener::bind(address).await?;
            Ok(Listener { address: socket.local_addr()?, socket })
        };
        opened.await.map(Some).map_err(|source| GatewayError::Listen { address, transport, source })
    }
}

impl fmt::Display for Summary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Summary { requests, refused, spans, rejected_spans, spans_lost, rejected_events, events } = self;
        write!(f, "{requests} requests taken, {refused} refused; {spans} spans taken, {rejected_spans} rejected, ")?;
        write!(f, "{spans_lost} lost; {events} events written, {rejected_events} rejected")
    }
}

fn remedy(cause: &io::Error) -> &'static str {
    match cause.kind() {
        ErrorKind::AddrInUse => {
            "stop the program that listens there (another gateway, a Collector?), or choose another port"
        }
        ErrorKind::AddrNotAvailable => "choose an address that this machine has",
        ErrorKind::PermissionDenied => "choose a port from 1024 up, or allow this user the lower ones",
        _ => "choose another address",
    }
}
