//! How many requests a second each client sends.

use governor::{DefaultKeyedRateLimiter, Quota, RateLimiter, clock::Clock};
use std::{
    num::NonZeroU32,
    sync::{
        Mutex,
        atomic::{AtomicUsize, Ordering::Relaxed},
    },
    time::{Duration, Instant},
};

/// The number of stored rates from which on those of clients are dropped that may again send a full burst.
const MIN: usize = 65_536;

/// The number of stored rates from which on all clients share one.
const MAX: usize = 1 << 18;

/// The rates of clients, each of which may send a number of requests a second, and a burst.
#[derive(Debug)]
pub(super) struct Rates {
    limiter: DefaultKeyedRateLimiter<String>,
    /// [`MIN`] and [`MAX`].
    bounds: [usize; 2],
    /// The number of stored rates at which some are dropped.
    tidy_at: AtomicUsize,
    /// When that was last done.
    last_tidy: Mutex<Option<Instant>>,
}

impl Rates {
    pub(super) fn new(rate: NonZeroU32, burst: NonZeroU32) -> Self {
        Rates::within([MIN, MAX], rate, burst)
    }

    fn within(bounds: [usize; 2], rate: NonZeroU32, burst: NonZeroU32) -> Self {
        let limiter = RateLimiter::keyed(Quota::per_second(rate).allow_burst(burst));
        Rates { limiter, bounds, tidy_at: AtomicUsize::new(bounds[0]), last_tidy: Mutex::default() }
    }

    /// Counts a request. Fails if the client exceeds its rate, and returns how long it must wait.
    pub(super) fn enter(&self, client: &str) -> Result<(), Duration> {
        let name = if self.has_room() { client } else { "" };
        let entered = self.limiter.check_key(&name.to_owned());
        entered.map_err(|early| early.wait_time_from(self.limiter.clock().now()))
    }

    /// Returns whether another rate may be stored. Drops rates once there are twice as many as the last time left, or
    /// once a second if there is no room, so that this takes little time for each request.
    fn has_room(&self) -> bool {
        let [min, max] = self.bounds;
        let count = self.limiter.len();
        if count < self.tidy_at.load(Relaxed) {
            return true;
        }
        // If the lock is held, another request drops rates.
        let Ok(mut last) = self.last_tidy.try_lock() else { return count < max };
        if count >= max && last.is_some_and(|last| last.elapsed() < Duration::from_secs(1)) {
            return false;
        }
        *last = Some(Instant::now());
        self.limiter.retain_recent();
        self.tidy_at.store((2 * self.limiter.len()).clamp(min, max), Relaxed);
        self.limiter.len() < max
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rates(burst: u32) -> Rates {
        let [rate, burst] = [1, burst].map(|count| NonZeroU32::new(count).unwrap());
        Rates::within([100, 1000], rate, burst)
    }

    /// Previously, beyond the number of rates that are kept, each request looked at all of them.
    #[test]
    fn many_clients_take_bounded_memory_and_share_a_rate_when_it_is_full() {
        let rates = rates(5000);
        let admitted = (0..10_000).filter(|client| {
            assert!(rates.limiter.len() <= 1001);
            rates.enter(&client.to_string()).is_ok()
        });
        let admitted = admitted.count();
        assert!((6000..9500).contains(&admitted), "{admitted} requests are admitted");
    }

    #[test]
    fn rates_of_clients_that_may_send_a_full_burst_again_are_dropped() {
        let rates = rates(1);
        for client in 0..1000 {
            assert!(rates.enter(&client.to_string()).is_ok());
        }
        std::thread::sleep(Duration::from_millis(2500));
        assert!(rates.enter("another").is_ok());
        assert_eq!(rates.limiter.len(), 1);
    }
}
