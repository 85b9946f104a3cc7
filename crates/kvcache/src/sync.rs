//! What threads share, in one place.

pub(crate) use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard};

/// A shared value that is replaced as a whole; readers take no lock.
pub(crate) type Shared<T> = arc_swap::ArcSwap<T>;
/// The same, where there may be none.
pub(crate) type SharedOption<T> = arc_swap::ArcSwapOption<T>;

/// Takes a lock. No holder leaves its data half changed when it panics (indexing and arithmetic are checked before
/// anything is changed), so a poisoned lock is taken like any other: one failed call must not end a server's cache.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
}

/// More threads than this would wait for memory.
const MOST_THREADS: usize = 4;

/// How many threads to share work among that is worth this many.
pub(crate) fn threads_for(worth: usize) -> usize {
    let cores = std::thread::available_parallelism().map_or(1, |cores| cores.get());
    cores.min(MOST_THREADS).min(worth).max(1)
}
