use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError, Weak},
};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// A limit on the fetches, or on the pushes, that run at the same time. Those of one repository, and those of one
/// client, occupy at most a part of the slots, by default two thirds of all, rounded up. If these parts are less than
/// all, fetches that take long or hooks that hang in one repository do not stop those in others, and a client that
/// sends or reads slowly does not stop others.
pub(super) struct Queue {
    all: Places,
    repositories: Shares,
    clients: Shares,
}

/// How many fetches, or pushes, may run at the same time.
#[derive(Clone, Copy, Debug)]
pub(super) struct Most {
    pub(super) all: usize,
    pub(super) per_repository: usize,
    pub(super) per_client: usize,
}

/// The slots that one fetch or push occupies: one of its client, one of its repository, and one of all.
#[derive(Debug)]
pub(crate) struct Place {
    _of_client: OwnedSemaphorePermit,
    _in_repository: OwnedSemaphorePermit,
    _in_all: OwnedSemaphorePermit,
}

impl Queue {
    pub(super) fn new(most: Most) -> Self {
        let [repositories, clients] = [most.per_repository, most.per_client].map(Shares::new);
        Queue { all: Places::new(most.all), repositories, clients }
    }

    /// Returns the same queue with other limits. For a repository or a client whose requests run or wait, the new limit
    /// of its own holds only once no request of it runs or waits, not even a later one.
    pub(super) fn resized(&self, most: Most) -> Self {
        let repositories = self.repositories.with_each(most.per_repository);
        Queue { all: self.all.resized(most.all), repositories, clients: self.clients.with_each(most.per_client) }
    }

    /// Waits for the slots of one request, first come first served within each client, then within each repository, and
    /// then among all. Returns `None` only if a semaphore was closed, which the server never does.
    pub(super) async fn place(&self, client: &str, repository: &str) -> Option<Place> {
        let of_client = self.clients.of(client).acquire_owned().await.ok()?;
        let in_repository = self.repositories.of(repository).acquire_owned().await.ok()?;
        let in_all = Arc::clone(&self.all.free).acquire_owned().await.ok()?;
        Some(Place { _of_client: of_client, _in_repository: in_repository, _in_all: in_all })
    }

    /// Returns the number of repositories and clients in the maps. Some may have no request any more.
    #[cfg(test)]
    pub(super) fn known(&self) -> usize {
        self.repositories.locked().len() + self.clients.locked().len()
    }
}

/// Slots of single repositories or clients, `each` for every name.
struct Shares {
    each: usize,
    slots: Arc<Mutex<HashMap<String, Weak<Semaphore>>>>,
}

impl Shares {
    fn new(each: usize) -> Self {
        Shares { each, slots: Arc::default() }
    }

    fn with_each(&self, each: usize) -> Self {
        Shares { each, slots: Arc::clone(&self.slots) }
    }

    fn of(&self, name: &str) -> Arc<Semaphore> {
        let mut slots = self.locked();
        if let Some(slots) = slots.get(name).and_then(Weak::upgrade) {
            return slots;
        }
        if slots.len() == slots.capacity() {
            // Before the map grows, names that have no request any more are removed from it.
            slots.retain(|_, slots| slots.strong_count() > 0);
        }
        let its = Arc::new(Semaphore::new(self.each.min(Semaphore::MAX_PERMITS)));
        slots.insert(name.to_owned(), Arc::downgrade(&its));
        its
    }

    fn locked(&self) -> MutexGuard<'_, HashMap<String, Weak<Semaphore>>> {
        self.slots.lock().unwrap_or_else(PoisonError::into_inner)
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
