//! The cache of single refs that all views of a process share: a two-generation LRU.

use crate::Found;
use bstr::{BStr, BString};
use hashbrown::HashTable;
use refdb::{
    Target,
    files::{Charge, PageBudget},
};
use refdb_vfs::Stat;
use std::{
    hash::{BuildHasher, RandomState},
    mem::size_of,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

/// What a reader knows of a name. The value is immutable, and is replaced when the reader learns something new.
#[derive(Debug)]
pub(crate) struct Known {
    /// The reader's epoch and clock before it read the disk.
    pub(crate) epoch: u64,
    pub(crate) looked_nanos: u64,
    /// The loose ref; `None` if there is no loose file.
    pub(crate) loose: Option<Loose>,
    /// The value in packed-refs, if there is no loose file.
    pub(crate) kept: Option<Found>,
}

/// A loose ref, with the attributes that its file had just before it was read, as far as attributes are trusted.
#[derive(Clone, Debug)]
pub(crate) struct Loose {
    pub(crate) stat: Stat,
    pub(crate) is_racy: bool,
    pub(crate) target: Target,
}

const SHARDS: usize = 16;

/// A map from names to what readers know of them, bounded in bytes.
///
/// Each shard has a young and an old generation. An entry that is used moves to the young one. When that is full, the
/// old generation is dropped and the young one takes its place. Entries of a closed reader are never looked up again,
/// unless a later reader has taken over its number. They are not removed when the reader is closed, because finding
/// them would take longer than opening the view again, but disappear with the old generation.
pub(crate) struct NameCache {
    shards: [Mutex<Shard>; SHARDS],
    hasher: RandomState,
    capacity_bytes: usize,
}

struct Shard {
    young: HashTable<Entry>,
    old: HashTable<Entry>,
    young_bytes: Charge,
    old_bytes: Charge,
}

impl Shard {
    fn new(budget: &Arc<PageBudget>) -> Self {
        let (young_bytes, old_bytes) = (budget.charge(0), budget.charge(0));
        Shard { young: HashTable::new(), old: HashTable::new(), young_bytes, old_bytes }
    }

    fn has(&self, hash: u64, wanted: &Entry) -> bool {
        let is_it = |entry: &Entry| entry.is(wanted.owner, &wanted.name);
        self.young.find(hash, is_it).is_some() || self.old.find(hash, is_it).is_some()
    }
}

struct Entry {
    owner: u64,
    name: Box<[u8]>,
    known: Arc<Known>,
}

impl Entry {
    fn is(&self, owner: u64, name: &[u8]) -> bool {
        self.owner == owner && *self.name == *name
    }

    fn bytes(&self) -> usize {
        // The counters of the Arc, and the table's own spare room.
        const ALLOCATION_BYTES: usize = 64;
        size_of::<Entry>() + size_of::<Known>() + self.name.len() + ALLOCATION_BYTES
    }
}

impl NameCache {
    /// Creates an empty cache for about `capacity_bytes` at most, which are counted in `budget` as they are used.
    pub(crate) fn new(capacity_bytes: usize, budget: &Arc<PageBudget>) -> Self {
        let shards = std::array::from_fn(|_| Mutex::new(Shard::new(budget)));
        NameCache { shards, hasher: RandomState::new(), capacity_bytes }
    }

    /// What the reader `owner` knows of a name.
    pub(crate) fn get(&self, owner: u64, name: &BStr) -> Option<Arc<Known>> {
        let hash = self.hash(owner, name);
        let mut shard = self.shard(hash);
        if let Some(entry) = shard.young.find(hash, |entry| entry.is(owner, name)) {
            return Some(Arc::clone(&entry.known));
        }
        let entry = match shard.old.find_entry(hash, |entry| entry.is(owner, name)) {
            Ok(found) => found.remove().0,
            Err(_) => return None,
        };
        debug_assert!(shard.old_bytes.bytes() >= entry.bytes(), "an entry that goes was counted");
        shard.old_bytes.sub(entry.bytes());
        let known = Arc::clone(&entry.known);
        self.insert(&mut shard, hash, entry);
        Some(known)
    }

    /// Replaces what the reader `owner` knows of a name, unless that has a later clock than `known`: a thread may be
    /// held up between reading a ref and recording it. The clock is always 0 if the reader checks the disk for each
    /// query.
    pub(crate) fn put(&self, owner: u64, name: &BStr, known: Known) {
        let hash = self.hash(owner, name);
        let mut shard = self.shard(hash);
        let known = Arc::new(known);
        let is_outdated = |entry: &Entry| entry.known.looked_nanos > known.looked_nanos;
        if let Some(entry) = shard.young.find_mut(hash, |entry| entry.is(owner, name)) {
            if !is_outdated(entry) {
                entry.known = known;
            }
            return;
        }
        if let Ok(found) = shard.old.find_entry(hash, |entry| entry.is(owner, name)) {
            if is_outdated(found.get()) {
                return;
            }
            let bytes = found.remove().0.bytes();
            debug_assert!(shard.old_bytes.bytes() >= bytes, "an entry that goes was counted: {bytes}");
            shard.old_bytes.sub(bytes);
        }
        self.insert(&mut shard, hash, Entry { owner, name: name.to_vec().into(), known });
    }

    fn insert(&self, shard: &mut Shard, hash: u64, entry: Entry) {
        debug_assert!(!shard.has(hash, &entry), "a name has one entry");
        let is_miscounted = refdb_vfs::planted("refcache-names");
        shard.young_bytes.add(if is_miscounted { size_of::<Entry>() } else { entry.bytes() });
        shard.young.insert_unique(hash, entry, |entry| self.hash(entry.owner, BStr::new(&*entry.name)));
        if shard.young_bytes.bytes() > self.capacity_bytes / SHARDS / 2 {
            shard.old = std::mem::take(&mut shard.young);
            let Shard { young_bytes, old_bytes, .. } = shard;
            std::mem::swap(old_bytes, young_bytes);
            young_bytes.sub(young_bytes.bytes());
            debug_assert_eq!(
                shard.old_bytes.bytes(),
                shard.old.iter().map(Entry::bytes).sum::<usize>(),
                "the count is the sum of the entries"
            );
            debug_assert!(shard.young.is_empty() && shard.young_bytes.bytes() == 0, "the young begin with nothing");
        }
    }

    /// The names of which the reader `owner` knows something, in no order.
    pub(crate) fn of(&self, owner: u64) -> Vec<BString> {
        let mut names = Vec::new();
        for shard in &self.shards {
            let shard = shard.lock().unwrap_or_else(PoisonError::into_inner);
            let entries = shard.young.iter().chain(&shard.old).filter(|entry| entry.owner == owner);
            names.extend(entries.map(|entry| BString::from(&*entry.name)));
        }
        names
    }

    fn hash(&self, owner: u64, name: &BStr) -> u64 {
        // Seeded at random, so that a client which chooses names cannot make them collide.
        self.hasher.hash_one((owner, name.as_ref() as &[u8]))
    }

    fn shard(&self, hash: u64) -> MutexGuard<'_, Shard> {
        // The tables use the lowest and the highest bits.
        self.shards[(hash >> 32) as usize % SHARDS].lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn known(epoch: u64) -> Known {
        Known { epoch, looked_nanos: 0, loose: None, kept: None }
    }

    #[test]
    fn names_of_different_views_are_different_and_those_of_views_that_are_gone_go_with_time() {
        let budget = Arc::default();
        let names = NameCache::new(1 << 20, &budget);
        names.put(1, "refs/a".into(), known(1));
        names.put(2, "refs/a".into(), known(2));
        names.put(2, "refs/a".into(), known(3));
        assert_eq!(names.get(1, "refs/a".into()).unwrap().epoch, 1);
        assert_eq!(names.get(2, "refs/a".into()).unwrap().epoch, 3);
        assert!(names.get(2, "refs/b".into()).is_none());
        // Each of these views is used once and then dropped.
        for owner in 3..50_000 {
            names.put(owner, "refs/a".into(), known(owner));
        }
        assert!(names.of(2).is_empty() && !names.of(49_999).is_empty());
        assert!(budget.used_bytes() <= (1 << 20) + SHARDS * 1024, "{}", budget.used_bytes());
        drop(names);
        assert_eq!(budget.used_bytes(), 0);
    }

    #[test]
    fn what_was_read_later_stays_whoever_records_it_first() {
        let names = NameCache::new(SHARDS * 2048, &Arc::default());
        let put = |looked_nanos, epoch| {
            names.put(1, "refs/a".into(), Known { epoch, looked_nanos, loose: None, kept: None });
        };
        let epoch = || names.get(1, "refs/a".into()).unwrap().epoch;
        put(5, 1);
        put(7, 2);
        put(6, 3);
        assert_eq!(epoch(), 2);
        put(7, 4);
        assert_eq!(epoch(), 4);
        // Enough others that the entry is among the old ones, which a look-up would change.
        for at in 0..10_000 {
            names.put(2, format!("{at}").as_str().into(), known(1));
            let hash = names.hash(1, "refs/a".into());
            if names.shard(hash).old.find(hash, |entry| entry.is(1, b"refs/a")).is_some() {
                break;
            }
        }
        put(6, 5);
        assert_eq!(epoch(), 4);
    }

    #[test]
    fn it_stays_within_its_bound_and_keeps_what_is_used() {
        const CAPACITY: usize = 1 << 20;
        let budget = Arc::default();
        let names = NameCache::new(CAPACITY, &budget);
        names.put(1, "hot".into(), known(7));
        for at in 0..50_000 {
            names.put(1, format!("refs/{at}").as_str().into(), known(1));
            assert_eq!(names.get(1, "hot".into()).unwrap().epoch, 7);
        }
        let held = budget.used_bytes();
        assert!((CAPACITY / 3..=CAPACITY + SHARDS * 1024).contains(&held), "{held}");
        assert!(names.get(1, "refs/0".into()).is_none() && names.get(1, "refs/49999".into()).is_some());
    }
}
