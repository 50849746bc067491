//! Three gateways behind the load-balancing exporter: a trace stays whole, also while one of them is away.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use serde_json::Value;

use super::collector::Collector;
use super::runs::{GRACE, Sender, events_of, interleaved};
use super::support::programs::sorted;
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
    assert_eq!(sorted(&told.concat()), sorted(&expected));
    assert!(told.iter().all(|events| !events.is_empty()), "every gateway has its share");
    let mut gateways_of: BTreeMap<&str, BTreeSet<usize>> = BTreeMap::new();
    for (gateway, events) in told.iter().enumerate() {
        for event in events {
            gateways_of.entry(event["fw_trace_id"].as_str().unwrap()).or_default().insert(gateway);
        }
    }
    let torn: Vec<_> = gateways_of.iter().filter(|(_, gateways)| gateways.len() > 1).collect();
    assert!(torn.is_empty(), "{torn:?}");
}

fn wait_for(gateways: &[Gateway], events: usize) {
    let what = format!("{events} events are in the spools");
    super::support::serving::wait_until(&what, || gateways.iter().map(Gateway::written).sum::<usize>() >= events);
}
