//! Decides whether a request may be served now: request rates, limits on concurrent requests, and the authorizer.

mod authorizer;
mod counts;

pub(crate) use authorizer::{Access, Authorizer, Decision, Grant};

use crate::{service::Service, settings::Limits};
use counts::{Counted, Counts};
use governor::{DefaultKeyedRateLimiter, Quota, RateLimiter, clock::Clock};
use std::{sync::Arc, time::Duration};
use tokio::{
    sync::{OwnedSemaphorePermit, Semaphore},
    time::timeout,
};

/// The limits on requests, with the counts of what is in progress.
pub(crate) struct Gate {
    limits: Limits,
    requests: Arc<Semaphore>,
    fetches: Arc<Semaphore>,
    pushes: Arc<Semaphore>,
    rates: DefaultKeyedRateLimiter<String>,
    clients: Counts,
    repositories: Counts,
}

/// A request's place under one of the limits. Dropping it frees the place for another request.
#[derive(Debug)]
pub(crate) enum Turn {
    Permit { _permit: OwnedSemaphorePermit },
    Counted { _counted: Counted },
}

/// Why a request is refused for now.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Refused {
    /// The client exceeds its rate, and may send another request after this time.
    TooFast(Duration),
    /// Too many requests are in progress.
    Busy,
}

/// Maximum number of clients whose rates are stored. Beyond it, clients that may again send a full burst are dropped.
const RATES_MAX: usize = 65_536;

impl Gate {
    pub(crate) fn new(limits: Limits) -> Self {
        let permits = |count: usize| Arc::new(Semaphore::new(count.min(Semaphore::MAX_PERMITS)));
        Gate {
            requests: permits(limits.requests),
            fetches: permits(limits.fetches),
            pushes: permits(limits.pushes),
            rates: RateLimiter::keyed(Quota::per_second(limits.rate).allow_burst(limits.burst)),
            clients: Counts::new(limits.requests_per_client),
            repositories: Counts::new(limits.requests_per_repository),
            limits,
        }
    }

    /// Admits a request of `client`, which names a user or an address, or says why it is refused.
    pub(crate) fn enter(&self, client: &str) -> Result<Vec<Turn>, Refused> {
        if self.rates.len() > RATES_MAX {
            self.rates.retain_recent();
        }
        if let Err(early) = self.rates.check_key(&client.to_owned()) {
            return Err(Refused::TooFast(early.wait_time_from(self.rates.clock().now())));
        }
        let permit = Arc::clone(&self.requests).try_acquire_owned().map_err(|_| Refused::Busy)?;
        let counted = self.clients.enter(client).ok_or(Refused::Busy)?;
        Ok(vec![Turn::Permit { _permit: permit }, Turn::Counted { _counted: counted }])
    }

    /// Admits a request for this repository, unless too many are in progress there.
    pub(crate) fn enter_repository(&self, repository: &str) -> Result<Turn, Refused> {
        let counted = self.repositories.enter(repository).ok_or(Refused::Busy)?;
        Ok(Turn::Counted { _counted: counted })
    }

    /// Waits, first come first served, until another fetch or push may run. Gives up after `serve.queueSeconds`.
    pub(crate) async fn program(&self, service: Service) -> Result<Turn, Refused> {
        let turns = match service {
            Service::UploadPack => &self.fetches,
            Service::ReceivePack => &self.pushes,
        };
        match timeout(self.limits.queue, Arc::clone(turns).acquire_owned()).await {
            Ok(Ok(permit)) => Ok(Turn::Permit { _permit: permit }),
            _ => Err(Refused::Busy),
        }
    }
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

    #[tokio::test]
    async fn a_fetch_waits_and_then_gives_up() {
        let gate = Gate::new(Limits { fetches: 1, ..limits() });
        let turn = gate.program(Service::UploadPack).await.unwrap();
        assert_eq!(gate.program(Service::UploadPack).await.unwrap_err(), Refused::Busy);
        assert!(gate.program(Service::ReceivePack).await.is_ok());
        drop(turn);
        assert!(gate.program(Service::UploadPack).await.is_ok());
    }
}
