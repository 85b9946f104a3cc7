//! The locks, atomics and shared pointers of which tests vary the order of accesses. They are in one place so that the
//! feature `shuttle` can replace them by those of shuttle's scheduler (see `tests/schedules.rs`).

mod lock;
#[cfg(feature = "shuttle")]
mod scheduled;

pub(crate) use lock::{Held, Lock, Rank, holds_log};
#[cfg(not(feature = "shuttle"))]
pub(crate) use {
    arc_swap::{ArcSwap as Shared, ArcSwapOption as SharedOption},
    std::{
        sync::{
            Mutex, MutexGuard,
            atomic::{AtomicBool, AtomicU16, AtomicU32, AtomicU64},
        },
        thread::{sleep, yield_now},
        thread_local,
    },
};
#[cfg(feature = "shuttle")]
pub(crate) use {
    scheduled::{Shared, SharedOption},
    shuttle::{
        sync::{
            Mutex, MutexGuard,
            atomic::{AtomicBool, AtomicU16, AtomicU32, AtomicU64},
        },
        thread::{sleep, yield_now},
        thread_local,
    },
};

pub(crate) use std::sync::atomic::Ordering;
use std::thread;

/// The maximum number that [`threads_for`] returns; more threads would mostly wait for memory.
const MOST_THREADS: usize = 4;

/// Applies `work` to each share and returns the results in the order of the shares. The calling thread works too, and
/// does all of the work with the threads that exist if no more can be started.
pub(crate) fn on_threads<S: Send, T: Send>(shares: Vec<S>, work: impl Fn(S) -> T + Sync) -> Vec<T> {
    let helpers = shares.len().saturating_sub(1);
    let left = std::sync::Mutex::new(shares.into_iter().enumerate());
    let next = || left.lock().expect("no thread panics with it").next();
    let work_on = || std::iter::from_fn(next).map(|(at, share)| (at, work(share))).collect::<Vec<_>>();
    let mut done = thread::scope(|scope| {
        let start = |_| thread::Builder::new().spawn_scoped(scope, work_on).ok();
        let others: Vec<_> = (0..helpers).map_while(start).collect();
        let mut done = work_on();
        others.into_iter().for_each(|other| done.extend(other.join().expect("no share panics")));
        done
    });
    done.sort_unstable_by_key(|(at, _)| *at);
    debug_assert!(done.iter().enumerate().all(|(at, (share, _))| at == *share), "each share is done once");
    done.into_iter().map(|(_, result)| result).collect()
}

/// Returns the number of threads for work that could keep `worth` threads busy: at least 1, and at most the number of
/// processors and [`MOST_THREADS`].
pub(crate) fn threads_for(worth: usize) -> usize {
    let cores = std::thread::available_parallelism().map_or(1, |cores| cores.get());
    let threads = cores.min(MOST_THREADS).min(worth).max(1);
    debug_assert!((1..=MOST_THREADS).contains(&threads), "{threads}");
    threads
}
