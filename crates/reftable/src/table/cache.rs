use crate::block::Layout;
use std::{
    collections::HashMap,
    fmt,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
};

/// A block as it is kept in memory: logs inflated.
#[derive(Debug)]
pub(crate) struct CachedBlock {
    pub(crate) layout: Layout,
    pub(crate) next: u64,
    pub(crate) bytes: Box<[u8]>,
}

/// A bounded cache of blocks, shared by any number of tables and threads.
///
/// What was used since the older half was last thrown away stays.
pub struct BlockCache {
    shards: [Mutex<Shard>; SHARDS],
    shard_capacity_bytes: usize,
    next_file: AtomicU64,
}

const SHARDS: usize = 16;

/// A file and a position in it.
type Key = (u64, u64);

#[derive(Default)]
struct Shard {
    young: HashMap<Key, Arc<CachedBlock>>,
    old: HashMap<Key, Arc<CachedBlock>>,
    young_bytes: usize,
}

impl BlockCache {
    /// An empty cache that keeps about so many bytes.
    pub fn new(capacity_bytes: usize) -> Arc<Self> {
        Arc::new(BlockCache {
            shards: Default::default(),
            shard_capacity_bytes: capacity_bytes / SHARDS,
            next_file: AtomicU64::new(0),
        })
    }

    /// A number for a file that no other file in this cache has.
    pub(crate) fn file(&self) -> u64 {
        self.next_file.fetch_add(1, Ordering::Relaxed)
    }

    pub(crate) fn get(&self, file: u64, position: u64) -> Option<Arc<CachedBlock>> {
        let key = (file, position);
        let mut shard = self.shard(key);
        if let Some(block) = shard.young.get(&key) {
            return Some(block.clone());
        }
        let block = shard.old.remove(&key)?;
        self.insert_into(&mut shard, key, block.clone());
        Some(block)
    }

    pub(crate) fn insert(&self, file: u64, position: u64, block: Arc<CachedBlock>) {
        let key = (file, position);
        self.insert_into(&mut self.shard(key), key, block);
    }

    fn insert_into(&self, shard: &mut Shard, key: Key, block: Arc<CachedBlock>) {
        shard.young_bytes += block.bytes.len();
        shard.young.insert(key, block);
        if shard.young_bytes > self.shard_capacity_bytes / 2 {
            shard.old = std::mem::take(&mut shard.young);
            shard.young_bytes = 0;
        }
    }

    fn shard(&self, (file, position): Key) -> std::sync::MutexGuard<'_, Shard> {
        // Positions are often multiples of the block size: the high bits of the product depend on all bits.
        let mixed = (position ^ file << 40).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        // A panic elsewhere leaves the maps as they were.
        self.shards[(mixed >> 60) as usize].lock().unwrap_or_else(PoisonError::into_inner)
    }

    #[cfg(test)]
    fn held_bytes(&self) -> usize {
        let held = |map: &HashMap<Key, Arc<CachedBlock>>| map.values().map(|block| block.bytes.len()).sum::<usize>();
        self.shards
            .iter()
            .map(|shard| {
                let shard = shard.lock().unwrap_or_else(PoisonError::into_inner);
                held(&shard.young) + held(&shard.old)
            })
            .sum()
    }
}

impl fmt::Debug for BlockCache {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "BlockCache({} bytes)", self.shard_capacity_bytes * SHARDS)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::BlockKind;

    fn block(len: usize) -> Arc<CachedBlock> {
        let layout = Layout { kind: BlockKind::Ref, records_at: 4, restarts_at: 4, restart_count: 1 };
        Arc::new(CachedBlock { layout, next: 0, bytes: vec![0; len].into() })
    }

    #[test]
    fn the_cache_stays_within_its_bound_and_keeps_what_is_used() {
        let cache = BlockCache::new(1 << 20);
        let (hot, cold) = (cache.file(), cache.file());
        assert_ne!(hot, cold);
        for position in 0..4096u64 {
            cache.insert(cold, position * 4096, block(4096));
            if cache.get(hot, 0).is_none() {
                assert_eq!(position, 0, "a block in constant use was dropped");
                cache.insert(hot, 0, block(4096));
            }
            assert!(cache.held_bytes() <= (1 << 20) + SHARDS * 4096);
        }
        assert!(cache.get(cold, 0).is_none());
        assert!(cache.get(cold, 4095 * 4096).is_some());
    }
}
