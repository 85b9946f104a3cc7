// Not the atomics of `crate::sync`, of which tests vary the order of accesses: nothing depends on the order in which
// these numbers change.
use std::sync::atomic::{AtomicU64, Ordering};

macro_rules! counters {
    ($($(#[$doc:meta])* $name:ident: $kind:ident,)*) => {
        /// Statistics of a cache: its present content, and counts since it was opened.
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
            /// All numbers with their names, in a fixed order.
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
    /// Maximum size of the files, in bytes.
    limit_bytes: Counter,
    /// Number of entries, including expired ones that are not removed yet.
    entries: Counter,
    /// Bytes of the records of all entries, including expired ones that are not removed yet.
    live_bytes: Counter,
    /// Bytes of the segments in whole disk blocks, including writes that wait in memory.
    disk_bytes: Counter,
    /// Number of gets that found a value.
    hits: Spread,
    /// Number of gets that found no value.
    misses: Spread,
    /// Number of values that were stored.
    puts: Spread,
    /// Number of puts that were refused, or failed, because the write buffer or the limit was used up.
    refused: Counter,
    /// Number of puts that were dropped because the key, or one that shares its counter, changed after their ticket was
    /// taken.
    stale: Counter,
    /// Number of values that were removed on request, except by clears, or because a new value of their key was too
    /// large.
    removed: Counter,
    /// Number of gets that found only an expired value; they count as misses too.
    expired: Counter,
    /// Number of entries that were dropped when their segment was freed: to make room, or because they had expired or
    /// were damaged.
    evicted: Counter,
    /// Number of entries that were kept, by copying them, when their segment was evicted.
    kept: Counter,
    /// Number of entries that were copied to free the dead space around them.
    compacted: Counter,
    /// How often a look-up or the freeing of space met a record that failed its checks, which is never returned, or a
    /// footer was damaged or could not be read.
    corrupt: Counter,
    /// Number of writes of entries and of syncs that failed.
    disk_errors: Counter,
    /// Number of sampled gets, from which the hit ratio of other limits is estimated.
    sampled: Counter,
    /// Number of sampled gets that would have hit with half the limit.
    sampled_hits_half: Counter,
    /// Number of sampled gets that would have hit with this limit.
    sampled_hits_same: Counter,
    /// Number of sampled gets that would have hit with twice the limit.
    sampled_hits_twice: Counter,
}

/// A counter on a cache line of its own, so that counting a hit in one thread does not slow down another thread that
/// reads a neighbouring number.
#[derive(Default)]
#[repr(align(64))]
pub(crate) struct Counter(AtomicU64);

impl Counter {
    pub(crate) fn add(&self, by: u64) {
        self.0.fetch_add(by, Ordering::Relaxed);
    }

    pub(crate) fn sub(&self, by: u64) {
        let before = self.0.fetch_sub(by, Ordering::Relaxed);
        debug_assert!(before >= by, "only counted entries are taken off: {before}, {by}");
    }

    pub(crate) fn set(&self, to: u64) {
        self.0.store(to, Ordering::Relaxed);
    }

    pub(crate) fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// Number of lanes, each on a cache line of its own. Threads take them in turn when they first count.
const LANES: usize = 16;

/// A counter of frequent events, divided into lanes that are summed when it is read. Each thread counts in a lane of
/// its own as long as no more threads than lanes have ever counted.
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
