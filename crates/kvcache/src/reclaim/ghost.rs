//! The hit ratio that another limit would have given. Three small caches of keys without values stand for half, once
//! and twice the limit. They see a sample of the keys and have that share of the room. They evict as the cache does.
//!
//! After Waldspurger et al., "Cache Modeling and Optimization using Miniature Simulations" (USENIX ATC 2017).

use crate::{
    format::place::MAX_USES,
    log::{index::Index, space::record_cost},
    stats::Counters,
    sync::{Lock, Rank},
};
use std::{
    collections::{HashMap, VecDeque},
    sync::atomic::{AtomicU64, Ordering},
};

/// The sample is halved when a simulation has more keys than this.
const MOST_KEYS: usize = 16 << 10;
/// The first sample: one key in eight.
const FIRST_SHIFT: u64 = 3;

/// The simulations of a cache.
pub(crate) struct Ghosts {
    /// One key in 2 to the power of this is in the sample.
    shift: AtomicU64,
    sims: Lock<Sims>,
}

struct Sims {
    limit_bytes: u64,
    /// At half, once and twice the limit.
    by_limit: [Sim; 3],
}

/// A cache of keys in the order they came, each with its cost and how often it was asked for.
#[derive(Default)]
struct Sim {
    entries: HashMap<u64, (u64, u8)>,
    order: VecDeque<u64>,
    bytes: u64,
}

/// Bits of the hash that neither the shard nor the first slot depends on.
fn is_sampled(hash: u64, shift: u64) -> bool {
    (hash >> 32) & ((1 << shift) - 1) == 0
}

impl Ghosts {
    pub(crate) fn new(limit_bytes: u64) -> Self {
        let sims = Sims { limit_bytes, by_limit: Default::default() };
        Ghosts { shift: AtomicU64::new(FIRST_SHIFT), sims: Lock::new(Rank::Leaf, sims) }
    }

    /// Whether a key is in the sample; all but few are not, and cost no more than this.
    pub(crate) fn wants(&self, hash: u64) -> bool {
        is_sampled(hash, self.shift.load(Ordering::Relaxed))
    }

    /// A key was asked for. If another thread is at it, this is not counted, nor are puts: nobody waits for a statistic.
    pub(crate) fn on_get(&self, hash: u64, counters: &Counters) {
        let Some(mut sims) = self.sims.try_lock() else { return };
        let [half, same, twice] = sims.by_limit.each_mut().map(|sim| u64::from(sim.get(hash)));
        counters.sampled.add(1);
        counters.sampled_hits_half.add(half);
        counters.sampled_hits_same.add(same);
        counters.sampled_hits_twice.add(twice);
    }

    /// A value was put that takes this much room.
    pub(crate) fn on_put(&self, hash: u64, cost: u64) {
        let Some(mut sims) = self.sims.try_lock() else { return };
        let shift = self.shift.load(Ordering::Relaxed);
        let limit = sims.limit_bytes;
        for (sim, limit) in sims.by_limit.iter_mut().zip([limit / 2, limit, limit * 2]) {
            sim.put(hash, cost, limit >> shift);
        }
        if sims.by_limit.iter().any(|sim| sim.entries.len() > MOST_KEYS) {
            sims.by_limit.iter_mut().for_each(|sim| sim.retain(|hash| is_sampled(hash, shift + 1)));
            self.shift.store(shift + 1, Ordering::Relaxed);
        }
    }

    /// A value was removed.
    pub(crate) fn on_remove(&self, hash: u64) {
        if let Some(mut sims) = self.sims.try_lock() {
            sims.by_limit.iter_mut().for_each(|sim| sim.remove(hash));
        }
    }

    /// Lets the simulations start from the present entries.
    pub(crate) fn warm(&self, index: &Index) {
        let mut sampled = Vec::new();
        index.for_each(|hash, place| {
            if self.wants(hash) {
                sampled.push((place.slot(), place.offset(), hash, place.len()));
            }
        });
        // At the start slots are in the order of the log.
        sampled.sort_unstable();
        for (_, _, hash, len) in sampled {
            if self.wants(hash) {
                self.on_put(hash, record_cost(len));
            }
        }
    }

    pub(crate) fn clear(&self) {
        self.sims.lock().by_limit = Default::default();
    }
}

impl Sim {
    fn get(&mut self, hash: u64) -> bool {
        let entry = self.entries.get_mut(&hash);
        entry.map(|(_, uses)| *uses = (*uses + 1).min(MAX_USES)).is_some()
    }

    fn put(&mut self, hash: u64, cost: u64, limit: u64) {
        match self.entries.insert(hash, (cost, 0)) {
            // Its old place in the order stays; it is as good as a new one.
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
                _ => self.remove(oldest),
            }
        }
    }

    fn remove(&mut self, hash: u64) {
        if let Some((cost, _)) = self.entries.remove(&hash) {
            debug_assert!(self.bytes >= cost, "what goes was counted");
            self.bytes -= cost;
        }
    }

    fn retain(&mut self, keep: impl Fn(u64) -> bool) {
        let entries = &mut self.entries;
        self.order.retain(|hash| keep(*hash) && entries.contains_key(hash));
        entries.retain(|hash, _| keep(*hash));
        debug_assert!(self.order.len() >= entries.len(), "each entry has a place in the order");
        self.bytes = entries.values().map(|(cost, _)| cost).sum();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use refdb_testkit::Rng;

    #[test]
    fn a_loop_over_more_than_the_limit_would_fit_into_twice_of_it() {
        let (ghosts, counters) = (Ghosts::new(1_000_000), Counters::default());
        // Twelve thousand keys of 100 bytes: 1.2 times the limit.
        let mut rng = Rng::new(3);
        let hashes: Vec<u64> = (0..12_000).map(|_| rng.bits()).collect();
        for _ in 0..8 {
            for &hash in hashes.iter().filter(|hash| ghosts.wants(**hash)) {
                ghosts.on_get(hash, &counters);
                ghosts.on_put(hash, 100);
            }
        }
        let ratio = |hits: u64| hits * 100 / counters.sampled.get();
        assert!(ratio(counters.sampled_hits_twice.get()) > 80, "all but the first round");
        assert!(ratio(counters.sampled_hits_half.get()) < 60);
        ghosts.clear();
        let before = counters.sampled_hits_twice.get();
        hashes.iter().for_each(|hash| ghosts.on_get(*hash, &counters));
        assert_eq!(counters.sampled_hits_twice.get(), before);
    }

    #[test]
    fn the_sample_shrinks_so_that_it_never_has_many_keys() {
        let (ghosts, counters) = (Ghosts::new(1 << 40), Counters::default());
        let mut rng = Rng::new(5);
        for _ in 0..2_000_000 {
            let hash = rng.bits();
            if ghosts.wants(hash) {
                ghosts.on_put(hash, 100);
                ghosts.on_get(hash, &counters);
            }
        }
        let keys = ghosts.sims.lock().by_limit.iter().map(|sim| sim.entries.len()).max().unwrap();
        assert!((MOST_KEYS / 3..=MOST_KEYS).contains(&keys), "{keys}");
        // But for those that left the sample as it was halved, all are found.
        assert!(counters.sampled.get() - counters.sampled_hits_same.get() < 32);
    }
}
