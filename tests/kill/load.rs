//! Several programs that export at the same time, and send again what was not acknowledged.

use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;

use super::client::{Addresses, Client, WAYS};
use super::runs::{self, Random};
use super::tally::Tally;

/// How many runs of one program are under way at the same time.
const TOGETHER: u64 = 3;
/// One request of so many is sent once more although it was acknowledged.
const AGAIN: usize = 50;

/// What goes on until [`Load::end`].
pub struct Load {
    shared: Arc<Shared>,
    programs: Vec<JoinHandle<()>>,
}

#[derive(Default)]
struct Shared {
    /// Where a gateway serves; `None` while there is none.
    addresses: Mutex<Option<Addresses>>,
    changed: Condvar,
    /// The number of the next run.
    next: AtomicU64,
    acknowledged: AtomicUsize,
    unacknowledged: AtomicUsize,
    is_ending: AtomicBool,
}

impl Load {
    /// Starts so many programs. They wait for an address; their runs have the numbers from `first` on.
    pub fn start(programs: usize, first: u64) -> Self {
        let shared = Arc::new(Shared { next: first.into(), ..Shared::default() });
        let program = |number: usize| {
            let shared = shared.clone();
            std::thread::spawn(move || shared.run(Random(number as u64 ^ first)))
        };
        Load { programs: (0..programs).map(program).collect(), shared }
    }

    /// Says where the gateway serves from now on, if anywhere.
    pub fn lead_to(&self, addresses: Option<Addresses>) {
        *self.shared.addresses.lock().unwrap() = addresses;
        self.shared.changed.notify_all();
    }

    /// How many requests have been acknowledged.
    pub fn acknowledged(&self) -> usize {
        self.shared.acknowledged.load(Ordering::SeqCst)
    }

    /// How many requests had to be sent again.
    pub fn unacknowledged(&self) -> usize {
        self.shared.unacknowledged.load(Ordering::SeqCst)
    }

    /// Begins no more runs, and waits until those that have begun are acknowledged whole. The number behind that of the
    /// last run.
    pub fn end(self) -> u64 {
        self.shared.is_ending.store(true, Ordering::SeqCst);
        self.programs.into_iter().for_each(|program| program.join().unwrap());
        self.shared.next.load(Ordering::SeqCst)
    }
}

impl Shared {
    fn run(&self, mut random: Random) {
        let mut client = None;
        while !self.is_ending.load(Ordering::SeqCst) {
            let first = self.next.fetch_add(TOGETHER, Ordering::SeqCst);
            let numbers: Vec<u64> = (first..first + TOGETHER).collect();
            for request in runs::interleaved(&numbers, &mut random) {
                let times = 1 + usize::from(random.once_in(AGAIN));
                for _ in 0..times {
                    let way = WAYS[random.below(WAYS.len())];
                    while self.client(&mut client).send(way, &request).is_err() {
                        self.unacknowledged.fetch_add(1, Ordering::SeqCst);
                        // As a client does that was refused, or finds nobody.
                        std::thread::sleep(Duration::from_millis(5));
                    }
                    self.acknowledged.fetch_add(1, Ordering::SeqCst);
                }
            }
        }
    }

    /// The client of the gateway that there is; waits for one if there is none.
    fn client<'c>(&self, client: &'c mut Option<(Addresses, Client)>) -> &'c mut Client {
        let mut addresses = self.addresses.lock().unwrap();
        let current = loop {
            match &*addresses {
                Some(current) => break current.clone(),
                None => addresses = self.changed.wait(addresses).unwrap(),
            }
        };
        drop(addresses);
        if client.as_ref().is_none_or(|(known, _)| *known != current) {
            *client = Some((current.clone(), Client::new(current)));
        }
        &mut client.as_mut().unwrap().1
    }
}

/// The lines that the runs with these numbers have to become.
pub fn expected(numbers: impl IntoIterator<Item = u64>) -> Tally {
    let mut tally = Tally::default();
    numbers.into_iter().for_each(|number| tally.add(&runs::lines(runs::run(number))));
    tally
}
