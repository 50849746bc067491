//! A gateway that runs long under steady load, with faulty and repeated requests in it, while a daemon drains the spool.
//!
//! `.ci/soak --minutes N` runs it. It prints a line every ten seconds, and fails if an event is lost or comes twice, if
//! descriptors or memory grow.

use std::collections::HashMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest as Request;
use twox_hash::XxHash3_128;

use super::client::{Addresses, Client, WAYS};
use super::runs::{self, Random, interleaved};
use super::tally::finished;
use super::{Place, alone, kib};

const PROGRAMS: usize = 4;
/// How many runs a program has under way at the same time, and how many spans such a run has, roughly.
const TOGETHER: u64 = 3;
const RUN_SPANS: f64 = 6.5;
/// One request of so many is faulty, and one of so many is sent again.
const SELDOM: usize = 100;
/// What is measured before that part of the time is over does not count.
const WARM_UP: f64 = 0.3;
/// A slope says something only after so long.
const SLOPE_AFTER: Duration = Duration::from_secs(5 * 60);
/// By how much memory may grow, in KiB a minute.
const SLOPE_LIMIT: f64 = 1024.0;

/// The lines that have to come still.
#[derive(Default)]
struct Outstanding {
    lines: Mutex<HashMap<u128, u32>>,
    came: AtomicUsize,
    /// Those that came twice, and those that never had to come.
    unexpected: AtomicUsize,
}

impl Outstanding {
    fn expect(&self, lines: &str) {
        let mut outstanding = self.lines.lock().unwrap();
        lines.lines().for_each(|line| *outstanding.entry(XxHash3_128::oneshot(line.as_bytes())).or_default() += 1);
    }

    fn take(&self, lines: &str) {
        assert!(lines.ends_with('\n'), "a torn line");
        let mut outstanding = self.lines.lock().unwrap();
        for line in lines.lines() {
            let hash = XxHash3_128::oneshot(line.as_bytes());
            match outstanding.get_mut(&hash) {
                None => _ = self.unexpected.fetch_add(1, Ordering::Relaxed),
                Some(1) => _ = outstanding.remove(&hash),
                Some(count) => *count -= 1,
            }
            self.came.fetch_add(1, Ordering::Relaxed);
        }
    }

    fn count(&self) -> usize {
        self.lines.lock().unwrap().values().map(|count| *count as usize).sum()
    }
}

#[derive(Clone, Copy)]
struct Sample {
    minutes: f64,
    rss: u64,
    descriptors: usize,
}

#[test]
#[ignore = "takes as long as it is told to: .ci/soak"]
fn soak() {
    let _alone = alone();
    let number = |name: &str, default: f64| std::env::var(name).map_or(default, |value| value.parse().unwrap());
    let length = Duration::from_secs_f64(60.0 * number("FAILPROOF_SOAK_MINUTES", 1.0));
    let rate = number("FAILPROOF_SOAK_RATE", 500.0);
    let place = Place::new();
    // What is remembered of spans has its bound in the time that does not count; from then on memory has nothing to grow by.
    let remembered = ["--max-waiting-bytes", "4MiB"];
    let mut gateway = place.gateway(&["--grace", "200ms", "--idle-timeout", "10s", remembered[0], remembered[1]]);
    let (outstanding, is_over, requests) = (Outstanding::default(), AtomicBool::new(false), AtomicUsize::new(0));
    let (end, addresses) = (Instant::now() + length, Addresses::of(&gateway));
    let mut samples = Vec::new();
    std::thread::scope(|scope| {
        let program = |number: usize| {
            let (to, outstanding, requests) = (addresses.clone(), &outstanding, &requests);
            scope.spawn(move || program(number as u64, end, rate / PROGRAMS as f64, to, outstanding, requests))
        };
        let programs: Vec<_> = (0..PROGRAMS).map(program).collect();
        let daemon = scope.spawn(|| {
            while !is_over.load(Ordering::Relaxed) {
                drain(&place, &outstanding);
                std::thread::sleep(Duration::from_millis(50));
            }
        });
        samples = watch(gateway.id(), length, &outstanding, &requests);
        programs.into_iter().for_each(|program| program.join().unwrap());
        // All has been acknowledged: it is written now at the latest.
        gateway.terminate();
        is_over.store(true, Ordering::Relaxed);
        daemon.join().unwrap();
    });
    drain(&place, &outstanding);

    let warm = &samples[(samples.len() as f64 * WARM_UP) as usize..];
    let slope = slope(warm);
    // As a rule: a file that is open for a moment is no leak.
    let usual = |part: &[Sample]| {
        let mut descriptors: Vec<usize> = part.iter().map(|sample| sample.descriptors).collect();
        descriptors.sort_unstable();
        descriptors.get(descriptors.len() / 2).copied().unwrap_or_default()
    };
    let (first, second) = warm.split_at(warm.len() / 2);
    let (lost, unexpected) = (outstanding.count(), outstanding.unexpected.load(Ordering::Relaxed));
    eprintln!(
        "{} requests, {} events: {lost} lost, {unexpected} doubled or foreign; memory {slope:+.0} KiB a minute; {} descriptors, \
         then {}",
        requests.load(Ordering::Relaxed),
        outstanding.came.load(Ordering::Relaxed),
        usual(first),
        usual(second),
    );
    assert_eq!((lost, unexpected), (0, 0));
    assert!(usual(second) <= usual(first) + PROGRAMS, "descriptors grow");
    assert!(length < SLOPE_AFTER || slope < SLOPE_LIMIT, "memory grows by {slope:.0} KiB a minute");
}

/// Sends runs at that rate of spans a second until the end.
fn program(number: u64, end: Instant, rate: f64, to: Addresses, outstanding: &Outstanding, requests: &AtomicUsize) {
    let mut client = Client::new(to);
    let mut random = Random(number);
    let started = Instant::now();
    for group in 0.. {
        let due = started + Duration::from_secs_f64(group as f64 * TOGETHER as f64 * RUN_SPANS / rate);
        // On a machine that cannot keep up it ends as late as on any other.
        if due.max(Instant::now()) >= end {
            return;
        }
        std::thread::sleep(due.saturating_duration_since(Instant::now()));
        let first = (number << 32) + group * TOGETHER;
        let numbers: Vec<u64> = (first..first + TOGETHER).collect();
        numbers.iter().for_each(|number| outstanding.expect(&runs::lines(runs::run(*number))));
        for request in interleaved(&numbers, &mut random) {
            send(&mut client, &request, &mut random);
            requests.fetch_add(1, Ordering::Relaxed);
        }
    }
}

fn send(client: &mut Client, request: &Request, random: &mut Random) {
    if random.once_in(SELDOM) {
        let refused = client.post("application/x-protobuf", b"\x0a\x7fno protobuf").unwrap_err();
        assert!(refused.contains(" 400 "), "{refused}");
    }
    for _ in 0..1 + usize::from(random.once_in(SELDOM)) {
        client.insist(WAYS[random.below(WAYS.len())], request);
    }
}

/// As the daemon does: what has arrived goes.
fn drain(place: &Place, outstanding: &Outstanding) {
    for file in finished(&place.spool()) {
        outstanding.take(&std::fs::read_to_string(&file).unwrap());
        std::fs::remove_file(file).unwrap();
    }
}

/// Measures the process every second.
fn watch(process: u32, length: Duration, outstanding: &Outstanding, requests: &AtomicUsize) -> Vec<Sample> {
    let started = Instant::now();
    let mut samples = Vec::new();
    eprintln!("minutes  requests    events  waiting  RSS KiB  descriptors");
    while started.elapsed() < length {
        std::thread::sleep(Duration::from_secs(1));
        let descriptors = std::fs::read_dir(format!("/proc/{process}/fd")).unwrap().count();
        let minutes = started.elapsed().as_secs_f64() / 60.0;
        let sample = Sample { minutes, rss: kib(process, "VmRSS:"), descriptors };
        samples.push(sample);
        if samples.len() % 10 == 0 {
            let (requests, came) = (requests.load(Ordering::Relaxed), outstanding.came.load(Ordering::Relaxed));
            let (waiting, rss) = (outstanding.count(), sample.rss);
            eprintln!("{minutes:7.2} {requests:9} {came:9} {waiting:8} {rss:8} {descriptors:12}");
        }
    }
    samples
}

/// By how many KiB a minute memory grows: the line that is nearest to all samples.
fn slope(samples: &[Sample]) -> f64 {
    let count = samples.len() as f64;
    let mean = |of: &dyn Fn(&Sample) -> f64| samples.iter().map(of).sum::<f64>() / count;
    let (time, memory) = (mean(&|sample| sample.minutes), mean(&|sample| sample.rss as f64));
    let covariance = mean(&|sample| (sample.minutes - time) * (sample.rss as f64 - memory));
    covariance / mean(&|sample| (sample.minutes - time).powi(2))
}
