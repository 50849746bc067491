//! Three gateways behind the load-balancing exporter: a trace stays whole, also while one of them is away.

use std::ops::Range;

use serde_json::Value;

use super::collector::Collector;
use super::runs::{GRACE, Sender, assert_whole, events_of, interleaved, wait_for};
use super::support::serving::Gateway;

const BEFORE: Range<usize> = 0..40;
const UNDER_WAY: Range<usize> = 40..80;
const MEANWHILE: Range<usize> = 80..120;
const AFTER: Range<usize> = 120..160;

#[test]
#[ignore = "needs a Collector: .ci/run has it"]
fn one_of_three_gateways_is_stopped_and_started() {
    let folder = tempfile::tempdir().unwrap();
    let names = ["0", "1", "2"];
    let mut gateways = names.map(|name| Gateway::start_with_grace(GRACE, &folder.path().join(name)));
    let variables = ["FAILPROOF_GATEWAY_0", "FAILPROOF_GATEWAY_1", "FAILPROOF_GATEWAY_2"];
    let addresses: Vec<(&str, &str)> =
        variables.iter().zip(&gateways).map(|(variable, gateway)| (*variable, gateway.grpc.as_str())).collect();
    let collector = Collector::start("fan-out.yaml", folder.path(), &addresses);
    let mut sender = Sender::connect(&collector.grpc);

    let mut sent = interleaved(BEFORE);
    sender.send(&sent);
    wait_for(&gateways, events_of(&sent).len());
    let under_way = interleaved(UNDER_WAY);
    let (first, second) = under_way.split_at(under_way.len() / 2);
    sender.send(first);
    gateways[1].terminate();
    let meanwhile = interleaved(MEANWHILE);
    sender.send(second);
    sender.send(&meanwhile);
    gateways[1].restart();
    let after = interleaved(AFTER);
    sender.send(&after);
    sent.extend([under_way, meanwhile, after].concat());

    let expected = events_of(&sent);
    wait_for(&gateways, expected.len());
    collector.stop();
    let told: Vec<Vec<Value>> = gateways.map(Gateway::stop).into();
    assert_whole(&told, &expected);
}
