//! The hash table of one shard: buckets of nine slots, each bucket two cache lines. An entry goes into the bucket that
//! its hash names, or, if that one is full, into the next bucket with room. A table can therefore be nine tenths full
//! while a look-up still needs little more than one bucket.

use crate::{
    format::place::Place,
    sync::{AtomicU16, AtomicU32, AtomicU64, Ordering},
};

/// Number of buckets of a chunk, 64 KiB.
const CHUNK: usize = 512;
/// Number of slots of a bucket.
const SLOTS: usize = if cfg!(feature = "shuttle") { 2 } else { 9 };
/// A table becomes at most this full, in hundredths. The fuller it is, the more buckets a look-up reads.
const MOST_PERCENT: usize = 92;
const _: () = assert!(SLOTS * MOST_PERCENT / 100 < SLOTS, "each table has an unused slot, at which a search ends");

/// The part of a hash that a slot keeps: the low 48 bits.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Tag {
    /// The low 32 bits, or 1 if these are 0, which means an unused slot.
    low: u32,
    high: u16,
}

impl Tag {
    pub(super) const BITS: u32 = 48;

    pub(super) fn of(hash: u64) -> Self {
        Tag { low: (hash as u32).max(1), high: (hash >> 32) as u16 }
    }

    /// The bucket of an entry in a table of `len` buckets, or the part of a table that is divided into `len` equal
    /// parts.
    pub(super) fn place_in(self, len: usize) -> usize {
        ((u64::from(self.low) * len as u64) >> 32) as usize
    }

    pub(super) fn bits(self) -> u64 {
        u64::from(self.high) << 32 | u64::from(self.low)
    }
}

/// Slots, each in three parts, so that 14 bytes need no padding.
#[repr(C, align(128))]
struct Bucket {
    /// The low 32 bits of each slot's tag; 0 if the slot was never used.
    low: [AtomicU32; SLOTS],
    high: [AtomicU16; SLOTS],
    /// The word of each slot's place; 0 if the key has no record, so that another key may take the slot.
    places: [AtomicU64; SLOTS],
}

const _: () = assert!(cfg!(feature = "shuttle") || size_of::<Bucket>() == 128, "a bucket is two cache lines");

impl Bucket {
    fn new() -> Self {
        Bucket {
            low: std::array::from_fn(|_| AtomicU32::new(0)),
            high: std::array::from_fn(|_| AtomicU16::new(0)),
            places: std::array::from_fn(|_| AtomicU64::new(0)),
        }
    }

    fn reset(&mut self) {
        self.low.iter_mut().for_each(|low| *low.get_mut() = 0);
        self.places.iter_mut().for_each(|place| *place.get_mut() = 0);
    }

    fn tag(&self, slot: usize) -> Tag {
        Tag { low: self.low[slot].load(Ordering::Acquire), high: self.high[slot].load(Ordering::Acquire) }
    }

    /// The word of the place in a slot that had this tag; `None` if another entry takes the slot now.
    fn place(&self, slot: usize, tag: Tag) -> Option<u64> {
        let word = self.places[slot].load(Ordering::Acquire);
        // The tag is written before the place, so whoever sees the place of another entry also sees its tag.
        (self.tag(slot) == tag).then_some(word)
    }

    fn fill(&self, slot: usize, tag: Tag, place: Place) {
        self.high[slot].store(tag.high, Ordering::Release);
        self.low[slot].store(tag.low, Ordering::Release);
        self.places[slot].store(place.word(), Ordering::Release);
    }
}

/// The bucket and the slot of an entry.
pub(super) type At = (usize, usize);

/// Where an entry is put.
pub(super) enum SlotFor {
    /// The slot that has the entry's tag already.
    Entry(At),
    /// The slot of a removed entry.
    Reused(At),
    /// A slot that was never used.
    Unused(At),
}

/// Number of buckets for this many entries and an eighth more.
fn buckets_for(entries: usize) -> usize {
    let entries = entries + entries / 8 + 1;
    let buckets = (entries * 100).div_ceil(SLOTS * MOST_PERCENT);
    debug_assert!(buckets <= u32::MAX as usize, "32 bits of a hash choose a bucket");
    buckets
}

/// The entries of one shard. Entries never move within a table. A table that would become too full is replaced by a
/// copy with room; a reader that still holds the old table sees the state at the time of the replacement.
pub(super) struct Table {
    /// Chunks of [`CHUNK`] buckets, of which the last may be shorter.
    chunks: Box<[Chunk]>,
    /// Number of buckets.
    len: usize,
}

type Chunk = Box<[Bucket]>;

/// Chunks of tables that were replaced, for the next table. Tables mostly grow by an eighth, so the memory of one is
/// too small for the next one; an allocator could keep hundreds of megabytes of such memory in pieces that fit nothing.
#[derive(Default)]
pub(super) struct Spare(Vec<Chunk>);

impl Spare {
    /// Keeps the chunks of a table that no reader has any more.
    pub(super) fn keep(&mut self, table: Table) {
        // At most as many other chunks stay as this table has, because the next one may need a little more.
        self.0.truncate(table.chunks.len());
        self.0.extend(table.chunks.into_iter().filter(|chunk| chunk.len() == CHUNK));
    }

    fn chunk(&mut self, len: usize) -> Chunk {
        // A shorter chunk is the last of its table.
        match if len == CHUNK { self.0.pop() } else { None } {
            Some(mut chunk) => {
                chunk.iter_mut().for_each(Bucket::reset);
                chunk
            }
            None => (0..len).map(|_| Bucket::new()).collect(),
        }
    }
}

impl Table {
    /// A table with room for this many entries and an eighth more, so that it need not grow soon.
    ///
    /// It takes 15.5 bytes an entry when it is full, 17.4 directly after it has grown, and up to 144 bytes more than
    /// that.
    pub(super) fn new(entries: usize) -> Self {
        Table::reusing(entries, &mut Spare::default())
    }

    fn reusing(entries: usize, spare: &mut Spare) -> Self {
        let len = buckets_for(entries);
        let chunks = (0..len).step_by(CHUNK).map(|start| spare.chunk(CHUNK.min(len - start))).collect();
        Table { chunks, len }
    }

    fn bucket(&self, at: usize) -> &Bucket {
        &self.chunks[at / CHUNK][at % CHUNK]
    }

    fn buckets(&self) -> impl Iterator<Item = &Bucket> {
        self.chunks.iter().flatten()
    }

    /// Bytes of memory that the slots take.
    #[cfg(test)]
    pub(super) fn bytes(&self) -> usize {
        self.len * size_of::<Bucket>()
    }

    /// Number of slots that may be in use.
    pub(super) fn most_used(&self) -> usize {
        self.len * SLOTS * MOST_PERCENT / 100
    }

    fn home(&self, tag: Tag) -> usize {
        tag.place_in(self.len)
    }

    fn after(&self, bucket: usize) -> usize {
        if bucket + 1 == self.len { 0 } else { bucket + 1 }
    }

    /// The slot with this tag, and the word of its place, which is 0 if the entry was removed.
    pub(super) fn find(&self, tag: Tag) -> Option<(At, u64)> {
        let mut at = self.home(tag);
        loop {
            let bucket = self.bucket(at);
            for slot in 0..SLOTS {
                let low = bucket.low[slot].load(Ordering::Acquire);
                if low == tag.low && bucket.high[slot].load(Ordering::Acquire) == tag.high {
                    return Some(((at, slot), bucket.place(slot, tag)?));
                }
                if low == 0 {
                    return None;
                }
            }
            at = self.after(at);
        }
    }

    /// Where an entry with this tag goes. There is always an unused slot, because a table is never full. The caller
    /// makes sure that no other thread adds or removes entries meanwhile.
    pub(super) fn slot_for(&self, tag: Tag) -> SlotFor {
        let (mut at, mut reused) = (self.home(tag), None);
        loop {
            let bucket = self.bucket(at);
            for slot in 0..SLOTS {
                let low = bucket.low[slot].load(Ordering::Relaxed);
                if low == tag.low && bucket.high[slot].load(Ordering::Relaxed) == tag.high {
                    return SlotFor::Entry((at, slot));
                }
                if low == 0 {
                    return reused.map_or(SlotFor::Unused((at, slot)), SlotFor::Reused);
                }
                if reused.is_none() && bucket.places[slot].load(Ordering::Relaxed) == 0 {
                    reused = Some((at, slot));
                }
            }
            at = self.after(at);
        }
    }

    /// Fills the slot that [`Table::slot_for`] chose for a tag that the table did not have.
    pub(super) fn fill(&self, (bucket, slot): At, tag: Tag, place: Place) {
        self.bucket(bucket).fill(slot, tag, place);
    }

    /// Replaces the word of the place in a slot and returns the old one.
    pub(super) fn swap(&self, (bucket, slot): At, word: u64) -> u64 {
        self.bucket(bucket).places[slot].swap(word, Ordering::AcqRel)
    }

    /// Replaces the word of the place in a slot if it still is `from`.
    pub(super) fn replace(&self, (bucket, slot): At, from: u64, to: u64) {
        let _ = self.bucket(bucket).places[slot].compare_exchange(from, to, Ordering::Release, Ordering::Relaxed);
    }

    /// The entries with a record, bucket by bucket. One that is added or removed meanwhile may be shown or not.
    pub(super) fn entries(&self) -> impl Iterator<Item = (Tag, Place)> {
        let slots = self.buckets().flat_map(|bucket| (0..SLOTS).map(move |slot| (bucket, slot)));
        slots.filter_map(|(bucket, slot)| {
            let tag = bucket.tag(slot);
            Some((tag, Place::from_word(bucket.place(slot, tag)?)?))
        })
    }

    /// Returns whether a table of the right size for the entries with a record would be smaller.
    pub(super) fn is_too_large(&self) -> bool {
        buckets_for(self.live()) < self.len
    }

    fn live(&self) -> usize {
        let places = self.buckets().flat_map(|bucket| &bucket.places);
        places.filter(|place| place.load(Ordering::Relaxed) != 0).count()
    }

    /// A copy of the entries with a record in a table of the right size for them, and their number.
    pub(super) fn rebuilt(&self, spare: &mut Spare) -> (Table, usize) {
        let live = self.live();
        let mut copy = Filling::new(live, spare);
        for (tag, place) in self.entries() {
            copy.add(tag, place);
        }
        (copy.finish(), live)
    }
}

/// A new table while it gets its entries. If these come in the order of another table, memory is written from its start
/// to its end.
pub(super) struct Filling {
    table: Table,
    /// Number of used slots of each bucket.
    used: Vec<u8>,
}

impl Filling {
    /// A table for this many entries.
    pub(super) fn new(entries: usize, spare: &mut Spare) -> Self {
        let table = Table::reusing(entries, spare);
        Filling { used: vec![0; table.len], table }
    }

    /// Adds one of the entries. Returns false if there is one with this tag already.
    pub(super) fn add(&mut self, tag: Tag, place: Place) -> bool {
        let mut at = self.table.home(tag);
        loop {
            let used = usize::from(self.used[at]);
            let bucket = self.table.bucket(at);
            if (0..used).any(|slot| bucket.tag(slot) == tag) {
                return false;
            }
            if used < SLOTS {
                break;
            }
            at = self.table.after(at);
        }
        self.table.fill((at, usize::from(self.used[at])), tag, place);
        self.used[at] += 1;
        true
    }

    pub(super) fn finish(self) -> Table {
        self.table
    }
}
