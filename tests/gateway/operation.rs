//! What those see who look after a gateway: whether it is ready, and what it counts.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use opentelemetry_failproof::sink::{Sink, SinkError};
use opentelemetry_proto::tonic::trace::v1::Span;
use prost::Message;

use crate::server::{Collected, JSON, PROTOBUF, Server};
use crate::{expected, recording, request};

/// Looks again and again, for a minute at most.
#[track_caller]
pub fn wait_until(mut is_so: impl FnMut() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(60);
    while !is_so() {
        assert!(Instant::now() < deadline, "it never came true");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// A `/metrics` page that keeps the rules of OpenMetrics.
struct Page {
    /// By name, with the labels behind it as they are written.
    samples: BTreeMap<String, f64>,
    /// The names, with what types and units add.
    names: BTreeSet<String>,
}

impl Page {
    fn of(server: &Server) -> Self {
        let reply = server.get("/metrics");
        assert_eq!(reply.status, 200);
        assert_eq!(reply.content_type(), "application/openmetrics-text; version=1.0.0; charset=utf-8");
        Page::parse(std::str::from_utf8(&reply.body).unwrap())
    }

    fn parse(text: &str) -> Self {
        let mut page = Page { samples: BTreeMap::new(), names: BTreeSet::new() };
        let (mut family, mut kind) = ("", "");
        assert!(text.ends_with("# EOF\n"), "{text}");
        for line in text.lines().filter(|line| *line != "# EOF") {
            if let Some(rest) = line.strip_prefix("# ") {
                let [what, name, rest] = rest.splitn(3, ' ').collect::<Vec<_>>().try_into().unwrap();
                match what {
                    "HELP" => (family, kind) = (name, ""),
                    "TYPE" => {
                        kind = rest;
                        let total = if kind == "counter" { "_total" } else { "" };
                        assert!(page.names.insert(format!("{name}{total}")), "{line} stands twice");
                    }
                    "UNIT" => assert!(name.ends_with(&format!("_{rest}")), "{line}"),
                    _ => panic!("{line}"),
                }
                assert!(name == family && !rest.is_empty(), "{line}");
                continue;
            }
            let (series, value) = line.rsplit_once(' ').unwrap();
            let name = series.split('{').next().unwrap();
            let suffixes: &[&str] = match kind {
                "counter" => &["_total"],
                "gauge" => &[""],
                "histogram" => &["_bucket", "_count", "_sum"],
                _ => panic!("{family} is a {kind}"),
            };
            assert!(suffixes.iter().any(|suffix| name == format!("{family}{suffix}")), "{line} in {family}");
            let labels = series[name.len()..].trim_start_matches('{').trim_end_matches('}');
            for label in labels.split("\",").filter(|label| !label.is_empty()) {
                let (key, value) = label.split_once("=\"").unwrap();
                assert!(key.chars().all(|char| char.is_ascii_lowercase() || char == '_'), "{line}");
                assert!(!value.trim_end_matches('"').is_empty(), "{line}");
            }
            let known = page.samples.insert(series.to_owned(), value.parse().unwrap());
            assert_eq!(known, None, "{series} stands twice");
        }
        page
    }

    /// The sum over all series of a name whose labels hold all of these.
    fn sum(&self, name: &str, labels: &[&str]) -> f64 {
        let is_meant =
            |series: &str| series.split('{').next() == Some(name) && labels.iter().all(|label| series.contains(label));
        self.samples.iter().filter(|(series, _)| is_meant(series)).map(|(_, value)| value).sum()
    }
}

#[test]
fn what_is_counted_is_what_was_sent() {
    let server = Server::start_with(|options| options.timing.grace = Duration::ZERO);
    assert_eq!(server.get("/readyz").body, b"ready\n");
    server.export(&request()).unwrap();
    let mut damaged = request();
    damaged.resource_spans[0].scope_spans[0].spans.push(Span { trace_id: vec![7; 15], ..Span::default() });
    let damaged = damaged.encode_to_vec();
    assert_eq!(server.post(PROTOBUF, "", &damaged).status, 200);
    assert_eq!(server.post(JSON, "", b"{").status, 400);
    assert_eq!(server.post("text/plain", "", b"?").status, 415);
    assert_eq!(server.get("/nowhere").status, 404);
    assert_eq!(server.ask("GET /v1/traces", "Origin: http://x\r\n", b"").status, 403);

    let events = expected().lines().count() as f64;
    wait_until(|| Page::of(&server).sum("failproof_sink_events_total", &[]) == events);
    let page = Page::of(&server);
    let requests = |labels: &[&str]| page.sum("failproof_requests_total", labels);
    assert_eq!(requests(&["transport=\"grpc\"", "result=\"accepted\""]), 1.0);
    assert_eq!(requests(&["transport=\"http\"", "result=\"accepted\""]), 1.0);
    for result in ["undecodable", "content-type", "unknown-path", "origin"] {
        assert_eq!(requests(&[&format!("result=\"{result}\"")]), 1.0, "{result}");
    }
    assert_eq!(page.sum("failproof_spans_total", &["result=\"rejected\""]), 1.0);
    assert_eq!(page.sum("failproof_request_duration_seconds_count", &[]), 6.0);
    assert_eq!(page.sum("failproof_request_duration_seconds_bucket", &["le=\"+Inf\""]), 6.0);
    assert_eq!(
        page.sum("failproof_request_body_bytes_total", &[]),
        (request().encoded_len() + damaged.len() + 1) as f64
    );
    assert_eq!(page.sum("failproof_requests_in_flight", &[]), 0.0);
    assert_eq!(page.sum("failproof_in_flight_bytes", &[]), 0.0);
    // Ours is open; that of the client of gRPC may be.
    assert!((1.0..=2.0).contains(&page.sum("failproof_connections", &[])));
    assert_eq!(page.sum("failproof_events_total", &["dialect=\"pydantic_ai\""]), events);
    assert_eq!(page.sum("failproof_events_total", &["type=\"agent_start\""]), 1.0);
    assert_eq!(
        page.sum("failproof_event_delay_seconds_count", &[]),
        page.sum("failproof_sink_write_duration_seconds_count", &[])
    );
    assert_eq!(page.sum("failproof_sink_events_total", &["sink=\"memory\""]), events);
    assert_eq!(page.sum("failproof_sink_lag_seconds", &[]), 0.0);
    assert!(page.sum("failproof_warnings_total", &["kind=\"request-undecodable\""]) >= 1.0);
    assert_eq!(page.sum("failproof_ready", &[]), 1.0);
    assert!(page.sum("process_resident_memory_bytes", &[]) > 1e6 && page.sum("process_open_fds", &[]) > 3.0);

    let spans = page.sum("failproof_spans_total", &["result=\"accepted\""]);
    let (lines, summary) = server.stop();
    assert_eq!(lines, expected());
    assert_eq!((summary.requests, summary.refused), (2, 4));
    assert_eq!((summary.spans as f64, summary.rejected_spans, summary.events as f64), (spans, 1, events));
}

/// Fails for as long as it is told to.
struct Failing {
    fails: Arc<AtomicBool>,
    lines: Collected,
}

impl Sink for Failing {
    fn write(&mut self, lines: &[u8]) -> Result<(), SinkError> {
        if self.fails.load(Ordering::Relaxed) { Err(SinkError::NoHome) } else { self.lines.write(lines) }
    }

    fn describe(&self) -> String {
        "a sink that fails".to_owned()
    }
}

#[test]
fn a_gateway_whose_sink_fails_is_not_ready_and_says_how_long() {
    let (fails, lines) = (Arc::new(AtomicBool::new(true)), Collected::default());
    let sink = Failing { fails: fails.clone(), lines: lines.clone() };
    let server = Server::start_with(|options| {
        options.sink = Box::new(sink);
        options.timing.grace = Duration::ZERO;
    });
    assert_eq!(server.post(JSON, "", &recording()).status, 200);
    wait_until(|| server.get("/readyz").status == 503);
    assert_eq!(server.get("/readyz").body, b"sink: events cannot be written, see the log\n");
    wait_until(|| Page::of(&server).sum("failproof_sink_retries_total", &[]) > 0.0);
    let page = Page::of(&server);
    assert!(page.sum("failproof_sink_failures_total", &["sink=\"a sink that fails\""]) > 0.0);
    assert!(page.sum("failproof_sink_lag_seconds", &[]) > 0.0);
    assert_eq!(page.sum("failproof_ready", &[]), 0.0);
    assert_eq!(server.get("/healthz").status, 200);

    fails.store(false, Ordering::Relaxed);
    wait_until(|| server.get("/readyz").status == 200);
    assert_eq!(Page::of(&server).sum("failproof_sink_lag_seconds", &[]), 0.0);
    server.stop();
    assert_eq!(String::from_utf8(lines.0.lock().unwrap().clone()).unwrap(), expected());
}

#[test]
fn the_readme_has_every_metric_and_no_other() {
    let server = Server::start();
    let names = Page::of(&server).names;
    let (_, section) = include_str!("../../README.md").split_once("\n### Metrics\n").unwrap();
    let rows = section.split("\n#").next().unwrap().lines().filter(|line| line.starts_with("| `"));
    let cells = rows.filter_map(|row| row.split('|').nth(1));
    let told: BTreeSet<String> = cells.flat_map(|cell| cell.split('`').skip(1).step_by(2)).map(str::to_owned).collect();
    assert_eq!(told, names);
    server.stop();
}
