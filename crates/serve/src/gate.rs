//! Decides whether a request may be served now: request rates, limits on concurrent requests, and the authorizer.

mod authorizer;
mod counts;
mod queue;
mod rates;

pub(crate) use authorizer::{Access, Authorizer, Decision, Grant};

use crate::{service::Service, settings::Limits};
use counts::{Counted, Counts};
use queue::{Most, Place, Places, Queue};
use rates::Rates;
use std::{sync::Arc, time::Duration};
use tokio::{sync::OwnedSemaphorePermit, time::timeout};

/// The limits on requests, with the counts of what is in progress.
pub(crate) struct Gate {
    limits: Limits,
    requests: Places,
    fetches: Queue,
    pushes: Queue,
    rates: Arc<Rates>,
    clients: Counts,
    repositories: Counts,
}

/// A request's right to run under one of the limits. Dropping it lets another request run.
#[derive(Debug)]
pub(crate) enum Turn {
    Permit { _permit: OwnedSemaphorePermit },
    Counted { _counted: Counted },
    Place { _place: Place },
}

/// Why a request is refused for now.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Refused {
    /// The client exceeds its rate. It may send another request after waiting for this long.
    TooFast(Duration),
    /// Too many requests are in progress, or the service for this one did not begin within `serve.queueSeconds`.
    Busy,
}

impl Gate {
    pub(crate) fn new(limits: Limits) -> Self {
        Gate {
            requests: Places::new(limits.requests),
            fetches: Queue::new(fetches(&limits)),
            pushes: Queue::new(pushes(&limits)),
            rates: Arc::new(Rates::new(limits.rate, limits.burst)),
            clients: Counts::new(limits.requests_per_client),
            repositories: Counts::new(limits.requests_per_repository),
            limits,
        }
    }

    /// Returns a gate with new limits, under which the requests that this gate has admitted count as well. If neither
    /// the rate nor the burst changes, what clients have used of them still counts. Must be called in a Tokio runtime.
    pub(crate) fn with_limits(&self, limits: Limits) -> Self {
        let is_as_fast = (limits.rate, limits.burst) == (self.limits.rate, self.limits.burst);
        Gate {
            requests: self.requests.resized(limits.requests),
            fetches: self.fetches.resized(fetches(&limits)),
            pushes: self.pushes.resized(pushes(&limits)),
            rates: if is_as_fast { Arc::clone(&self.rates) } else { Arc::new(Rates::new(limits.rate, limits.burst)) },
            clients: self.clients.with_max(limits.requests_per_client),
            repositories: self.repositories.with_max(limits.requests_per_repository),
            limits,
        }
    }

    /// Admits a request of `client`, or says why it is refused.
    pub(crate) fn enter(&self, client: &str) -> Result<Vec<Turn>, Refused> {
        self.rates.enter(client).map_err(Refused::TooFast)?;
        let permit = Arc::clone(&self.requests.free).try_acquire_owned().map_err(|_| Refused::Busy)?;
        let counted = self.clients.enter(client).ok_or(Refused::Busy)?;
        Ok(vec![Turn::Permit { _permit: permit }, Turn::Counted { _counted: counted }])
    }

    /// Admits a request for this repository, unless too many are in progress there.
    pub(crate) fn enter_repository(&self, repository: &str) -> Result<Turn, Refused> {
        let counted = self.repositories.enter(repository).ok_or(Refused::Busy)?;
        Ok(Turn::Counted { _counted: counted })
    }

    /// Waits until another fetch or push of this client may run in this repository; see [`Queue::place`] for the order.
    /// Gives up after `serve.queueSeconds`.
    pub(crate) async fn program(&self, service: Service, client: &str, repository: &str) -> Result<Turn, Refused> {
        let queue = match service {
            Service::UploadPack => &self.fetches,
            Service::ReceivePack => &self.pushes,
        };
        match timeout(self.limits.queue, queue.place(client, repository)).await {
            Ok(Some(place)) => Ok(Turn::Place { _place: place }),
            _ => Err(Refused::Busy),
        }
    }
}

fn fetches(limits: &Limits) -> Most {
    let [per_repository, per_client] = [limits.fetches_each, limits.fetches_per_client];
    most(limits.fetches, per_repository, per_client)
}

fn pushes(limits: &Limits) -> Most {
    let [per_repository, per_client] = [limits.pushes_each, limits.pushes_per_client];
    most(limits.pushes, per_repository, per_client)
}

/// Completes these limits. By default, a client may have five sixths of all places, rounded up, but at least one more
/// than a repository, if there are so many, so that hooks that hang in one repository leave places in others even to
/// the same client.
fn most(all: usize, per_repository: Option<usize>, per_client: Option<usize>) -> Most {
    let per_repository = per_repository.unwrap_or(all - all / 3);
    let per_client = per_client.unwrap_or((all - all / 6).max(per_repository.saturating_add(1)).min(all));
    Most { all, per_repository, per_client }
}

impl std::fmt::Debug for Gate {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Gate").field("limits", &self.limits).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::num::NonZeroU32;

    fn limits() -> Limits {
        Limits { queue: Duration::from_millis(20), ..Limits::default() }
    }

    #[test]
    fn a_client_that_is_too_fast_is_told_when_to_come_again() {
        let (rate, burst) = (NonZeroU32::new(1).unwrap(), NonZeroU32::new(3).unwrap());
        let gate = Gate::new(Limits { rate, burst, ..limits() });
        // Ten times the burst.
        let refused = (0..30).filter(|_| gate.enter("a").is_err()).count();
        assert_eq!(refused, 27);
        assert!(matches!(gate.enter("a"), Err(Refused::TooFast(wait)) if wait <= Duration::from_secs(1)));
        assert!(gate.enter("b").is_ok());
    }

    #[test]
    fn turns_come_back() {
        let gate = Gate::new(Limits { requests: 3, requests_per_client: 2, requests_per_repository: 1, ..limits() });
        let first = [gate.enter("a").unwrap(), gate.enter("a").unwrap()];
        for _ in 0..20 {
            assert_eq!(gate.enter("a").unwrap_err(), Refused::Busy);
        }
        let other = gate.enter("b").unwrap();
        assert_eq!(gate.enter("c").unwrap_err(), Refused::Busy);
        drop((first, other));
        assert!(gate.enter("a").is_ok());
        let turn = gate.enter_repository("r").unwrap();
        assert!(gate.enter_repository("r").is_err() && gate.enter_repository("s").is_ok());
        drop(turn);
        assert!(gate.enter_repository("r").is_ok());
    }

    /// Regression: a gate with another number of slots ignored the requests that the old gate had admitted.
    #[tokio::test]
    async fn new_limits_count_the_requests_in_progress() {
        let limits = Limits { requests: 40, requests_per_client: 40, requests_per_repository: 2, ..limits() };
        let old = Gate::new(limits.clone());
        let mut held: Vec<_> = (0..40).map(|_| old.enter("a").unwrap()).collect();
        let _there = [old.enter_repository("r").unwrap(), old.enter_repository("r").unwrap()];
        let same = old.with_limits(limits.clone());
        assert_eq!(same.enter("b").unwrap_err(), Refused::Busy);
        assert!(same.enter_repository("r").is_err());
        let more = same.with_limits(Limits { requests: 41, requests_per_repository: 3, ..limits.clone() });
        assert!(more.enter("b").is_ok() && more.enter_repository("r").is_ok());
        let fewer = more.with_limits(Limits { requests: 4, requests_per_client: 4, ..limits });
        tokio::task::yield_now().await;
        for place in (0..40).rev() {
            held.pop();
            tokio::task::yield_now().await;
            assert_eq!(fewer.enter("b").is_ok(), place < 4, "{place} of four places are taken");
        }
    }

    #[tokio::test]
    async fn a_fetch_waits_and_then_gives_up() {
        let gate = Gate::new(Limits { fetches: 1, ..limits() });
        let turn = gate.program(Service::UploadPack, "a", "r").await.unwrap();
        assert_eq!(gate.program(Service::UploadPack, "a", "r").await.unwrap_err(), Refused::Busy);
        assert!(gate.program(Service::ReceivePack, "a", "r").await.is_ok());
        drop(turn);
        assert!(gate.program(Service::UploadPack, "a", "r").await.is_ok());
    }

    /// Regression: a request that had given up stayed in the queue until a place became free.
    #[tokio::test]
    async fn requests_that_give_up_do_not_pile_up_behind_hooks_that_hang() {
        let gate = Gate::new(Limits { pushes: 1, queue: Duration::ZERO, ..limits() });
        let _hangs = gate.program(Service::ReceivePack, "a", "r").await.unwrap();
        for client in 0..10_000 {
            assert!(gate.program(Service::ReceivePack, &client.to_string(), "r").await.is_err());
        }
        assert!(gate.pushes.waiting() < 1000, "{} requests wait", gate.pushes.waiting());
    }

    #[tokio::test]
    async fn one_repository_never_has_all_places() {
        let gate = Gate::new(Limits { pushes: 6, ..limits() });
        let push = |client: &'static str, repository| gate.program(Service::ReceivePack, client, repository);
        let mut there = Vec::new();
        for client in ["a", "b", "c", "d"] {
            there.push(push(client, "r").await.unwrap());
        }
        assert_eq!(push("e", "r").await.unwrap_err(), Refused::Busy);
        let others = [push("a", "s").await, push("b", "t").await];
        assert!(others.iter().all(Result::is_ok));
        assert_eq!(push("e", "u").await.unwrap_err(), Refused::Busy);
        there.pop();
        assert!(push("e", "r").await.is_ok());
        drop(there);
        // Repositories and clients whose requests have ended do not fill up the maps.
        for other in 0..10_000 {
            gate.program(Service::ReceivePack, &other.to_string(), &other.to_string()).await.unwrap();
        }
        assert!(gate.pushes.known() < 1000, "{} repositories and clients are known", gate.pushes.known());
    }

    /// Regression: a place let one request run, although another waited under another of its limits.
    #[tokio::test]
    async fn a_place_that_frees_two_limits_lets_two_requests_run() {
        let limits =
            Limits { pushes_each: Some(2), pushes_per_client: Some(2), queue: Duration::from_secs(2), ..limits() };
        let gate = Gate::new(limits);
        let push = |client: &'static str, repository| gate.program(Service::ReceivePack, client, repository);
        let both_limits = push("c", "r").await.unwrap();
        let _others = [push("c", "s").await.unwrap(), push("d", "r").await.unwrap()];
        let in_repository = push("e", "r");
        let of_client = push("c", "t");
        let end = async {
            tokio::task::yield_now().await;
            drop(both_limits);
        };
        let (in_repository, of_client, ()) = tokio::join!(in_repository, of_client, end);
        assert!(in_repository.is_ok() && of_client.is_ok(), "{in_repository:?} {of_client:?}");
    }

    #[tokio::test]
    async fn one_client_never_has_all_places() {
        let gate = Gate::new(Limits { fetches: 6, ..limits() });
        let fetch = |client: &'static str, repository| gate.program(Service::UploadPack, client, repository);
        let mut its = Vec::new();
        for repository in ["r", "r", "r", "r", "s"] {
            its.push(fetch("a", repository).await.unwrap());
        }
        assert_eq!(fetch("a", "u").await.unwrap_err(), Refused::Busy);
        assert!(fetch("b", "u").await.is_ok());
        its.pop();
        assert!(fetch("a", "u").await.is_ok());
    }
}
