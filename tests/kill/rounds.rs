//! Killed at random moments, again and again, under load.

use std::time::Duration;

use super::client::Addresses;
use super::daemon::Daemon;
use super::load::{Load, expected};
use super::runs::Random;
use super::support::serving::wait_until;
use super::tally::{Faults, Tally};
use super::{Place, alone};

/// How often the gateway is killed.
const ROUNDS: usize = 50;
/// How many programs export.
const PROGRAMS: usize = 6;
/// What the gateway says when it has taken up the work of the one before.
const TAKEN_UP: &str = "the journal holds";

/// The root of a run comes last, so that a short grace is enough; and then events are written within each round.
const SETTINGS: [&str; 2] = ["--grace", "20ms"];

#[test]
#[ignore = "takes a minute or two: .ci/run has it"]
fn killed_at_random_moments_under_load() {
    let _alone = alone();
    let place = Place::new();
    let taken = place.folder.path().join("taken");
    let daemon = Daemon::start(&place.spool(), &taken);
    let load = Load::start(PROGRAMS, 0);
    let mut random = Random(0x6b69_6c6c);
    let mut gateway = place.gateway(&SETTINGS);
    for round in 0..ROUNDS {
        if round % 5 == 4 {
            // Killed at once, while it takes up the work of the one before; and the next one has what two have left.
            std::thread::sleep(Duration::from_micros(random.below(30_000) as u64));
            gateway.kill();
            gateway.restart_elsewhere();
        }
        if round % 2 == 1 {
            // A batch that was being written when the gateway was killed, and is taken before the next one has looked for
            // it, comes again: only the server can tell that it has it. So the daemon works once that is over.
            wait_until("the work is taken up", || gateway.has_logged(TAKEN_UP));
            daemon.work(true);
            if round > 1 {
                let taken = daemon.taken();
                wait_until("the daemon takes a file", || daemon.taken() > taken);
            }
        }
        let enough = load.acknowledged() + random.below(40);
        load.lead_to(Some(Addresses::of(&gateway)));
        wait_until("requests are acknowledged", || load.acknowledged() > enough);
        std::thread::sleep(Duration::from_micros(random.below(30_000) as u64));
        daemon.work(false);
        gateway.kill();
        load.lead_to(None);
        gateway.restart_elsewhere();
    }
    load.lead_to(Some(Addresses::of(&gateway)));
    let (requests, again) = (load.acknowledged(), load.unacknowledged());
    let runs = load.end();
    gateway.terminate();
    drop(daemon);

    let expected = expected(0..runs);
    let mut found = Tally::of_spool(&place.spool());
    let left = found.total();
    found.add_spool(&taken);
    eprintln!(
        "{runs} runs in {requests} requests, {again} of them sent again; {} events, {left} not taken",
        found.total()
    );
    assert_eq!(found.faults(&expected), Faults::NONE);
    assert!(again > 0, "no kill hit a request");
    assert!(left > 0 && left < found.total(), "the daemon took a part");
}
