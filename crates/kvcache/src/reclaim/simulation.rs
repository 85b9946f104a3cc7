//! Miniature simulations that estimate the hit ratio of other limits: three small caches of keys without values, for
//! half, once and twice the limit. They see a sample of the keys, have the corresponding share of the room, and evict
//! the oldest key that was not read, which comes close to what the cache evicts.
//!
//! After Waldspurger et al., "Cache Modeling and Optimization using Miniature Simulations" (USENIX ATC 2017).

use crate::{
    format::place::MAX_USES,
    log::{
        index::{Index, known},
        space::record_cost,
    },
    stats::Counters,
    sync::{Lock, Rank},
};
use std::{
    collections::{HashMap, VecDeque},
    sync::atomic::{AtomicU64, Ordering},
};

/// Number of keys in a simulation beyond which the sample is halved.
const MOST_KEYS: usize = 16 << 10;
/// The initial sample is one key in eight, which is 2 to the power of this.
const FIRST_SHIFT: u64 = 3;

/// The miniature simulations of a cache.
pub(crate) struct Simulations {
    /// One key in 2 to the power of this is sampled.
    shift: AtomicU64,
    caches: Lock<SimulatedCaches>,
}

struct SimulatedCaches {
    limit_bytes: u64,
    /// The simulated caches with half, once and twice the limit.
    by_limit: [SimulatedCache; 3],
}

/// A simulated cache. It knows each key by the [`known`] part of the hash, and has the size and the use count of each.
#[derive(Default)]
struct SimulatedCache {
    entries: HashMap<u64, (u64, u8)>,
    order: VecDeque<u64>,
    bytes: u64,
}

/// Returns whether a hash is sampled. Only bits that the index keeps decide that: first the 16 on which neither the
/// shard nor the bucket of the key depends.
fn is_sampled(hash: u64, shift: u64) -> bool {
    let bits = hash >> 32 & 0xffff | hash << 16;
    bits & ((1 << shift) - 1) == 0
}

impl Simulations {
    pub(crate) fn new(limit_bytes: u64) -> Self {
        let caches = SimulatedCaches { limit_bytes, by_limit: Default::default() };
        Simulations { shift: AtomicU64::new(FIRST_SHIFT), caches: Lock::new(Rank::Leaf, caches) }
    }

    /// Returns whether a key is sampled. For all other keys this check is the only cost.
    pub(crate) fn samples(&self, hash: u64) -> bool {
        is_sampled(hash, self.shift.load(Ordering::Relaxed))
    }

    /// Simulates a get. If another thread is using the simulations, this get is not counted, because nobody waits for a
    /// statistic.
    pub(crate) fn on_get(&self, hash: u64, counters: &Counters) {
        let Some(mut caches) = self.caches.try_lock() else { return };
        let [half, same, twice] = caches.by_limit.each_mut().map(|cache| u64::from(cache.get(known(hash))));
        counters.sampled.add(1);
        counters.sampled_hits_half.add(half);
        counters.sampled_hits_same.add(same);
        counters.sampled_hits_twice.add(twice);
    }

    /// Simulates a put of a record that takes this much room, unless another thread is using the simulations.
    pub(crate) fn on_put(&self, hash: u64, cost: u64) {
        let Some(mut caches) = self.caches.try_lock() else { return };
        let shift = self.shift.load(Ordering::Relaxed);
        let limit = caches.limit_bytes;
        for (cache, limit) in caches.by_limit.iter_mut().zip([limit / 2, limit, limit * 2]) {
            cache.put(known(hash), cost, limit >> shift);
        }
        if caches.by_limit.iter().any(|cache| cache.entries.len() > MOST_KEYS) {
            caches.by_limit.iter_mut().for_each(|cache| cache.retain(|hash| is_sampled(hash, shift + 1)));
            self.shift.store(shift + 1, Ordering::Relaxed);
        }
    }

    /// Simulates a removal, unless another thread is using the simulations.
    pub(crate) fn on_remove(&self, hash: u64) {
        if let Some(mut caches) = self.caches.try_lock() {
            caches.by_limit.iter_mut().for_each(|cache| cache.remove(known(hash)));
        }
    }

    /// Starts the simulations from the present entries.
    pub(crate) fn warm(&self, index: &Index) {
        let mut sampled = Vec::new();
        index.for_each(|hash, place| {
            if self.samples(hash) {
                sampled.push((place.slot(), place.offset(), hash, place.len()));
            }
        });
        // When a cache is opened, slots are in the order of the log.
        sampled.sort_unstable();
        for (_, _, hash, len) in sampled {
            if self.samples(hash) {
                self.on_put(hash, record_cost(len));
            }
        }
    }

    pub(crate) fn clear(&self) {
        self.caches.lock().by_limit = Default::default();
    }
}

impl SimulatedCache {
    fn get(&mut self, hash: u64) -> bool {
        let entry = self.entries.get_mut(&hash);
        entry.map(|(_, uses)| *uses = (*uses + 1).min(MAX_USES)).is_some()
    }

    fn put(&mut self, hash: u64, cost: u64, limit: u64) {
        match self.entries.insert(hash, (cost, 0)) {
            // The entry keeps its old position.
            Some((before, _)) => self.bytes -= before,
            None => self.order.push_back(hash),
        }
        self.bytes += cost;
        while self.bytes > limit {
            let Some(oldest) = self.order.pop_front() else { return };
            match self.entries.get_mut(&oldest) {
                Some((_, uses)) if *uses > 0 => {
                    *uses -= 1;
                    self.order.push_back(oldest);
                }
                _ => {
                    self.take(oldest);
                }
            }
        }
        debug_assert_eq!(self.order.len(), self.entries.len(), "each entry has one position in the order");
    }

    fn remove(&mut self, hash: u64) {
        if self.take(hash)
            && let Some(at) = self.order.iter().position(|other| *other == hash)
        {
            self.order.remove(at);
        }
    }

    /// Removes an entry, but not its position in the order; false if there is none.
    fn take(&mut self, hash: u64) -> bool {
        let Some((cost, _)) = self.entries.remove(&hash) else { return false };
        debug_assert!(self.bytes >= cost, "only counted bytes are taken off");
        self.bytes -= cost;
        true
    }

    fn retain(&mut self, keep: impl Fn(u64) -> bool) {
        self.order.retain(|hash| keep(*hash));
        self.entries.retain(|hash, _| keep(*hash));
        debug_assert_eq!(self.order.len(), self.entries.len(), "each entry has one position in the order");
        self.bytes = self.entries.values().map(|(cost, _)| cost).sum();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use refdb_testkit::Rng;

    #[test]
    fn a_loop_over_more_than_the_limit_would_fit_into_twice_of_it() {
        let (simulations, counters) = (Simulations::new(1_000_000), Counters::default());
        // Twelve thousand keys of 100 bytes: 1.2 times the limit.
        let mut rng = Rng::new(3);
        let hashes: Vec<u64> = (0..12_000).map(|_| rng.bits()).collect();
        for _ in 0..8 {
            for &hash in hashes.iter().filter(|hash| simulations.samples(**hash)) {
                simulations.on_get(hash, &counters);
                simulations.on_put(hash, 100);
            }
        }
        let ratio = |hits: u64| hits * 100 / counters.sampled.get();
        assert!(ratio(counters.sampled_hits_twice.get()) > 80, "all but the first round");
        assert!(ratio(counters.sampled_hits_half.get()) < 60);
        simulations.clear();
        let before = counters.sampled_hits_twice.get();
        hashes.iter().for_each(|hash| simulations.on_get(*hash, &counters));
        assert_eq!(counters.sampled_hits_twice.get(), before);
    }

    #[test]
    fn keys_that_are_removed_and_put_again_have_one_position_each() {
        let simulations = Simulations::new(1 << 30);
        for round in 0..1_000u64 {
            for hash in [0, 1 << 60] {
                simulations.on_put(hash, 100);
                if round % 2 == 0 {
                    simulations.on_remove(hash);
                }
            }
        }
        for cache in &simulations.caches.lock().by_limit {
            assert_eq!((cache.order.len(), cache.entries.len(), cache.bytes), (2, 2, 200));
        }
    }

    #[test]
    fn the_sample_shrinks_so_that_it_never_has_many_keys() {
        let (simulations, counters) = (Simulations::new(1 << 40), Counters::default());
        let mut rng = Rng::new(5);
        for _ in 0..2_000_000 {
            let hash = rng.bits();
            if simulations.samples(hash) {
                simulations.on_put(hash, 100);
                simulations.on_get(hash, &counters);
            }
        }
        let keys = simulations.caches.lock().by_limit.iter().map(|cache| cache.entries.len()).max().unwrap();
        assert!((MOST_KEYS / 3..=MOST_KEYS).contains(&keys), "{keys}");
        // All entries are found, except those that left the sample when it was halved.
        assert!(counters.sampled.get() - counters.sampled_hits_same.get() < 32);
    }
}
