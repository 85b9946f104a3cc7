//! The place of each key's record: an open-addressing hash table in memory, in shards that grow independently. Readers take no
//! lock.

use crate::{
    format::place::{MAX_USES, Place},
    sync::{AtomicU64, Ordering, Shared},
};
use arc_swap::Guard;
use std::sync::Arc;

const SHARD_BITS: u32 = if cfg!(feature = "shuttle") { 1 } else { 9 };
/// Number of shards; the hash of a key determines its shard.
pub(crate) const SHARDS: usize = 1 << SHARD_BITS;
const SMALLEST_TABLE: usize = if cfg!(feature = "shuttle") { 2 } else { 8 };
const SLOTS_A_PAGE: usize = 4096 / size_of::<Slot>();

struct Slot {
    /// 0 if the slot was never used.
    hash: AtomicU64,
    /// 0 if the key has no record.
    place: AtomicU64,
}

/// The slots of one shard. The hash of a slot never changes once it is set, and its place changes atomically. A table
/// that would become more than three quarters full is replaced by a copy with room; a reader that still holds the old
/// table sees the state at the time of the replacement. Only the holder of the log's lock, which proves that with
/// [`Fill`], makes changes other than counting uses.
struct Table {
    slots: Box<[Slot]>,
}

impl Table {
    fn new(len: usize) -> Self {
        let slot = || Slot { hash: AtomicU64::new(0), place: AtomicU64::new(0) };
        debug_assert!(len.is_power_of_two(), "the low bits of a hash are a position");
        let slots: Box<[Slot]> = (0..len).map(|_| slot()).collect();
        // One slot of each page is written now. If fresh memory is read before it is written, the kernel maps it two
        // times, and the second mapping interrupts every processor that runs a thread of this process. The
        // initialisation above writes nothing, since the compiler knows that the memory is zero.
        slots.iter().step_by(SLOTS_A_PAGE).for_each(|slot| slot.hash.store(0, Ordering::Relaxed));
        Table { slots }
    }

    /// The slot of this hash, or the unused one where it would go. There is always an unused slot, because tables are never full.
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

    /// A copy with `len` slots, of which at least one stays unused. Slots of removed keys are not copied.
    fn copy(&self, len: usize) -> Table {
        debug_assert!(self.live() < len, "a table always has an unused slot");
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

/// An entry that was found.
pub(crate) struct Hit {
    table: Guard<Arc<Table>>,
    at: usize,
    pub(crate) place: Place,
}

impl Hit {
    /// Counts one use of the record, unless the entry leads to another record by now.
    pub(crate) fn touch(&self) {
        let place = self.place;
        debug_assert!(self.at < self.table.slots.len(), "the hit is in this table");
        if place.uses() < MAX_USES {
            let used = place.with_uses(place.uses() + 1).word();
            // If another thread counted a use, or put a new record or table, this use need not be counted.
            let entry = &self.table.slots[self.at].place;
            let _ = entry.compare_exchange(place.word(), used, Ordering::Release, Ordering::Relaxed);
        }
    }
}

/// Number of slots of each shard that are in use, including those without a record. The holder of this value may
/// change the index.
pub(crate) struct Fill {
    used: Box<[u32]>,
}

impl Default for Fill {
    fn default() -> Self {
        Fill { used: vec![0; SHARDS].into() }
    }
}

/// A map from the hash of a key to the place of its record.
pub(crate) struct Index {
    shards: Box<[Shared<Table>]>,
}

fn shard_of(hash: u64) -> usize {
    (hash >> (64 - SHARD_BITS)) as usize
}

/// Number of slots of a table for this many entries, which fill it to at most three quarters. A power of two, so 21 to 43 bytes of
/// memory an entry.
fn table_len(entries: usize) -> usize {
    (entries * 4 / 3 + 1).next_power_of_two().max(SMALLEST_TABLE)
}

impl Index {
    /// An index of these shards, of which there are [`SHARDS`].
    pub(crate) fn of_shards(shards: Vec<Shard>) -> (Self, Fill) {
        debug_assert_eq!(shards.len(), SHARDS);
        let used = shards.iter().map(|shard| shard.used).collect();
        let shards = shards.into_iter().map(|shard| Shared::new(Arc::new(shard.table))).collect();
        (Index { shards }, Fill { used })
    }

    /// The shard of a hash.
    pub(crate) fn shard(hash: u64) -> usize {
        shard_of(hash)
    }

    /// The place of the record with this hash.
    pub(crate) fn get(&self, hash: u64) -> Option<Place> {
        self.find(hash).map(|hit| hit.place)
    }

    /// The entry of this hash.
    pub(crate) fn find(&self, hash: u64) -> Option<Hit> {
        let table = self.shards[shard_of(hash)].load();
        let at = table.position(hash);
        let slot = &table.slots[at];
        if slot.hash.load(Ordering::Acquire) != hash {
            // The slot was unused; a writer may be filling it for another key now.
            return None;
        }
        let place = Place::from_word(slot.place.load(Ordering::Acquire))?;
        Some(Hit { table, at, place })
    }

    /// Sets the place of a hash and returns the previous one.
    pub(crate) fn set(&self, fill: &mut Fill, hash: u64, place: Place) -> Option<Place> {
        debug_assert!(hash != 0, "hash 0 means an unused slot");
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
                "a search ends at an unused slot, so a table is never full"
            );
        }
        let slot = table.find(hash);
        let old = slot.place.swap(place.word(), Ordering::AcqRel);
        slot.hash.store(hash, Ordering::Release);
        Place::from_word(old)
    }

    /// Removes a hash and returns its place.
    pub(crate) fn remove(&self, _fill: &mut Fill, hash: u64) -> Option<Place> {
        let table = self.shards[shard_of(hash)].load();
        let slot = table.find(hash);
        if slot.hash.load(Ordering::Relaxed) == 0 {
            return None;
        }
        Place::from_word(slot.place.swap(0, Ordering::AcqRel))
    }

    /// Removes everything and returns the old tables, which the caller drops when no lock is held.
    pub(crate) fn clear(&self, fill: &mut Fill) -> impl Send + use<> {
        fill.used.fill(0);
        let empty = || Arc::new(Table::new(SMALLEST_TABLE));
        self.shards.iter().map(|shard| shard.swap(empty())).collect::<Vec<_>>()
    }

    /// Calls `entry` for every entry, in no order. An entry that changes meanwhile is shown with its old or its new
    /// place. One that is added meanwhile may be left out, or shown with hash 0.
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

/// A shard before the index is in use.
pub(crate) struct Shard {
    table: Table,
    used: u32,
}

impl Shard {
    /// A shard with room for this many hashes.
    pub(crate) fn new(hashes: usize) -> Self {
        Shard { table: Table::new(table_len(hashes)), used: 0 }
    }

    /// Sets the place of a hash and returns the previous one.
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

    /// Removes a hash and returns its place.
    pub(crate) fn remove(&mut self, hash: u64) -> Option<Place> {
        let slot = self.table.find(hash);
        let old = slot.place.load(Ordering::Relaxed);
        slot.place.store(0, Ordering::Relaxed);
        Place::from_word(old)
    }

    /// Returns the shard with a table that is no larger than its live records need.
    pub(crate) fn trimmed(self) -> Self {
        let live = self.table.live();
        if table_len(live) == self.table.slots.len() {
            return self;
        }
        Shard { table: self.table.copy(table_len(live)), used: live as u32 }
    }
}

/// Copies the slots that have a record into a table with room for half as many again. Returns that table and the
/// number of its slots in use.
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
