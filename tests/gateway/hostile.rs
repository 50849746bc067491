//! What is made to cost more than it weighs: requests against the program itself, whose memory is watched.
#![cfg(feature = "cli")]
#![allow(clippy::print_stdout)]

use std::io::{BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpStream};
use std::process::{Child, ChildStderr, Command, Stdio};
use std::time::Duration;

use crate::server::{JSON, PROTOBUF, Reply};
use crate::{gzip, recording, zstd};

/// What 8 KB that are made to hurt may cost. The program itself has 20 MiB or so.
const MOST: u64 = 32 << 20;

/// The program, serving.
struct Program {
    process: Child,
    http: SocketAddr,
    /// Read, so that it never blocks on its own log.
    _log: BufReader<ChildStderr>,
    _folder: tempfile::TempDir,
}

impl Program {
    fn start() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let mut process = Command::new(env!("CARGO_BIN_EXE_failproof-otel"))
            .args(["serve", "--grpc", "127.0.0.1:0", "--http", "127.0.0.1:0", "--to"])
            .arg(format!("spool:{}", folder.path().join("spool").display()))
            .env("FAILPROOFAI_HOME", folder.path())
            .env_remove("RUST_LOG")
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut log = BufReader::new(process.stderr.take().unwrap());
        let http = loop {
            let mut line = String::new();
            assert_ne!(log.read_line(&mut line).unwrap(), 0, "it ended");
            if let Some((_, rest)) = line.split_once("OTLP/HTTP on ") {
                break rest.split(',').next().unwrap().parse().unwrap();
            }
        };
        Program { process, http, _log: log, _folder: folder }
    }

    fn post(&self, content_type: &str, encoding: &str, body: &[u8]) -> Reply {
        let mut stream = TcpStream::connect(self.http).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
        let length = body.len();
        let encoding = if encoding.is_empty() { String::new() } else { format!("Content-Encoding: {encoding}\r\n") };
        write!(stream, "POST /v1/traces HTTP/1.1\r\nHost: x\r\nContent-Type: {content_type}\r\n{encoding}").unwrap();
        write!(stream, "Content-Length: {length}\r\n\r\n").unwrap();
        stream.write_all(body).unwrap();
        Reply::read(&mut BufReader::new(stream))
    }

    /// The most memory that it ever had.
    fn peak(&self) -> u64 {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.process.id())).unwrap();
        let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
        line.trim().trim_end_matches(" kB").parse::<u64>().unwrap() << 10
    }

    /// How much more memory a request takes than all that came before; the next one is taken in any case.
    fn cost(&self, form: &str, encoding: &str, body: &[u8]) -> (u16, u64) {
        let before = self.peak();
        let status = self.post(form, encoding, body).status;
        let cost = self.peak() - before;
        assert_eq!(self.post(JSON, "", &recording()).status, 200);
        (status, cost)
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// A field of a message.
fn field(number: u8, payload: &[u8]) -> Vec<u8> {
    let mut bytes = vec![number << 3 | 2];
    prost::encode_length_delimiter(payload.len(), &mut bytes).unwrap();
    bytes.extend_from_slice(payload);
    bytes
}

fn of_spans(spans: &[u8]) -> Vec<u8> {
    field(1, &field(2, spans))
}

/// A request with so many bytes of one thing over and over in as many spans as are said.
fn of_spans_with(spans: usize, thing: &[u8], wrap: impl Fn(&[u8]) -> Vec<u8>) -> Vec<u8> {
    let things = wrap(&thing.repeat((8 << 20) / spans / thing.len()));
    let mut all = Vec::new();
    for id in 1..=spans as u64 {
        let span = [field(1, &[1; 16]), field(2, &id.to_be_bytes()), things.clone()].concat();
        all.extend(field(2, &span));
    }
    of_spans(&all)
}

/// An attribute `k` whose value holds a list or a map.
fn attribute(kind: u8) -> impl Fn(&[u8]) -> Vec<u8> {
    move |items| field(9, &[field(1, b"k"), field(2, &field(kind, items))].concat())
}

#[test]
fn a_few_bytes_cost_little_whatever_they_unpack_to() {
    let (list, map) = (attribute(5), attribute(6));
    let empty_text: &[u8] = &[0x0a, 0x02, 0x0a, 0x00];
    let number: &[u8] = &[0x0a, 0x02, 0x18, 0x00];
    let pair: &[u8] = &[0x0a, 0x04, 0x12, 0x02, 0x18, 0x00];
    let small_attribute: &[u8] = &[0x4a, 0x04, 0x12, 0x02, 0x18, 0x00];
    let event: &[u8] = &[0x5a, 0x03, 0x12, 0x01, b'e'];
    let link: &[u8] = &[0x6a, 0x00];
    let bombs = [
        ("spans of nothing", of_spans(&[0x12, 0x00].repeat(4 << 20)), 413),
        ("scopes of nothing", field(1, &[0x12, 0x00].repeat(4 << 20)), 200),
        ("resources of nothing", [0x0a, 0x00].repeat(4 << 20), 200),
        ("a list of texts", of_spans_with(1, empty_text, &list), 200),
        ("a list of numbers", of_spans_with(1, number, &list), 200),
        ("lists of numbers", of_spans_with(100, number, &list), 200),
        ("a map", of_spans_with(1, pair, &map), 200),
        ("attributes", of_spans_with(1_500, small_attribute, |things| things.to_vec()), 200),
        ("events", of_spans_with(1_500, event, |things| things.to_vec()), 200),
        ("links", of_spans_with(1, link, |things| things.to_vec()), 200),
        ("attributes of a resource", field(1, &field(1, &[0x0a, 0x04, 0x12, 0x02, 0x18, 0x00].repeat(1 << 20))), 200),
    ];
    let list = |before: &str, item: &str, after: &str| {
        let items = vec![item; (8 << 20) / (item.len() + 1)].join(",");
        format!("{before}{items}{after}").into_bytes()
    };
    let span = r#"{"resourceSpans":[{"scopeSpans":[{"spans":[{"traceId":"01010101010101010101010101010101","spanId":"0101010101010101","attributes":["#;
    let value = format!(r#"{span}{{"key":"k","value":{{"arrayValue":{{"values":["#);
    let documents = [
        ("JSON: resources", list(r#"{"resourceSpans":["#, "{}", "]}"), 413),
        ("JSON: spans", list(r#"{"resourceSpans":[{"scopeSpans":[{"spans":["#, "{}", "]}]}]}"), 413),
        ("JSON: what are no attributes", list(span, "0", "]}]}]}]}"), 200),
        ("JSON: a list", list(&value, r#"{"intValue":0}"#, "]}}}]}]}]}]}"), 200),
        ("JSON: a list of nothing", list(&value, "{}", "]}}}]}]}]}]}"), 200),
        ("JSON: documents", list("[", "{}", "]"), 413),
    ];
    let bombs = bombs.into_iter().map(|(what, bomb, status)| (what, PROTOBUF, bomb, status));
    let documents = documents.into_iter().map(|(what, bomb, status)| (what, JSON, bomb, status));
    let mut costs = Vec::new();
    for (what, form, bomb, status) in bombs.chain(documents) {
        // A program for each: a peak hides what comes after it.
        let program = Program::start();
        assert_eq!(program.post(JSON, "", &recording()).status, 200);
        let packed = gzip(&bomb);
        let (found, cost) = program.cost(form, "gzip", &packed);
        costs.push((what, packed.len(), bomb.len(), found, status, cost >> 10));
    }
    println!("bytes packed and unpacked, and KiB of memory: {costs:?}");
    for (what, _, _, found, status, cost) in costs {
        assert_eq!(found, status, "{what}");
        assert!(cost << 10 < MOST, "{what}: {cost} KiB");
    }
}

#[test]
fn what_is_too_deep_too_long_or_too_wide_is_refused_with_its_status() {
    let program = Program::start();
    // One in the other: it is one value of one span, so that only this span is rejected.
    let deep = (0..10_000).fold(vec![0x18, 0x00], |inner, _| field(5, &field(1, &inner)));
    let deep = [field(1, &[1; 16]), field(2, &[1; 8]), field(9, &[field(1, b"k"), field(2, &deep)].concat())].concat();
    let reply = program.post(PROTOBUF, "", &of_spans(&field(2, &deep)));
    assert_eq!(reply.status, 200);
    assert!(String::from_utf8_lossy(&reply.body).contains("nested too deep"));
    let nested = format!("{}{}", "[".repeat(10_000), "]".repeat(10_000));
    assert_eq!(program.post(JSON, "", nested.as_bytes()).status, 400);

    let half = vec![b' '; 32 << 20];
    let members = [gzip(&half), gzip(&half), gzip(b" ")].concat();
    assert_eq!(program.post(JSON, "gzip", &members).status, 413, "members count together");
    assert_eq!(program.post(JSON, "zstd", &[zstd(&half), zstd(&half), zstd(b" ")].concat()).status, 413);
    let mut wide = zstd::Encoder::new(Vec::new(), 3).unwrap();
    wide.window_log(24).unwrap();
    wide.write_all(&half).unwrap();
    let reply = program.post(JSON, "zstd", &wide.finish().unwrap());
    assert_eq!((reply.status, reply.json()["code"].as_i64()), (413, Some(8)));
    assert!(reply.json()["message"].as_str().unwrap().contains("window"));
    assert_eq!(program.post(JSON, "", &recording()).status, 200);
}
