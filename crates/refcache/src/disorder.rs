//! A packed-refs that says that it is sorted and is not: whether there is one, and who has been told.

use refdb::files::Disorder;
use std::sync::{
    Mutex, MutexGuard, PoisonError,
    atomic::{AtomicU64, Ordering::Relaxed},
};

/// Where a repository's packed-refs is out of order, as it was found last.
#[derive(Debug, Default)]
pub(crate) struct Disorders {
    /// 0 or 1 each: a frequent question costs no lock.
    count: AtomicU64,
    untold: AtomicU64,
    known: Mutex<Option<Noted>>,
}

#[derive(Debug)]
struct Noted {
    disorder: Disorder,
    is_told: bool,
}

impl Disorders {
    pub(crate) fn count(&self) -> u64 {
        self.count.load(Relaxed)
    }

    pub(crate) fn untold(&self) -> u64 {
        self.untold.load(Relaxed)
    }

    /// The known disorder of the present packed-refs; the same place is told of once.
    pub(crate) fn note(&self, found: Option<Disorder>) {
        let mut known = self.known();
        *known = match (found, known.take()) {
            (Some(disorder), Some(before)) if before.disorder == disorder => Some(before),
            (Some(disorder), _) => Some(Noted { disorder, is_told: false }),
            (None, _) => None,
        };
        self.recount(known.as_ref());
    }

    /// Where it is, if nobody was told of it.
    pub(crate) fn take_untold(&self) -> Option<Disorder> {
        let mut known = self.known();
        let noted = known.as_mut().filter(|noted| !noted.is_told)?;
        noted.is_told = true;
        let disorder = noted.disorder.clone();
        self.recount(known.as_ref());
        Some(disorder)
    }

    fn known(&self) -> MutexGuard<'_, Option<Noted>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn recount(&self, known: Option<&Noted>) {
        self.count.store(known.is_some().into(), Relaxed);
        self.untold.store(known.is_some_and(|noted| !noted.is_told).into(), Relaxed);
    }
}
