//! Several sinks at once: each has its own progress, and one that fails costs the others nothing.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::fs;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::time::{Duration, Instant};

use opentelemetry::KeyValue;
use opentelemetry::trace::{Tracer, TracerProvider};
use opentelemetry_failproof::sink::{Batch, Queue, QueueOptions, SendError, Sender, Several, Sink, SinkError, Spool};
use opentelemetry_failproof::{Config, FailproofSpanProcessor};
use opentelemetry_sdk::trace::SdkTracerProvider;
use proptest::prelude::*;

/// A sink on a disk that fails when it is told to: it takes so many bytes, in whole lines, and then no more.
#[derive(Clone, Default)]
struct Disk {
    taken: Arc<Mutex<String>>,
    room: Arc<AtomicUsize>,
}

impl Sink for Disk {
    fn write(&mut self, lines: &[u8]) -> Result<(), SinkError> {
        let mut written = 0;
        for line in std::str::from_utf8(lines).unwrap().split_inclusive('\n') {
            if self.room.load(Ordering::SeqCst) < line.len() {
                let source = std::io::ErrorKind::StorageFull.into();
                return Err(SinkError::Spool { action: "write", path: "/disk".into(), written, source });
            }
            self.room.fetch_sub(line.len(), Ordering::SeqCst);
            self.taken.lock().unwrap().push_str(line);
            written += line.len();
        }
        Ok(())
    }

    fn describe(&self) -> String {
        "a disk".to_owned()
    }
}

impl Disk {
    fn with_room(bytes: usize) -> Self {
        let disk = Disk::default();
        disk.room.store(bytes, Ordering::SeqCst);
        disk
    }

    fn taken(&self) -> String {
        self.taken.lock().unwrap().clone()
    }
}

/// A receiver that takes nothing, and does not come back from its first attempt until it is let go.
#[derive(Clone, Default)]
struct Stuck(Arc<(Mutex<bool>, Condvar)>);

impl Sender for Stuck {
    fn send(&mut self, _: &Batch) -> Result<(), SendError> {
        let (is_free, freed) = &*self.0;
        drop(freed.wait_while(is_free.lock().unwrap(), |is_free| !*is_free).unwrap());
        Err(SendError::Retry { after: None, cause: "stuck".to_owned() })
    }

    fn describe(&self) -> String {
        "somebody who is stuck".to_owned()
    }
}

impl Drop for Stuck {
    fn drop(&mut self) {
        *self.0.0.lock().unwrap() = true;
        self.0.1.notify_all();
    }
}

fn boxed(sinks: impl IntoIterator<Item = Disk>) -> Several {
    Several::new(sinks.into_iter().map(|disk| Box::new(disk) as Box<dyn Sink>))
}

fn lines_in(directory: &Path) -> Vec<String> {
    let files = fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path());
    let files = files.filter(|path| path.extension().is_some_and(|ending| ending == "jsonl"));
    let mut lines: Vec<String> = files
        .flat_map(|path| fs::read_to_string(path).unwrap().lines().map(str::to_owned).collect::<Vec<_>>())
        .collect();
    lines.sort();
    lines
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    /// As the delivery does it: what is not written comes again first, with what has come meanwhile.
    #[test]
    fn every_sink_gets_every_line_once_and_in_order(steps in prop::collection::vec((0usize..5, 0usize..60, 0usize..60), 1..40)) {
        let disks = [Disk::default(), Disk::default()];
        let mut several = boxed(disks.clone());
        let (mut all, mut waiting, mut number) = (String::new(), String::new(), 0);
        for (lines, room, other_room) in steps {
            for _ in 0..lines {
                let line = format!("line {number}\n");
                (all, waiting, number) = (all + &line, waiting + &line, number + 1);
            }
            disks[0].room.store(room, Ordering::SeqCst);
            disks[1].room.store(other_room, Ordering::SeqCst);
            let before: Vec<_> = disks.iter().map(Disk::taken).collect();
            let result = several.write(waiting.as_bytes());
            let written = result.as_ref().map_or_else(SinkError::written, |()| waiting.len());
            waiting.drain(..written);
            let safe = all.len() - waiting.len();
            for (disk, before) in disks.iter().zip(before) {
                let taken = disk.taken();
                prop_assert!(taken.len() >= safe && all.starts_with(&taken) && taken.starts_with(&before));
            }
            prop_assert_eq!(result.is_ok(), waiting.is_empty());
        }
        disks.iter().for_each(|disk| disk.room.store(usize::MAX, Ordering::SeqCst));
        several.write(waiting.as_bytes()).unwrap();
        for disk in &disks {
            prop_assert_eq!(disk.taken(), all.clone());
        }
    }
}

#[test]
fn a_batch_with_a_name_comes_once_to_each_however_often_it_is_given() {
    let disks = [Disk::with_room(1_000), Disk::with_room(0)];
    let mut several = boxed(disks.clone());
    assert!(several.write_named("one", b"{}\n").is_err());
    assert!(several.write_named("one", b"{}\n").is_err());
    disks[1].room.store(1_000, Ordering::SeqCst);
    several.write_named("one", b"{}\n").unwrap();
    several.write_named("two", b"{}\n").unwrap();
    assert_eq!(disks.map(|disk| disk.taken()), ["{}\n{}\n", "{}\n{}\n"]);
}

#[test]
fn a_queue_that_is_full_loses_alone_and_counts_it() {
    let directory = tempfile::tempdir().unwrap();
    let stuck = Stuck::default();
    let mut options = QueueOptions::new(directory.path().join("queue"));
    options.max_bytes = 4_096;
    let queue = Queue::start(options.clone(), stuck.clone()).unwrap();
    let progress = queue.progress().remove(0);
    let disk = Disk::with_room(1_000);
    let mut several = Several::new([Box::new(queue) as Box<dyn Sink>, Box::new(disk.clone())]);
    several.write(b"1\n").unwrap();
    several.write(b"2\n3\n").unwrap();
    several.write_named("four", b"4\n").unwrap();
    several.write_named("four", b"4\n").unwrap();
    assert_eq!(disk.taken(), "1\n2\n3\n4\n");
    assert_eq!(progress.status().lost, 3);
    assert_eq!(lines_in(&options.directory), ["1"]);

    disk.room.store(0, Ordering::SeqCst);
    assert!(several.write(b"5\n").is_err(), "what nobody takes is not lost");
    assert!(several.write_named("six", b"6\n").is_err());
    assert_eq!(progress.status().lost, 3);
}

#[test]
fn a_receiver_that_is_stuck_neither_blocks_the_program_nor_slows_the_spool() {
    let directory = tempfile::tempdir().unwrap();
    let (spool, queues) = (directory.path().join("spool"), ["one", "two"].map(|name| directory.path().join(name)));
    let mut builder = FailproofSpanProcessor::builder().with_config(Config::new());
    let stuck = queues.clone().map(|_| Stuck::default());
    builder = builder.with_sink(Queue::start(QueueOptions::new(&queues[0]), stuck[0].clone()).unwrap());
    builder = builder.with_sink(Spool::open(&spool).unwrap());
    builder = builder.with_sink(Queue::start(QueueOptions::new(&queues[1]), stuck[1].clone()).unwrap());
    let provider = SdkTracerProvider::builder().with_span_processor(builder.build().unwrap()).build();
    let tracer = provider.tracer("a-program");
    for _ in 0..50 {
        let attributes = [("gen_ai.operation.name", "invoke_agent"), ("gen_ai.agent.name", "shop")];
        let attributes = attributes.map(|(key, value)| KeyValue::new(key, value));
        drop(tracer.build(tracer.span_builder("invoke_agent shop").with_attributes(attributes)));
    }
    // Fails if the delivery is held up by anybody.
    provider.force_flush().unwrap();
    let events = lines_in(&spool);
    assert_eq!(events.len(), 100);
    for queue in &queues {
        assert_eq!(lines_in(queue), events, "what waits is on disk");
    }
    let started = Instant::now();
    // What is stuck is left for the next start.
    provider.shutdown_with_timeout(Duration::from_millis(200)).unwrap();
    assert!(started.elapsed() < Duration::from_secs(20));
}

#[test]
fn a_batch_that_some_have_is_found_and_comes_to_the_others() {
    let folder = tempfile::tempdir().unwrap();
    let spools = || ["one", "other"].map(|name| Spool::open(folder.path().join(name)).unwrap());
    let [mut one, other] = spools();
    // As if the process had been killed between the two.
    one.write_named("batch-7", b"{}\n").unwrap();
    let mut both = Several::new([Box::new(other) as Box<dyn Sink>, Box::new(one)]);
    let found = both.find("batch-7").unwrap().unwrap();
    assert_eq!(found, b"{}\n");
    both.write_named("batch-7", &found).unwrap();
    assert!(spools().iter().all(|spool| spool.find("batch-7").unwrap().is_some()));
    assert!(both.find("batch-8").unwrap().is_none());
}
