//! The two background threads of a cache: the worker writes to the disk and keeps the limit; the syncer waits for stable
//! storage, so that the worker need not, and deletes what was compacted.

use crate::{
    error::Result,
    reclaim::evict::is_full,
    shared::{Handle, Shared},
    sync::{Ordering, lock},
};
use std::{
    thread::{self, JoinHandle},
    time::{Duration, Instant},
};

/// Records of one such span go to the file together.
const REST: Duration = Duration::from_millis(2);
/// The worker stays up this many times after its last work, so that steady puts need not wake it.
const ROUNDS_AWAKE: u32 = 25;
const AFTER_AN_ERROR: Duration = Duration::from_millis(100);
const REPORT_EVERY: Duration = Duration::from_secs(4);
const ASLEEP: Duration = Duration::from_secs(10);

pub(crate) fn start(shared: &Handle) -> std::io::Result<Vec<JoinHandle<()>>> {
    let spawn = |name: &str, main: fn(&Shared)| {
        let shared = shared.clone();
        thread::Builder::new().name(name.into()).spawn(move || main(&shared))
    };
    let (worker, syncer) = (spawn("refdb-kvcache", run)?, spawn("refdb-kvsync", run_syncer)?);
    let _ = shared.worker.set(worker.thread().clone());
    let _ = shared.syncer.set(syncer.thread().clone());
    Ok(vec![worker, syncer])
}

fn run_syncer(shared: &Shared) {
    while !shared.closed.load(Ordering::Acquire) {
        match shared.delete_condemned() {
            // There is room now for the worker to go on.
            Ok(true) => shared.wake(),
            Ok(false) => thread::park_timeout(ASLEEP),
            Err(_) => thread::park_timeout(AFTER_AN_ERROR),
        }
    }
}

fn run(shared: &Shared) {
    let mut idle_rounds = 0;
    let (mut reported, mut reported_at) = (shared.counters.read(), Instant::now());
    shared.warm_ghosts();
    while !shared.closed.load(Ordering::Acquire) {
        if reported_at.elapsed() >= REPORT_EVERY {
            let now = shared.counters.read();
            if now != reported && shared.report().is_ok() {
                reported = now;
            }
            reported_at = Instant::now();
        }
        match round(shared) {
            Ok(true) => {
                idle_rounds = 0;
                thread::park_timeout(REST);
            }
            Ok(false) if idle_rounds < ROUNDS_AWAKE => {
                idle_rounds += 1;
                thread::park_timeout(REST);
            }
            Ok(false) => {
                shared.awake.store(false, Ordering::SeqCst);
                // A put that came before this saw the worker awake and did not call.
                if lock(&shared.log).next_to_write().is_none() {
                    // The last report comes soon after the last change.
                    let is_told = shared.counters.read() == reported;
                    let rest = if is_told { ASLEEP } else { REPORT_EVERY.saturating_sub(reported_at.elapsed()) };
                    thread::park_timeout(rest);
                }
                if lock(&shared.log).next_to_write().is_none() {
                    // Not at each pause: new memory costs a put a fault for each of its pages.
                    let spare = lock(&shared.log).buffer().trim();
                    drop(spare);
                }
                shared.awake.store(true, Ordering::SeqCst);
                idle_rounds = 0;
            }
            // It was counted; what could not be written stays in memory and is tried again.
            Err(error) => {
                if !(is_full(&error) && shared.free_one().is_ok_and(|freed| freed)) {
                    thread::park_timeout(AFTER_AN_ERROR);
                }
            }
        }
    }
}

/// One turn of work; true if there was some.
pub(crate) fn round(shared: &Shared) -> Result<bool> {
    let mut worked = false;
    drop(std::mem::take(&mut *lock(&shared.garbage)));
    loop {
        worked |= shared.write_full_segments()?;
        if !shared.reclaim_step()? || shared.closed.load(Ordering::Acquire) {
            break;
        }
        worked = true;
        shared.write_step()?;
    }
    // Once: as long as there are puts there is always more, and each piece costs a system call.
    worked |= shared.write_step()?;
    let mut log = lock(&shared.log);
    if log.owes() {
        let _ = log.pay_at(&shared.view(), shared.ages.now_ms());
    }
    Ok(worked)
}

impl Shared {
    /// Writes what is full, until there is something more urgent.
    fn write_full_segments(&self) -> Result<bool> {
        let mut worked = false;
        while lock(&self.log).has_full() {
            worked |= self.write_step()?;
            let state = self.state(&lock(&self.log));
            if state.is_short(&self.space) || state.is_untidy(&self.space) {
                break;
            }
        }
        Ok(worked)
    }

    fn write_step(&self) -> Result<bool> {
        self.flush_step(&mut lock(&self.files))
    }
}
