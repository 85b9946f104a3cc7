//! The background threads of a cache. The worker writes to the disk and frees space. The syncer syncs the copies of
//! entries that were moved and then deletes the segments that this emptied, so that the worker seldom waits for that.
//! If a write was ever synced, the worker itself syncs each segment that it completes, and the copies of an eviction.
//! If opening the cache has not filled the index, a third thread does so, and then ends.

use crate::{
    error::Result,
    reclaim::{calls::Calls, evict::is_full, steps::Reclaim},
    stats::Stats,
    sync::holds_log,
};
use std::{
    sync::Arc,
    thread::{self, JoinHandle, Thread},
    time::{Duration, Instant},
};

/// The pause of an awake worker after a round that succeeded, unless it is woken; the records of that time are written
/// together.
const REST: Duration = Duration::from_millis(2);
/// Number of pauses without work after which the worker goes to sleep, so that steady puts need not wake it.
const ROUNDS_AWAKE: u32 = 25;
/// How long a round may last, because a constant load may never leave the worker without work.
const ROUND_MAX: Duration = Duration::from_secs(1);
const AFTER_AN_ERROR: Duration = Duration::from_millis(100);
const REPORT_EVERY: Duration = Duration::from_secs(4);
/// The rest of a syncer that nobody wakes.
const ASLEEP: Duration = Duration::from_secs(10);

/// Starts the threads and adds them to `threads`. After an error `threads` has those that did start, which the caller
/// must end.
pub(crate) fn start(reclaim: &Arc<Reclaim>, threads: &mut Vec<JoinHandle<()>>) -> std::io::Result<()> {
    let is_loaded = reclaim.store.log().is_loaded();
    let mut spawn = |name: &str, answers: fn(&Calls, Thread), main: Box<dyn FnOnce(&Reclaim) + Send>| {
        let of_thread = reclaim.clone();
        let thread = thread::Builder::new().name(name.into()).spawn(move || main(&of_thread))?;
        answers(&reclaim.calls, thread.thread().clone());
        threads.push(thread);
        Ok(())
    };
    // Read here, because changes that are made before the thread starts must be published too.
    let reported = reclaim.store.view.counters.read();
    spawn("refdb-kvcache", Calls::set_worker, Box::new(|reclaim| run(reclaim, reported)))?;
    spawn("refdb-kvsync", Calls::set_syncer, Box::new(run_syncer))?;
    if is_loaded {
        reclaim.simulations.warm(&reclaim.store.view.index);
        return Ok(());
    }
    spawn("refdb-kvload", |_, _| (), Box::new(run_loader))
}

fn run_loader(reclaim: &Reclaim) {
    while !reclaim.calls.is_closed() && reclaim.load_step() {}
    reclaim.simulations.warm(&reclaim.store.view.index);
    // Segments can be freed now that the index is complete.
    reclaim.calls.wake();
}

fn run_syncer(reclaim: &Reclaim) {
    while !reclaim.calls.is_closed() {
        match reclaim.delete_emptied() {
            // The worker may have waited for this room.
            Ok(true) => reclaim.calls.wake(),
            Ok(false) => thread::park_timeout(ASLEEP),
            Err(_) => {
                let _ = reclaim.begin_anew_if_lost();
                thread::park_timeout(AFTER_AN_ERROR);
            }
        }
    }
}

fn run(reclaim: &Reclaim, mut reported: Stats) {
    let (mut idle_rounds, mut reported_at) = (0, Instant::now());
    while !reclaim.calls.is_closed() {
        if reported_at.elapsed() >= REPORT_EVERY {
            // What could not be removed is removed when the cache is next opened.
            let _ = reclaim.follow_clock();
            let now = reclaim.store.view.counters.read();
            if now != reported && reclaim.report().is_ok() {
                reported = now;
            }
            reported_at = Instant::now();
        }
        // What failed before may have been ignored there: eviction goes on without its copies, as does the clock.
        let _ = reclaim.begin_anew_if_lost();
        match round(reclaim) {
            Ok(true) => {
                idle_rounds = 0;
                thread::park_timeout(REST);
            }
            Ok(false) if idle_rounds < ROUNDS_AWAKE => {
                idle_rounds += 1;
                thread::park_timeout(REST);
            }
            Ok(false) => {
                reclaim.calls.set_awake(false);
                // A put that came before this saw the worker awake and did not wake it.
                if reclaim.store.log().next_to_write().is_none() {
                    // A read changes what is to be published, but does not wake this thread.
                    let is_told = reclaim.store.view.counters.read() == reported;
                    let passed = if is_told { Duration::ZERO } else { reported_at.elapsed() };
                    thread::park_timeout(REPORT_EVERY.saturating_sub(passed));
                }
                if reclaim.store.log().next_to_write().is_none() {
                    // Spare memory is not freed at each rest, because each page of new memory costs a put a page fault.
                    let spare = reclaim.store.log().buffer().trim();
                    drop(spare);
                }
                reclaim.calls.set_awake(true);
                idle_rounds = 0;
            }
            // What could not be written stays in memory and is tried again, unless it is removed here.
            Err(error) => {
                let helps = |done: Result<bool>| done.is_ok_and(|helped| helped);
                let helped = helps(reclaim.begin_anew_if_lost()) || (is_full(&error) && helps(reclaim.free_one()));
                if !helped {
                    thread::park_timeout(AFTER_AN_ERROR);
                }
            }
        }
    }
}

/// One round of work; true if there was any.
pub(crate) fn round(reclaim: &Reclaim) -> Result<bool> {
    round_until(reclaim, Instant::now() + ROUND_MAX)
}

fn round_until(reclaim: &Reclaim, end: Instant) -> Result<bool> {
    let mut worked = false;
    reclaim.pending_deletion.drop_garbage();
    loop {
        worked |= reclaim.write_full_segments(end)?;
        if !reclaim.step()? || reclaim.calls.is_closed() {
            break;
        }
        worked = true;
        reclaim.write_step()?;
        if Instant::now() >= end {
            break;
        }
    }
    // A single write: while there are puts, more records are there after each one, and each write costs a system call.
    worked |= reclaim.write_step()?;
    let mut log = reclaim.store.log();
    if log.has_pending_removals() {
        let _ = log.write_removals_at(&reclaim.store.view, reclaim.store.ages.now_ms());
    }
    Ok(worked)
}

impl Reclaim {
    /// Writes full segments until there is something more urgent, or until `end`.
    fn write_full_segments(&self, end: Instant) -> Result<bool> {
        let mut worked = false;
        while self.store.log().has_full() {
            worked |= self.write_step()?;
            debug_assert!(!holds_log(), "no lock that writers need is held during a write");
            let state = self.state(&self.store.log());
            if state.is_short(&self.store.space) || state.is_untidy(&self.store.space) || Instant::now() >= end {
                break;
            }
        }
        Ok(worked)
    }

    fn write_step(&self) -> Result<bool> {
        self.store.write_step(&mut self.store.files.turn())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Cache, Options};
    use refdb_vfs::Fs;

    /// Previously, a round went on as long as puts kept it busy, and what is done between rounds was never done.
    #[test]
    fn a_round_ends_in_time_though_there_is_more_to_do() {
        let dir = tempfile::tempdir().expect("there is room");
        let cache = Cache::open_idle(Fs::real(), dir.path(), Options::new(Options::SMALLEST_LIMIT_BYTES));
        let cache = cache.expect("it is new");
        for i in 0..40u32 {
            cache.put(&i.to_le_bytes(), &[1; 4_000]).expect("there is room");
        }
        let rounds = || round_until(&cache.reclaim, Instant::now()).expect("the disk works");
        assert!(rounds() && cache.store.log().has_full());
        // On a slow disk one more round may not be enough.
        while cache.store.log().has_full() {
            assert!(round(&cache.reclaim).expect("the disk works"));
        }
    }
}
