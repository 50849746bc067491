//! The gateway, as real clients meet it.
#![cfg(feature = "gateway")]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod access;
mod connections;
mod events;
mod hostile;
mod operation;
mod refusals;
mod server;
#[path = "../support/mod.rs"]
mod support;
mod tls;

use std::io::{BufReader, Read, Write};
use std::sync::mpsc;
use std::time::Duration;

use opentelemetry_failproof::Policy;
use opentelemetry_failproof::gateway::{Gateway, Options};
use opentelemetry_failproof::sink::{Sink, SinkError};
use opentelemetry_failproof::trace::Mapping;
use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::tonic::trace::v1::Span;
use prost::Message;
use serde_json::{Value, json};
use server::{Collected, EXPORT, JSON, PROTOBUF, Reply, Server, get, post_to};
use tonic::Code;
use tonic::codec::CompressionEncoding;

/// An agent with two model calls and tools, as Pydantic AI's exporter sends it.
fn recording() -> Vec<u8> {
    std::fs::read(support::fixtures("gateway").join("spans.otlp.json")).unwrap()
}

fn request() -> ExportTraceServiceRequest {
    serde_json::from_slice(&recording()).unwrap()
}

fn expected() -> String {
    let lines = support::lines(&support::spans_of(&recording()), &Mapping::default(), Policy::default());
    assert!(lines.lines().count() > 5, "{lines}");
    lines
}

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

fn zstd(bytes: &[u8]) -> Vec<u8> {
    zstd::encode_all(bytes, 3).unwrap()
}

/// One request for each span.
fn one_by_one() -> Vec<ExportTraceServiceRequest> {
    let mut requests = Vec::new();
    for resource_spans in request().resource_spans {
        for scope_spans in &resource_spans.scope_spans {
            for span in &scope_spans.spans {
                let mut resource_spans = resource_spans.clone();
                let mut scope_spans = scope_spans.clone();
                scope_spans.spans = vec![span.clone()];
                resource_spans.scope_spans = vec![scope_spans];
                requests.push(ExportTraceServiceRequest { resource_spans: vec![resource_spans] });
            }
        }
    }
    requests
}

/// The span's last event waits for the sink, and the sink waits for the test.
struct Stuck {
    is_stuck: mpsc::Sender<()>,
    go_on: mpsc::Receiver<()>,
    lines: Collected,
}

impl Sink for Stuck {
    fn write(&mut self, lines: &[u8]) -> Result<(), SinkError> {
        let _ = self.is_stuck.send(());
        let _ = self.go_on.recv();
        self.lines.write(lines)
    }

    fn describe(&self) -> String {
        "a sink that is stuck".to_owned()
    }
}

#[test]
fn the_same_spans_give_the_same_lines_over_every_transport() {
    let over_grpc = |server: &Server, compression| {
        let response = server.export_to(server.grpc, compression, &request()).unwrap();
        assert_eq!(response.partial_success, None);
    };
    let over_http = |server: &Server, content_type: &str, encoding: &str, body: &[u8]| {
        let reply = server.post(content_type, encoding, body);
        assert_eq!((reply.status, reply.content_type()), (200, content_type.split(';').next().unwrap()));
        let nothing: &[u8] = if reply.content_type() == JSON { b"{}" } else { b"" };
        assert_eq!(reply.body, nothing);
    };
    type Way<'a> = (&'static str, &'a dyn Fn(&Server));
    let ways: [Way<'_>; 9] = [
        ("gRPC", &|server| over_grpc(server, None)),
        ("gRPC, gzip", &|server| over_grpc(server, Some(CompressionEncoding::Gzip))),
        ("gRPC, zstd", &|server| over_grpc(server, Some(CompressionEncoding::Zstd))),
        ("protobuf", &|server| over_http(server, PROTOBUF, "", &request().encode_to_vec())),
        ("protobuf, gzip", &|server| over_http(server, PROTOBUF, "gzip", &gzip(&request().encode_to_vec()))),
        ("protobuf, zstd", &|server| over_http(server, PROTOBUF, "zstd", &zstd(&request().encode_to_vec()))),
        ("JSON", &|server| over_http(server, "application/json; charset=utf-8", "identity", &recording())),
        ("JSON, gzip", &|server| over_http(server, JSON, "GZIP", &gzip(&recording()))),
        ("JSON, zstd", &|server| over_http(server, JSON, "zstd", &zstd(&recording()))),
    ];
    let expected = expected();
    for (way, send) in ways {
        let server = Server::start();
        send(&server);
        let (lines, summary) = server.stop();
        assert_eq!(lines, expected, "{way}");
        assert_eq!((summary.requests, summary.refused), (1, 0), "{way}");
        assert_eq!(summary.events, expected.lines().count() as u64, "{way}");
    }
}

#[test]
fn spans_that_come_in_several_requests_and_transports_give_the_same_lines() {
    let server = Server::start();
    for (index, request) in one_by_one().iter().enumerate() {
        match index % 3 {
            0 => assert_eq!(server.export(request).unwrap().partial_success, None),
            1 => assert_eq!(server.post(PROTOBUF, "gzip", &gzip(&request.encode_to_vec())).status, 200),
            _ => assert_eq!(server.post(JSON, "", &serde_json::to_vec(request).unwrap()).status, 200),
        }
    }
    assert_eq!(server.stop().0, expected());
}

#[test]
fn each_address_takes_either_transport() {
    let mut server = Server::start();
    assert_eq!(server.export_to(server.http, None, &request()).unwrap().partial_success, None);
    server.http = server.grpc;
    assert_eq!(server.post(JSON, "", &recording()).status, 200);
    let (lines, summary) = server.stop();
    assert_eq!((lines, summary.requests), (expected(), 2));
}

#[test]
fn a_request_without_spans_is_a_success() {
    let server = Server::start();
    assert_eq!(server.export(&ExportTraceServiceRequest::default()).unwrap().partial_success, None);
    assert_eq!(server.call(EXPORT, None, Default::default()).unwrap(), "");
    let reply = server.post(PROTOBUF, "", b"");
    assert_eq!((reply.status, reply.content_type(), reply.body.as_slice()), (200, PROTOBUF, &b""[..]));
    for body in ["{}", r#"{"resourceSpans":[]}"#] {
        let reply = server.post(JSON, "", body.as_bytes());
        assert_eq!((reply.status, reply.content_type(), reply.json()), (200, JSON, json!({})));
    }
    let (lines, summary) = server.stop();
    assert_eq!((lines.as_str(), summary.requests, summary.spans), ("", 5, 0));
}

#[test]
fn a_bad_span_is_told_with_its_place_and_takes_no_neighbour_along() {
    // The last span is the root: the good ones become events without it.
    let mut damaged = request();
    let spans = &mut damaged.resource_spans[0].scope_spans[0].spans;
    spans.insert(1, Span { trace_id: vec![7; 15], span_id: vec![7; 8], name: "broken".to_owned(), ..Span::default() });
    let place = "resourceSpans[0].scopeSpans[0].spans[1] (broken)";

    let server = Server::start();
    let partial = server.export(&damaged).unwrap().partial_success.unwrap();
    assert_eq!(partial.rejected_spans, 1);
    assert!(partial.error_message.starts_with(place), "{}", partial.error_message);

    let reply = server.post(PROTOBUF, "", &damaged.encode_to_vec());
    let response = opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceResponse::decode(&*reply.body);
    assert_eq!((reply.status, response.unwrap().partial_success), (200, Some(partial)));

    let reply = server.post(JSON, "", &serde_json::to_vec(&damaged).unwrap());
    let partial = &reply.json()["partialSuccess"];
    assert_eq!((reply.status, &partial["rejectedSpans"]), (200, &json!("1")));
    assert!(partial["errorMessage"].as_str().unwrap().starts_with(place), "{partial}");

    let (lines, summary) = server.stop();
    assert_eq!((lines, summary.requests, summary.rejected_spans), (expected(), 3, 3));
}

#[test]
fn what_is_left_out_of_good_spans_is_told_as_a_warning() {
    let mut document: Value = serde_json::from_slice(&recording()).unwrap();
    document["resourceSpans"][0]["resource"]["attributes"][0]["value"] = json!({"intValue": "many"});
    let server = Server::start();
    let partial = &server.post(JSON, "", document.to_string().as_bytes()).json()["partialSuccess"];
    assert_eq!(partial["rejectedSpans"], json!("0"));
    assert!(partial["errorMessage"].as_str().unwrap().contains("resourceSpans[0].resource"), "{partial}");
    assert_eq!(server.stop().0, expected());
}

#[test]
fn a_request_on_its_way_is_answered_when_the_end_is_asked_for() {
    let server = Server::start();
    let address = server.http;
    let body = recording();
    let mut stream = server.connect();
    let length = body.len();
    write!(stream, "POST /v1/traces HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n").unwrap();
    write!(stream, "Content-Length: {length}\r\nExpect: 100-continue\r\n\r\n").unwrap();
    let mut reader = BufReader::new(stream.try_clone().unwrap());
    assert_eq!(Reply::read(&mut reader).status, 100);

    let (first, rest) = body.split_at(1_000);
    stream.write_all(first).unwrap();
    let stopping = server.ask_to_stop();
    operation::wait_until(|| get(address, "/readyz").status == 503);
    assert_eq!(get(address, "/readyz").body, b"draining: the end was asked for\n");
    let refused = post_to(address, JSON, "", &body);
    assert_eq!((refused.status, refused.header("retry-after")), (503, Some("1")));
    assert_eq!(get(address, "/healthz").status, 200);
    stream.write_all(rest).unwrap();
    let reply = Reply::read(&mut reader);
    assert_eq!((reply.status, reply.header("connection")), (200, Some("close")));
    assert_eq!(stopping.wait().0, expected());
}

#[test]
fn connections_that_idle_do_not_hold_up_the_end() {
    let server = Server::start();
    let _silent = server.connect();
    let mut used = server.connect();
    write!(used, "GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n").unwrap();
    let mut reader = BufReader::new(used.try_clone().unwrap());
    let reply = Reply::read(&mut reader);
    assert_eq!((reply.status, reply.body.as_slice()), (200, &b"ok\n"[..]));
    assert_eq!(server.stop().0, "");
    assert_eq!(reader.read(&mut [0]).unwrap(), 0, "closed");
}

#[test]
fn more_than_the_queue_holds_is_refused_until_the_sink_goes_on() {
    let (is_stuck, stuck) = mpsc::channel();
    let (go_on, wait) = mpsc::channel();
    let collected = Collected::default();
    let sink = Stuck { is_stuck, go_on: wait, lines: collected.clone() };
    let server = Server::start_with(|options| {
        options.sink = Box::new(sink);
        options.timing.grace = Duration::ZERO;
    });
    server.export(&request()).unwrap();
    stuck.recv().unwrap();

    // Nobody takes from the queue now. Spans of no agent fill it as well as any.
    let span = |id: u64| Span { trace_id: vec![1; 16], span_id: id.to_be_bytes().to_vec(), ..Span::default() };
    let mut request = request();
    request.resource_spans[0].scope_spans[0].spans = (1..=1_000).map(span).collect();
    let body = request.encode_to_vec();
    let stream = server.connect();
    let mut writer = stream.try_clone().unwrap();
    let head = format!(
        "POST /v1/traces HTTP/1.1\r\nHost: x\r\nContent-Type: {PROTOBUF}\r\nContent-Length: {}\r\n\r\n",
        body.len()
    );
    let sending = std::thread::spawn(move || {
        // Ends with the connection.
        while writer.write_all(head.as_bytes()).and_then(|()| writer.write_all(&body)).is_ok() {}
    });
    let mut reader = BufReader::new(stream.try_clone().unwrap());
    let mut taken = 0;
    let refused = loop {
        let reply = Reply::read(&mut reader);
        if reply.status != 200 {
            break reply;
        }
        taken += 1;
    };
    assert_eq!((refused.status, refused.header("retry-after"), refused.content_type()), (503, Some("1"), PROTOBUF));
    let status = server.export(&request).unwrap_err();
    assert_eq!(status.code(), Code::Unavailable);
    // google.rpc.Status { …, details: [RetryInfo { retry_delay: 1 s }] }
    assert!(status.details().windows(25).any(|text| text == b"google.rpc.RetryInfo\x12\x04\x0a\x02\x08"), "{status:?}");

    stream.shutdown(std::net::Shutdown::Both).unwrap();
    sending.join().unwrap();
    drop(go_on);
    let (_, summary) = server.stop();
    assert!(summary.requests > taken && summary.refused >= 2, "{summary}");
    assert_eq!(String::from_utf8(collected.0.lock().unwrap().clone()).unwrap(), expected());
}

#[test]
fn a_taken_address_is_an_error_that_says_what_to_do() {
    let server = Server::start();
    let bind = |change: fn(&mut Options, &Server)| {
        let data = tempfile::tempdir().unwrap();
        let mut options = Options::new(Box::new(Collected::default()), data.path());
        (options.grpc, options.http) = (Some(([127, 0, 0, 1], 0).into()), None);
        change(&mut options, &server);
        server.runtime.block_on(Gateway::bind(options)).err().unwrap().to_string()
    };
    let error = bind(|options, server| options.http = Some(server.http));
    assert!(error.starts_with(&format!("cannot listen on {} for OTLP/HTTP: ", server.http)), "{error}");
    assert!(error.ends_with("or choose another port"), "{error}");
    let error = bind(|options, _| {
        options.grpc = Some(([192, 0, 2, 1], 4317).into());
        options.guards.insecure_no_auth = true;
    });
    assert!(error.ends_with("choose an address that this machine has"), "{error}");
    let error = bind(|options, _| options.grpc = None);
    assert!(error.starts_with("nothing to listen on; "), "{error}");
    server.stop();
}
