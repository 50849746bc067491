//! What the Failproof daemon does to a spool: it uploads each finished file and takes it away.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use super::tally::finished;

/// How long an upload takes.
const UPLOAD: Duration = Duration::from_millis(100);

/// Moves files from a spool to a directory, while it is let.
pub struct Daemon {
    state: Arc<Mutex<State>>,
    thread: Option<JoinHandle<()>>,
}

#[derive(Default)]
struct State {
    is_working: bool,
    is_ending: bool,
    /// How many files it has taken away.
    taken: usize,
    /// The files that are being uploaded, since when.
    uploading: HashMap<PathBuf, Instant>,
}

impl Daemon {
    pub fn start(spool: &Path, taken: &Path) -> Self {
        std::fs::create_dir_all(taken).unwrap();
        let state = Arc::new(Mutex::new(State::default()));
        let (shared, spool, taken) = (state.clone(), spool.to_owned(), taken.to_owned());
        let thread = std::thread::spawn(move || {
            loop {
                let mut state = shared.lock().unwrap();
                if state.is_ending {
                    return;
                }
                if state.is_working {
                    state.sweep(&spool, &taken);
                }
                drop(state);
                std::thread::sleep(Duration::from_millis(10));
            }
        });
        Daemon { state, thread: Some(thread) }
    }

    /// Works from now on, or no more: then nothing is taken away once this has returned.
    pub fn work(&self, is_working: bool) {
        let mut state = self.state.lock().unwrap();
        state.is_working = is_working;
        state.uploading.clear();
    }

    /// How many files it has taken away.
    pub fn taken(&self) -> usize {
        self.state.lock().unwrap().taken
    }
}

impl State {
    fn sweep(&mut self, spool: &Path, taken: &Path) {
        let now = Instant::now();
        for file in finished(spool) {
            if now.duration_since(*self.uploading.entry(file.clone()).or_insert(now)) >= UPLOAD {
                let place = taken.join(file.file_name().unwrap());
                assert!(!place.exists(), "a second batch of that name: {}", place.display());
                std::fs::rename(&file, place).unwrap();
                self.uploading.remove(&file);
                self.taken += 1;
            }
        }
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        self.state.lock().unwrap().is_ending = true;
        let ended = self.thread.take().unwrap().join();
        assert!(ended.is_ok() || std::thread::panicking(), "the daemon has found a fault");
    }
}
