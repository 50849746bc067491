//! Connections that are too many, too slow or too clever.

use std::io::{BufReader, Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use crate::server::{JSON, Reply, Server};
use crate::{expected, recording, request};

/// A frame of HTTP/2.
fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let length = u32::try_from(payload.len()).unwrap().to_be_bytes();
    [&length[1..], &[kind, flags], &stream.to_be_bytes(), payload].concat()
}

const DATA: u8 = 0;
const HEADERS: u8 = 1;
const RST_STREAM: u8 = 3;
const SETTINGS: u8 = 4;
const GOAWAY: u8 = 7;
const CONTINUATION: u8 = 9;
const END_HEADERS: u8 = 4;

/// `POST /`, in HPACK's static table and as a literal.
const POST: [u8; 6] = [0x83, 0x86, 0x84, 0x41, 0x01, b'x'];

/// A frame that came.
#[derive(Debug)]
struct Frame {
    kind: u8,
    flags: u8,
    payload: Vec<u8>,
}

/// A connection of HTTP/2 that nobody checks.
struct Http2(TcpStream);

impl Http2 {
    fn connect(server: &Server) -> Self {
        let mut stream = server.connect();
        stream.write_all(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n").unwrap();
        stream.write_all(&frame(SETTINGS, 0, 0, &[])).unwrap();
        Http2(stream)
    }

    /// Sends frames from `next` until the other side closes; the frames that it sent meanwhile, and how many
    /// were sent.
    fn flood(&self, limit: u32, mut next: impl FnMut(u32) -> Vec<u8> + Send) -> (Vec<Frame>, u32) {
        let mut writer = self.0.try_clone().unwrap();
        std::thread::scope(|scope| {
            let sending = scope.spawn(move || {
                let sent = (0..limit).take_while(|index| writer.write_all(&next(*index)).is_ok()).count();
                let _ = writer.shutdown(std::net::Shutdown::Write);
                u32::try_from(sent).unwrap()
            });
            (self.frames(), sending.join().unwrap())
        })
    }

    /// All that comes until the end.
    fn frames(&self) -> Vec<Frame> {
        let mut reader = BufReader::new(self.0.try_clone().unwrap());
        let mut frames = Vec::new();
        let mut head = [0; 9];
        while reader.read_exact(&mut head).is_ok() {
            let length = u32::from_be_bytes([0, head[0], head[1], head[2]]) as usize;
            let mut payload = vec![0; length];
            if reader.read_exact(&mut payload).is_err() {
                break;
            }
            frames.push(Frame { kind: head[3], flags: head[4], payload });
        }
        frames
    }
}

const ENHANCE_YOUR_CALM: [u8; 4] = [0, 0, 0, 11];

fn is_told_to_calm_down(frames: &[Frame]) -> bool {
    frames.iter().any(|frame| frame.kind == GOAWAY && frame.payload[4..8] == ENHANCE_YOUR_CALM)
}

#[test]
fn more_connections_than_there_may_be_wait_until_one_ends() {
    let server = Server::start_with(|options| options.max_connections = 2);
    let health = |stream: &mut TcpStream| {
        write!(stream, "GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n").unwrap();
    };
    let mut open = [server.connect(), server.connect()];
    for stream in &mut open {
        health(stream);
        assert_eq!(Reply::read(&mut BufReader::new(stream)).status, 200);
    }
    let mut third = server.connect();
    health(&mut third);
    third.set_read_timeout(Some(Duration::from_millis(200))).unwrap();
    assert!(third.read(&mut [0]).is_err(), "not answered");
    // The others are.
    health(&mut open[0]);
    assert_eq!(Reply::read(&mut BufReader::new(&mut open[0])).status, 200);
    drop(open);
    third.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    assert_eq!(Reply::read(&mut BufReader::new(third)).status, 200);
    server.stop();
}

#[test]
fn a_connection_that_brings_no_request_ends_and_holds_up_nobody() {
    let server = Server::start_with(|options| options.read_timeout = Duration::from_millis(300));
    let preface = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
    let starts: [&[u8]; 7] = [
        b"",
        b"P",
        b"POST /v1/traces HTTP/1.1\r\n",
        b"POST /v1/traces HTTP/1.1\r\nHost: x\r\nX: ",
        &preface[..20],
        preface,
        // Settings of which half is there.
        &[preface, &[0, 0, 6, 4, 0, 0][..]].concat(),
    ];
    let mut slow = starts.map(|start| {
        let mut stream = server.connect();
        stream.write_all(start).unwrap();
        stream
    });
    assert_eq!(server.post(JSON, "", &recording()).status, 200);
    server.export(&request()).unwrap();
    for (stream, start) in slow.iter_mut().zip(starts) {
        // All that is said is said before the end, which comes.
        let told = stream.read_to_end(&mut Vec::new());
        assert!(
            told.is_ok() || told.is_err_and(|error| error.kind() == std::io::ErrorKind::ConnectionReset),
            "{start:?}"
        );
    }
    assert_eq!(server.stop().0, expected());
}

#[test]
fn a_head_has_a_limit() {
    let server = Server::start();
    let ask = |padding: usize| {
        let mut stream = server.connect();
        let text = format!("GET /healthz HTTP/1.1\r\nHost: x\r\nX-Padding: {}\r\n\r\n", "x".repeat(padding));
        // It is closed before all of it is read, when it is too much.
        let _ = stream.write_all(text.as_bytes());
        Reply::read(&mut BufReader::new(stream)).status
    };
    assert_eq!((ask(60 << 10), ask(64 << 10)), (200, 431));
    let many = "X: y\r\n".repeat(101);
    assert_eq!(server.ask("GET /healthz", &many, b"").status, 431);
    server.stop();
}

#[test]
fn a_body_of_two_lengths_is_no_request_or_the_last_one() {
    let server = Server::start();
    let hidden = "GET /hidden HTTP/1.1\r\nHost: x\r\n\r\n";
    for (head, status) in [
        ("Content-Length: 4\r\nContent-Length: 5\r\n", 400),
        ("Content-Length: 4, 5\r\n", 400),
        ("Content-Length: +4\r\n", 400),
        ("Content-Length: 0x4\r\n", 400),
        ("Content-Length: -1\r\n", 400),
        ("Content-Length: 99999999999999999999\r\n", 400),
        ("Transfer-Encoding: gzip\r\n", 400),
        ("Transfer-Encoding: chunked, identity\r\n", 400),
        ("Transfer-Encoding: \x0bchunked\r\n", 400),
        ("Transfer-Encoding : chunked\r\n", 400),
        (" Transfer-Encoding: chunked\r\n", 400),
        ("X: y\r\n Transfer-Encoding: chunked\r\n", 400),
        ("X: y\nz\0: w\r\n", 400),
        // Chunked counts, as the standard has it, and nothing is read behind it.
        ("Content-Length: 4\r\nTransfer-Encoding: chunked\r\n", 404),
        ("Transfer-Encoding: chunked\r\nContent-Length: 4\r\n", 404),
    ] {
        let mut stream = server.connect();
        write!(stream, "POST /first HTTP/1.1\r\nHost: x\r\n{head}\r\n0\r\n\r\n{hidden}").unwrap();
        let mut reader = BufReader::new(stream);
        let reply = Reply::read(&mut reader);
        assert_eq!((reply.status, reply.header("connection")), (status, Some("close")), "{head:?}");
        // The answers to two requests would be two.
        let mut rest = Vec::new();
        let _ = reader.read_to_end(&mut rest);
        assert_eq!(rest, b"", "{head:?}");
    }
    server.stop();
}

#[test]
fn requests_that_are_taken_back_at_once_end_their_connection() {
    let server = Server::start();
    let attack = Http2::connect(&server);
    let (frames, sent) = attack.flood(100_000, |index| {
        let stream = 2 * index + 1;
        [frame(HEADERS, END_HEADERS, stream, &POST), frame(RST_STREAM, 0, stream, &[0, 0, 0, 8])].concat()
    });
    assert!(is_told_to_calm_down(&frames), "{} frames", frames.len());
    assert!(sent < 100_000, "closed before all were sent");
    server.export(&request()).unwrap();
    assert_eq!(server.stop().0, expected());
}

#[test]
fn a_head_without_end_ends_its_connection() {
    let server = Server::start();
    for piece in [&[][..], &[0x00, 0x01, b'a', 0x01, b'b'], &[0; 16_384]] {
        let attack = Http2::connect(&server);
        let (frames, sent) = attack.flood(100_000, |index| match index {
            0 => frame(HEADERS, 0, 1, &POST),
            _ => frame(CONTINUATION, 0, 1, piece),
        });
        assert!(frames.iter().any(|frame| frame.kind == GOAWAY), "{} bytes: {frames:?}", piece.len());
        assert!(sent < 100_000, "closed before all were sent");
    }
    server.export(&request()).unwrap();
    assert_eq!(server.stop().0, expected());
}

#[test]
fn a_connection_carries_so_many_requests_at_once() {
    let server = Server::start();
    let attack = Http2::connect(&server);
    // None of them sends its body.
    let (frames, _) = attack.flood(100_000, |index| frame(HEADERS, END_HEADERS, 2 * index + 1, &POST));
    let settings = frames.iter().find(|frame| (frame.kind, frame.flags) == (SETTINGS, 0)).unwrap();
    let limits: Vec<_> = settings.payload.chunks(6).filter(|setting| setting[..2] == [0, 3]).collect();
    assert_eq!(limits, [[0, 3, 0, 0, 0, 128]]);
    let refused = frames.iter().filter(|frame| frame.kind == RST_STREAM && frame.payload[..] == [0, 0, 0, 7]).count();
    assert!(refused > 100, "{refused}");
    assert!(is_told_to_calm_down(&frames), "{} frames", frames.len());

    // Frames of nothing for a request that goes on.
    let attack = Http2::connect(&server);
    let (frames, sent) = attack.flood(1_000_000, |index| match index {
        0 => frame(HEADERS, END_HEADERS, 1, &POST),
        _ => frame(DATA, 0, 1, &[]),
    });
    assert!(frames.iter().any(|frame| frame.kind == GOAWAY), "{sent} frames of nothing");
    server.export(&request()).unwrap();
    assert_eq!(server.stop().0, expected());
}

#[test]
fn bodies_that_are_too_much_together_are_refused_until_one_is_done() {
    const BODY: usize = 1 << 20;
    // One address gets half of it.
    let server = Server::start_with(|options| (options.max_body_bytes, options.max_in_flight_bytes) = (BODY, 3 * BODY));
    let body = format!("{{}}{}", " ".repeat(BODY - 2)).into_bytes();
    let (most, rest) = body.split_at(BODY - 1_000);
    let head = format!("POST /v1/traces HTTP/1.1\r\nHost: x\r\nContent-Type: {JSON}\r\nContent-Length: {BODY}\r\n\r\n");
    // Whichever of two comes second is refused, and it may be the one that stalls: then it has to be tried again.
    let (mut stalled, refused) = (0..100)
        .find_map(|_| {
            let mut stalled = server.connect();
            stalled.write_all(head.as_bytes()).unwrap();
            stalled.write_all(most).unwrap();
            let mut replies = (0..50).map(|_| server.post(JSON, "", most));
            replies.find(|reply| reply.status != 200).map(|refused| (stalled, refused))
        })
        .unwrap();
    assert_eq!((refused.status, refused.header("retry-after")), (503, Some("1")));
    assert!(refused.json()["message"].as_str().unwrap().contains("try again later"));
    let status = server.call(crate::server::EXPORT, None, most.to_vec().into()).unwrap_err();
    assert_eq!(status.code(), tonic::Code::Unavailable);
    assert!(status.details().windows(20).any(|text| text == b"google.rpc.RetryInfo"), "{status:?}");
    // What is small, or small until it is unpacked, finds room.
    assert_eq!(server.post(JSON, "gzip", &crate::gzip(&body)).status, 200);
    assert_eq!(server.post(JSON, "", &recording()).status, 200);
    server.export(&request()).unwrap();

    stalled.write_all(rest).unwrap();
    assert_eq!(Reply::read(&mut BufReader::new(stalled)).status, 200);
    assert_eq!(server.post(JSON, "", most).status, 200);
    assert_eq!(server.stop().0, expected());
}
