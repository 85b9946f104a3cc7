//! The load: clients on all hosts read and change a few refs at once. Each read that was answered and each write that
//! was not refused is recorded for `judge`, with times of the coordinator's clock.

use super::{
    host::{Failure, Host, Trouble},
    judge::{NONE, Operation, Value, What},
};
use std::{
    collections::BTreeMap,
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    thread,
    time::{Duration, Instant},
};

/// The refs that are read and changed.
pub(super) const NAMES: [&str; 4] = ["refs/heads/a", "refs/heads/b", "refs/heads/deep/c", "refs/heads/deep/er/d"];

/// The number of clients on each host that take part in one load.
pub(super) const CLIENTS: usize = 2;

/// The record of a load.
#[derive(Default)]
pub(super) struct History {
    /// The operations on each of [`NAMES`].
    pub(super) of_names: [Vec<Operation>; NAMES.len()],
    /// The numbers of acknowledged reads and of acknowledged writes of each host. An operation on several refs counts
    /// once for each ref.
    pub(super) counts: BTreeMap<usize, (usize, usize)>,
    pub(super) refused: usize,
    pub(super) unknown: usize,
    /// Errors, each with the number of times that it occurred.
    pub(super) errors: BTreeMap<String, usize>,
    /// Why the load ended early; `None` if it did not.
    pub(super) trouble: Option<Trouble>,
}

/// Runs a load on the repository `path` for `time`, with the [`CLIENTS`] clients from number `first` on.
pub(super) fn run(hosts: &[Host], path: &str, first: usize, time: Duration) -> History {
    let begun = Instant::now();
    let load = Load { path, begun, end: begun + time, next: AtomicU64::new(1), history: Mutex::default() };
    let note = |tried: Result<(), Trouble>| {
        if let Err(trouble) = tried {
            load_history(&load).trouble.get_or_insert(trouble);
        }
    };
    thread::scope(|scope| {
        for host in hosts {
            for client in first..first + CLIENTS {
                let worker = Worker { load: &load, host, client };
                scope.spawn(move || note(worker.work()));
            }
        }
    });
    // The judge needs the values that each host sees after all writes have ended.
    if load_history(&load).trouble.is_none() {
        for host in hosts {
            let worker = Worker { load: &load, host, client: first };
            note((0..NAMES.len()).try_for_each(|at| worker.read(at).map(drop)));
        }
    }
    load.history.into_inner().unwrap_or_else(PoisonError::into_inner)
}

struct Load<'a> {
    path: &'a str,
    begun: Instant,
    end: Instant,
    /// The value for the next write, which no other write has.
    next: AtomicU64,
    history: Mutex<History>,
}

fn load_history<'a>(load: &'a Load<'_>) -> std::sync::MutexGuard<'a, History> {
    load.history.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A client that takes part in a load.
struct Worker<'a> {
    load: &'a Load<'a>,
    host: &'a Host,
    client: usize,
}

/// A change of a ref, by its place in [`NAMES`].
struct Swap {
    at: usize,
    old: Value,
    new: Value,
}

impl Worker<'_> {
    fn work(&self) -> Result<(), Trouble> {
        let mut dice = Dice((self.host.number * 1000 + self.client + 1) as u64);
        while Instant::now() < self.load.end && load_history(self.load).trouble.is_none() {
            let at = dice.below(NAMES.len());
            match dice.below(100) {
                0..3 => drop(self.ask("pack", &[])?),
                3..6 => self.list()?,
                6..60 => drop(self.read(at)?),
                kind => {
                    let Some(old) = self.read(at)? else { continue };
                    let mut swaps = vec![Swap { at, old, new: self.new_value(old, &mut dice) }];
                    let other = dice.below(NAMES.len());
                    if kind < 66
                        && other != at
                        && let Some(old) = self.read(other)?
                    {
                        swaps.push(Swap { at: other, old, new: self.new_value(old, &mut dice) });
                    }
                    self.write(&swaps)?;
                }
            }
        }
        Ok(())
    }

    /// Returns a value that no other write has, or sometimes [`NONE`], which deletes the ref.
    fn new_value(&self, old: Value, dice: &mut Dice) -> Value {
        if old != NONE && dice.below(8) == 0 { NONE } else { self.load.next.fetch_add(1, Relaxed) }
    }

    /// Looks a ref up.
    fn read(&self, at: usize) -> Result<Option<Value>, Trouble> {
        let begun = self.now();
        let Some(value) = self.ask("get", &[NAMES[at]])?.and_then(|said| said.parse().ok()) else { return Ok(None) };
        self.note(at, What::Read(value), begun, Some(self.now()));
        Ok(Some(value))
    }

    /// Lists all branches, and records that as a read of each of [`NAMES`].
    fn list(&self) -> Result<(), Trouble> {
        let begun = self.now();
        let Some(all) = self.ask("list", &[])? else { return Ok(()) };
        let ended = self.now();
        let words: Vec<&str> = all.split_whitespace().collect();
        for (at, name) in NAMES.iter().enumerate() {
            let row = words.chunks(2).find(|row| row[0] == *name);
            let value = row.and_then(|row| row.get(1)?.parse().ok()).unwrap_or(NONE);
            self.note(at, What::Read(value), begun, Some(ended));
        }
        Ok(())
    }

    /// Changes refs in one batch.
    fn write(&self, swaps: &[Swap]) -> Result<(), Trouble> {
        let words: Vec<String> = swaps
            .iter()
            .flat_map(|swap| [NAMES[swap.at].to_owned(), swap.old.to_string(), swap.new.to_string()])
            .collect();
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        let begun = self.now();
        let said = self.ask("set", &words);
        let ended = match said.as_ref().map(Option::as_deref) {
            Ok(Some("done")) => Some(self.now()),
            Ok(Some(_)) => {
                load_history(self.load).refused += 1;
                return Ok(());
            }
            // The change may have been made, or may still be made.
            Ok(None) | Err(_) => {
                load_history(self.load).unknown += 1;
                None
            }
        };
        for swap in swaps {
            self.note(swap.at, What::Write { old: swap.old, new: swap.new }, begun, ended);
        }
        said.map(drop)
    }

    /// Returns the answer, or `None` after an error of the host, which is recorded.
    fn ask(&self, verb: &str, arguments: &[&str]) -> Result<Option<String>, Trouble> {
        let words: Vec<&str> = [verb, self.load.path].into_iter().chain(arguments.iter().copied()).collect();
        match self.host.ask(self.client, &words) {
            Ok(said) => Ok(Some(said)),
            Err(Failure::Said(text)) => {
                let text = format!("{verb} on {}: {}", self.host.label, text.replace(self.load.path, "..."));
                *load_history(self.load).errors.entry(text).or_default() += 1;
                Ok(None)
            }
            Err(failure) => Err(self.host.trouble(failure)),
        }
    }

    fn now(&self) -> u64 {
        self.load.begun.elapsed().as_nanos() as u64
    }

    fn note(&self, at: usize, what: What, begun: u64, ended: Option<u64>) {
        let mut history = load_history(self.load);
        if ended.is_some() {
            let counts = history.counts.entry(self.host.number).or_default();
            match what {
                What::Read(_) => counts.0 += 1,
                What::Write { .. } => counts.1 += 1,
            }
        }
        let operation = Operation { host: self.host.number, client: self.client, what, begun, ended };
        history.of_names[at].push(operation);
    }
}

/// A generator of pseudo-random numbers (xorshift).
struct Dice(u64);

impl Dice {
    fn below(&mut self, limit: usize) -> usize {
        for (left, by) in [(true, 13), (false, 7), (true, 17)] {
            self.0 ^= if left { self.0 << by } else { self.0 >> by };
        }
        (self.0 >> 11) as usize % limit
    }
}
