//! Which entries are too old, whatever is done to the clock.

use crate::sync::{AtomicU64, Ordering};
use std::{
    fmt,
    sync::Arc,
    time::{Duration, Instant},
};

/// Clocks of machines that give each other entries differ a little.
const SKEW_MS: u64 = 60_000;

/// Tells the time, in milliseconds since 1970.
#[derive(Clone)]
pub struct Clock(Arc<dyn Fn() -> u64 + Send + Sync>);

impl Clock {
    /// The system's clock.
    pub fn system() -> Self {
        Clock::new(|| {
            let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
            now.map_or(0, |now| u64::try_from(now.as_millis()).unwrap_or(u64::MAX))
        })
    }

    /// A clock that a test winds.
    pub fn new(now_ms: impl Fn() -> u64 + Send + Sync + 'static) -> Self {
        Clock(Arc::new(now_ms))
    }

    /// Milliseconds since 1970.
    pub fn now_ms(&self) -> u64 {
        (self.0)()
    }
}

impl fmt::Debug for Clock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Clock")
    }
}

/// A maximal age, as it is stored: forever is the largest number.
fn age_ms(max_age: Option<Duration>) -> u64 {
    max_age.map_or(u64::MAX, |age| u64::try_from(age.as_millis()).unwrap_or(u64::MAX))
}

/// The age limit of a cache and the time it is judged by.
pub(crate) struct Ages {
    max_ms: AtomicU64,
    clock: Clock,
    start: Instant,
    /// The latest time the clock has shown, and when that was, in milliseconds since `start`.
    latest_ms: AtomicU64,
    latest_at_ms: AtomicU64,
    /// A time that an earlier run had seen, and by which nothing was removed yet.
    owed_ms: AtomicU64,
}

impl Ages {
    pub(crate) fn new(max_age: Option<Duration>, clock: Clock) -> Self {
        let start = Instant::now();
        let (latest_ms, latest_at_ms) = (AtomicU64::new(clock.now_ms()), AtomicU64::new(0));
        Ages {
            max_ms: AtomicU64::new(age_ms(max_age)),
            clock,
            start,
            latest_ms,
            latest_at_ms,
            owed_ms: AtomicU64::new(0),
        }
    }

    /// The time of the clock; from when it is set back on, the time it would have without that.
    pub(crate) fn now_ms(&self) -> u64 {
        let (now, latest) = (self.clock.now_ms(), self.latest_ms.load(Ordering::Acquire));
        let running = self.running_ms();
        if now >= latest {
            if now > latest {
                self.latest_at_ms.store(running, Ordering::Relaxed);
                self.latest_ms.fetch_max(now, Ordering::Release);
            }
            debug_assert!(self.latest_ms.load(Ordering::Acquire) >= now, "time does not go back");
            return now;
        }
        latest.saturating_add(running.saturating_sub(self.latest_at_ms.load(Ordering::Relaxed)))
    }

    /// The latest time that this run or one before it has seen, for the next one.
    pub(crate) fn seen_ms(&self) -> u64 {
        self.now_ms().max(self.owed_ms.load(Ordering::Relaxed))
    }

    /// Whether the clock was set back so far that values from another clock would not be believed.
    pub(crate) fn is_set_back(&self) -> bool {
        self.max_ms().is_some() && self.clock.now_ms().saturating_add(SKEW_MS) < self.now_ms()
    }

    /// The time is that of the clock again, whatever it was before.
    pub(crate) fn believe_clock(&self) {
        self.latest_at_ms.store(self.running_ms(), Ordering::Relaxed);
        self.latest_ms.store(self.clock.now_ms(), Ordering::Release);
    }

    fn running_ms(&self) -> u64 {
        u64::try_from(self.start.elapsed().as_millis()).unwrap_or(u64::MAX)
    }

    /// Leaves to a later run what was too old by then.
    pub(crate) fn owe(&self, seen_ms: u64) {
        self.owed_ms.store(seen_ms, Ordering::Relaxed);
    }

    pub(crate) fn set_max(&self, max_age: Option<Duration>) {
        self.max_ms.store(age_ms(max_age), Ordering::Relaxed);
    }

    /// The largest age, if there is a limit.
    pub(crate) fn max_ms(&self) -> Option<u64> {
        Some(self.max_ms.load(Ordering::Relaxed)).filter(|max| *max != u64::MAX)
    }

    /// Whether a value is too old now, or was when the clock of an earlier run had shown `seen_ms`.
    pub(crate) fn was_expired(&self, created_ms: u64, seen_ms: u64) -> bool {
        let is_past = |max: u64| seen_ms.saturating_sub(created_ms) > max;
        self.is_expired(created_ms) || self.max_ms().is_some_and(is_past)
    }

    /// Whether a value is too old. One from the future comes from a clock that was wrong: how old it is nobody knows.
    pub(crate) fn is_expired(&self, created_ms: u64) -> bool {
        self.max_ms().is_some_and(|max| is_expired(created_ms, self.now_ms(), max))
    }
}

/// Whether a value of this time is too old now.
fn is_expired(created_ms: u64, now_ms: u64, max_ms: u64) -> bool {
    now_ms.saturating_sub(created_ms) > max_ms || created_ms > now_ms.saturating_add(SKEW_MS.min(max_ms))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_goes_on_after_a_clock_was_set_back() {
        let wound = Arc::new(AtomicU64::new(1_000_000));
        let clock = wound.clone();
        let ages = Ages::new(Some(Duration::from_secs(60)), Clock::new(move || clock.load(Ordering::Relaxed)));
        assert_eq!(ages.now_ms(), 1_000_000);
        wound.store(2_000_000, Ordering::Relaxed);
        assert_eq!(ages.now_ms(), 2_000_000);
        wound.store(1_500_000, Ordering::Relaxed);
        let before = ages.now_ms();
        assert!(before >= 2_000_000);
        std::thread::sleep(Duration::from_millis(5));
        assert!(ages.now_ms() > before, "it does not stand still");
        wound.store(3_000_000, Ordering::Relaxed);
        assert_eq!(ages.now_ms(), 3_000_000);
    }

    #[test]
    fn an_entry_expires_by_age_or_when_it_is_from_the_future() {
        assert!(!is_expired(1_000_000, 1_100_000, 100_000) && is_expired(1_000_000, 1_100_001, 100_000));
        assert!(!is_expired(1_060_000, 1_000_000, 100_000) && is_expired(1_060_001, 1_000_000, 100_000));
        assert!(is_expired(1_002_000, 1_000_000, 1_000), "a short life allows little skew");
    }
}
