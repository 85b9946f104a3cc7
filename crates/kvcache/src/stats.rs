// Not those of `sync`: figures, on which nothing depends.
use std::sync::atomic::{AtomicU64, Ordering};

macro_rules! counters {
    ($($(#[$doc:meta])* $name:ident: $kind:ident,)*) => {
        /// What a cache has and did since it was opened. Reading it costs the same however many entries there are.
        #[derive(Clone, Debug, Default, PartialEq, Eq)]
        #[non_exhaustive]
        pub struct Stats {
            $($(#[$doc])* pub $name: u64,)*
        }

        #[derive(Default)]
        pub(crate) struct Counters {
            $(pub(crate) $name: $kind,)*
        }

        impl Counters {
            pub(crate) fn read(&self) -> Stats {
                Stats { $($name: self.$name.get(),)* }
            }
        }

        impl Stats {
            /// Each number with its name, in a fixed order.
            pub fn named(&self) -> Vec<(&'static str, u64)> {
                vec![$((stringify!($name), self.$name),)*]
            }

            pub(crate) fn from_named<'a>(numbers: impl Iterator<Item = (&'a str, u64)>) -> Self {
                let mut stats = Stats::default();
                for (name, value) in numbers {
                    match name {
                        $(stringify!($name) => stats.$name = value,)*
                        _ => {}
                    }
                }
                stats
            }
        }
    };
}

counters! {
    /// The most bytes the files may have.
    limit_bytes: Counter,
    /// Entries, those included that are too old but not swept yet.
    entries: Counter,
    /// Bytes of their records.
    live_bytes: Counter,
    /// Bytes of the files, and of the writes that wait for them.
    disk_bytes: Counter,
    /// Gets that found a value.
    hits: Spread,
    /// Gets that found none.
    misses: Spread,
    /// Values stored.
    puts: Spread,
    /// Puts refused because the write buffer or the limit was used up.
    refused: Counter,
    /// Puts dropped because the key was invalidated after their ticket was given.
    stale: Counter,
    /// Values removed by request.
    removed: Counter,
    /// Gets that found only a value that is too old.
    expired: Counter,
    /// Entries dropped to keep the limit.
    evicted: Counter,
    /// Entries that were copied because they are in use, when their segment was evicted.
    kept: Counter,
    /// Entries copied to free the dead space around them.
    compacted: Counter,
    /// Records that failed their checksum; never served.
    corrupt: Counter,
    /// Writes to the disk that failed.
    disk_errors: Counter,
    /// Gets in the sample by which other limits are judged.
    sampled: Counter,
    /// Of these, hits that half the limit would have given.
    sampled_hits_half: Counter,
    /// Hits that this limit would have given.
    sampled_hits_same: Counter,
    /// Hits that twice the limit would have given.
    sampled_hits_twice: Counter,
}

/// A number that threads count up, on a cache line of its own. The hit counter of one thread must not slow another's
/// look at the limit.
#[derive(Default)]
#[repr(align(64))]
pub(crate) struct Counter(AtomicU64);

impl Counter {
    pub(crate) fn add(&self, by: u64) {
        self.0.fetch_add(by, Ordering::Relaxed);
    }

    pub(crate) fn sub(&self, by: u64) {
        let before = self.0.fetch_sub(by, Ordering::Relaxed);
        debug_assert!(before >= by, "what goes was counted: {before}, {by}");
    }

    pub(crate) fn set(&self, to: u64) {
        self.0.store(to, Ordering::Relaxed);
    }

    pub(crate) fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// How many threads may count at once without taking each other's cache line.
const LANES: usize = 16;

/// A number that every call counts up, summed over lanes. Threads count in different ones, as long as there are no more
/// threads than lanes.
#[derive(Default)]
pub(crate) struct Spread([Counter; LANES]);

impl Spread {
    pub(crate) fn add(&self, by: u64) {
        self.0[lane()].add(by);
    }

    pub(crate) fn get(&self) -> u64 {
        self.0.iter().map(Counter::get).sum()
    }
}

/// The lane of this thread.
fn lane() -> usize {
    static THREADS: AtomicU64 = AtomicU64::new(0);
    thread_local! {
        static LANE: usize = THREADS.fetch_add(1, Ordering::Relaxed) as usize % LANES;
    }
    LANE.with(|lane| *lane)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_many_threads_counted_is_summed() {
        let spread = Spread::default();
        std::thread::scope(|scope| {
            for _ in 0..2 * LANES {
                scope.spawn(|| (0..100).for_each(|_| spread.add(1)));
            }
        });
        assert_eq!(spread.get(), 200 * LANES as u64);
        assert!(spread.0.iter().filter(|counter| counter.get() > 0).count() > 1, "they do not share one lane");
    }
}
