//! Conditions of a repository that a log reports once as long as they last, such as an unsorted packed-refs.

use std::sync::{
    Mutex, MutexGuard, PoisonError,
    atomic::{AtomicU64, Ordering::Relaxed},
};

/// A condition that may hold, and whether it was reported.
#[derive(Debug)]
pub(crate) struct Finding<T> {
    /// 1 if the condition holds, else 0. This number is read often, and reading it needs no lock.
    count: AtomicU64,
    /// 1 if the condition holds and is unreported, else 0.
    unreported: AtomicU64,
    known: Mutex<Option<Noted<T>>>,
}

#[derive(Debug)]
struct Noted<T> {
    found: T,
    is_reported: bool,
}

impl<T> Default for Finding<T> {
    fn default() -> Self {
        Finding { count: AtomicU64::new(0), unreported: AtomicU64::new(0), known: Mutex::new(None) }
    }
}

impl<T: Clone + PartialEq> Finding<T> {
    pub(crate) fn count(&self) -> u64 {
        self.count.load(Relaxed)
    }

    pub(crate) fn unreported(&self) -> u64 {
        self.unreported.load(Relaxed)
    }

    /// Records what was found; `None` if the condition does not hold. A finding that equals the present one is not
    /// reported again.
    pub(crate) fn note(&self, found: Option<T>) {
        let mut known = self.known();
        *known = match (found, known.take()) {
            (Some(found), Some(before)) if before.found == found => Some(before),
            (Some(found), _) => Some(Noted { found, is_reported: false }),
            (None, _) => None,
        };
        self.recount(known.as_ref());
    }

    /// The present finding, whether or not it was reported.
    pub(crate) fn found(&self) -> Option<T> {
        self.known().as_ref().map(|noted| noted.found.clone())
    }

    /// Returns the present finding if it was not reported yet, and counts it as reported.
    pub(crate) fn take_unreported(&self) -> Option<T> {
        let mut known = self.known();
        let noted = known.as_mut().filter(|noted| !noted.is_reported)?;
        noted.is_reported = true;
        let found = noted.found.clone();
        self.recount(known.as_ref());
        Some(found)
    }

    fn known(&self) -> MutexGuard<'_, Option<Noted<T>>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn recount(&self, known: Option<&Noted<T>>) {
        self.count.store(known.is_some().into(), Relaxed);
        self.unreported.store(known.is_some_and(|noted| !noted.is_reported).into(), Relaxed);
    }
}
