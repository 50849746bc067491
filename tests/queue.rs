//! The queue before a receiver that can fail: nothing is lost, nothing is out of order, nobody waits.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::collections::VecDeque;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use opentelemetry_failproof::sink::{
    Backoff, Batch, Queue, QueueOptions, QueueStatus, SendError, Sender, Sink, SinkError,
};

/// A receiver that answers as it is told, and takes what it is given when it has nothing more to say.
#[derive(Clone, Default)]
struct Receiver(Arc<Mutex<State>>);

#[derive(Default)]
struct State {
    answers: VecDeque<Result<(), SendError>>,
    is_away: bool,
    attempts: Vec<(String, String)>,
    taken: String,
}

impl Sender for Receiver {
    fn send(&mut self, batch: &Batch) -> Result<(), SendError> {
        let mut state = self.0.lock().unwrap();
        let lines = String::from_utf8(batch.lines().to_vec()).unwrap();
        state.attempts.push((batch.stem().to_owned(), lines.clone()));
        if state.is_away {
            return retry();
        }
        state.answers.pop_front().unwrap_or(Ok(()))?;
        state.taken += &lines;
        Ok(())
    }

    fn describe(&self) -> String {
        "a receiver of this test".to_owned()
    }
}

impl Receiver {
    fn answer(&self, answers: impl IntoIterator<Item = Result<(), SendError>>) {
        self.0.lock().unwrap().answers.extend(answers);
    }

    fn set_away(&self, is_away: bool) {
        self.0.lock().unwrap().is_away = is_away;
    }

    fn taken(&self) -> String {
        self.0.lock().unwrap().taken.clone()
    }

    fn attempts(&self) -> Vec<(String, String)> {
        self.0.lock().unwrap().attempts.clone()
    }
}

fn retry() -> Result<(), SendError> {
    Err(SendError::Retry { after: None, cause: "not now".to_owned() })
}

fn refused(cause: &str) -> Result<(), SendError> {
    Err(SendError::Refused { cause: cause.to_owned() })
}

fn options(directory: &Path) -> QueueOptions {
    let mut options = QueueOptions::new(directory);
    options.backoff = Backoff { first: Duration::from_millis(1), limit: Duration::from_millis(5) };
    options
}

fn queue(directory: &Path, receiver: &Receiver) -> Queue {
    Queue::start(options(directory), receiver.clone()).unwrap()
}

fn status(queue: &Queue) -> QueueStatus {
    queue.progress()[0].status()
}

fn until(what: &str, mut condition: impl FnMut() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(30);
    while !condition() {
        assert!(Instant::now() < deadline, "not within 30 seconds: {what}");
        thread::sleep(Duration::from_millis(1));
    }
}

fn soon() -> Instant {
    Instant::now() + Duration::from_secs(30)
}

/// Names of the files with an ending.
fn files(directory: &Path, ending: &str) -> Vec<String> {
    let entries = fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path());
    let mut names: Vec<_> = entries
        .filter(|path| path.extension().is_some_and(|found| found == ending))
        .map(|path| path.file_stem().unwrap().to_str().unwrap().to_owned())
        .collect();
    names.sort();
    names
}

#[test]
fn what_is_written_arrives_in_order_and_leaves_the_disk() {
    let directory = tempfile::tempdir().unwrap();
    let receiver = Receiver::default();
    let mut queue = queue(directory.path(), &receiver);
    let mut expected = String::new();
    for number in 0..50 {
        let line = format!("{{\"n\":{number}}}\n");
        queue.write(line.as_bytes()).unwrap();
        expected += &line;
    }
    queue.close(soon()).unwrap();
    assert_eq!(receiver.taken(), expected);
    assert_eq!(files(directory.path(), "jsonl"), [""; 0]);
    let QueueStatus { sent, retried, parked, waiting_bytes, oldest, .. } = status(&queue);
    assert_eq!((sent, retried, parked, waiting_bytes, oldest), (50, 0, 0, 0, None));
}

#[test]
fn a_receiver_that_is_away_blocks_nobody_and_gets_everything_in_order_when_it_is_back() {
    let directory = tempfile::tempdir().unwrap();
    let receiver = Receiver::default();
    receiver.set_away(true);
    let mut queue = queue(directory.path(), &receiver);
    let expected: String = (0..300).map(|number| format!("{number}\n")).collect();
    for line in expected.split_inclusive('\n') {
        queue.write(line.as_bytes()).unwrap();
    }
    until("a second attempt", || status(&queue).retried >= 2);
    assert_eq!(files(directory.path(), "jsonl").len(), 300);
    let QueueStatus { sent, waiting_bytes, oldest, .. } = status(&queue);
    assert_eq!((sent, waiting_bytes), (0, 300 * 4_096));
    assert!(oldest.is_some());
    let attempts = receiver.attempts();
    assert!(attempts.iter().all(|attempt| *attempt == attempts[0]), "one batch at a time, always with the same name");

    receiver.set_away(false);
    queue.close(soon()).unwrap();
    assert_eq!(receiver.taken(), expected);
}

#[test]
fn what_is_refused_is_parked_with_its_cause_and_holds_nothing_up() {
    let directory = tempfile::tempdir().unwrap();
    let receiver = Receiver::default();
    receiver.answer([refused("status 400: no"), retry(), Ok(())]);
    let mut queue = queue(directory.path(), &receiver);
    queue.write(b"{\"bad\":1}\n").unwrap();
    queue.write(b"{\"good\":1}\n").unwrap();
    queue.close(soon()).unwrap();
    assert_eq!(receiver.taken(), "{\"good\":1}\n");
    let QueueStatus { sent, retried, parked, waiting_bytes, parked_bytes, .. } = status(&queue);
    assert_eq!((sent, retried, parked, waiting_bytes), (1, 1, 1, 0));
    assert!(parked_bytes >= 4_096);

    let parked = directory.path().join("parked");
    let stem = files(&parked, "jsonl").remove(0);
    assert_eq!(stem, receiver.attempts()[0].0);
    assert_eq!(fs::read(parked.join(format!("{stem}.jsonl"))).unwrap(), b"{\"bad\":1}\n");
    let note = fs::read_to_string(parked.join(format!("{stem}.txt"))).unwrap();
    assert!(note.contains("a receiver of this test") && note.ends_with("status 400: no\n"), "{note}");
    for entry in fs::read_dir(&parked).unwrap() {
        assert_eq!(entry.unwrap().metadata().unwrap().permissions().mode() & 0o777, 0o600);
    }
    for (path, mode) in [(parked.as_path(), 0o700), (&directory.path().join("lock"), 0o600)] {
        assert_eq!(fs::metadata(path).unwrap().permissions().mode() & 0o777, mode);
    }
}

#[test]
fn what_an_earlier_process_left_behind_is_sent_first() {
    let directory = tempfile::tempdir().unwrap();
    let receiver = Receiver::default();
    receiver.set_away(true);
    let mut earlier = queue(directory.path(), &receiver);
    earlier.write(b"1\n").unwrap();
    earlier.write(b"2\n").unwrap();
    let error = earlier.close(Instant::now()).unwrap_err();
    assert!(matches!(error, SinkError::Unsent { bytes: 8_192, .. }), "{error}");
    drop(earlier);
    fs::write(directory.path().join("torn.tmp"), "torn").unwrap();

    receiver.set_away(false);
    queue(directory.path(), &receiver).close(soon()).unwrap();
    assert_eq!(receiver.taken(), "1\n2\n", "also by one that writes nothing itself");
}

#[test]
fn of_two_queues_on_one_directory_one_sends_and_the_other_takes_over() {
    let directory = tempfile::tempdir().unwrap();
    let (first_receiver, second_receiver) = (Receiver::default(), Receiver::default());
    let mut first = queue(directory.path(), &first_receiver);
    first.write(b"1\n").unwrap();
    until("the first sends", || first_receiver.taken() == "1\n");
    let mut second = queue(directory.path(), &second_receiver);
    second.write(b"2\n").unwrap();
    until("the first sends for the second", || first_receiver.taken() == "1\n2\n");
    assert_eq!(second_receiver.attempts(), []);

    first.close(soon()).unwrap();
    second.write(b"3\n").unwrap();
    second.close(soon()).unwrap();
    assert_eq!((first_receiver.taken().as_str(), second_receiver.taken().as_str()), ("1\n2\n", "3\n"));
}

#[test]
fn a_full_queue_refuses_and_takes_again_when_there_is_room() {
    let directory = tempfile::tempdir().unwrap();
    let receiver = Receiver::default();
    receiver.set_away(true);
    let mut options = options(directory.path());
    options.max_bytes = 2 * 4_096;
    let mut queue = Queue::start(options, receiver.clone()).unwrap();
    queue.write(b"1\n").unwrap();
    queue.write(b"2\n").unwrap();
    let error = queue.write(b"3\n").unwrap_err();
    assert!(matches!(error, SinkError::Full { limit: 8_192, .. }), "{error}");
    assert_eq!(error.written(), 0);
    assert!(error.to_string().contains(directory.path().to_str().unwrap()), "{error}");

    receiver.set_away(false);
    until("there is room", || queue.write(b"3\n").is_ok());
    queue.close(soon()).unwrap();
    assert_eq!(receiver.taken(), "1\n2\n3\n");
}

#[test]
fn what_is_parked_counts_and_what_a_person_removes_counts_no_more() {
    let directory = tempfile::tempdir().unwrap();
    let receiver = Receiver::default();
    receiver.answer([refused("no")]);
    let mut options = options(directory.path());
    options.max_bytes = 2 * 4_096;
    let mut queue = Queue::start(options, receiver.clone()).unwrap();
    queue.write(b"1\n").unwrap();
    // The batch and the note beside it.
    until("it is parked", || status(&queue).parked_bytes == 2 * 4_096);
    assert!(queue.write(b"2\n").is_err());
    fs::remove_dir_all(directory.path().join("parked")).unwrap();
    until("there is room", || queue.write(b"2\n").is_ok());
    queue.close(soon()).unwrap();
    assert_eq!(receiver.taken(), "2\n");
}

#[test]
fn a_batch_that_cannot_be_removed_is_not_sent_again() {
    /// Puts what can't be removed in the place of the first batch.
    struct Saboteur(Receiver, std::path::PathBuf);

    impl Sender for Saboteur {
        fn send(&mut self, batch: &Batch) -> Result<(), SendError> {
            if batch.lines() == b"1\n" {
                let file = self.1.join(format!("{}.jsonl", batch.stem()));
                fs::remove_file(&file).unwrap();
                fs::create_dir(&file).unwrap();
            }
            self.0.send(batch)
        }

        fn describe(&self) -> String {
            self.0.describe()
        }
    }

    let directory = tempfile::tempdir().unwrap();
    let receiver = Receiver::default();
    let mut queue =
        Queue::start(options(directory.path()), Saboteur(receiver.clone(), directory.path().to_owned())).unwrap();
    queue.write(b"1\n").unwrap();
    queue.write(b"2\n").unwrap();
    until("it is sent", || receiver.taken() == "1\n");
    assert!(queue.close(Instant::now() + Duration::from_millis(50)).is_err(), "it is still there");
    assert_eq!(receiver.taken(), "1\n");
    drop(queue);

    let stem = receiver.attempts().remove(0).0;
    fs::remove_dir(directory.path().join(format!("{stem}.jsonl"))).unwrap();
    self::queue(directory.path(), &receiver).close(soon()).unwrap();
    assert_eq!(receiver.taken(), "1\n2\n");
}
