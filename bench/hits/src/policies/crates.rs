//! Caches that are crates.

use super::Policy;
use crate::traces::Key;
use foyer_memory::{CacheBuilder, LfuConfig};

/// W-TinyLFU as moka has it.
pub struct Moka(moka::sync::Cache<Key, u32>);

impl Moka {
    /// With room for this number of entries, each of which costs 1. Without a weigher moka hits more or less often than
    /// with one that says 1 of all, and programs whose entries are alike give it none.
    pub fn of_entries(room: u64) -> Self {
        Moka(moka::sync::Cache::new(room))
    }

    /// With this much room.
    pub fn of_costs(room: u64) -> Self {
        Moka(moka::sync::Cache::builder().max_capacity(room).weigher(|_, cost| *cost).build())
    }
}

impl Policy for Moka {
    fn get_or_put(&mut self, key: Key, cost: u32) -> bool {
        let found = self.0.get(&key).is_some();
        if !found {
            self.0.insert(key, cost);
        }
        // Its bookkeeping is done in batches; here it is never behind.
        self.0.run_pending_tasks();
        found
    }
}

/// The cost of an entry is its value.
#[derive(Clone)]
struct Cost;

impl quick_cache::Weighter<Key, u32> for Cost {
    fn weight(&self, _: &Key, cost: &u32) -> u64 {
        u64::from(*cost)
    }
}

/// quick_cache, which has a policy of S3-FIFO's kind.
pub struct Quick(quick_cache::unsync::Cache<Key, u32, Cost>);

impl Quick {
    /// With this much room, for about this number of entries.
    pub fn new(room: u64, entries: usize) -> Self {
        Quick(quick_cache::unsync::Cache::with_weighter(entries, room, Cost))
    }
}

impl Policy for Quick {
    fn get_or_put(&mut self, key: Key, cost: u32) -> bool {
        let found = self.0.get(&key).is_some();
        if !found {
            self.0.insert(key, cost);
        }
        found
    }
}

/// W-TinyLFU as foyer has it in memory. foyer's default is LRU.
pub struct Foyer(foyer_memory::Cache<Key, u32>);

impl Foyer {
    /// With this much room.
    pub fn new(room: u64) -> Self {
        let builder = CacheBuilder::new(room as usize).with_shards(1).with_eviction_config(LfuConfig::default());
        Foyer(builder.with_weighter(|_: &Key, cost: &u32| *cost as usize).build())
    }
}

impl Policy for Foyer {
    fn get_or_put(&mut self, key: Key, cost: u32) -> bool {
        let found = self.0.get(&key).is_some();
        if !found {
            self.0.insert(key, cost);
        }
        found
    }
}
