//! A Bloom filter with one hash function, which keeps look-ups of unknown names away from the name cache.

use bstr::BStr;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// A set of names. It may report that it has a name that was never added, but it never denies one that was added.
///
/// All threads read and write the filter without a lock. Names cannot be removed, so that the filter fills up over
/// time; each look-up then also goes to the name cache.
pub(crate) struct BloomFilter([AtomicU64; BLOOM_WORDS]);

const BLOOM_WORDS: usize = 64;
const _: () = assert!(BLOOM_WORDS * 64 == 1 << 12, "twelve bits of a hash choose a bit");

impl Default for BloomFilter {
    fn default() -> Self {
        BloomFilter([const { AtomicU64::new(0) }; BLOOM_WORDS])
    }
}

impl BloomFilter {
    /// Adds a name.
    pub(crate) fn add(&self, name: &BStr) {
        let (word, bit) = Self::place(name);
        self.0[word].fetch_or(bit, Relaxed);
    }

    /// Returns whether the name may have been added; `false` is certain.
    #[inline]
    pub(crate) fn has(&self, name: &BStr) -> bool {
        let (word, bit) = Self::place(name);
        self.0[word].load(Relaxed) & bit != 0
    }

    /// The word and the bit of a name. They depend only on its last sixteen bytes, which differ most between refs.
    #[inline]
    fn place(name: &BStr) -> (usize, u64) {
        const WORD: usize = size_of::<u64>();
        let mut last = [0; 2 * WORD];
        let len = name.len().min(last.len());
        last[..len].copy_from_slice(&name[name.len() - len..]);
        let [mut a, mut b] = [[0; WORD]; 2];
        a.copy_from_slice(&last[..WORD]);
        b.copy_from_slice(&last[WORD..]);
        let mixed = (u64::from_le_bytes(a).rotate_left(29) ^ u64::from_le_bytes(b)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let place = (mixed >> 52) as usize;
        (place / 64 % BLOOM_WORDS, 1 << (place % 64))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_filter_has_all_that_was_added_and_little_else() {
        let filter = BloomFilter::default();
        let name = |at: usize| format!("refs/changes/{:02}/{at}/meta", at % 100);
        (0..100).for_each(|at| filter.add(name(at).as_str().into()));
        for short in ["", "HEAD", "refs/heads/main"] {
            filter.add(short.into());
            assert!(filter.has(short.into()));
        }
        assert!((0..100).all(|at| filter.has(name(at).as_str().into())));
        let false_alarms = (100..10_000).filter(|at| filter.has(name(*at).as_str().into())).count();
        assert!(false_alarms < 500, "{false_alarms}");
    }
}
