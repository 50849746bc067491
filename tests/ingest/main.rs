//! The sink `ingest` against an endpoint that misbehaves in every way that the contract knows of.
#![cfg(feature = "ingest")]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::print_stdout)]

mod killed;
#[cfg(feature = "cli")]
mod program;
mod proxy;
mod server;
mod tls;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use opentelemetry_failproof::sink::{
    ApiKey, Backoff, Ingest, IngestOptions, Queue, QueueOptions, QueueStatus, ReceiverUrl, Sink,
};
use proptest::prelude::*;

use self::server::{Answer, Server};

const KEY: &str = "made-up-key-of-this-test";

fn ingest(server: &Server) -> IngestOptions {
    let mut options = IngestOptions::new(ReceiverUrl::parse(&server.url()).unwrap(), ApiKey::new(KEY).unwrap());
    options.machine_id = "machine-of-this-test".to_owned();
    options.timeout = Duration::from_millis(500);
    options
}

fn queue_with(directory: &Path, options: IngestOptions) -> Queue {
    let mut queue = QueueOptions::new(directory);
    queue.backoff = Backoff { first: Duration::from_millis(1), limit: Duration::from_millis(5) };
    Queue::start(queue, Ingest::new(options).unwrap()).unwrap()
}

fn queue(directory: &Path, server: &Server) -> Queue {
    queue_with(directory, ingest(server))
}

fn soon() -> Instant {
    Instant::now() + Duration::from_secs(30)
}

fn until(what: &str, mut condition: impl FnMut() -> bool) {
    let deadline = soon();
    while !condition() {
        assert!(Instant::now() < deadline, "not within 30 seconds: {what}");
        thread::sleep(Duration::from_millis(1));
    }
}

fn event(number: usize) -> String {
    format!("{{\"n\":{number}}}")
}

/// The lines of the parked batches; each batch has a note.
fn parked(directory: &Path) -> BTreeSet<String> {
    let mut lines = BTreeSet::new();
    for entry in fs::read_dir(directory.join("parked")).unwrap() {
        let path = entry.unwrap().path();
        let text = fs::read_to_string(&path).unwrap();
        assert!(!text.contains(KEY), "{text}");
        if path.extension().unwrap() == "jsonl" {
            assert!(path.with_extension("txt").exists());
            lines.extend(text.lines().map(str::to_owned));
        }
    }
    lines
}

fn status(queue: &Queue) -> QueueStatus {
    queue.progress()[0].status()
}

#[test]
fn a_request_says_what_the_contract_wants() {
    let (directory, server) = (tempfile::tempdir().unwrap(), Server::start());
    server.answer([Answer::Status(503, ""), Answer::Accept]);
    let mut queue = queue(directory.path(), &server);
    queue.write(b"{\"n\":1}\n{\"n\":2}\n").unwrap();
    queue.write(b"{\"n\":3}\n").unwrap();
    queue.close(soon()).unwrap();

    let requests = server.requests();
    assert_eq!(requests.len(), 3);
    for request in &requests {
        assert_eq!(request.line, "POST /v1/events HTTP/1.1");
        let header = |name: &str| request.headers[name].as_str();
        assert_eq!(header("authorization"), format!("Bearer {KEY}"));
        assert_eq!(header("content-type"), "application/x-ndjson");
        assert_eq!(header("x-failproofai-machine-id"), "machine-of-this-test");
        assert!(!request.headers.contains_key("content-encoding"));
        let id = header("x-request-id");
        assert!(id.len() == 32 && id.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f')), "{id}");
    }
    let all = |name: &str| requests.iter().map(|request| request.headers[name].clone()).collect::<Vec<_>>();
    assert_eq!(all("x-request-id").into_iter().collect::<BTreeSet<_>>().len(), 3, "one for each attempt");
    let batches = all("x-failproofai-batch-id");
    assert_eq!(batches[0], batches[1], "the same for each attempt of a batch");
    assert_ne!(batches[0], batches[2]);
    assert_eq!(requests[1].body, b"{\"n\":1}\n{\"n\":2}\n");
}

#[test]
fn bodies_are_compressed_when_asked_for() {
    let (directory, server) = (tempfile::tempdir().unwrap(), Server::start());
    let mut options = ingest(&server);
    options.gzip = true;
    let mut queue = queue_with(directory.path(), options);
    queue.write(b"{\"n\":1}\n").unwrap();
    queue.close(soon()).unwrap();
    assert_eq!(server.requests()[0].headers["content-encoding"], "gzip");
    assert_eq!(server.stored(), BTreeMap::from([(event(1), 1)]));
}

#[test]
fn more_than_eight_mebibytes_are_split_on_lines() {
    let (directory, server) = (tempfile::tempdir().unwrap(), Server::start());
    let mut options = ingest(&server);
    options.timeout = Duration::from_secs(20);
    let mut queue = queue_with(directory.path(), options);
    let line = format!("{{\"text\":\"{}\"}}\n", "x".repeat(3 << 20));
    let lines: String = (0..5).map(|number| line.replacen("{", &format!("{{\"n\":{number},"), 1)).collect();
    queue.write(lines.as_bytes()).unwrap();
    queue.close(soon()).unwrap();
    let requests = server.requests();
    assert_eq!(requests.len(), 3);
    assert!(requests.iter().all(|request| request.body.len() <= 8 << 20 && request.body.ends_with(b"}\n")));
    assert_eq!(server.stored().len(), 5);
}

#[test]
fn what_may_be_taken_later_is_tried_again_until_it_is() {
    let (directory, server) = (tempfile::tempdir().unwrap(), Server::start());
    let failures = [
        Answer::Status(408, ""),
        Answer::Status(429, "retry-after: 0\r\n"),
        Answer::Status(500, ""),
        Answer::Status(502, ""),
        Answer::Status(503, "retry-after: Wed, 21 Oct 2015 07:28:00 GMT\r\n"),
        Answer::Drop,
        Answer::DieMidBody,
        Answer::Hang,
    ];
    server.answer(failures.clone());
    let mut queue = queue(directory.path(), &server);
    queue.write(b"{\"n\":1}\n").unwrap();
    queue.write(b"{\"n\":2}\n").unwrap();
    queue.close(soon()).unwrap();
    assert_eq!(server.stored().into_keys().collect::<Vec<_>>(), [event(1), event(2)]);
    let QueueStatus { sent, retried, parked, .. } = status(&queue);
    assert_eq!((sent, retried, parked), (2, failures.len() as u64, 0));
    assert_eq!(server.requests().len(), failures.len() + 2);
}

#[test]
fn the_endpoint_says_how_long_it_wants_to_be_left_alone() {
    let (directory, server) = (tempfile::tempdir().unwrap(), Server::start());
    server.answer([Answer::Status(429, "retry-after: 3600\r\n")]);
    let mut queue = queue(directory.path(), &server);
    queue.write(b"{\"n\":1}\n").unwrap();
    until("it is told to wait", || status(&queue).retried == 1);
    assert!(queue.close(Instant::now() + Duration::from_millis(100)).is_err(), "it would be tried after 5 ms");
    assert_eq!(server.requests().len(), 1);
}

#[test]
fn what_is_not_taken_is_parked_and_the_key_goes_nowhere_else() {
    let (directory, server, elsewhere) = (tempfile::tempdir().unwrap(), Server::start(), Server::start());
    let refusals = [
        Answer::Skip,
        Answer::Html,
        Answer::Redirect(elsewhere.address),
        Answer::Status(301, "location: /v1/events\r\n"),
        Answer::Status(400, ""),
        Answer::Status(401, ""),
        Answer::Status(404, ""),
        Answer::Status(413, "retry-after: 1\r\n"),
        Answer::Status(204, ""),
    ];
    server.answer(refusals.clone());
    let mut queue = queue(directory.path(), &server);
    let count = refusals.len();
    for number in 0..=count {
        queue.write(format!("{}\n", event(number)).as_bytes()).unwrap();
    }
    queue.close(soon()).unwrap();
    assert_eq!(parked(directory.path()), (0..count).map(event).collect());
    assert_eq!(server.stored(), BTreeMap::from([(event(count), 1)]));
    assert_eq!(server.requests().len(), count + 1, "each is tried once");
    assert_eq!(elsewhere.requests().len(), 0, "nothing goes where a redirect leads");
    assert_eq!(status(&queue).parked, count as u64);
}

fn answers(elsewhere: &Server) -> impl Strategy<Value = Vec<Answer>> {
    let some = [
        Answer::Accept,
        Answer::Skip,
        Answer::Status(408, ""),
        Answer::Status(429, "retry-after: 0\r\n"),
        Answer::Status(500, ""),
        Answer::Redirect(elsewhere.address),
        Answer::Html,
        Answer::Drop,
        Answer::DieMidBody,
    ];
    proptest::collection::vec(proptest::sample::select(some.to_vec()), 0..30)
}

#[test]
fn whatever_the_endpoint_does_every_event_is_stored_or_parked() {
    let elsewhere = Server::start();
    let mut runner = proptest::test_runner::TestRunner::new(ProptestConfig {
        cases: 25,
        failure_persistence: None,
        ..ProptestConfig::default()
    });
    let result = runner.run(&answers(&elsewhere), |answers| {
        let (directory, server) = (tempfile::tempdir().unwrap(), Server::start());
        server.answer(answers.clone());
        let mut queue = queue(directory.path(), &server);
        for number in (0..20).step_by(2) {
            queue.write(format!("{}\n{}\n", event(number), event(number + 1)).as_bytes()).unwrap();
        }
        queue.close(soon()).unwrap();
        let (stored, parked) = (server.stored(), parked(directory.path()));
        let seen: BTreeSet<_> = stored.keys().chain(&parked).cloned().collect();
        prop_assert_eq!(seen, (0..20).map(event).collect::<BTreeSet<_>>());
        // Only an answer that got lost makes an event come twice, and it is the same to the byte.
        let lost = answers.contains(&Answer::DieMidBody);
        prop_assert!(lost || stored.values().all(|count| *count == 1), "{:?}", stored);
        // Parked is what was refused, after an answer that got lost too, or what was skipped in part.
        let skipped = answers.contains(&Answer::Skip);
        prop_assert!(skipped || lost || parked.iter().all(|line| !stored.contains_key(line)));
        let batches: BTreeMap<_, _> = server
            .requests()
            .into_iter()
            .map(|request| (request.headers["x-failproofai-batch-id"].clone(), request.body))
            .collect();
        prop_assert_eq!(batches.len(), 10);
        Ok(())
    });
    result.unwrap();
    assert_eq!(elsewhere.requests().len(), 0);
}

#[test]
fn a_queue_that_nobody_answers_keeps_everything() {
    let directory = tempfile::tempdir().unwrap();
    let nobody = {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        listener.local_addr().unwrap()
    };
    let url = ReceiverUrl::parse(&format!("http://{nobody}/v1/events")).unwrap();
    let mut queue = queue_with(directory.path(), IngestOptions::new(url, ApiKey::new(KEY).unwrap()));
    queue.write(b"{\"n\":1}\n").unwrap();
    until("some attempts", || status(&queue).retried > 2);
    let error = queue.close(Instant::now()).unwrap_err().to_string();
    assert!(error.contains("next start") && !error.contains(KEY), "{error}");
    drop(queue);

    let server = Server::start();
    let mut queue = self::queue(directory.path(), &server);
    queue.close(soon()).unwrap();
    assert_eq!(server.stored(), BTreeMap::from([(event(1), 1)]));
}
