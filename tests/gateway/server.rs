//! A real gateway on ports of its own, and clients for it.

use std::io::{BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::{Buf, BufMut, Bytes};
use opentelemetry_failproof::gateway::{Gateway, GatewayError, Options, Summary};
use opentelemetry_failproof::sink::{Sink, SinkError};
use opentelemetry_proto::tonic::collector::trace::v1::trace_service_client::TraceServiceClient;
use opentelemetry_proto::tonic::collector::trace::v1::{ExportTraceServiceRequest, ExportTraceServiceResponse};
use tempfile::TempDir;
use tokio::runtime::Runtime;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;
use tonic::codec::{Codec, CompressionEncoding, DecodeBuf, Decoder, EncodeBuf, Encoder};
use tonic::transport::{Channel, Endpoint};
use tonic::{Request, Status};

pub const EXPORT: &str = "/opentelemetry.proto.collector.trace.v1.TraceService/Export";
pub const PROTOBUF: &str = "application/x-protobuf";
pub const JSON: &str = "application/json";

/// Keeps lines in memory.
#[derive(Clone, Default)]
pub struct Collected(pub Arc<Mutex<Vec<u8>>>);

impl Sink for Collected {
    fn write(&mut self, lines: &[u8]) -> Result<(), SinkError> {
        self.0.lock().unwrap().extend_from_slice(lines);
        Ok(())
    }

    fn describe(&self) -> String {
        "memory".to_owned()
    }
}

pub struct Server {
    pub grpc: SocketAddr,
    pub http: SocketAddr,
    pub runtime: Runtime,
    lines: Collected,
    shutdown: oneshot::Sender<()>,
    serving: JoinHandle<Result<Summary, GatewayError>>,
    data: TempDir,
}

impl Server {
    pub fn start() -> Self {
        Server::start_with(|_| {})
    }

    pub fn start_with(change: impl FnOnce(&mut Options)) -> Self {
        let lines = Collected::default();
        let data = tempfile::tempdir().unwrap();
        let mut options = Options::new(Box::new(lines.clone()), data.path());
        let any = SocketAddr::from(([127, 0, 0, 1], 0));
        (options.grpc, options.http) = (Some(any), Some(any));
        change(&mut options);
        let runtime = Runtime::new().unwrap();
        let gateway = runtime.block_on(Gateway::bind(options)).unwrap();
        let (grpc, http) = (gateway.grpc_addr().unwrap(), gateway.http_addr().unwrap());
        let (shutdown, asked) = oneshot::channel();
        let serving = runtime.spawn(gateway.serve(async {
            let _ = asked.await;
        }));
        Server { grpc, http, runtime, lines, shutdown, serving, data }
    }

    /// Ends it; the lines that it wrote, and what it did.
    pub fn stop(self) -> (String, Summary) {
        self.ask_to_stop().wait()
    }

    pub fn ask_to_stop(self) -> Stopping {
        let Server { runtime, lines, shutdown, serving, data, .. } = self;
        shutdown.send(()).unwrap();
        Stopping { runtime, lines, serving, _data: data }
    }

    pub fn post(&self, content_type: &str, encoding: &str, body: &[u8]) -> Reply {
        post_to(self.http, content_type, encoding, body)
    }

    pub fn ask(&self, what: &str, headers: &str, body: &[u8]) -> Reply {
        ask(self.http, what, headers, body)
    }

    pub fn get(&self, path: &str) -> Reply {
        get(self.http, path)
    }

    pub fn connect(&self) -> TcpStream {
        connect(self.http)
    }

    pub fn export(&self, request: &ExportTraceServiceRequest) -> Result<ExportTraceServiceResponse, Status> {
        self.export_to(self.grpc, None, request)
    }

    pub fn export_to(
        &self,
        address: SocketAddr,
        compression: Option<CompressionEncoding>,
        request: &ExportTraceServiceRequest,
    ) -> Result<ExportTraceServiceResponse, Status> {
        self.runtime.block_on(async {
            let mut client = TraceServiceClient::new(channel(address).await);
            if let Some(compression) = compression {
                client = client.send_compressed(compression);
            }
            client.export(request.clone()).await.map(tonic::Response::into_inner)
        })
    }

    /// Any bytes as the message of a call of any method.
    pub fn call(
        &self,
        path: &'static str,
        compression: Option<CompressionEncoding>,
        message: Bytes,
    ) -> Result<Bytes, Status> {
        self.runtime.block_on(async {
            let mut client = tonic::client::Grpc::new(channel(self.grpc).await);
            if let Some(compression) = compression {
                client = client.send_compressed(compression);
            }
            client.ready().await.unwrap();
            let path = tonic::codegen::http::uri::PathAndQuery::from_static(path);
            client.unary(Request::new(message), path, AsIs).await.map(tonic::Response::into_inner)
        })
    }
}

pub async fn channel(address: SocketAddr) -> Channel {
    Endpoint::from_shared(format!("http://{address}")).unwrap().connect().await.unwrap()
}

pub fn connect(address: SocketAddr) -> TcpStream {
    let stream = TcpStream::connect(address).unwrap();
    stream.set_nodelay(true).unwrap();
    // Only so that a fault fails the test instead of hanging it.
    stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    stream
}

pub fn ask(address: SocketAddr, what: &str, headers: &str, body: &[u8]) -> Reply {
    let mut stream = connect(address);
    let length = body.len();
    write!(stream, "{what} HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: {length}\r\n{headers}\r\n")
        .unwrap();
    stream.write_all(body).unwrap();
    Reply::read(&mut BufReader::new(stream))
}

pub fn get(address: SocketAddr, path: &str) -> Reply {
    ask(address, &format!("GET {path}"), "", b"")
}

pub fn post_to(address: SocketAddr, content_type: &str, encoding: &str, body: &[u8]) -> Reply {
    let encoding = if encoding.is_empty() { String::new() } else { format!("Content-Encoding: {encoding}\r\n") };
    ask(address, "POST /v1/traces", &format!("Content-Type: {content_type}\r\n{encoding}"), body)
}

pub struct Stopping {
    runtime: Runtime,
    lines: Collected,
    serving: JoinHandle<Result<Summary, GatewayError>>,
    _data: TempDir,
}

impl Stopping {
    pub fn block_on<T>(&self, future: impl Future<Output = T>) -> T {
        self.runtime.block_on(future)
    }

    pub fn wait(self) -> (String, Summary) {
        let summary = self.runtime.block_on(self.serving).unwrap().unwrap();
        let lines = self.lines.0.lock().unwrap().clone();
        (String::from_utf8(lines).unwrap(), summary)
    }
}

/// An answer over HTTP/1.1.
pub struct Reply {
    pub status: u16,
    pub body: Vec<u8>,
    headers: Vec<(String, String)>,
}

impl Reply {
    pub fn read(stream: &mut impl BufRead) -> Self {
        let mut line = || {
            let mut line = String::new();
            stream.read_line(&mut line).unwrap();
            line.trim_end().to_owned()
        };
        let status = line();
        let status = status.split(' ').nth(1).unwrap_or_else(|| panic!("no status in {status:?}")).parse().unwrap();
        let mut headers = Vec::new();
        while let Some((name, value)) = line().split_once(": ") {
            headers.push((name.to_ascii_lowercase(), value.to_owned()));
        }
        let mut reply = Reply { status, headers, body: Vec::new() };
        reply.body = vec![0; reply.header("content-length").map_or(0, |length| length.parse().unwrap())];
        stream.read_exact(&mut reply.body).unwrap();
        reply
    }

    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(key, _)| key == name).map(|(_, value)| value.as_str())
    }

    pub fn has_header_of(&self, family: &str) -> bool {
        self.headers.iter().any(|(key, _)| key.starts_with(family))
    }

    pub fn content_type(&self) -> &str {
        self.header("content-type").unwrap_or_default()
    }

    pub fn json(&self) -> serde_json::Value {
        serde_json::from_slice(&self.body).unwrap()
    }
}

/// Hands bytes over as they are.
struct AsIs;

impl Codec for AsIs {
    type Encode = Bytes;
    type Decode = Bytes;
    type Encoder = AsIs;
    type Decoder = AsIs;

    fn encoder(&mut self) -> AsIs {
        AsIs
    }

    fn decoder(&mut self) -> AsIs {
        AsIs
    }
}

impl Encoder for AsIs {
    type Item = Bytes;
    type Error = Status;

    fn encode(&mut self, message: Bytes, buffer: &mut EncodeBuf<'_>) -> Result<(), Status> {
        buffer.put(message);
        Ok(())
    }
}

impl Decoder for AsIs {
    type Item = Bytes;
    type Error = Status;

    fn decode(&mut self, buffer: &mut DecodeBuf<'_>) -> Result<Option<Bytes>, Status> {
        Ok(Some(buffer.copy_to_bytes(buffer.remaining())))
    }
}
