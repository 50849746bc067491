//! What the gateway does not take, and what it says then.

use std::io::{BufReader, Read, Write};
use std::time::Duration;

use bytes::Bytes;
use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::tonic::trace::v1::Span;
use prost::Message;
use serde_json::json;
use tonic::Code;
use tonic::codec::CompressionEncoding;

use crate::server::{EXPORT, JSON, PROTOBUF, Reply, Server};
use crate::{expected, gzip, recording, request, zstd};

/// `google.rpc.Status`
#[derive(Clone, PartialEq, Message)]
struct RpcStatus {
    #[prost(int32, tag = "1")]
    code: i32,
    #[prost(string, tag = "2")]
    message: String,
}

impl Reply {
    /// The status in the body, in whatever form its content type says.
    fn rpc_status(&self) -> RpcStatus {
        match self.content_type() {
            PROTOBUF => RpcStatus::decode(&*self.body).unwrap(),
            JSON => {
                let body = self.json();
                let message = body["message"].as_str().unwrap().to_owned();
                RpcStatus { code: i32::try_from(body["code"].as_i64().unwrap()).unwrap(), message }
            }
            other => panic!("no status in {other:?}"),
        }
    }
}

/// A message of so many bytes, of which none is a span.
fn protobuf_of(bytes: usize) -> Vec<u8> {
    let mut body = vec![0x7a];
    prost::encode_length_delimiter(bytes, &mut body).unwrap();
    let padding = bytes - body.len();
    body.truncate(1);
    prost::encode_length_delimiter(padding, &mut body).unwrap();
    body.resize(bytes, 0);
    body
}

/// A request of 4 million empty spans: 8 MiB, 8 KiB when compressed, a gigabyte in a server that believes it.
fn span_bomb() -> Vec<u8> {
    let spans = [0x12, 0x00].repeat(4 << 20);
    let wrap = |tag: u8, inner: Vec<u8>| {
        let mut outer = vec![tag];
        prost::encode_length_delimiter(inner.len(), &mut outer).unwrap();
        outer.extend(inner);
        outer
    };
    wrap(0x0a, wrap(0x12, spans))
}

#[test]
fn a_refusal_says_why_in_the_form_of_the_request() {
    let server = Server::start();
    let typed = |content_type: &str| format!("Content-Type: {content_type}\r\n");
    let encoded = |encoding: &str| format!("Content-Type: {PROTOBUF}\r\nContent-Encoding: {encoding}\r\n");
    let cut = &request().encode_to_vec()[..100];
    for (what, headers, body, status, form, code, says) in [
        (
            "POST /v1/traces",
            typed(PROTOBUF),
            cut,
            400,
            PROTOBUF,
            Code::InvalidArgument,
            "no OTLP trace request in protobuf",
        ),
        ("POST /v1/traces", typed("application/X-Protobuf"), cut, 400, PROTOBUF, Code::InvalidArgument, "protobuf"),
        ("POST /v1/traces", typed(JSON), &b"[}"[..], 400, JSON, Code::InvalidArgument, "no OTLP/JSON"),
        (
            "POST /v1/traces",
            typed("Application/Json;charset=utf-8"),
            b"",
            400,
            JSON,
            Code::InvalidArgument,
            "no OTLP/JSON",
        ),
        (
            "POST /v1/traces",
            typed(JSON),
            br#"{"resourceLogs":[]}"#,
            400,
            JSON,
            Code::InvalidArgument,
            "logs, not spans",
        ),
        ("POST /v1/traces", encoded("gzip"), b"rubbish", 400, PROTOBUF, Code::InvalidArgument, "no whole gzip"),
        ("POST /v1/traces", encoded("zstd"), b"rubbish", 400, PROTOBUF, Code::InvalidArgument, "no whole zstd"),
        ("POST /v1/traces", encoded("br"), b"", 415, PROTOBUF, Code::Unimplemented, "encoding \"br\" is not known"),
        ("POST /v1/traces", encoded("gzip, zstd"), b"", 415, PROTOBUF, Code::Unimplemented, "not known"),
        (
            "POST /v1/traces",
            typed("text/plain"),
            b"hello",
            415,
            JSON,
            Code::InvalidArgument,
            "content type \"text/plain\"",
        ),
        ("POST /v1/traces", typed("application/grpc"), b"hello", 415, JSON, Code::InvalidArgument, "application/grpc"),
        ("POST /v1/traces", String::new(), b"{}", 415, JSON, Code::InvalidArgument, "content type \"\""),
        ("GET /v1/traces", String::new(), b"", 405, JSON, Code::Unimplemented, "GET is not allowed here; use POST"),
        ("OPTIONS /v1/traces", String::new(), b"", 405, JSON, Code::Unimplemented, "use POST"),
        ("PUT /v1/traces", typed(PROTOBUF), b"", 405, PROTOBUF, Code::Unimplemented, "use POST"),
        ("POST /healthz", typed(JSON), b"{}", 405, JSON, Code::Unimplemented, "use GET"),
        ("POST /v1/logs", typed(PROTOBUF), b"", 404, PROTOBUF, Code::Unimplemented, "POST spans to /v1/traces"),
        (
            "GET /",
            String::new(),
            b"",
            404,
            JSON,
            Code::Unimplemented,
            "nothing is served at /; POST spans to /v1/traces",
        ),
    ] {
        let reply = server.ask(what, &headers, body);
        let told = reply.rpc_status();
        assert_eq!((reply.status, reply.content_type(), told.code), (status, form, code as i32), "{what} {headers}");
        assert!(told.message.contains(says), "{what} {headers}: {}", told.message);
        assert_eq!(
            reply.header("allow"),
            (status == 405).then_some(if what.contains("health") { "GET" } else { "POST" })
        );
        assert_eq!(reply.header("retry-after"), None, "the same again would not help");
    }
    assert_eq!(server.post(JSON, "", &recording()).status, 200);
    let (lines, summary) = server.stop();
    assert_eq!((lines, summary.requests, summary.refused), (expected(), 1, 18));
}

#[test]
fn what_is_not_spans_is_refused_over_grpc_too() {
    let server = Server::start();
    let status = server.call(EXPORT, None, Bytes::from_static(b"\xff\xff rubbish")).unwrap_err();
    assert_eq!(status.code(), Code::InvalidArgument);
    assert!(status.message().contains("no OTLP trace request in protobuf"), "{}", status.message());
    assert!(status.details().is_empty(), "the same again would not help");
    for path in ["/opentelemetry.proto.collector.logs.v1.LogsService/Export", "/a/b"] {
        let status = server.call(path, None, Bytes::new()).unwrap_err();
        assert_eq!(status.code(), Code::Unimplemented);
        assert!(status.message().contains(EXPORT), "{}", status.message());
    }
    assert_eq!(server.export(&request()).unwrap().partial_success, None);
    assert_eq!(server.stop().0, expected());
}

#[test]
fn a_body_has_a_limit_over_http() {
    const LIMIT: usize = 40_000;
    let server = Server::start_with(|options| options.max_body_bytes = LIMIT);
    let padded = |bytes: usize| format!("{{}}{}", " ".repeat(bytes - 2)).into_bytes();
    for (bytes, status) in [(LIMIT - 1, 200), (LIMIT, 200), (LIMIT + 1, 413), (2 * LIMIT, 413)] {
        let mut replies = Vec::new();
        for (form, body) in [(JSON, padded(bytes)), (PROTOBUF, protobuf_of(bytes))] {
            replies.push(("plain", form, server.post(form, "", &body)));
            replies.push(("gzip", form, server.post(form, "gzip", &gzip(&body))));
            replies.push(("zstd", form, server.post(form, "zstd", &zstd(&body))));
            let mut chunked = server.connect();
            write!(chunked, "POST /v1/traces HTTP/1.1\r\nHost: x\r\nContent-Type: {form}\r\n").unwrap();
            write!(chunked, "Transfer-Encoding: chunked\r\n\r\n{bytes:x}\r\n").unwrap();
            chunked.write_all(&[&body[..], b"\r\n0\r\n\r\n"].concat()).unwrap();
            replies.push(("chunked", form, Reply::read(&mut BufReader::new(chunked))));
        }
        for (way, form, reply) in replies {
            assert_eq!((reply.status, reply.content_type()), (status, form), "{bytes} bytes, {way}");
            if status == 413 {
                let told = reply.rpc_status();
                assert_eq!(told.code, Code::ResourceExhausted as i32);
                assert!(told.message.starts_with(&format!("more than {LIMIT} bytes")), "{}", told.message);
            }
        }
    }
    server.stop();
}

#[test]
fn a_message_has_a_limit_over_grpc() {
    const LIMIT: usize = 40_000;
    let server = Server::start_with(|options| options.max_body_bytes = LIMIT);
    for compression in [None, Some(CompressionEncoding::Gzip), Some(CompressionEncoding::Zstd)] {
        for bytes in [LIMIT - 1, LIMIT] {
            assert_eq!(server.call(EXPORT, compression, protobuf_of(bytes).into()).unwrap(), "");
        }
        for bytes in [LIMIT + 1, 100 * LIMIT] {
            let status = server.call(EXPORT, compression, protobuf_of(bytes).into()).unwrap_err();
            assert_eq!(status.code(), Code::ResourceExhausted, "{status:?}");
            assert!(status.details().is_empty(), "the same again would not help");
        }
    }
    server.stop();
}

#[test]
fn bombs_are_refused_and_the_next_request_is_taken() {
    let server = Server::start();
    let over_the_limit = vec![b' '; (64 << 20) + 1];
    let spans = span_bomb();
    for (bomb, says) in [(over_the_limit, "more than 67108864 bytes"), (spans, "more than 65536 spans")] {
        for (encoding, packed) in [("gzip", gzip(&bomb)), ("zstd", zstd(&bomb))] {
            assert!(packed.len() < 100 << 10);
            let reply = server.post(PROTOBUF, encoding, &packed);
            assert_eq!((reply.status, reply.rpc_status().code), (413, Code::ResourceExhausted as i32));
            assert!(reply.rpc_status().message.starts_with(says), "{}", reply.rpc_status().message);
        }
        let status = server.call(EXPORT, Some(CompressionEncoding::Gzip), bomb.into()).unwrap_err();
        assert_eq!(status.code(), Code::ResourceExhausted);
        assert!(status.message().starts_with(says), "{}", status.message());
    }
    assert_eq!(server.export(&request()).unwrap().partial_success, None);
    assert_eq!(server.stop().0, expected());
}

#[test]
fn a_body_that_does_not_arrive_may_be_sent_again() {
    let server = Server::start_with(|options| options.read_timeout = Duration::from_millis(50));
    let mut stream = server.connect();
    write!(stream, "POST /v1/traces HTTP/1.1\r\nHost: x\r\nContent-Type: {JSON}\r\nContent-Length: 10\r\n\r\n{{")
        .unwrap();
    let reply = Reply::read(&mut BufReader::new(stream));
    assert_eq!((reply.status, reply.header("retry-after")), (504, Some("1")));
    assert_eq!(reply.rpc_status().code, Code::DeadlineExceeded as i32);
    server.stop();
}

#[test]
fn rubbish_on_a_connection_harms_nobody() {
    let server = Server::start();
    for rubbish in [
        &b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03 the hello of TLS\r\n\r\n"[..],
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\nand no frames at all, as far as anybody can see",
        b"POST /v1/traces HTTP/1.1\r\nHost: x\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n{}",
        b"POST /v1/traces HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\nxyz\r\n",
    ] {
        let mut stream = server.connect();
        stream.write_all(rubbish).unwrap();
        // It may have been closed already.
        let _ = stream.shutdown(std::net::Shutdown::Write);
        // Whatever it says, it ends.
        let _ = stream.read_to_end(&mut Vec::new());
    }
    assert_eq!(server.post(JSON, "", &recording()).status, 200);
    assert_eq!(server.stop().0, expected());
}

#[test]
fn damaged_requests_are_answered_whatever_is_damaged() {
    let server = Server::start();
    let stream = server.connect();
    let mut writer = stream.try_clone().unwrap();
    let mut reader = BufReader::new(stream);
    // A small generator is enough to hit other places each time.
    let mut seed = 1u32;
    let mut next = |below: usize| {
        seed = seed.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (seed >> 8) as usize % below
    };
    for round in 0..600 {
        let (form, mut body) = if round % 2 == 0 { (PROTOBUF, request().encode_to_vec()) } else { (JSON, recording()) };
        for _ in 0..=next(4) {
            let at = next(body.len());
            body[at] = u8::try_from(next(256)).unwrap();
        }
        write!(
            writer,
            "POST /v1/traces HTTP/1.1\r\nHost: x\r\nContent-Type: {form}\r\nContent-Length: {}\r\n\r\n",
            body.len()
        )
        .unwrap();
        writer.write_all(&body).unwrap();
        let reply = Reply::read(&mut reader);
        assert!(matches!(reply.status, 200 | 400), "{}", reply.status);
        assert_eq!(reply.content_type(), form);
        if reply.status == 400 {
            assert_eq!(reply.rpc_status().code, Code::InvalidArgument as i32);
        }
    }
    server.stop();
}

#[test]
fn more_spans_than_a_request_may_hold_are_refused_as_a_whole() {
    let span =
        |id: u32| Span { trace_id: vec![1; 16], span_id: [[1; 4], id.to_be_bytes()].concat(), ..Span::default() };
    let mut request = request();
    request.resource_spans[0].scope_spans[0].spans = (0..65_536).map(span).collect();
    let server = Server::start();
    assert_eq!(server.post(PROTOBUF, "", &request.encode_to_vec()).status, 200);
    request.resource_spans[0].scope_spans[0].spans.push(span(65_536));
    let reply = server.post(JSON, "", &serde_json::to_vec(&request).unwrap());
    assert_eq!((reply.status, reply.json()["code"].clone()), (413, json!(8)));
    let status = server.export(&ExportTraceServiceRequest { ..request }).unwrap_err();
    assert_eq!(status.code(), Code::ResourceExhausted);
    assert_eq!(server.stop().1.spans, 65_536);
}
