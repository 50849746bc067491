//! The same spans again: in the same requests and in others, by another way, with the answer lost, while their trace is
//! remembered, when it is forgotten, and in another process.

use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest as Request;

use super::client::{Addresses, Client, WAYS, Way};
use super::load::expected;
use super::runs::{self, Random, interleaved, orphan, request, run};
use super::support::serving::{Gateway, wait_until};
use super::tally::{Faults, Tally};
use super::{Place, alone};

const RUNS: u64 = 12;
/// How long a trace is remembered; and a request has time to follow the one before.
const SETTINGS: [&str; 4] = ["--grace", "50ms", "--idle-timeout", "2s"];

struct Again {
    place: Place,
    gateway: Gateway,
    requests: Vec<Request>,
    expected: Tally,
    /// How often it was looked.
    looks: u64,
}

impl Again {
    fn start() -> Self {
        let place = Place::new();
        let gateway = place.gateway(&SETTINGS);
        let mut random = Random(0x6167_6169);
        let numbers: Vec<u64> = (0..RUNS).collect();
        let requests = numbers.chunks(3).flat_map(|numbers| interleaved(numbers, &mut random)).collect();
        Again { place, gateway, requests, expected: expected(0..RUNS), looks: 0 }
    }

    fn client(&self) -> Client {
        Client::new(Addresses::of(&self.gateway))
    }

    /// Sends all requests, of which some answers are lost: the client goes, and sends the request again.
    fn send(&self) {
        let mut client = self.client();
        for (number, request) in self.requests.iter().enumerate() {
            if number % 3 == 0 {
                client.send_and_go(request);
            }
            client.insist(WAYS[number % WAYS.len()], request);
        }
    }

    /// Sends all spans again and again.
    fn repeat(&self) {
        let mut client = self.client();
        for (number, request) in self.requests.iter().enumerate() {
            client.insist(WAYS[(number + 1) % WAYS.len()], request);
            client.send_and_go(request);
        }
        let spans = || (0..RUNS).flat_map(run);
        client.insist(Way::Json, &request(spans().collect()));
        for span in spans().collect::<Vec<_>>().into_iter().rev() {
            client.insist(Way::Grpc, &request(vec![span]));
        }
        let (half, other): (Vec<_>, Vec<_>) = spans().partition(|span| span.span_id[7] % 2 == 0);
        client.insist(Way::Protobuf, &request(half));
        client.insist(Way::Grpc, &request(other));
    }

    /// Waits until all that came before has come to its end, and says what is there.
    fn look(&mut self) -> Faults {
        // A span that waits in vain is told after the idle timeout. What came before it is told or forgotten by then.
        let number = 1_000 + self.looks;
        self.looks += 1;
        self.client().insist(Way::Grpc, &request(vec![orphan(number)]));
        let lines = runs::lines(vec![orphan(number)]);
        self.expected.add(&lines);
        let mut witness = Tally::default();
        witness.add(&lines);
        wait_until("the last span is told", || Tally::of_spool(&self.place.spool()).faults(&witness).lost == 0);
        Tally::of_spool(&self.place.spool()).faults(&self.expected)
    }
}

#[test]
fn what_came_already_gives_no_new_event() {
    let _alone = alone();
    let mut again = Again::start();
    again.send();
    again.repeat();
    assert_eq!(again.look(), Faults::NONE, "while the traces are remembered");
    again.repeat();
    assert_eq!(again.look(), Faults::NONE, "when they are forgotten");
    again.gateway.kill();
    again.gateway.restart_elsewhere();
    again.repeat();
    assert_eq!(again.look(), Faults::NONE, "after a kill");
    again.gateway.terminate();
    again.gateway.restart_elsewhere();
    assert_eq!(again.look(), Faults::NONE, "after an end in good order");
    // By now the journal has no use for the spans themselves.
    again.gateway.terminate();
    again.gateway.restart_elsewhere();
    again.repeat();
    assert_eq!(again.look(), Faults::NONE, "when the journal has let the spans go");
}

#[test]
fn what_came_again_is_not_new_when_the_first_of_it_is_gone() {
    let _alone = alone();
    let mut again = Again::start();
    again.send();
    assert_eq!(again.look(), Faults::NONE);
    // Each process appends to a file of its own, and removes those before it in which nothing is needed any more.
    for _ in 0..3 {
        again.gateway.terminate();
        again.gateway.restart_elsewhere();
        again.client().insist(Way::Grpc, &request((0..RUNS).flat_map(run).collect()));
        assert_eq!(again.look(), Faults::NONE);
    }
    again.gateway.terminate();
}

#[test]
fn spans_of_which_half_came_before_the_kill() {
    let _alone = alone();
    let mut again = Again::start();
    let mut client = again.client();
    // All but the root, which is the last of each run.
    for request in &again.requests {
        let mut request = request.clone();
        for spans in request.resource_spans.iter_mut().flat_map(|spans| &mut spans.scope_spans) {
            spans.spans.retain(|span| !span.parent_span_id.is_empty());
        }
        client.insist(Way::Protobuf, &request);
    }
    again.gateway.kill();
    again.gateway.restart_elsewhere();
    again.send();
    again.repeat();
    assert_eq!(again.look(), Faults::NONE);
    again.gateway.terminate();
}
