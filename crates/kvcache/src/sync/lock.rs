//! Locks with a place in one order, which no thread takes the other way round.

use super::{Mutex, MutexGuard, thread_local};
use std::{
    cell::Cell,
    ops::{Deref, DerefMut},
};

/// The order: a thread that holds a lock may only take one that is further down.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum Rank {
    /// Of the thread that frees room.
    Reclaim,
    /// Of the thread that writes to the files.
    Files,
    /// Of the log: no disk access happens under it, nor under those below it.
    Log,
    /// A list or a figure, which is held for a moment.
    Leaf,
}

/// A mutex that knows its place in the order.
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
    /// A bit for each rank that this thread holds a lock of.
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

    /// Takes the lock. A holder checks indexing and arithmetic before it changes anything, so a panic leaves no data
    /// half changed. A poisoned lock is thus taken like any other: one failed call must not end a server's cache.
    pub(crate) fn lock(&self) -> Held<'_, T> {
        self.enter();
        Held { rank: self.rank, guard: self.mutex.lock().unwrap_or_else(|poisoned| poisoned.into_inner()) }
    }

    /// Takes the lock unless another thread holds it.
    pub(crate) fn try_lock(&self) -> Option<Held<'_, T>> {
        let guard = self.mutex.try_lock().ok()?;
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

/// Whether this thread holds a lock under which no disk access may happen; only known where assertions are.
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
        assert!(wrong.is_err(), "who holds the log and then waits for files could wait for itself");
        drop(held);
        assert_eq!(*files.lock(), 1, "it was not left locked");
    }
}
