use crate::block::Layout;
use std::{
    collections::{HashMap, VecDeque},
    fmt,
    hash::{BuildHasher, Hasher, RandomState},
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed},
    },
};

/// A block in memory; log blocks are inflated.
#[derive(Debug)]
pub(crate) struct CachedBlock {
    pub(crate) layout: Layout,
    pub(crate) next: u64,
    pub(crate) bytes: Box<[u8]>,
}

/// A bounded cache of blocks that any number of tables and threads can share.
///
/// Each of its 16 shards has a sixteenth of the capacity and evicts by the CLOCK rule: the oldest block goes first, but
/// a block that was used since it entered the queue is moved to the end of the queue instead.
pub struct BlockCache {
    shards: [Mutex<Shard>; SHARDS],
    capacity_bytes: usize,
    /// The bytes that stay available to this cache, however much others take.
    least_bytes: usize,
    /// The bytes that others take of the same memory.
    taken_bytes: Arc<AtomicUsize>,
    held_bytes: AtomicUsize,
    next_file: AtomicU64,
}

const SHARDS: usize = 16;
const _: () = assert!(SHARDS == 1 << 4, "four bits choose a shard");

/// A file and a position in it.
type Key = (u64, u64);

/// Hashes keys, which are two numbers, in a few instructions. It is seeded, because whoever writes tables can choose
/// the positions.
#[derive(Clone)]
struct Mix(u64);

impl Default for Mix {
    fn default() -> Self {
        Mix(RandomState::new().hash_one(0))
    }
}

impl BuildHasher for Mix {
    type Hasher = Mix;

    fn build_hasher(&self) -> Mix {
        self.clone()
    }
}

impl Hasher for Mix {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|byte| self.write_u64(u64::from(*byte)));
    }

    #[inline]
    fn write_u64(&mut self, number: u64) {
        // The halves of the product together depend on all bits of the number.
        let product = u128::from(self.0 ^ number) * 0x9e37_79b9_7f4a_7c15;
        self.0 = product as u64 ^ (product >> 64) as u64;
    }
}

#[derive(Default)]
struct Shard {
    /// The place of each block in the queue, counted from the first block that ever was in it.
    places: HashMap<Key, u64, Mix>,
    /// The blocks; the next to be evicted is in front.
    queue: VecDeque<Slot>,
    /// The number of blocks that have left the front of the queue.
    passed: u64,
    bytes: usize,
}

struct Slot {
    key: Key,
    block: Arc<CachedBlock>,
    is_used: bool,
}

impl Slot {
    fn bytes(&self) -> usize {
        // The entry in `places`, the slot, the counters of the `Arc`, and the overhead of the allocator.
        const BESIDES_BYTES: usize = 160;
        self.block.bytes.len() + BESIDES_BYTES
    }
}

impl BlockCache {
    /// Creates an empty cache that holds about `capacity_bytes` at most.
    pub fn new(capacity_bytes: usize) -> Arc<Self> {
        Self::beside(capacity_bytes, capacity_bytes, Arc::default())
    }

    /// Creates an empty cache that shares `capacity_bytes` with others, whose use the caller counts in `taken_bytes`.
    ///
    /// The limit of the cache is about what the others leave, but never less than `least_bytes`. Call
    /// [`trim`](Self::trim) after the others have taken more.
    pub fn beside(capacity_bytes: usize, least_bytes: usize, taken_bytes: Arc<AtomicUsize>) -> Arc<Self> {
        Arc::new(BlockCache {
            shards: Default::default(),
            capacity_bytes,
            least_bytes,
            taken_bytes,
            held_bytes: AtomicUsize::new(0),
            next_file: AtomicU64::new(0),
        })
    }

    /// The memory that the blocks in the cache take, in bytes.
    pub fn held_bytes(&self) -> usize {
        self.held_bytes.load(Relaxed)
    }

    /// Evicts blocks until the cache is within its bound again.
    pub fn trim(&self) {
        for shard in &self.shards {
            self.keep_to_bound(&mut lock(shard));
        }
    }

    /// Returns a number that no other file in this cache has.
    pub(crate) fn file(&self) -> u64 {
        self.next_file.fetch_add(1, Relaxed)
    }

    pub(crate) fn get(&self, file: u64, position: u64) -> Option<Arc<CachedBlock>> {
        let key = (file, position);
        let mut shard = self.shard(key);
        let place = *shard.places.get(&key)? - shard.passed;
        let slot = shard.queue.get_mut(place as usize)?;
        assert!(slot.key == key, "a place in the queue is that of its own block");
        slot.is_used = true;
        Some(Arc::clone(&slot.block))
    }

    pub(crate) fn insert(&self, file: u64, position: u64, block: Arc<CachedBlock>) {
        let key = (file, position);
        let mut shard = self.shard(key);
        if shard.places.contains_key(&key) {
            // Files of tables never change, so the block in the cache, which another thread has inserted, is the
            // same.
            return;
        }
        let slot = Slot { key, block, is_used: false };
        shard.bytes += slot.bytes();
        self.held_bytes.fetch_add(slot.bytes(), Relaxed);
        shard.queue_up(slot);
        self.keep_to_bound(&mut shard);
    }

    fn keep_to_bound(&self, shard: &mut Shard) {
        let left = self.capacity_bytes.saturating_sub(self.taken_bytes.load(Relaxed));
        let bound = left.max(self.least_bytes) / SHARDS;
        let before = shard.bytes;
        while shard.bytes > bound {
            let Some(slot) = shard.queue.pop_front() else { break };
            shard.passed += 1;
            shard.serve(slot);
        }
        debug_assert!(shard.bytes == 0 || !shard.queue.is_empty(), "blocks count as long as they are kept");
        debug_assert_eq!(shard.places.len(), shard.queue.len(), "each block has one place");
        let held = self.held_bytes.fetch_sub(before - shard.bytes, Relaxed);
        debug_assert!(held >= before - shard.bytes, "what goes was counted: {held}");
    }

    fn shard(&self, (file, position): Key) -> MutexGuard<'_, Shard> {
        // Positions are often multiples of the block size, so the shard is chosen by the product's high bits, which
        // depend on all bits of the position.
        let mixed = (position ^ file << 40).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        lock(&self.shards[(mixed >> 60) as usize])
    }
}

fn lock(shard: &Mutex<Shard>) -> MutexGuard<'_, Shard> {
    // A panic while the lock was held leaves the shard consistent.
    shard.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Shard {
    fn queue_up(&mut self, slot: Slot) {
        let place = self.passed + self.queue.len() as u64;
        let before = self.places.insert(slot.key, place);
        debug_assert!(before.is_none_or(|before| before < self.passed), "a block is in the queue once");
        self.queue.push_back(slot);
    }

    /// Evicts the block that has left the front, unless it was used since it entered the queue.
    fn serve(&mut self, slot: Slot) {
        if slot.is_used {
            self.queue_up(Slot { is_used: false, ..slot });
        } else {
            debug_assert!(self.bytes >= slot.bytes(), "a block was counted when it came: {}", self.bytes);
            self.bytes -= slot.bytes();
            self.places.remove(&slot.key);
        }
    }
}

impl fmt::Debug for BlockCache {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "BlockCache({} of {} bytes)", self.held_bytes(), self.capacity_bytes)
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

    /// Counts the bytes that the cache holds, instead of trusting its own number.
    fn held_bytes(cache: &BlockCache) -> usize {
        cache.shards.iter().map(|shard| lock(shard).queue.iter().map(Slot::bytes).sum::<usize>()).sum()
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
            assert!(held_bytes(&cache) <= 1 << 20);
            assert_eq!(held_bytes(&cache), cache.held_bytes());
        }
        assert!(cache.get(cold, 0).is_none());
        assert!(cache.get(cold, 4095 * 4096).is_some());
    }

    #[test]
    fn whatever_fits_stays_in_whatever_order_it_is_asked_for() {
        let cache = BlockCache::new(1 << 20);
        let file = cache.file();
        // Four fifths of the bound, because the shards are not equally full.
        let blocks = 720;
        for position in 0..blocks {
            cache.insert(file, position * 1000, block(1000));
        }
        for round in 1..8 {
            for at in 0..blocks {
                assert!(cache.get(file, at * 7919 % blocks * 1000).is_some(), "round {round}, {at} of {blocks}");
            }
        }
    }

    #[test]
    fn what_others_take_of_the_memory_is_given_up_but_not_the_least() {
        let taken = Arc::new(AtomicUsize::new(0));
        let cache = BlockCache::beside(1 << 20, 1 << 18, Arc::clone(&taken));
        let file = cache.file();
        for position in 0..4096 {
            cache.insert(file, position, block(1000));
        }
        assert!((900 << 10..=1 << 20).contains(&cache.held_bytes()), "{}", cache.held_bytes());
        taken.store(1 << 19, Relaxed);
        cache.trim();
        assert!((400 << 10..=1 << 19).contains(&cache.held_bytes()), "{}", cache.held_bytes());
        taken.store(2 << 20, Relaxed);
        cache.insert(file, 5000, block(1000));
        cache.trim();
        assert!((200 << 10..=1 << 18).contains(&cache.held_bytes()), "{}", cache.held_bytes());
        assert_eq!(held_bytes(&cache), cache.held_bytes());
    }
}
