//! Ended in good order while requests come; and two on one spool.

use std::time::{Duration, Instant};

use super::client::Addresses;
use super::load::{Load, expected};
use super::runs::Random;
use super::support::serving::{Gateway, wait_until};
use super::tally::{Faults, Tally};
use super::{Place, alone};

#[test]
fn ended_by_sigterm_under_load() {
    let _alone = alone();
    let place = Place::new();
    let load = Load::start(6, 0);
    let mut random = Random(0x7465_726d);
    let mut gateway = place.gateway(&["--grace", "20ms"]);
    for _ in 0..10 {
        let enough = load.acknowledged() + random.below(120);
        load.lead_to(Some(Addresses::of(&gateway)));
        wait_until("requests are acknowledged", || load.acknowledged() > enough);
        let asked = Instant::now();
        // Asserts that it has ended well.
        gateway.terminate();
        assert!(
            asked.elapsed() < Duration::from_secs(30),
            "requests and the sink have a limit each: {:?}",
            asked.elapsed()
        );
        load.lead_to(None);
        gateway.restart_elsewhere();
    }
    load.lead_to(Some(Addresses::of(&gateway)));
    let runs = load.end();
    gateway.terminate();
    assert_eq!(Tally::of_spool(&place.spool()).faults(&expected(0..runs)), Faults::NONE);
}

#[test]
fn two_gateways_on_one_spool() {
    let _alone = alone();
    let spool = Place::new();
    let places = [Place::new(), Place::new()];
    let start = |place: &Place| Gateway::start_with(place.folder.path(), &spool.spool(), &["--grace", "0s"]);
    let mut gateways = [start(&places[0]), start(&places[1])];
    // The same moment for both again and again, so that their files would have the same names if they could.
    let far = 1 << 32;
    let loads = [Load::start(3, 0), Load::start(3, far)];
    for _ in 0..3 {
        for (load, gateway) in loads.iter().zip(&gateways) {
            load.lead_to(Some(Addresses::of(gateway)));
        }
        let enough = loads.each_ref().map(|load| load.acknowledged() + 200);
        wait_until("requests are acknowledged", || {
            loads.iter().zip(enough).all(|(load, enough)| load.acknowledged() > enough)
        });
        gateways.iter_mut().for_each(Gateway::kill);
        loads.iter().for_each(|load| load.lead_to(None));
        gateways.iter_mut().for_each(Gateway::restart_elsewhere);
    }
    for (load, gateway) in loads.iter().zip(&gateways) {
        load.lead_to(Some(Addresses::of(gateway)));
    }
    let [first, second] = loads.map(Load::end);
    gateways.iter_mut().for_each(Gateway::terminate);
    assert_eq!(Tally::of_spool(&spool.spool()).faults(&expected((0..first).chain(far..second))), Faults::NONE);
}
