//! The place of each key's record: a hash table in memory, in shards that grow independently. Readers take no lock.
//!
//! The index keeps 57 of the 64 bits of a hash: those that choose the shard, and the low 48. Two keys that agree in
//! these bits replace each other, as keys with the same hash do. Among a hundred million entries one such pair is
//! expected in 29 caches of that size.

mod table;

use crate::{
    format::place::{MAX_USES, Place},
    sync::Shared,
};
use arc_swap::Guard;
use std::{collections::HashSet, sync::Arc};
use table::{At, Filling, SlotFor, Spare, Table, Tag};

const SHARD_BITS: u32 = if cfg!(feature = "shuttle") { 1 } else { 9 };
/// Number of shards; the hash of a key determines its shard.
pub(crate) const SHARDS: usize = 1 << SHARD_BITS;

/// Number of parts of a shard; see [`Index::part`].
pub(crate) const PARTS: usize = 8;

/// The part of a hash by which the index knows a key. [`Index::for_each`] shows this part only.
pub(crate) fn known(hash: u64) -> u64 {
    hash_of(shard_of(hash), Tag::of(hash))
}

fn hash_of(shard: usize, tag: Tag) -> u64 {
    const _: () = assert!(SHARD_BITS + Tag::BITS <= 64, "the parts do not overlap");
    (shard as u64) << (64 - SHARD_BITS) | tag.bits()
}

/// An entry that was found.
pub(crate) struct Hit {
    table: Guard<Arc<Table>>,
    at: At,
    pub(crate) place: Place,
}

impl Hit {
    /// Counts one use of the record, up to [`MAX_USES`], unless another thread changed the entry, be it to count a use,
    /// or replaced its table meanwhile.
    pub(crate) fn touch(&self) {
        let place = self.place;
        if place.uses() < MAX_USES {
            // A use that another thread's change prevents need not be counted.
            self.table.replace(self.at, place.word(), place.with_uses(place.uses() + 1).word());
        }
    }
}

/// The state of the index that only changes need. Whoever holds this value may change the index.
pub(crate) struct Fill {
    /// Number of slots of each shard that are in use, including those without a record.
    used: Box<[u32]>,
    spare: Spare,
    /// For each shard whose old entries are not known yet: the [`known`] parts of the hashes that were removed.
    removed: Box<[Option<HashSet<u64>>]>,
    /// Number of shards whose old entries are not known yet.
    incomplete: usize,
}

impl Fill {
    /// Returns whether the old entries of all shards are known.
    pub(crate) fn is_complete(&self) -> bool {
        self.incomplete == 0
    }

    /// Returns whether a hash may have an old entry that is not known yet.
    pub(crate) fn may_come(&self, hash: u64) -> bool {
        self.removed[shard_of(hash)].is_some()
    }
}

/// A map from the hash of a key to the place of its record. Only the holder of the log's lock, which proves that with
/// [`Fill`], makes changes other than counting uses.
pub(crate) struct Index {
    shards: Box<[Shared<Table>]>,
}

fn shard_of(hash: u64) -> usize {
    (hash >> (64 - SHARD_BITS)) as usize
}

impl Index {
    /// An index whose shards are all incomplete: each may be changed already, and [`Index::complete`] adds its old
    /// entries.
    pub(crate) fn incomplete() -> (Self, Fill) {
        let shards = (0..SHARDS).map(|_| Shared::new(Arc::new(Table::new(0)))).collect();
        let removed = (0..SHARDS).map(|_| Some(HashSet::new())).collect();
        let fill = Fill { used: vec![0; SHARDS].into(), spare: Spare::default(), removed, incomplete: SHARDS };
        (Index { shards }, fill)
    }

    /// Adds the old entries of a shard, except for keys that were put or removed since the index was made. Calls
    /// `outdated` with the places that these had. Returns false, and changes nothing, if the shard was completed or
    /// cleared before.
    pub(crate) fn complete(
        &self,
        fill: &mut Fill,
        number: usize,
        mut shard: Shard,
        mut outdated: impl FnMut(Place),
    ) -> bool {
        let Some(removed) = fill.removed[number].take() else { return false };
        fill.incomplete -= 1;
        removed.into_iter().filter_map(|hash| shard.remove(hash)).for_each(&mut outdated);
        self.for_each_in(number, |hash, place| shard.set(hash, place).into_iter().for_each(&mut outdated));
        fill.used[number] = shard.used;
        self.shards[number].swap(Arc::new(shard.table));
        true
    }

    /// The part of a shard, counted over all shards, in which a hash lies: hashes of one part are near each other in a
    /// table.
    pub(crate) fn part(hash: u64) -> usize {
        shard_of(hash) * PARTS + Tag::of(hash).place_in(PARTS)
    }

    /// The place of the record with this hash.
    pub(crate) fn get(&self, hash: u64) -> Option<Place> {
        self.find(hash).map(|hit| hit.place)
    }

    /// The entry of this hash.
    pub(crate) fn find(&self, hash: u64) -> Option<Hit> {
        let table = self.shards[shard_of(hash)].load();
        let (at, word) = table.find(Tag::of(hash))?;
        let place = Place::from_word(word)?;
        Some(Hit { table, at, place })
    }

    /// Sets the place of a hash and returns the previous one.
    pub(crate) fn set(&self, fill: &mut Fill, hash: u64, place: Place) -> Option<Place> {
        let (shard, tag) = (shard_of(hash), Tag::of(hash));
        let table = self.shards[shard].load();
        match table.slot_for(tag) {
            SlotFor::Entry(at) => return Place::from_word(table.swap(at, place.word())),
            SlotFor::Reused(at) => table.fill(at, tag, place),
            SlotFor::Unused(at) if (fill.used[shard] as usize) < table.most_used() => {
                fill.used[shard] += 1;
                table.fill(at, tag, place);
            }
            SlotFor::Unused(_) => {
                let (copy, live) = table.rebuilt(&mut fill.spare);
                let (SlotFor::Entry(at) | SlotFor::Reused(at) | SlotFor::Unused(at)) = copy.slot_for(tag);
                copy.fill(at, tag, place);
                debug_assert!(live < copy.most_used(), "a copy has room");
                fill.used[shard] = live as u32 + 1;
                drop(table);
                let old = self.shards[shard].swap(Arc::new(copy));
                if let Some(old) = Arc::into_inner(old) {
                    fill.spare.keep(old);
                }
            }
        }
        None
    }

    /// Removes a hash and returns its place.
    pub(crate) fn remove(&self, fill: &mut Fill, hash: u64) -> Option<Place> {
        if let Some(removed) = &mut fill.removed[shard_of(hash)] {
            removed.insert(known(hash));
        }
        let table = self.shards[shard_of(hash)].load();
        let (at, _) = table.find(Tag::of(hash))?;
        Place::from_word(table.swap(at, 0))
    }

    /// Removes everything, including entries that are not known yet, and returns the old tables, which the caller drops
    /// when no lock is held.
    pub(crate) fn clear(&self, fill: &mut Fill) -> impl Send + use<> {
        fill.used.fill(0);
        fill.removed.fill(None);
        fill.incomplete = 0;
        self.shards.iter().map(|shard| shard.swap(Arc::new(Table::new(0)))).collect::<Vec<_>>()
    }

    /// Calls `entry` for every entry of a shard, as [`Index::for_each`] does, in an order in which a new table is
    /// filled quickly.
    pub(crate) fn for_each_in(&self, shard: usize, mut entry: impl FnMut(u64, Place)) {
        let table = self.shards[shard].load_full();
        table.entries().for_each(|(tag, place)| entry(hash_of(shard, tag), place));
    }

    /// Calls `entry` with the [`known`] part of the hash and the place of every entry, in no particular order. An entry
    /// that changes meanwhile is shown with its old or its new place. One that is added or removed meanwhile may be
    /// shown or not, and one that is removed and added again may be shown twice.
    pub(crate) fn for_each(&self, mut entry: impl FnMut(u64, Place)) {
        (0..SHARDS).for_each(|shard| self.for_each_in(shard, &mut entry));
    }
}

/// A shard that is filled before it becomes part of the index.
pub(crate) struct Shard {
    table: Table,
    used: u32,
}

impl Shard {
    /// A shard of this many entries, given by the low 48 bits of their hashes; `None` if one of `entries` is `None`, or
    /// if two hashes agree in these bits.
    pub(crate) fn of_entries(len: usize, entries: impl Iterator<Item = Option<(u64, Place)>>) -> Option<Self> {
        let mut table = Filling::new(len, &mut Spare::default());
        for entry in entries.take(len) {
            let (low, place) = entry?;
            if !table.add(Tag::of(low), place) {
                return None;
            }
        }
        Some(Shard { table: table.finish(), used: len as u32 })
    }

    /// A shard with room for this many hashes.
    pub(crate) fn new(hashes: usize) -> Self {
        Shard { table: Table::new(hashes), used: 0 }
    }

    /// Sets the place of a hash and returns the previous one.
    pub(crate) fn set(&mut self, hash: u64, place: Place) -> Option<Place> {
        let tag = Tag::of(hash);
        match self.table.slot_for(tag) {
            SlotFor::Entry(at) => return Place::from_word(self.table.swap(at, place.word())),
            SlotFor::Reused(at) => self.table.fill(at, tag, place),
            SlotFor::Unused(at) if (self.used as usize) < self.table.most_used() => {
                self.used += 1;
                self.table.fill(at, tag, place);
            }
            SlotFor::Unused(_) => {
                let (table, live) = self.table.rebuilt(&mut Spare::default());
                *self = Shard { table, used: live as u32 };
                return self.set(hash, place);
            }
        }
        None
    }

    /// Removes a hash and returns its place.
    pub(crate) fn remove(&mut self, hash: u64) -> Option<Place> {
        let (at, _) = self.table.find(Tag::of(hash))?;
        Place::from_word(self.table.swap(at, 0))
    }

    /// Returns the shard with a table that is no larger than a new one for its live records.
    pub(crate) fn trimmed(self) -> Self {
        if !self.table.is_too_large() {
            return self;
        }
        let (table, live) = self.table.rebuilt(&mut Spare::default());
        Shard { table, used: live as u32 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use refdb_testkit::Rng;
    use std::collections::HashMap;

    fn empty() -> (Index, Fill) {
        let (index, mut fill) = Index::incomplete();
        (0..SHARDS).for_each(|shard| assert!(index.complete(&mut fill, shard, Shard::new(0), |_| ())));
        (index, fill)
    }

    #[test]
    fn what_changed_before_a_shard_is_complete_wins_over_its_old_entries() {
        let (index, mut fill) = Index::incomplete();
        let (old, new) = (|hash: u64| Place::new(0, 16 * hash as usize, 32), Place::new(1, 64, 48));
        // All of these belong to the first shard.
        let mut shard = Shard::new(0);
        (1..=1_000).for_each(|hash| assert_eq!(shard.set(hash, old(hash)), None));
        index.set(&mut fill, 1, new);
        index.set(&mut fill, 2, new);
        index.remove(&mut fill, 2);
        index.remove(&mut fill, 3);
        index.set(&mut fill, 3, new);
        index.remove(&mut fill, 4);
        // More than the table of the old entries has room for.
        (2_001..=4_000).for_each(|hash| assert_eq!(index.set(&mut fill, hash, new), None));
        assert_eq!((index.get(5), index.get(1)), (None, Some(new)));
        let mut outdated = Vec::new();
        assert!(index.complete(&mut fill, 0, shard, |place| outdated.push(place)));
        outdated.sort_by_key(|place| place.offset());
        assert_eq!(outdated, [1, 2, 3, 4].map(old));
        assert_eq!([1, 2, 3, 4, 5].map(|hash| index.get(hash)), [Some(new), None, Some(new), None, Some(old(5))]);
        assert!((5..=1_000).all(|hash| index.get(hash) == Some(old(hash))));
        assert!((2_001..=4_000).all(|hash| index.get(hash) == Some(new)));
        assert!(!fill.may_come(1) && fill.may_come(1 << 63) && !fill.is_complete());
        assert!(!index.complete(&mut fill, 0, Shard::new(0), |_| ()), "it is complete already");
        drop(index.clear(&mut fill));
        assert!(!index.complete(&mut fill, SHARDS - 1, Shard::new(0), |_| ()) && fill.is_complete());
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
        assert_eq!(seen, model.into_iter().map(|(hash, place)| (known(hash), place)).collect());
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

    #[test]
    fn an_entry_takes_at_most_18_bytes_whatever_the_number_of_entries() {
        let (index, mut fill) = empty();
        let mut rng = Rng::new(2);
        let bytes = |index: &Index| index.shards.iter().map(|shard| shard.load().bytes()).sum::<usize>();
        let (mut least, mut most) = (f64::MAX, 0f64);
        for entries in 1..=1_500_000 {
            index.set(&mut fill, rng.bits(), Place::new(1, 64, 32));
            if entries >= 700_000 && entries % 1_000 == 0 {
                let each = bytes(&index) as f64 / f64::from(entries);
                (least, most) = (least.min(each), most.max(each));
            }
        }
        assert!(15.4 < least && most < 17.7, "{least} to {most}");
    }

    #[test]
    fn new_entries_take_the_slots_of_removed_ones() {
        let (index, mut fill) = empty();
        let mut rng = Rng::new(3);
        let mut hashes: Vec<u64> = (0..200_000).map(|_| rng.bits()).collect();
        for hash in &hashes {
            index.set(&mut fill, *hash, Place::new(1, 64, 32));
        }
        let mut rebuilt = 0;
        for _ in 0..1_000_000 {
            let at = rng.below(hashes.len());
            assert!(index.remove(&mut fill, hashes[at]).is_some());
            hashes[at] = rng.bits();
            let before = index.shards[shard_of(hashes[at])].load_full();
            index.set(&mut fill, hashes[at], Place::new(1, 64, 32));
            rebuilt += usize::from(!Arc::ptr_eq(&before, &index.shards[shard_of(hashes[at])].load()));
        }
        assert!(hashes.iter().all(|hash| index.get(*hash).is_some()));
        assert!(rebuilt < 16 * SHARDS, "without that, each table would be rebuilt forty times: {rebuilt}");
    }

    #[test]
    fn hashes_that_agree_in_57_bits_are_one_and_others_are_not() {
        let (index, mut fill) = empty();
        let (hash, place) = (0x1234_5678_9abc_def0u64, |slot| Place::new(slot, 64, 32));
        index.set(&mut fill, hash, place(0));
        let same = (48..55).map(|bit| hash ^ 1 << bit);
        let others = (0..48).chain(55..64).map(|bit| hash ^ 1 << bit);
        for (slot, other) in others.enumerate() {
            assert_eq!(index.set(&mut fill, other, place(slot as u16 + 1)), None, "{other:x}");
        }
        for same in same {
            assert_eq!((known(same), index.get(same)), (known(hash), Some(place(0))));
        }
    }
}
