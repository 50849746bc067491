//! Faults for tests: what is done below a folder can fail, break off as in a crash, or be undone as by a power cut.

use std::collections::{BTreeMap, VecDeque};
use std::fs::{self, OpenOptions};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{LazyLock, Mutex, MutexGuard, PoisonError};

use super::Step;

/// The faults of each folder that has some.
static FAULTS: LazyLock<Mutex<BTreeMap<PathBuf, State>>> = LazyLock::new(Mutex::default);

/// What shall go wrong.
#[derive(Clone, Debug)]
pub(crate) enum Plan {
    /// Nothing; steps are counted, and what is not synced is remembered.
    Watch,
    /// The process dies before that step (from 0), or in the middle of it, if it is a write; nothing works from then on.
    CrashBefore(usize),
    /// The process dies when that step has been done, before anybody learns of it.
    CrashAfter(usize),
    /// All steps of a kind fail in this way until the plan is changed.
    Fail(fn(&Step<'_>) -> bool, fn() -> io::Error),
    /// All writes fail in this way until the plan is changed, after half of the bytes.
    FailWrites(fn() -> io::Error),
}

#[derive(Debug)]
struct State {
    plan: Plan,
    steps: usize,
    has_crashed: bool,
    /// The length of each file that is safe; files whose name was never synced are in `names` too.
    synced: BTreeMap<PathBuf, u64>,
    /// What was done to names and is not synced, oldest first.
    names: VecDeque<NameChange>,
}

#[derive(Debug)]
enum NameChange {
    Created(PathBuf),
    Renamed(PathBuf, PathBuf),
    /// With what it held.
    Removed(PathBuf, Vec<u8>),
}

/// Faults below a folder, until it is dropped.
pub(crate) struct Faults(PathBuf);

impl Faults {
    pub fn below(folder: &Path, plan: Plan) -> Self {
        let state = State { plan, steps: 0, has_crashed: false, synced: BTreeMap::new(), names: VecDeque::new() };
        all().insert(folder.to_owned(), state);
        Faults(folder.to_owned())
    }

    pub fn set(&self, plan: Plan) {
        if let Some(state) = all().get_mut(&self.0) {
            state.plan = plan;
        }
    }

    pub fn has_crashed(&self) -> bool {
        all().get(&self.0).is_some_and(|state| state.has_crashed)
    }

    /// Undoes what was not synced, each thing or not as `keep` says.
    pub fn cut_power(&self, mut keep: impl FnMut() -> bool) {
        let mut all = all();
        let Some(state) = all.get_mut(&self.0) else { return };
        while let Some(change) = state.names.pop_back() {
            if keep() {
                continue;
            }
            match change {
                NameChange::Created(path) => drop(fs::remove_file(path)),
                NameChange::Renamed(from, to) => {
                    if fs::rename(&to, &from).is_ok()
                        && let Some(length) = state.synced.remove(&to)
                    {
                        state.synced.insert(from, length);
                    }
                }
                NameChange::Removed(path, content) => fs::write(path, content).unwrap(),
            }
        }
        for (path, length) in &state.synced {
            if let Ok(file) = OpenOptions::new().write(true).open(path)
                && !keep()
            {
                let found = file.metadata().unwrap().len();
                file.set_len((*length).min(found)).unwrap();
            }
        }
    }
}

impl Drop for Faults {
    fn drop(&mut self) {
        all().remove(&self.0);
    }
}

fn all() -> MutexGuard<'static, BTreeMap<PathBuf, State>> {
    FAULTS.lock().unwrap_or_else(PoisonError::into_inner)
}

fn with_state<T>(path: &Path, then: impl FnOnce(Option<&mut State>) -> T) -> T {
    let mut all = all();
    let state = all.iter_mut().find(|(folder, _)| path.starts_with(folder)).map(|(_, state)| state);
    then(state)
}

enum Verdict {
    Go,
    Never(io::Error),
    Half(io::Error),
    Unheard(io::Error),
}

fn crashed() -> io::Error {
    io::Error::other("the process is dead")
}

impl State {
    fn judge(&mut self, step: Option<&Step<'_>>) -> Verdict {
        if self.has_crashed {
            return Verdict::Never(crashed());
        }
        let number = self.steps;
        self.steps += 1;
        match self.plan {
            Plan::CrashBefore(at) if at == number => {
                self.has_crashed = true;
                Verdict::Half(crashed())
            }
            Plan::CrashAfter(at) if at == number => {
                self.has_crashed = true;
                Verdict::Unheard(crashed())
            }
            Plan::Fail(is_meant, error) if step.is_some_and(is_meant) => Verdict::Never(error()),
            Plan::FailWrites(error) if step.is_none() => Verdict::Half(error()),
            _ => Verdict::Go,
        }
    }

    fn note(&mut self, path: &Path, step: Step<'_>, removed: Option<Vec<u8>>) {
        match step {
            Step::Create(name) => {
                self.synced.insert(path.join(name), 0);
                self.names.push_back(NameChange::Created(path.join(name)));
            }
            Step::Rename(from, to) => {
                let (from, to) = (path.join(from), path.join(to));
                if let Some(length) = self.synced.remove(&from) {
                    self.synced.insert(to.clone(), length);
                }
                self.names.push_back(NameChange::Renamed(from, to));
            }
            Step::Remove(name) => {
                self.synced.remove(&path.join(name));
                if let Some(content) = removed {
                    self.names.push_back(NameChange::Removed(path.join(name), content));
                }
            }
            Step::SyncDirectory => self.names.retain(|change| {
                let (NameChange::Created(at) | NameChange::Renamed(_, at) | NameChange::Removed(at, _)) = change;
                at.parent() != Some(path)
            }),
            Step::SyncFile => {
                if let Ok(found) = fs::metadata(path) {
                    self.synced.insert(path.to_owned(), found.len());
                }
            }
        }
    }
}

pub(super) fn step<T>(path: &Path, step: Step<'_>, act: impl FnOnce() -> io::Result<T>) -> io::Result<T> {
    let verdict = with_state(path, |state| state.map_or(Verdict::Go, |state| state.judge(Some(&step))));
    let removed = match step {
        Step::Remove(name) => fs::read(path.join(name)).ok(),
        _ => None,
    };
    let done = match verdict {
        Verdict::Never(error) | Verdict::Half(error) => return Err(error),
        Verdict::Go | Verdict::Unheard(_) => act()?,
    };
    with_state(path, |state| state.map(|state| state.note(path, step, removed)));
    match verdict {
        Verdict::Unheard(error) => Err(error),
        _ => Ok(done),
    }
}

pub(super) fn write_step(path: &Path, bytes: &[u8], write: impl FnOnce(&[u8]) -> io::Result<()>) -> io::Result<()> {
    match with_state(path, |state| state.map_or(Verdict::Go, |state| state.judge(None))) {
        Verdict::Go => write(bytes),
        Verdict::Never(error) => Err(error),
        Verdict::Half(error) => write(&bytes[..bytes.len() / 2]).and(Err(error)),
        Verdict::Unheard(error) => write(bytes).and(Err(error)),
    }
}
