//! The way from a request to the spool, with the process dying at every step of it, the power cut, and disks that fail.

use std::collections::BTreeMap;
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use tokio::runtime::Runtime;

use crate::config::Config;
use crate::delivery::Delivery;
use crate::disk::Step;
use crate::disk::fault::{Faults, Plan};
use crate::gateway::admission::{Admission, Format, Room};
use crate::gateway::body::Limits;
use crate::gateway::events::EventService;
use crate::gateway::in_flight::InFlight;
use crate::gateway::live::Live;
use crate::gateway::metrics::Metrics;
use crate::otlp::write;
use crate::sink::Spool;
use crate::span::{Resource, Scope, Span, SpanId, TraceId};
use crate::trace::Timing;
use crate::trace::pending::{Bounds, Tell};

const LIMIT: Duration = Duration::from_secs(20);
/// How many runs are sent, each in two requests.
const RUNS: u64 = 2;
/// The lines of a run: of its agent and of a model call.
const LINES: usize = 4;

/// What a gateway does with requests, without its sockets.
struct Life {
    admission: Arc<Admission>,
    runtime: Runtime,
}

impl Life {
    /// Starts in a folder; it may be killed in the attempt.
    fn start(folder: &Path, change: impl FnOnce(&mut Room)) -> Option<Self> {
        Life::start_with(folder, change, Spool::open(folder.join("spool")).ok()?)
    }

    fn start_with(folder: &Path, change: impl FnOnce(&mut Room), spool: Spool) -> Option<Self> {
        let mut room = Room { journal: 1 << 30, memory: 1 << 20 };
        change(&mut room);
        let (journal, store) = super::open(&folder.join("data"), room.journal).ok()?;
        let config = Config::new();
        let live = Live::new();
        let events = EventService::new(config.policy(), live.clone());
        let timing = Timing { grace: Duration::ZERO, ..Timing::default() };
        let bounds = Bounds::LIBRARY;
        let delivery =
            Delivery::start(config, store, Tell::WhenDue(timing), bounds, live.watch(Box::new(spool))).unwrap();
        let limits = Limits { bytes: 1 << 20, time: LIMIT, in_flight: InFlight::new(0, 1 << 20) };
        let metrics = Metrics::new(delivery.counters().clone(), journal.clone(), room.journal, Vec::new());
        let admission = Arc::new(Admission::new(delivery, journal, room, events, limits, metrics.into()));
        Some(Life { admission, runtime: Runtime::new().unwrap() })
    }

    /// Whether a request is acknowledged.
    fn send(&self, request: &[u8]) -> bool {
        let accepted = self.admission.accept(request.to_vec().into(), Format::Protobuf, None);
        self.runtime.block_on(accepted).is_ok_and(|accepted| accepted.rejected_spans == 0)
    }

    /// Tells what is complete, if it can.
    fn flush(&self) -> bool {
        self.admission.flush(LIMIT).is_ok()
    }

    fn stop(self) -> bool {
        self.admission.stop(LIMIT).is_ok()
    }
}

/// Two requests for each run: the call, then the agent.
fn requests() -> Vec<Vec<u8>> {
    let requests = (1..=RUNS).flat_map(|run| [request(run, 2, Some(1), "chat"), request(run, 1, None, "invoke_agent")]);
    requests.collect()
}

fn request(trace: u64, id: u64, parent: Option<u64>, operation: &str) -> Vec<u8> {
    let attributes = [("gen_ai.operation.name", operation), ("gen_ai.agent.name", "bot")];
    let span = Span {
        trace_id: TraceId::from(u128::from(trace)),
        span_id: SpanId::from(id),
        parent: parent.map(SpanId::from),
        start: 1_000 * id,
        end: Some(1_000_000 - id),
        attributes: attributes.into_iter().map(|(key, value)| (key.to_owned(), value.to_owned())).collect(),
        ..Span::blank(&Arc::new(Scope::default()), &Arc::new(Resource::default()))
    };
    let mut bytes = Vec::new();
    write::write([&span], &mut bytes);
    bytes
}

/// How often each line is in the spool.
fn spooled(folder: &Path) -> BTreeMap<String, usize> {
    let mut lines = BTreeMap::new();
    for entry in std::fs::read_dir(folder.join("spool")).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_some_and(|extension| extension == "jsonl") {
            for line in std::fs::read_to_string(path).unwrap().lines() {
                *lines.entry(line.to_owned()).or_default() += 1;
            }
        }
    }
    lines
}

fn expected() -> BTreeMap<String, usize> {
    let folder = tempfile::tempdir().unwrap();
    let life = Life::start(folder.path(), |_| {}).unwrap();
    assert!(requests().iter().all(|request| life.send(request)));
    assert!(life.stop());
    let lines = spooled(folder.path());
    assert_eq!(lines.len(), RUNS as usize * LINES);
    assert!(lines.values().all(|times| *times == 1));
    lines
}

/// Lives until the plan kills it, then again without faults: what was acknowledged is there, and what a client sends again
/// is there once.
fn live_twice(plan: Plan, power_cut: Option<u64>, expected: &BTreeMap<String, usize>) -> bool {
    let folder = tempfile::tempdir().unwrap();
    let faults = Faults::below(folder.path(), plan.clone());
    let requests = requests();
    let mut acknowledged = Vec::new();
    if let Some(life) = Life::start(folder.path(), |_| {}) {
        for request in &requests {
            if life.send(request) {
                acknowledged.push(request.clone());
            }
        }
        life.flush();
        life.stop();
    }
    let was_killed = faults.has_crashed();
    if let Some(mut seed) = power_cut {
        faults.cut_power(|| {
            // Any numbers will do, as long as they are the same next time.
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            seed >> 63 == 1
        });
    }
    drop(faults);

    let life = Life::start(folder.path(), |_| {}).unwrap();
    assert!(life.stop());
    let (found, what) = (spooled(folder.path()), format!("{plan:?}, power cut {power_cut:?}"));
    let whole = |run: usize| requests[run * 2..run * 2 + 2].iter().all(|request| acknowledged.contains(request));
    let promised = (0..RUNS as usize).filter(|run| whole(*run)).count() * LINES;
    assert!(found.len() >= promised, "{what}: {promised} lines were promised, {} are there", found.len());

    let life = Life::start(folder.path(), |_| {}).unwrap();
    assert!(requests.iter().all(|request| life.send(request)), "{what}");
    assert!(life.stop());
    assert_eq!(spooled(folder.path()), *expected, "{what}");
    was_killed
}

#[test]
fn killed_at_any_step_nothing_is_lost_and_nothing_comes_twice() {
    let expected = expected();
    let mut steps = 0;
    while live_twice(Plan::CrashBefore(steps), None, &expected) {
        live_twice(Plan::CrashAfter(steps), None, &expected);
        steps += 1;
    }
    assert!(steps > 20, "only {steps} steps to be killed at");
}

#[test]
fn a_power_cut_at_any_step_takes_nothing_that_was_acknowledged() {
    let expected = expected();
    let mut steps = 0;
    while live_twice(Plan::CrashBefore(steps), Some(steps as u64), &expected) {
        live_twice(Plan::CrashAfter(steps), Some(steps as u64 + 1_000), &expected);
        steps += 1;
    }
}

/// With a disk that fails in one way, nothing is acknowledged that is not safe; when it works again, so does the gateway.
fn fail_and_recover(plan: Plan, spool_alone: bool) {
    let folder = tempfile::tempdir().unwrap();
    let life = Life::start(folder.path(), |_| {}).unwrap();
    let requests = requests();
    assert!(life.send(&requests[0]));
    let place = if spool_alone { folder.path().join("spool") } else { folder.path().to_owned() };
    let faults = Faults::below(&place, plan.clone());
    for _ in 0..3 {
        let is_acknowledged = life.send(&requests[1]);
        assert_eq!(is_acknowledged, spool_alone, "{plan:?}");
    }
    assert!(!life.flush() || !spool_alone, "{plan:?}: the spool takes nothing");
    assert_eq!(spooled(folder.path()).len(), 0, "{plan:?}");
    drop(faults);
    assert!(requests.iter().all(|request| life.send(request)), "{plan:?}: works again");
    assert!(life.stop());
    assert_eq!(spooled(folder.path()), expected(), "{plan:?}");
}

fn no_space() -> io::Error {
    io::Error::from_raw_os_error(28)
}

fn broken() -> io::Error {
    io::Error::from_raw_os_error(5)
}

fn read_only() -> io::Error {
    io::Error::from_raw_os_error(30)
}

#[test]
fn a_disk_that_fails_gets_no_acknowledgement_and_recovers_by_itself() {
    fail_and_recover(Plan::FailWrites(no_space), false);
    fail_and_recover(Plan::Fail(|step| *step == Step::SyncFile, broken), false);
    for spool_alone in [false, true] {
        fail_and_recover(Plan::Fail(|_| true, read_only), spool_alone);
    }
    fail_and_recover(Plan::FailWrites(no_space), true);
    fail_and_recover(Plan::Fail(|step| *step == Step::SyncDirectory, broken), true);
}

#[test]
fn a_data_directory_that_was_removed_is_made_again() {
    let folder = tempfile::tempdir().unwrap();
    let life = Life::start(folder.path(), |_| {}).unwrap();
    let requests = requests();
    assert!(life.send(&requests[0]));
    std::fs::remove_dir_all(folder.path().join("data")).unwrap();
    assert!(life.send(&requests[1]));
    assert!(folder.path().join("data/journal/00000001.log").exists());
    life.stop();
    let told = spooled(folder.path());
    assert_eq!(told.len(), LINES, "what was acknowledged before is still told by the process that knows it");
}

#[test]
fn one_gateway_at_a_time_has_the_journal() {
    let folder = tempfile::tempdir().unwrap();
    let life = Life::start(folder.path(), |_| {}).unwrap();
    let error = super::open(&folder.path().join("data"), 1 << 30).err().unwrap().to_string();
    assert!(error.contains("another gateway uses") && error.contains("--data-dir"), "{error}");
    life.stop();
    super::open(&folder.path().join("data"), 1 << 30).unwrap();
}

#[test]
fn a_journal_that_is_full_takes_nothing_until_something_is_told() {
    let folder = tempfile::tempdir().unwrap();
    let life = Life::start(folder.path(), |room| room.journal = 1).unwrap();
    assert!(life.send(&requests()[0]), "the bound is looked at before a request is taken");
    assert!(!life.send(&requests()[1]));
    life.stop();
}

#[test]
fn a_crowded_journal_forgets_what_was_told_and_keeps_what_waits() {
    let folder = tempfile::tempdir().unwrap();
    let life = Life::start(folder.path(), |room| room.journal = 64 << 10).unwrap();
    let (call, agent) = (request(1, 2, Some(1), "chat"), request(1, 1, None, "invoke_agent"));
    assert!(life.send(&call));
    let others = 2_000;
    for trace in 2..2 + others {
        // Refused while what was told is on its way out: the client sends it again.
        while !life.send(&request(trace, 1, None, "invoke_agent")) {}
    }
    while !life.send(&agent) {}
    assert!(life.stop());
    let lines = spooled(folder.path());
    assert_eq!(lines.len(), LINES + 2 * others as usize);
    assert!(lines.values().all(|times| *times == 1));
    assert!(lines.keys().all(|line| !line.contains("fw_synthetic")), "the call has waited for its agent");
    let bytes = |entry: io::Result<std::fs::DirEntry>| entry.unwrap().metadata().unwrap().len();
    let held: u64 = std::fs::read_dir(folder.path().join("data/journal")).unwrap().map(bytes).sum();
    assert!(held <= 72 << 10, "{held} bytes");
}

#[test]
fn a_spool_that_nobody_empties_ends_in_refusals_and_loses_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let spool = Spool::open(folder.path().join("spool")).unwrap().with_max_bytes(10 << 10);
    let change = |room: &mut Room| (room.journal, room.memory) = (32 << 10, 1 << 20);
    let life = Life::start_with(folder.path(), change, spool).unwrap();
    let mut sent = 0;
    while life.send(&request(sent + 1, 1, None, "invoke_agent")) {
        sent += 1;
        life.flush();
    }
    assert!(sent > 10, "{sent}");
    let mut taken = BTreeMap::new();
    loop {
        for entry in std::fs::read_dir(folder.path().join("spool")).unwrap() {
            let path = entry.unwrap().path();
            for line in std::fs::read_to_string(&path).unwrap().lines() {
                *taken.entry(line.to_owned()).or_default() += 1;
            }
            std::fs::remove_file(path).unwrap();
        }
        if taken.len() as u64 == 2 * sent {
            break;
        }
        life.flush();
    }
    assert!(taken.values().all(|times: &usize| *times == 1));
    life.stop();
}

#[test]
fn damage_in_the_middle_takes_no_more_than_the_file() {
    let folder = tempfile::tempdir().unwrap();
    let requests = requests();
    for part in requests.chunks(2) {
        let life = Life::start(folder.path(), |_| {}).unwrap();
        // The calls alone: they wait for their agents.
        assert!(life.send(&part[0]));
        life.stop();
    }
    let first = folder.path().join("data/journal/00000000.log");
    let mut bytes = std::fs::read(&first).unwrap();
    let at = bytes.len() - 10;
    bytes[at] ^= 1;
    std::fs::write(&first, bytes).unwrap();
    let life = Life::start(folder.path(), |_| {}).unwrap();
    assert!(requests.chunks(2).all(|part| life.send(&part[1])));
    assert!(life.stop());
    // The call in the damaged file is lost; its agent waits for nothing, for the agent is the root.
    assert_eq!(spooled(folder.path()).len(), RUNS as usize * LINES - 2);
}

#[test]
fn files_in_which_nothing_is_needed_go() {
    let folder = tempfile::tempdir().unwrap();
    for _ in 0..3 {
        let life = Life::start(folder.path(), |_| {}).unwrap();
        assert!(requests().iter().all(|request| life.send(request)));
        assert!(life.flush());
        assert!(life.admission.summary().spans >= 4);
        assert!(life.stop());
    }
    let files = || std::fs::read_dir(folder.path().join("data/journal")).unwrap().count();
    // What was told is remembered for a while, so that nothing is told again.
    assert_eq!(files(), 3 + 1, "three files and the lock");
    assert_eq!(spooled(folder.path()), expected());
}

#[test]
fn what_the_daemon_has_taken_is_not_told_again() {
    let folder = tempfile::tempdir().unwrap();
    for _ in 0..2 {
        let life = Life::start(folder.path(), |_| {}).unwrap();
        assert!(requests().iter().all(|request| life.send(request)));
        assert!(life.stop());
        for entry in std::fs::read_dir(folder.path().join("spool")).unwrap() {
            std::fs::remove_file(entry.unwrap().path()).unwrap();
        }
    }
    let life = Life::start(folder.path(), |_| {}).unwrap();
    assert!(requests().iter().all(|request| life.send(request)));
    assert!(life.stop());
    assert_eq!(spooled(folder.path()).len(), 0);
}
