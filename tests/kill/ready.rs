//! Ready again soon, however much lies there.

use std::time::{Duration, Instant};

use super::client::{Addresses, Client, Way};
use super::runs::{request, span, text};
use super::support::serving::wait_until;
use super::{Place, alone};

/// How many files lie in the spool.
const FILES: usize = 10_000;
/// How many spans wait in the journal: 100 MB of them.
const SPANS: u64 = 25_000;
const SPAN_BYTES: usize = 4_000;

#[test]
fn ready_with_10_000_files_in_the_spool_and_100_mb_in_the_journal() {
    let _alone = alone();
    let place = Place::new();
    let mut gateway = place.gateway(&["--idle-timeout", "10m"]);
    let mut client = Client::new(Addresses::of(&gateway));
    let words = "twelve bolts, ".repeat(SPAN_BYTES / 14);
    let waiting = |number: u64| {
        let answered = format!(r#"[{{"role":"assistant","parts":[{{"type":"text","content":"{words}"}}]}}]"#);
        span(number / 5, 2 + number % 5, 1, "chat", "scripted-1", [text("gen_ai.output.messages", answered)])
    };
    for first in (0..SPANS).step_by(500) {
        client.insist(Way::Grpc, &request((first..first + 500).map(waiting).collect()));
    }
    gateway.kill();
    std::fs::create_dir_all(place.spool()).unwrap();
    for number in 0..FILES {
        std::fs::write(place.spool().join(format!("event-2026-01-02T03-04-05-678Z-1-{number}.jsonl")), "{}\n").unwrap();
    }

    let started = Instant::now();
    gateway.restart_elsewhere();
    let mut client = Client::new(Addresses::of(&gateway));
    wait_until("it is healthy", || client.get("/healthz").is_ok());
    let healthy = started.elapsed();
    client.insist(Way::Grpc, &request(vec![span(SPANS, 1, 0, "invoke_agent", "concierge", [])]));
    let acknowledged = started.elapsed();
    wait_until("the journal is read", || gateway.has_logged("the journal holds 25000 spans of 5000 traces"));
    eprintln!("healthy after {healthy:?}, acknowledged after {acknowledged:?}, read after {:?}", started.elapsed());
    // A second is promised; a test that has to pass on any machine can ask for no more than this.
    assert!(acknowledged < Duration::from_secs(10), "{acknowledged:?}");
    gateway.kill();
}
