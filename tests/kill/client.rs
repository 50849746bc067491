//! A program that exports: over gRPC or HTTP, to a gateway that may be gone at any moment.

use std::io::{BufRead, BufReader, Write};
use std::net::TcpStream;
use std::time::Duration;

use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest as Request;
use opentelemetry_proto::tonic::collector::trace::v1::trace_service_client::TraceServiceClient;
use prost::Message;
use tokio::runtime::Runtime;
use tonic::transport::{Channel, Endpoint};

/// How a request travels.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    Grpc,
    Protobuf,
    Json,
}

/// All ways.
pub const WAYS: [Way; 3] = [Way::Grpc, Way::Protobuf, Way::Json];

/// Where a gateway serves.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Addresses {
    pub grpc: String,
    pub http: String,
}

impl Addresses {
    pub fn of(gateway: &super::support::serving::Gateway) -> Self {
        Addresses { grpc: gateway.grpc.clone(), http: gateway.http.clone() }
    }
}

/// Why a request was not acknowledged, in words.
pub type Unsent = String;

/// Connections to one gateway, made when they are needed.
pub struct Client {
    runtime: Runtime,
    addresses: Addresses,
    grpc: Option<TraceServiceClient<Channel>>,
    http: Option<BufReader<TcpStream>>,
}

/// Longer than any answer takes: so that a fault fails the test instead of hanging it.
const PATIENCE: Duration = Duration::from_secs(60);

impl Client {
    pub fn new(addresses: Addresses) -> Self {
        // A thread of its own, so that the connection lives while nothing is sent.
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        Client { runtime, addresses, grpc: None, http: None }
    }

    /// Returns when the request was acknowledged, with all its spans.
    pub fn send(&mut self, way: Way, request: &Request) -> Result<(), Unsent> {
        match way {
            Way::Grpc => self.export(request),
            Way::Protobuf => self.post("application/x-protobuf", &request.encode_to_vec()),
            Way::Json => self.post("application/json", &serde_json::to_vec(request).unwrap()),
        }
    }

    /// Sends it, again and again until it is acknowledged.
    pub fn insist(&mut self, way: Way, request: &Request) {
        while self.send(way, request).is_err() {
            // Refused for now; as a client does that is told to come again.
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// Sends it over HTTP and goes before the answer comes.
    pub fn send_and_go(&self, request: &Request) {
        let mut stream = TcpStream::connect(&self.addresses.http).unwrap();
        write(&mut stream, "application/x-protobuf", &request.encode_to_vec()).unwrap();
    }

    /// What `GET` answers, if it is a success.
    pub fn get(&self, path: &str) -> Result<String, Unsent> {
        let mut stream = TcpStream::connect(&self.addresses.http).map_err(in_words)?;
        stream.set_read_timeout(Some(PATIENCE)).map_err(in_words)?;
        write!(stream, "GET {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n").map_err(in_words)?;
        answer(&mut BufReader::new(stream))
    }

    /// Any bytes as a request over HTTP.
    pub fn post(&mut self, content_type: &str, body: &[u8]) -> Result<(), Unsent> {
        let mut stream = match self.http.take() {
            Some(stream) => stream,
            None => BufReader::new(TcpStream::connect(&self.addresses.http).map_err(in_words)?),
        };
        stream.get_ref().set_read_timeout(Some(PATIENCE)).map_err(in_words)?;
        stream.get_ref().set_nodelay(true).map_err(in_words)?;
        write(stream.get_mut(), content_type, body).map_err(in_words)?;
        let answer = answer(&mut stream)?;
        assert!(answer.is_empty() || answer == "{}", "not all was taken: {answer}");
        self.http = Some(stream);
        Ok(())
    }

    fn export(&mut self, request: &Request) -> Result<(), Unsent> {
        let Client { runtime, addresses, grpc, .. } = self;
        runtime.block_on(async {
            let mut client = match grpc.take() {
                Some(client) => client,
                None => {
                    let endpoint = Endpoint::from_shared(format!("http://{}", addresses.grpc)).unwrap();
                    TraceServiceClient::new(endpoint.timeout(PATIENCE).connect().await.map_err(in_words)?)
                }
            };
            let response = client.export(request.clone()).await.map_err(in_words)?;
            assert_eq!(response.into_inner().partial_success, None);
            *grpc = Some(client);
            Ok(())
        })
    }
}

fn write(stream: &mut TcpStream, content_type: &str, body: &[u8]) -> std::io::Result<()> {
    let length = body.len();
    let mut request = format!(
        "POST /v1/traces HTTP/1.1\r\nHost: x\r\nContent-Type: {content_type}\r\nContent-Length: {length}\r\n\r\n"
    )
    .into_bytes();
    request.extend_from_slice(body);
    stream.write_all(&request)
}

/// The body of an answer that is a success and came whole.
fn answer(stream: &mut impl BufRead) -> Result<String, Unsent> {
    let mut line = || {
        let mut line = String::new();
        match stream.read_line(&mut line) {
            Ok(_) if line.ends_with("\r\n") => Ok(line.trim_end().to_owned()),
            Ok(_) => Err("the connection ended".to_owned()),
            Err(error) => Err(in_words(error)),
        }
    };
    let status = line()?;
    let mut length = 0;
    while let Some((name, value)) = line()?.split_once(": ") {
        if name.eq_ignore_ascii_case("content-length") {
            length = value.parse().unwrap();
        }
    }
    let mut body = vec![0; length];
    stream.read_exact(&mut body).map_err(in_words)?;
    if !status.contains(" 200 ") {
        return Err(status);
    }
    String::from_utf8(body).map_err(in_words)
}

fn in_words(error: impl ToString) -> Unsent {
    error.to_string()
}
