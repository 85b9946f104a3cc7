#[cfg(test)]
mod tests;

use std::{
    collections::{HashMap, VecDeque},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};
use tokio::sync::{Semaphore, oneshot};

/// A limit on the fetches, or on the pushes, that run at the same time: of all repositories and clients, of each
/// repository, and of each client. With the default limits, fetches that take long or hooks that hang in one repository
/// do not stop those in others, not even those of the same client, and one client that sends or reads slowly does not
/// stop other clients in other repositories. Clones share their state.
#[derive(Clone)]
pub(super) struct Queue(Arc<Mutex<State>>);

/// How many fetches, or pushes, may run at the same time.
#[derive(Clone, Copy, Debug)]
pub(super) struct Most {
    pub(super) all: usize,
    pub(super) per_repository: usize,
    pub(super) per_client: usize,
}

struct State {
    most: Most,
    running: usize,
    /// How many run in each repository. A repository in which none run has no entry.
    repositories: HashMap<Arc<str>, usize>,
    /// How many run for each client. A client for which none run has no entry.
    clients: HashMap<Arc<str>, usize>,
    /// The requests that wait, in the order in which they came.
    waiting: VecDeque<Waiting>,
    /// The length of `waiting` at which requests that were given up are removed from it, even if no place becomes free.
    tidy_at: usize,
}

impl State {
    const TIDY_MIN: usize = 64;
}

struct Waiting {
    client: Arc<str>,
    repository: Arc<str>,
    grant: oneshot::Sender<Place>,
}

/// The right of one fetch or push to run. Dropping it lets others run.
pub(crate) struct Place {
    queue: Queue,
    client: Arc<str>,
    repository: Arc<str>,
}

impl Queue {
    pub(super) fn new(most: Most) -> Self {
        let (repositories, clients, waiting) = (HashMap::new(), HashMap::new(), VecDeque::new());
        Queue(Arc::new(Mutex::new(State {
            most,
            running: 0,
            repositories,
            clients,
            waiting,
            tidy_at: State::TIDY_MIN,
        })))
    }

    /// Returns the same queue, to which new limits apply from now on.
    pub(super) fn resized(&self, most: Most) -> Self {
        let mut state = self.locked();
        state.most = most;
        let unwanted = self.let_run_those(&mut state, |_| true);
        drop(state);
        drop(unwanted);
        self.clone()
    }

    /// Waits until a request may run. The next one to run is the first waiting request that no limit holds back.
    /// Returns `None` only if the queue is gone, which cannot be while it is borrowed.
    pub(super) async fn place(&self, client: &str, repository: &str) -> Option<Place> {
        let (grant, granted) = oneshot::channel();
        let waiting = Waiting { client: client.into(), repository: repository.into(), grant };
        self.enter(waiting);
        granted.await.ok()
    }

    /// Lets a request run, or lets it wait if a limit holds it back.
    fn enter(&self, request: Waiting) {
        let mut state = self.locked();
        if !state.allows(&request) {
            if state.waiting.len() >= state.tidy_at {
                state.waiting.retain(|waiting| !waiting.grant.is_closed());
                state.tidy_at = State::TIDY_MIN.max(2 * state.waiting.len());
            }
            state.waiting.push_back(request);
            return;
        }
        let unwanted = self.let_run(&mut state, request);
        drop(state);
        drop(unwanted);
    }

    /// Returns the number of requests that wait or have been given up and not yet removed.
    #[cfg(test)]
    pub(super) fn waiting(&self) -> usize {
        self.locked().waiting.len()
    }

    /// Returns the number of repositories and clients that are known.
    #[cfg(test)]
    pub(super) fn known(&self) -> usize {
        let state = self.locked();
        state.repositories.len() + state.clients.len()
    }

    /// Lets the waiting requests run for which `may` returns `true` and that no limit holds back, the first ones first,
    /// and forgets those that have been given up. Returns the places that nobody wants any more. Dropping a place needs
    /// the lock, so the caller drops them after the lock is released.
    fn let_run_those(&self, state: &mut State, may: impl Fn(&Waiting) -> bool) -> Vec<Place> {
        let (mut at, mut unwanted) = (0, Vec::new());
        while let Some(next) = state.waiting.get(at) {
            let is_given_up = next.grant.is_closed();
            let runs = may(next) && state.allows(next);
            if !is_given_up && !runs {
                at += 1;
                continue;
            }
            if let Some(next) = state.waiting.remove(at).filter(|_| !is_given_up) {
                unwanted.extend(self.let_run(state, next));
            }
        }
        unwanted
    }

    /// Lets a request run. Returns its place if nobody wants it any more.
    fn let_run(&self, state: &mut State, Waiting { client, repository, grant }: Waiting) -> Option<Place> {
        state.running += 1;
        *state.repositories.entry(Arc::clone(&repository)).or_default() += 1;
        *state.clients.entry(Arc::clone(&client)).or_default() += 1;
        grant.send(Place { queue: self.clone(), client, repository }).err()
    }

    fn locked(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn allows(&self, waiting: &Waiting) -> bool {
        let count = |counts: &HashMap<Arc<str>, usize>, name| counts.get(name).copied().unwrap_or(0);
        self.running < self.most.all
            && count(&self.repositories, &waiting.repository) < self.most.per_repository
            && count(&self.clients, &waiting.client) < self.most.per_client
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut state = self.queue.locked();
        let was_full = state.running >= state.most.all;
        state.running -= 1;
        let State { repositories, clients, .. } = &mut *state;
        for (counts, name) in [(repositories, &self.repository), (clients, &self.client)] {
            if let Some(count) = counts.get_mut(name) {
                *count -= 1;
                if *count == 0 {
                    counts.remove(name);
                }
            }
        }
        // This place counted under three limits. Only a request that one of them held back can run now.
        let may = |next: &Waiting| was_full || next.repository == self.repository || next.client == self.client;
        let unwanted = self.queue.let_run_those(&mut state, may);
        drop(state);
        drop(unwanted);
    }
}

impl std::fmt::Debug for Place {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Place").field("client", &self.client).field("repository", &self.repository).finish()
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

    /// Returns the same slots in another number. Slots to be removed that are in use are removed when they become free,
    /// before another request gets them.
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
