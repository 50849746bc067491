//! Kafka between two tiers of Collectors: each consumer has a gateway of its own, and a trace stays whole.

use super::collector::{Collector, Kafka};
use super::runs::{GRACE, Sender, assert_whole, events_of, interleaved, wait_for};
use super::support::serving::Gateway;

const MEMBERS: [&str; 2] = ["a", "b"];

#[test]
#[ignore = "needs a Collector and a broker: .ci/run has them"]
fn a_consumer_is_stopped_and_started() {
    let folder = tempfile::tempdir().unwrap();
    let kafka = Kafka::start();
    let gateways = MEMBERS.map(|member| Gateway::start_with_grace(GRACE, &folder.path().join(member)));
    let consume = |at: usize| {
        let variables = [("KAFKA_BROKERS", &kafka.broker), ("FAILPROOF_GATEWAY", &gateways[at].grpc)]
            .map(|(name, value)| (name, value.as_str()));
        let variables = [&variables[..], &[("KAFKA_MEMBER", MEMBERS[at])]].concat();
        let consumer = Collector::start("kafka-consumer.yaml", folder.path(), &variables);
        consumer.wait_for("assigning everything new");
        consumer
    };
    let [first, second] = [0, 1].map(consume);
    let producer = Collector::start("kafka-producer.yaml", folder.path(), &[("KAFKA_BROKERS", &kafka.broker)]);
    let mut sender = Sender::connect(&producer.grpc);

    let sent = interleaved(0..80);
    let (before, after) = sent.split_at(sent.len() / 2);
    sender.send(before);
    first.stop();
    // Its partitions wait for it: it has a name in the group.
    sender.send(after);
    let first = consume(0);
    let expected = events_of(&sent);
    wait_for(&gateways, expected.len());
    for collector in [producer, first, second] {
        collector.stop();
    }
    assert_whole(&gateways.map(Gateway::stop), &expected);
}
