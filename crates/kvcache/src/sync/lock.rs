//! Locks with ranks: a thread may take them only in the order of their ranks, which prevents deadlocks. Builds with
//! debug assertions check the order.

use super::{Mutex, MutexGuard, thread_local};
use std::{
    cell::Cell,
    ops::{Deref, DerefMut},
    sync::TryLockError,
};

/// The rank of a lock. A thread that holds a lock may take only locks of a later rank.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum Rank {
    /// The part of the index that is still to be read from the files.
    Loading,
    /// The right to free segments.
    Reclaim,
    /// The right to write to the files.
    Files,
    /// The right to sync the folder.
    Names,
    /// The log. No file is read or written while a lock of this rank or a later one is held.
    Log,
    /// A small value, such as a list or a number.
    Leaf,
}

/// A mutex with a rank.
pub(crate) struct Lock<T> {
    rank: Rank,
    mutex: Mutex<T>,
}

/// A lock that is held.
pub(crate) struct Held<'a, T> {
    rank: Rank,
    guard: MutexGuard<'a, T>,
}

thread_local! {
    /// A bit for each rank of which this thread holds a lock. Always 0 in builds without debug assertions.
    static HELD: Cell<u8> = const { Cell::new(0) };
}

fn held() -> u8 {
    HELD.with(Cell::get)
}

fn set_held(ranks: u8) {
    HELD.with(|held| held.set(ranks));
}

fn bit(rank: Rank) -> u8 {
    1 << rank as u8
}

impl<T> Lock<T> {
    pub(crate) fn new(rank: Rank, value: T) -> Self {
        Lock { rank, mutex: Mutex::new(value) }
    }

    /// Takes the lock, even if it is poisoned, because one call that panicked must not end a server's cache. Holders
    /// have to check indexing and arithmetic before they change anything, so that a panic leaves no data half changed.
    pub(crate) fn lock(&self) -> Held<'_, T> {
        self.enter();
        Held { rank: self.rank, guard: self.mutex.lock().unwrap_or_else(|poisoned| poisoned.into_inner()) }
    }

    /// Takes the lock unless another thread holds it, and even if it is poisoned, as [`lock`](Self::lock) does.
    pub(crate) fn try_lock(&self) -> Option<Held<'_, T>> {
        let guard = match self.mutex.try_lock() {
            Ok(guard) => guard,
            Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
            Err(TryLockError::WouldBlock) => return None,
        };
        self.enter();
        Some(Held { rank: self.rank, guard })
    }

    fn enter(&self) {
        if cfg!(debug_assertions) {
            let held = self::held();
            debug_assert!(held < bit(self.rank), "{:?} is taken below a lock of the set {held:#06b}", self.rank);
            set_held(held | bit(self.rank));
        }
    }
}

impl<T> Deref for Held<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.guard
    }
}

impl<T> DerefMut for Held<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        &mut self.guard
    }
}

impl<T> Drop for Held<'_, T> {
    fn drop(&mut self) {
        if cfg!(debug_assertions) {
            debug_assert!(held() & bit(self.rank) != 0, "{:?} was taken by this thread", self.rank);
            set_held(held() & !bit(self.rank));
        }
    }
}

/// Returns whether this thread holds a lock under which no file may be read or written; always `false` in builds
/// without debug assertions.
pub(crate) fn holds_log() -> bool {
    cfg!(debug_assertions) && held() >= bit(Rank::Log)
}

#[cfg(all(test, debug_assertions, not(feature = "shuttle")))]
mod tests {
    use super::*;
    use std::panic::{AssertUnwindSafe, catch_unwind};

    #[test]
    fn locks_are_taken_in_their_order_only() {
        let (files, log) = (Lock::new(Rank::Files, 1), Lock::new(Rank::Log, 2));
        {
            let (a, b) = (files.lock(), log.lock());
            assert!(*a + *b == 3 && holds_log());
        }
        assert!(!holds_log());
        let held = log.lock();
        let wrong = catch_unwind(AssertUnwindSafe(|| drop(files.lock())));
        assert!(wrong.is_err(), "files come before the log");
        let wrong = catch_unwind(AssertUnwindSafe(|| drop(files.try_lock())));
        assert!(wrong.is_err(), "a thread that holds the log and waits for files could deadlock");
        drop(held);
        assert_eq!(*files.lock(), 1, "it was not left locked");
    }
}
