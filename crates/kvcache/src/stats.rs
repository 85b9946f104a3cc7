use crate::sync::{AtomicU64, Ordering};

macro_rules! counters {
    ($($(#[$doc:meta])* $name:ident,)*) => {
        /// What a cache has and did since it was opened. Reading it costs the same however many entries there are.
        #[derive(Clone, Debug, Default, PartialEq, Eq)]
        #[non_exhaustive]
        pub struct Stats {
            $($(#[$doc])* pub $name: u64,)*
        }

        #[derive(Default)]
        pub(crate) struct Counters {
            $(pub(crate) $name: Counter,)*
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
    limit_bytes,
    /// Entries, those included that are too old but not swept yet.
    entries,
    /// Bytes of their records.
    live_bytes,
    /// Bytes of the files, and of what is about to be written to them.
    disk_bytes,
    /// Gets that found a value.
    hits,
    /// Gets that found none.
    misses,
    /// Values stored.
    puts,
    /// Puts refused because the write buffer or the limit was used up.
    refused,
    /// Puts dropped because the key was invalidated after their ticket was given.
    stale,
    /// Values removed by request.
    removed,
    /// Gets that found only a value that is too old.
    expired,
    /// Entries dropped to keep the limit.
    evicted,
    /// Entries that were copied because they are in use, when their segment was evicted.
    kept,
    /// Entries copied to free the dead space around them.
    compacted,
    /// Records that failed their checksum; never served.
    corrupt,
    /// Writes to the disk that failed.
    disk_errors,
    /// Gets in the sample by which other limits are judged.
    sampled,
    /// Of these, hits that half the limit would have given.
    sampled_hits_half,
    /// Hits that this limit would have given.
    sampled_hits_same,
    /// Hits that twice the limit would have given.
    sampled_hits_twice,
}

/// A number that threads count up, on a cache line of its own: the hit counter of one thread must not slow another's
/// look at the limit.
#[derive(Default)]
#[repr(align(64))]
pub(crate) struct Counter(AtomicU64);

impl Counter {
    pub(crate) fn add(&self, by: u64) {
        self.0.fetch_add(by, Ordering::Relaxed);
    }

    pub(crate) fn sub(&self, by: u64) {
        self.0.fetch_sub(by, Ordering::Relaxed);
    }

    pub(crate) fn set(&self, to: u64) {
        self.0.store(to, Ordering::Relaxed);
    }

    pub(crate) fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}
