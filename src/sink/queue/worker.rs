//! The thread of a queue: takes the oldest batch, sends it, and says what became of it.

use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use opentelemetry::Context;

use super::files::{Files, Waiting};
use super::{Backoff, Batch, SendError, Sender, Shared, State};
use crate::disk::DiskError;
use crate::event::{BATCH_LIMIT, format_timestamp};

/// How often it looks for what other processes wrote, and whether the one that sends has ended.
const POLL: Duration = Duration::from_secs(1);

pub(super) struct Worker {
    files: Files,
    sender: Box<dyn Sender>,
    backoff: Backoff,
    shared: Arc<Shared>,
    /// What was last complained about: the same again is only counted.
    complaint: Option<String>,
}

impl Worker {
    pub fn new(files: Files, sender: Box<dyn Sender>, backoff: Backoff, shared: Arc<Shared>) -> Self {
        Worker { files, sender, backoff, shared, complaint: None }
    }

    pub fn run(mut self) {
        // Nothing that a sender does is a span of the program that is watched.
        let _suppressed = Context::enter_telemetry_suppressed_scope();
        let mut go_on = true;
        while go_on {
            let is_ours = self.files.lock().unwrap_or(false);
            let waiting = self.look().unwrap_or_else(|cause| {
                self.complain(cause.to_string());
                Vec::new()
            });
            go_on = match waiting.is_empty() || !is_ours {
                // Another process sends: what we write is no news to it.
                true => self.shared.pause(POLL, is_ours),
                false => waiting.into_iter().all(|batch| self.deliver(&batch)),
            };
        }
    }

    /// The oldest batches; counts what is there.
    fn look(&mut self) -> Result<Vec<Waiting>, DiskError> {
        let added = {
            let mut state = self.shared.state();
            state.has_news = false;
            state.added
        };
        let look = self.files.look()?;
        let mut state = self.shared.state();
        // What was written meanwhile may have been seen or not: rather too much than too little, until the next look.
        state.waiting = look.waiting + (state.added - added);
        state.parked_bytes = look.parked;
        state.oldest = look.oldest.first().map(|oldest| oldest.since);
        drop(state);
        self.shared.changed.notify_all();
        Ok(look.oldest)
    }

    /// Brings a batch to an end: sent, or kept aside. `false` if the queue was stopped before.
    fn deliver(&mut self, waiting: &Waiting) -> bool {
        self.shared.state().oldest = Some(waiting.since);
        let mut failures = 0;
        loop {
            let after = match self.attempt(waiting) {
                Ok(()) => break,
                Err(SendError::Refused { cause }) => return self.park(waiting, &cause),
                Err(SendError::Retry { after, cause }) => {
                    self.shared.state().retried += 1;
                    self.complain(format!("{cause}; its events wait"));
                    after
                }
            };
            if !self.shared.pause(self.backoff.delay(failures, after), false) {
                return false;
            }
            failures = failures.saturating_add(1);
        }
        if self.complaint.take().is_some() {
            tracing::info!("{} takes events again", self.shared.receiver);
        }
        self.insist("the batch that it holds was sent", |files| files.remove(&waiting.stem))
            && self.settle(waiting, |state| state.sent += 1)
    }

    /// Counts a batch that waits no more. `false` if the queue was stopped.
    fn settle(&self, waiting: &Waiting, count: impl FnOnce(&mut State)) -> bool {
        let mut state = self.shared.state();
        state.waiting = state.waiting.saturating_sub(waiting.bytes);
        state.oldest = state.oldest.filter(|_| state.waiting > 0);
        count(&mut state);
        self.shared.changed.notify_all();
        !state.is_stopped
    }

    fn attempt(&mut self, waiting: &Waiting) -> Result<(), SendError> {
        match self.files.read(&waiting.stem) {
            Ok(Some(lines)) if lines.len() > BATCH_LIMIT => {
                Err(SendError::Refused { cause: "a batch is bigger than 8 MiB".to_owned() })
            }
            Ok(Some(lines)) => self.sender.send(&Batch::new(&*waiting.stem, lines)),
            // Somebody has taken it away.
            Ok(None) => Ok(()),
            Err(cause) => Err(SendError::Retry { after: None, cause: cause.to_string() }),
        }
    }

    fn park(&mut self, waiting: &Waiting, cause: &str) -> bool {
        self.complain(format!("{cause}; what is refused is parked"));
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let now = format_timestamp(u64::try_from(now.as_nanos()).unwrap_or(u64::MAX));
        let note = format!("{now} {} refused it: {cause}\n", self.shared.receiver);
        self.insist("the batch was refused", |files| files.park(&waiting.stem, &note))
            && self.settle(waiting, |state| {
                state.parked += 1;
                state.parked_bytes += waiting.bytes;
            })
    }

    /// Does something to the files, again and again until it succeeds: the batch must not be sent a second time.
    fn insist(&mut self, why: &str, act: impl Fn(&Files) -> Result<(), DiskError>) -> bool {
        let mut failures = 0;
        while let Err(cause) = act(&self.files) {
            self.complain(format!("{cause}; {why}"));
            if !self.shared.pause(self.backoff.delay(failures, None), false) {
                return false;
            }
            failures = failures.saturating_add(1);
        }
        true
    }

    fn complain(&mut self, complaint: String) {
        if self.complaint.as_ref() != Some(&complaint) {
            tracing::warn!("{}: {complaint}", self.shared.receiver);
            self.complaint = Some(complaint);
        }
    }
}
