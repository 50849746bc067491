//! Behind a Collector with storage, neither the gateway's death nor the Collector's loses or doubles an event.

use super::collector::Collector;
use super::runs::{GRACE, Sender, events_of, interleaved};
use super::support::programs::assert_same;
use super::support::serving::Gateway;

/// How often the gateway is killed.
const ROUNDS: usize = 10;
/// How many runs are under way at each kill.
const RUNS: usize = 20;

#[test]
#[ignore = "needs a Collector: .ci/run has it"]
fn a_gateway_that_is_killed_again_and_again() {
    let folder = tempfile::tempdir().unwrap();
    let mut gateway = Gateway::start_with_grace(GRACE, folder.path());
    let collector = Collector::start("durable.yaml", folder.path(), &[("FAILPROOF_GATEWAY", &gateway.grpc)]);
    let mut sender = Sender::connect(&collector.grpc);
    let mut sent = Vec::new();
    for round in 0..ROUNDS {
        let requests = interleaved(round * RUNS..(round + 1) * RUNS);
        let (before, after) = requests.split_at(requests.len() / 2);
        sender.send(before);
        gateway.kill();
        sender.send(after);
        gateway.restart();
        sent.extend(requests);
        if round % 4 == 0 {
            // In the other rounds it is killed with what the kill before has left.
            gateway.wait_for(events_of(&sent).len());
        }
    }
    let expected = events_of(&sent);
    gateway.wait_for(expected.len());
    collector.stop();
    assert_same(&gateway.stop(), &expected, "the gateway");
}

#[test]
#[ignore = "needs a Collector: .ci/run has it"]
fn a_collector_that_is_killed_while_the_gateway_is_away() {
    let folder = tempfile::tempdir().unwrap();
    let mut gateway = Gateway::start_with_grace(GRACE, folder.path());
    gateway.terminate();
    let mut sent = Vec::new();
    for round in 0..3 {
        let collector = Collector::start("durable.yaml", folder.path(), &[("FAILPROOF_GATEWAY", &gateway.grpc)]);
        let requests = interleaved(round * RUNS..(round + 1) * RUNS);
        Sender::connect(&collector.grpc).send(&requests);
        sent.extend(requests);
        collector.kill();
    }
    gateway.restart();
    let collector = Collector::start("durable.yaml", folder.path(), &[("FAILPROOF_GATEWAY", &gateway.grpc)]);
    let expected = events_of(&sent);
    gateway.wait_for(expected.len());
    collector.stop();
    assert_same(&gateway.stop(), &expected, "the gateway");
}
