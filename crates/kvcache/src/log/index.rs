//! Where each key's record is: an open-addressing hash table in memory, in shards that grow by themselves. Readers take no lock.

use crate::{
    format::place::{MAX_USES, Place},
    sync::{AtomicU64, Ordering, Shared},
};
use arc_swap::Guard;
use std::sync::Arc;

const SHARD_BITS: u32 = if cfg!(feature = "shuttle") { 1 } else { 9 };
/// How many parts an index has; a hash tells which it is in.
pub(crate) const SHARDS: usize = 1 << SHARD_BITS;
const SMALLEST_TABLE: usize = if cfg!(feature = "shuttle") { 2 } else { 8 };
const SLOTS_A_PAGE: usize = 4096 / size_of::<Slot>();

struct Slot {
    /// 0 as long as the slot was never used.
    hash: AtomicU64,
    /// 0 when the key has no record.
    place: AtomicU64,
}

/// Its slots' hashes never change once they are set, and a place changes in one step. A full table is replaced by a
/// larger copy. A reader that still holds the old one sees the state at its beginning. All changes but the use counters
/// are made by the holder of the log's lock, which proves it with [`Fill`].
struct Table {
    slots: Box<[Slot]>,
}

impl Table {
    fn new(len: usize) -> Self {
        let slot = || Slot { hash: AtomicU64::new(0), place: AtomicU64::new(0) };
        debug_assert!(len.is_power_of_two(), "a position is the low bits of a hash");
        let slots: Box<[Slot]> = (0..len).map(|_| slot()).collect();
        // Fresh memory that is read before it is written to is mapped twice. The second mapping calls every processor
        // that runs a thread of this process. The compiler leaves it fresh: it knows that it is zero.
        slots.iter().step_by(SLOTS_A_PAGE).for_each(|slot| slot.hash.store(0, Ordering::Relaxed));
        Table { slots }
    }

    /// The slot of this hash, or the empty one where it would go. Tables are never full.
    fn find(&self, hash: u64) -> &Slot {
        &self.slots[self.position(hash)]
    }

    fn position(&self, hash: u64) -> usize {
        let mask = self.slots.len() - 1;
        let mut at = hash as usize & mask;
        loop {
            let here = self.slots[at].hash.load(Ordering::Acquire);
            if here == hash || here == 0 {
                return at;
            }
            at = (at + 1) & mask;
        }
    }

    fn with_record(&self) -> impl Iterator<Item = &Slot> {
        self.slots.iter().filter(|slot| slot.place.load(Ordering::Relaxed) != 0)
    }

    fn live(&self) -> usize {
        self.with_record().count()
    }

    /// A copy of this length, which is enough, without the slots that have no record.
    fn copy(&self, len: usize) -> Table {
        debug_assert!(self.live() < len, "a table is never full");
        let copy = Table::new(len);
        for slot in self.with_record() {
            let hash = slot.hash.load(Ordering::Relaxed);
            let target = copy.find(hash);
            target.hash.store(hash, Ordering::Relaxed);
            target.place.store(slot.place.load(Ordering::Relaxed), Ordering::Relaxed);
        }
        copy
    }
}

/// An entry as it was found.
pub(crate) struct Hit {
    table: Guard<Arc<Table>>,
    at: usize,
    pub(crate) place: Place,
}

impl Hit {
    /// Counts one use of the record, if the entry still leads to it.
    pub(crate) fn touch(&self) {
        let place = self.place;
        debug_assert!(self.at < self.table.slots.len(), "it was found in this table");
        if place.uses() < MAX_USES {
            let used = place.with_uses(place.uses() + 1).word();
            // A rival's use, a new record or a new table is as good: nothing is tried again.
            let entry = &self.table.slots[self.at].place;
            let _ = entry.compare_exchange(place.word(), used, Ordering::Release, Ordering::Relaxed);
        }
    }
}

/// How many slots of each shard are in use, those without a record included. Its holder may change the index.
pub(crate) struct Fill {
    used: Box<[u32]>,
}

impl Default for Fill {
    fn default() -> Self {
        Fill { used: vec![0; SHARDS].into() }
    }
}

/// Hash to place.
pub(crate) struct Index {
    shards: Box<[Shared<Table>]>,
}

fn shard_of(hash: u64) -> usize {
    (hash >> (64 - SHARD_BITS)) as usize
}

/// A table for this many entries, filled to at most three quarters.
fn table_len(entries: usize) -> usize {
    (entries * 4 / 3 + 1).next_power_of_two().max(SMALLEST_TABLE)
}

impl Index {
    /// An index of [`SHARDS`] parts.
    pub(crate) fn of_shards(shards: Vec<Shard>) -> (Self, Fill) {
        debug_assert_eq!(shards.len(), SHARDS);
        let used = shards.iter().map(|shard| shard.used).collect();
        let shards = shards.into_iter().map(|shard| Shared::new(Arc::new(shard.table))).collect();
        (Index { shards }, Fill { used })
    }

    /// Which part of the index a hash belongs to.
    pub(crate) fn shard(hash: u64) -> usize {
        shard_of(hash)
    }

    /// Where the record of this hash is.
    pub(crate) fn get(&self, hash: u64) -> Option<Place> {
        self.find(hash).map(|hit| hit.place)
    }

    /// The entry of this hash.
    pub(crate) fn find(&self, hash: u64) -> Option<Hit> {
        let table = self.shards[shard_of(hash)].load();
        let at = table.position(hash);
        let slot = &table.slots[at];
        if slot.hash.load(Ordering::Acquire) != hash {
            // Empty when it was looked at; a writer may be filling it for another key.
            return None;
        }
        let place = Place::from_word(slot.place.load(Ordering::Acquire))?;
        Some(Hit { table, at, place })
    }

    /// Sets the place of a hash and returns the one before.
    pub(crate) fn set(&self, fill: &mut Fill, hash: u64, place: Place) -> Option<Place> {
        debug_assert!(hash != 0, "0 stands for a slot that was never used");
        let shard = shard_of(hash);
        let mut table = self.shards[shard].load();
        if table.find(hash).hash.load(Ordering::Relaxed) == 0 {
            let used = &mut fill.used[shard];
            if (*used as usize + 1) * 4 > table.slots.len() * 3 {
                let (copy, live) = rebuilt(&table);
                *used = live;
                self.shards[shard].store(Arc::new(copy));
                table = self.shards[shard].load();
            }
            *used += 1;
            debug_assert!(
                (*used as usize) < table.slots.len(),
                "a table is never full: a search ends at an unused slot"
            );
        }
        let slot = table.find(hash);
        let old = slot.place.swap(place.word(), Ordering::AcqRel);
        slot.hash.store(hash, Ordering::Release);
        Place::from_word(old)
    }

    /// Forgets the record of this hash and returns where it was.
    pub(crate) fn remove(&self, _fill: &mut Fill, hash: u64) -> Option<Place> {
        let table = self.shards[shard_of(hash)].load();
        let slot = table.find(hash);
        if slot.hash.load(Ordering::Relaxed) == 0 {
            return None;
        }
        Place::from_word(slot.place.swap(0, Ordering::AcqRel))
    }

    /// Forgets everything; returns the old tables, whose memory the caller gives back when no lock is held.
    pub(crate) fn clear(&self, fill: &mut Fill) -> impl Send + use<> {
        fill.used.fill(0);
        let empty = || Arc::new(Table::new(SMALLEST_TABLE));
        self.shards.iter().map(|shard| shard.swap(empty())).collect::<Vec<_>>()
    }

    /// Shows every entry once, in no order; entries that change meanwhile are shown old or new.
    pub(crate) fn for_each(&self, mut entry: impl FnMut(u64, Place)) {
        for shard in &self.shards {
            let table = shard.load_full();
            for slot in &table.slots {
                if let Some(place) = Place::from_word(slot.place.load(Ordering::Acquire)) {
                    entry(slot.hash.load(Ordering::Acquire), place);
                }
            }
        }
    }
}

/// One part of an index before anyone reads it.
pub(crate) struct Shard {
    table: Table,
    used: u32,
}

impl Shard {
    /// With room for this many hashes.
    pub(crate) fn new(hashes: usize) -> Self {
        Shard { table: Table::new(table_len(hashes)), used: 0 }
    }

    /// Sets the place of a hash and returns the one before.
    pub(crate) fn set(&mut self, hash: u64, place: Place) -> Option<Place> {
        let slot = self.table.find(hash);
        if slot.hash.load(Ordering::Relaxed) == 0 {
            slot.hash.store(hash, Ordering::Relaxed);
            self.used += 1;
        }
        let old = slot.place.load(Ordering::Relaxed);
        slot.place.store(place.word(), Ordering::Relaxed);
        Place::from_word(old)
    }

    /// Forgets the record of this hash and returns where it was.
    pub(crate) fn remove(&mut self, hash: u64) -> Option<Place> {
        let slot = self.table.find(hash);
        let old = slot.place.load(Ordering::Relaxed);
        slot.place.store(0, Ordering::Relaxed);
        Place::from_word(old)
    }

    /// The same without room that was for records which others replaced.
    pub(crate) fn trimmed(self) -> Self {
        let live = self.table.live();
        if table_len(live) == self.table.slots.len() {
            return self;
        }
        Shard { table: self.table.copy(table_len(live)), used: live as u32 }
    }
}

/// A copy without the slots that have no record, but with room for as many again. Also says how many slots it uses.
fn rebuilt(old: &Table) -> (Table, u32) {
    let live = old.live();
    (old.copy(table_len(live * 3 / 2 + 1)), live as u32)
}

#[cfg(test)]
mod tests {
    use super::*;
    use refdb_testkit::Rng;
    use std::collections::HashMap;

    fn empty() -> (Index, Fill) {
        Index::of_shards((0..SHARDS).map(|_| Shard::new(0)).collect())
    }

    #[test]
    fn it_agrees_with_a_map_while_it_grows_and_shrinks() {
        let (index, mut fill) = empty();
        let (mut model, mut rng) = (HashMap::new(), Rng::new(1));
        for step in 0..60_000 {
            let hash = (rng.bits() % 9_000 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
            let place = Place::new(rng.below(100) as u16, 16 * (1 + rng.below(1000)), 16 * (1 + rng.below(9)));
            if rng.one_in(if step < 40_000 { 4 } else { 2 }) {
                assert_eq!(index.remove(&mut fill, hash), model.remove(&hash));
            } else {
                assert_eq!(index.set(&mut fill, hash, place), model.insert(hash, place));
            }
            assert_eq!(index.get(hash), model.get(&hash).copied());
        }
        let mut seen = HashMap::new();
        index.for_each(|hash, place| assert!(seen.insert(hash, place).is_none()));
        assert_eq!(seen, model);
        drop(index.clear(&mut fill));
        index.for_each(|_, _| panic!("an entry is left"));
    }

    #[test]
    fn uses_are_counted_up_to_their_limit_and_only_for_the_record_that_was_read() {
        let (index, mut fill) = empty();
        let (old, new) = (Place::new(1, 64, 32), Place::new(1, 96, 32));
        index.set(&mut fill, 7, old);
        for _ in 0..9 {
            index.find(7).unwrap().touch();
        }
        assert_eq!(index.get(7).unwrap().uses(), MAX_USES);
        index.set(&mut fill, 7, old);
        let late = index.find(7).unwrap();
        index.set(&mut fill, 7, new);
        late.touch();
        assert_eq!(index.get(7), Some(new));
    }
}
