//! Decides which entries have expired, even after the clock was set back.

use crate::sync::{AtomicU64, Ordering};
use std::{
    fmt,
    sync::Arc,
    time::{Duration, Instant},
};

/// How many milliseconds an entry's creation may lie in the future, because the clocks of machines that exchange
/// entries differ a little. With a maximum age below this, it may lie no further ahead than that age.
const SKEW_MS: u64 = 60_000;

/// A source of the time, in milliseconds since 1970.
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

    /// A clock that calls `now_ms`, for tests.
    pub fn new(now_ms: impl Fn() -> u64 + Send + Sync + 'static) -> Self {
        Clock(Arc::new(now_ms))
    }

    /// The time, in milliseconds since 1970.
    pub fn now_ms(&self) -> u64 {
        (self.0)()
    }
}

impl fmt::Debug for Clock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Clock")
    }
}

/// A maximum age in milliseconds.
fn age_ms(age: Duration) -> u64 {
    u64::try_from(age.as_millis()).unwrap_or(u64::MAX)
}

/// The age limit of a cache and the time by which ages are judged.
pub(crate) struct Ages {
    max_ms: Option<u64>,
    clock: Clock,
    start: Instant,
    /// The latest time that the clock has shown since [`Ages::believe_clock`] was last called, or since the start.
    latest_ms: AtomicU64,
    /// When the clock showed `latest_ms`, in milliseconds since `start`.
    latest_at_ms: AtomicU64,
    /// The time given to [`Ages::defer_expiry`]; 0 if no removal is left to a later run.
    deferred_ms: AtomicU64,
    /// The latest time that [`Ages::now_ms`] has stored since [`Ages::believe_clock`] was last called. If two threads
    /// store theirs at once, only one succeeds, so a time that was returned may be slightly later.
    told_ms: AtomicU64,
}

impl Ages {
    pub(crate) fn new(max_age: Option<Duration>, clock: Clock) -> Self {
        let start = Instant::now();
        let (latest_ms, latest_at_ms) = (AtomicU64::new(clock.now_ms()), AtomicU64::new(0));
        let (deferred_ms, told_ms) = (AtomicU64::new(0), AtomicU64::new(0));
        Ages { max_ms: max_age.map(age_ms), clock, start, latest_ms, latest_at_ms, deferred_ms, told_ms }
    }

    /// The time of the clock, or, as long as the clock shows less than it has shown before, the time that it would show
    /// if it had not been set back. When the clock has reached what it had shown before, the time stands still until
    /// the clock reaches it too.
    pub(crate) fn now_ms(&self) -> u64 {
        let told = self.told_ms.load(Ordering::Acquire);
        let time = self.running_on_ms();
        if time > told {
            // This fails if the clock has been believed meanwhile, whose older time must not come back.
            let _ = self.told_ms.compare_exchange(told, time, Ordering::AcqRel, Ordering::Relaxed);
        }
        time.max(told)
    }

    fn running_on_ms(&self) -> u64 {
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

    /// The time to publish for the next run, in which entries that had expired at that time stay expired: the present
    /// time, or the time given to [`Ages::defer_expiry`] if that is later.
    pub(crate) fn seen_ms(&self) -> u64 {
        self.now_ms().max(self.deferred_ms.load(Ordering::Relaxed))
    }

    /// Returns whether there is an age limit and [`now_ms`](Self::now_ms) is ahead of the clock by more than
    /// [`SKEW_MS`], because the clock was set back. Values with the right time of creation then look older than they
    /// are.
    pub(crate) fn is_set_back(&self) -> bool {
        self.max_ms().is_some() && self.clock.now_ms().saturating_add(SKEW_MS) < self.now_ms()
    }

    /// Trusts the clock again, whatever it showed before.
    pub(crate) fn believe_clock(&self) {
        self.latest_at_ms.store(self.running_ms(), Ordering::Relaxed);
        self.latest_ms.store(self.clock.now_ms(), Ordering::Release);
        self.told_ms.store(0, Ordering::Release);
    }

    fn running_ms(&self) -> u64 {
        u64::try_from(self.start.elapsed().as_millis()).unwrap_or(u64::MAX)
    }

    /// Leaves the removal of entries that had expired at `seen_ms` to a later run; with 0, leaves nothing to it.
    pub(crate) fn defer_expiry(&self, seen_ms: u64) {
        self.deferred_ms.store(seen_ms, Ordering::Relaxed);
    }

    /// Returns whether this run has an age limit and has left removals to a later run, which it may still make itself.
    pub(crate) fn owes_expiry(&self) -> bool {
        self.max_ms().is_some() && self.deferred_ms.load(Ordering::Relaxed) > 0
    }

    /// The maximum age in milliseconds, if there is one.
    pub(crate) fn max_ms(&self) -> Option<u64> {
        self.max_ms
    }

    /// Returns whether there is an age limit and a value has expired now or had expired at `seen_ms`.
    pub(crate) fn was_expired(&self, created_ms: u64, seen_ms: u64) -> bool {
        let is_past = |max: u64| seen_ms.saturating_sub(created_ms) > max;
        self.is_expired(created_ms) || self.max_ms().is_some_and(is_past)
    }

    /// Returns whether there is an age limit and a value has expired. A value from further in the future than
    /// [`SKEW_MS`] allows counts as expired, because the clock that gave it its time was wrong and its real age is
    /// unknown.
    pub(crate) fn is_expired(&self, created_ms: u64) -> bool {
        self.max_ms().is_some_and(|max| is_expired(created_ms, self.now_ms(), max))
    }
}

/// Returns whether a value that was created at this time has expired now.
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

    /// Previously, the time fell back to the clock's when the clock reached what it had shown before.
    #[test]
    fn time_does_not_go_back_when_the_clock_catches_up() {
        let wound = Arc::new(AtomicU64::new(1_000_000));
        let clock = wound.clone();
        let ages = Ages::new(Some(Duration::from_secs(60)), Clock::new(move || clock.load(Ordering::Relaxed)));
        wound.store(999_000, Ordering::Relaxed);
        std::thread::sleep(Duration::from_millis(5));
        let before = ages.now_ms();
        assert!(before > 1_000_000);
        wound.store(1_000_001, Ordering::Relaxed);
        assert!(ages.now_ms() >= before);
        ages.believe_clock();
        assert_eq!(ages.now_ms(), 1_000_001);
    }

    #[test]
    fn an_entry_expires_by_age_or_when_it_is_from_the_future() {
        assert!(!is_expired(1_000_000, 1_100_000, 100_000) && is_expired(1_000_000, 1_100_001, 100_000));
        assert!(!is_expired(1_060_000, 1_000_000, 100_000) && is_expired(1_060_001, 1_000_000, 100_000));
        assert!(is_expired(1_002_000, 1_000_000, 1_000), "a short life allows little skew");
    }
}
