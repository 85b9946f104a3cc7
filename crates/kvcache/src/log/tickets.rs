use crate::sync::{AtomicU64, Ordering};

/// Number of counters over which the keys are spread.
const STRIPES: usize = 4096;

const _: () = assert!(STRIPES.is_power_of_two(), "the stripe of a key is the low bits of its hash");

/// Counters of invalidations. They show that a value was computed before an invalidation of its key and is therefore
/// stale.
pub(crate) struct Tickets {
    by_stripe: Box<[AtomicU64]>,
    of_all: AtomicU64,
}

impl Tickets {
    pub(crate) fn new() -> Self {
        Tickets { by_stripe: (0..STRIPES).map(|_| AtomicU64::new(0)).collect(), of_all: AtomicU64::new(0) }
    }

    fn stripe(&self, hash: u64) -> &AtomicU64 {
        &self.by_stripe[hash as usize % STRIPES]
    }

    /// A number that changes with every invalidation of the key, of another key that shares its counter, or of all
    /// keys.
    pub(crate) fn of(&self, hash: u64) -> u64 {
        let all = self.of_all.load(Ordering::Acquire);
        self.stripe(hash).load(Ordering::Acquire).wrapping_add(all)
    }

    /// Makes all tickets of the key void. The caller holds the log's lock.
    pub(crate) fn invalidate(&self, hash: u64) {
        self.stripe(hash).fetch_add(1, Ordering::AcqRel);
    }

    /// Makes all tickets void. The caller holds the log's lock.
    pub(crate) fn invalidate_all(&self) {
        self.of_all.fetch_add(1, Ordering::AcqRel);
    }
}
