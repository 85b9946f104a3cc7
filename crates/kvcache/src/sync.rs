//! All that threads share, in one place. So a test can put its own scheduler under it (the feature `shuttle`; see
//! `tests/schedules.rs`).

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
            atomic::{AtomicBool, AtomicU64},
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
            atomic::{AtomicBool, AtomicU64},
        },
        thread::{sleep, yield_now},
        thread_local,
    },
};

pub(crate) use std::sync::atomic::Ordering;

/// More threads than this would wait for memory.
const MOST_THREADS: usize = 4;

/// How many threads to share work among that is worth this many.
pub(crate) fn threads_for(worth: usize) -> usize {
    let cores = std::thread::available_parallelism().map_or(1, |cores| cores.get());
    let threads = cores.min(MOST_THREADS).min(worth).max(1);
    debug_assert!((1..=MOST_THREADS).contains(&threads), "{threads}");
    threads
}
