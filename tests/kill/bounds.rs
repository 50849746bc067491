//! More than any memory holds: traces that never become complete, and one that has no end.

use std::collections::HashMap;

use opentelemetry_proto::tonic::trace::v1::Span;

use super::client::{Addresses, Client, WAYS};
use super::runs::{request, span};
use super::support::serving::{Gateway, wait_until};
use super::tally::{Faults, Tally, finished, written};
use super::{Place, alone, kib, runs};

/// What the whole process may take, in KiB.
const LIMIT: u64 = 64 << 10;

const TRACES: u64 = 100_000;
const SPANS: u64 = 1_000_000;
/// How many spans a request has.
const REQUEST: usize = 512;

/// The most memory that the process has had.
fn peak(gateway: &Gateway, when: &str) {
    let peak = kib(gateway.id(), "VmHWM:");
    eprintln!("{when}: at most {peak} KiB, now {} KiB", kib(gateway.id(), "VmRSS:"));
    assert!(peak < LIMIT, "{when}: {peak} KiB");
}

fn send(gateway: &Gateway, spans: impl Iterator<Item = Vec<Span>>) {
    let mut client = Client::new(Addresses::of(gateway));
    let mut part = Vec::new();
    let mut sent = 0;
    let mut send = |part: &mut Vec<Span>| {
        client.insist(WAYS[sent % 2], &request(std::mem::take(part)));
        sent += 1;
    };
    for spans in spans {
        part.extend(spans);
        if part.len() >= REQUEST {
            send(&mut part);
        }
    }
    send(&mut part);
}

/// Spans whose parent never comes.
fn open(number: u64) -> Vec<Span> {
    (2..3 + number % 3).map(|id| span(number, id, 1, "chat", "scripted-1", [])).collect()
}

#[test]
#[ignore = "takes minutes: .ci/run has them"]
fn a_hundred_thousand_open_traces() {
    let _alone = alone();
    let place = Place::new();
    let mut gateway = place.gateway(&["--idle-timeout", "10m", "--max-wait", "1h"]);
    send(&gateway, (0..TRACES).map(open));
    peak(&gateway, "all have come");
    gateway.kill();
    gateway.set(&["--idle-timeout", "1s"]);
    gateway.restart_elsewhere();
    let mut expected = Tally::default();
    (0..TRACES).for_each(|number| expected.add(&runs::lines(open(number))));
    wait_until("all are told", || written(&place.spool()) >= expected.bytes());
    peak(&gateway, "after a kill");
    gateway.terminate();
    assert_eq!(Tally::of_spool(&place.spool()).faults(&expected), Faults::NONE);
}

#[test]
#[ignore = "takes minutes: .ci/run has them"]
fn a_trace_of_a_million_spans() {
    let _alone = alone();
    let place = Place::new();
    let mut gateway = place.gateway(&["--grace", "100ms", "--idle-timeout", "10m", "--max-wait", "1h"]);
    let leaf = |id| vec![span(0, id, 1, "chat", "scripted-1", [])];
    send(&gateway, (2..=SPANS).map(leaf).chain([vec![span(0, 1, 0, "invoke_agent", "concierge", [])]]));
    peak(&gateway, "all have come");
    gateway.terminate();
    let told = told(&place);
    for kind in ["model_request", "model_response"] {
        let of_kind = |id: &u64| told.get(&(kind.to_owned(), format!("{id:016x}"))).copied().unwrap_or_default();
        let lost = (2..=SPANS).filter(|id| of_kind(id) == 0).count();
        let doubled = (2..=SPANS).filter(|id| of_kind(id) > 1).count();
        assert_eq!((lost, doubled), (0, 0), "{kind}");
    }
    let agents: usize = told.iter().filter(|((kind, _), _)| kind.starts_with("agent_")).map(|(_, count)| count).sum();
    eprintln!("{agents} events of agents");
}

/// How often there is an event of each type and span. Its lines are not read as JSON, for there are millions.
fn told(place: &Place) -> HashMap<(String, String), usize> {
    let mut told = HashMap::new();
    for file in finished(&place.spool()) {
        let lines = std::fs::read_to_string(file).unwrap();
        for line in lines.lines() {
            let value = |key: &str| {
                let start = line.find(key).unwrap_or_else(|| panic!("no {key} in {line}")) + key.len();
                line[start..].split('"').next().unwrap().to_owned()
            };
            *told.entry((value(r#""type":""#), value(r#""fw_span_id":""#))).or_default() += 1;
        }
    }
    told
}
