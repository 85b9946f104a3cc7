use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError, Weak},
};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// A limit on the fetches, or on the pushes, that run at the same time. Those of one repository occupy at most
/// `per_repository` slots, by default two thirds of all, rounded up. If `per_repository` is less than the number of all
/// slots, fetches that take long or hooks that hang in one repository do not stop those in others.
pub(super) struct Queue {
    all: Places,
    per_repository: usize,
    repositories: Arc<Mutex<HashMap<String, Weak<Semaphore>>>>,
}

/// The slots that one fetch or push occupies: one of its repository, and one of all repositories.
#[derive(Debug)]
pub(crate) struct Place {
    _in_repository: OwnedSemaphorePermit,
    _in_all: OwnedSemaphorePermit,
}

impl Queue {
    pub(super) fn new(all: usize, per_repository: usize) -> Self {
        Queue { all: Places::new(all), per_repository, repositories: Arc::default() }
    }

    /// Returns the same queue with other limits. For a repository whose requests run or wait, the new `per_repository`
    /// holds only once no request of this repository runs or waits, not even a later one.
    pub(super) fn resized(&self, all: usize, per_repository: usize) -> Self {
        Queue { all: self.all.resized(all), per_repository, repositories: Arc::clone(&self.repositories) }
    }

    /// Waits for the slots of one request, first come first served within each repository and then among all. Returns
    /// `None` only if a semaphore was closed, which the server never does.
    pub(super) async fn place(&self, repository: &str) -> Option<Place> {
        let in_repository = self.of(repository).acquire_owned().await.ok()?;
        let in_all = Arc::clone(&self.all.free).acquire_owned().await.ok()?;
        Some(Place { _in_repository: in_repository, _in_all: in_all })
    }

    /// Returns the number of repositories in the map. Some may have no request any more.
    #[cfg(test)]
    pub(super) fn known(&self) -> usize {
        self.repositories.lock().unwrap_or_else(PoisonError::into_inner).len()
    }

    fn of(&self, repository: &str) -> Arc<Semaphore> {
        let mut repositories = self.repositories.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(places) = repositories.get(repository).and_then(Weak::upgrade) {
            return places;
        }
        if repositories.len() == repositories.capacity() {
            // Before the map grows, repositories that have no request any more are removed from it.
            repositories.retain(|_, places| places.strong_count() > 0);
        }
        let places = Arc::new(Semaphore::new(self.per_repository.min(Semaphore::MAX_PERMITS)));
        repositories.insert(repository.to_owned(), Arc::downgrade(&places));
        places
    }
}

/// A number of slots, of which each request occupies one.
pub(super) struct Places {
    pub(super) free: Arc<Semaphore>,
    count: u32,
}

impl Places {
    pub(super) fn new(count: usize) -> Self {
        let count = Self::within_bounds(count);
        Places { free: Arc::new(Semaphore::new(count as usize)), count }
    }

    /// Returns the same slots in another number. If fewer slots are free than are to be removed, the rest are removed
    /// when they become free, before a request that begins to wait later gets one.
    pub(super) fn resized(&self, count: usize) -> Self {
        let (free, count) = (Arc::clone(&self.free), Self::within_bounds(count));
        if count >= self.count {
            free.add_permits((count - self.count) as usize);
        } else {
            let (free, gone) = (Arc::clone(&free), self.count - count);
            tokio::spawn(async move {
                // The semaphore is never closed.
                if let Ok(permits) = free.acquire_many_owned(gone).await {
                    permits.forget();
                }
            });
        }
        Places { free, count }
    }

    fn within_bounds(count: usize) -> u32 {
        u32::try_from(count.min(Semaphore::MAX_PERMITS)).unwrap_or(u32::MAX)
    }
}
