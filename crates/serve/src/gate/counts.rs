use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

/// Counts the requests in progress for each name: a client or a repository. A name without requests has no entry.
#[derive(Clone, Debug)]
pub(super) struct Counts {
    counts: Arc<Mutex<HashMap<Arc<str>, usize>>>,
    max: usize,
}

/// A request that is counted until this value is dropped.
#[derive(Debug)]
pub(crate) struct Counted {
    counts: Counts,
    name: Arc<str>,
}

impl Counts {
    pub(super) fn new(max: usize) -> Self {
        Counts { counts: Arc::default(), max }
    }

    /// Returns the same counts with another maximum.
    pub(super) fn with_max(&self, max: usize) -> Self {
        Counts { counts: Arc::clone(&self.counts), max }
    }

    /// Counts a request. Returns `None` if the maximum number of requests of this name is in progress.
    pub(super) fn enter(&self, name: &str) -> Option<Counted> {
        let mut counts = self.locked();
        let name = match counts.get_key_value(name) {
            Some((_, count)) if *count >= self.max => return None,
            Some((name, _)) => Arc::clone(name),
            None => Arc::from(name),
        };
        *counts.entry(Arc::clone(&name)).or_default() += 1;
        Some(Counted { counts: self.clone(), name })
    }

    fn locked(&self) -> MutexGuard<'_, HashMap<Arc<str>, usize>> {
        self.counts.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        let mut counts = self.counts.locked();
        if let Some(count) = counts.get_mut(&self.name) {
            *count -= 1;
            if *count == 0 {
                counts.remove(&self.name);
            }
        }
    }
}
