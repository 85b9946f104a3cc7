//! A ghost list: the rates of evicted keys, so that a key which is put again is distinguished from a new one.

use super::keep::Popularity;
use crate::{format::rate::Rate, sync::Shared};
// Not the atomics of `sync`: these are hints on whose order nothing depends.
use std::sync::{
    Arc,
    atomic::{AtomicBool, AtomicU32, Ordering},
};

/// Number of ticks in a round of the log; see [`Rate`].
const TICKS: u32 = 8;
const SMALLEST_TABLE: usize = 1024;
const TAG_BITS: u32 = 11;
const TICK_BITS: u32 = 8;
/// Number of low bits of a rate that are not stored.
const RATE_SHIFT: u32 = 2;
/// Number of slots in which a key may be, all in one cache line.
const WAYS: usize = 4;

/// A set-associative table of evicted keys. A new key takes an empty slot of its set, or else that of the key which was
/// evicted longest ago, by ticks that begin anew after 32 rounds of the log. Each eviction fits the table to the cache:
/// it has 1.5 to 3 slots of four bytes for each entry, up to 6 after the cache has shrunk, and at least 1024 in all.
pub(crate) struct GhostList {
    table: Shared<Box<[AtomicU32]>>,
    /// Rounds of the log so far, in ticks.
    now: AtomicU32,
    shifting: AtomicBool,
}

fn table(slots: usize) -> Box<[AtomicU32]> {
    (0..slots).map(|_| AtomicU32::new(0)).collect()
}

/// The slots in which a key may be.
fn ways(table: &[AtomicU32], hash: u64) -> &[AtomicU32] {
    debug_assert!(table.len().is_power_of_two() && table.len() >= WAYS);
    let first = (hash >> 16) as usize & (table.len() - WAYS);
    &table[first..first + WAYS]
}

/// Returns whether a word may belong to this key, judged by its tag.
fn is_of(word: u32, hash: u64) -> bool {
    word != 0 && word >> (32 - TAG_BITS) == hash as u32 % (1 << TAG_BITS)
}

/// Number of ticks since the key of a word was evicted, modulo 2 to the power of [`TICK_BITS`].
fn age(word: u32, now: u32) -> u32 {
    now.wrapping_sub(word >> (32 - TAG_BITS - TICK_BITS)) % (1 << TICK_BITS)
}

/// The word for an evicted key, which is never 0.
///
/// ```text
/// bit 31    21 20   13 12    0
///    [   tag  |  tick | rate  ]
/// ```
fn word(hash: u64, tick: u32, rate: Rate) -> u32 {
    let (tag, tick) = (hash as u32 % (1 << TAG_BITS), tick % (1 << TICK_BITS));
    let reads = u32::from(rate.bits() & 0x7fff) >> RATE_SHIFT;
    tag << (32 - TAG_BITS) | tick << (32 - TAG_BITS - TICK_BITS) | reads.max(1)
}

impl GhostList {
    pub(crate) fn new() -> Self {
        GhostList {
            table: Shared::new(Arc::new(table(SMALLEST_TABLE))),
            now: AtomicU32::new(0),
            shifting: AtomicBool::new(false),
        }
    }

    /// The rate with which a key is put: derived from its earlier rate if it is in the list, else that of a new key.
    pub(crate) fn rate(&self, hash: u64) -> Rate {
        let table = self.table.load();
        let mut words = ways(&table, hash).iter().map(|slot| slot.load(Ordering::Relaxed));
        let Some(found) = words.find(|word| is_of(*word, hash)) else { return Rate::new() };
        let rounds = age(found, self.now.load(Ordering::Relaxed)) / TICKS;
        let rate = Rate::from_bits(((found % (1 << (32 - TAG_BITS - TICK_BITS))) << RATE_SHIFT) as u16);
        self.popularity().again(rate, rounds as f32)
    }

    /// Adds an evicted key with its rate.
    pub(super) fn remember(&self, hash: u64, rate: Rate) {
        let (table, now) = (self.table.load(), self.now.load(Ordering::Relaxed));
        // Prefers the key's own slot, then an empty one, then that of the key evicted longest ago.
        let cost = |slot: &&AtomicU32| match slot.load(Ordering::Relaxed) {
            word if is_of(word, hash) => 0,
            0 => 1,
            word => 2 + (1 << TICK_BITS) - age(word, now),
        };
        if let Some(slot) = ways(&table, hash).iter().min_by_key(cost) {
            slot.store(word(hash, now, rate), Ordering::Relaxed);
        }
    }

    fn popularity(&self) -> Popularity {
        if self.shifting.load(Ordering::Relaxed) { Popularity::Shifting } else { Popularity::Steady }
    }

    /// Notes that `ticks` more ticks of a round are over, and which popularity applies now.
    pub(super) fn goes_on(&self, ticks: u32, popularity: Popularity) {
        self.now.fetch_add(ticks, Ordering::Relaxed);
        self.shifting.store(popularity == Popularity::Shifting, Ordering::Relaxed);
    }

    /// Adapts the size of the table to a cache with this number of entries.
    pub(super) fn fit(&self, entries: u64) {
        let entries = usize::try_from(entries).unwrap_or(usize::MAX / 4);
        let wanted = (entries / 2 * 3).next_power_of_two().max(SMALLEST_TABLE);
        let old = self.table.load_full();
        // The table shrinks only if a quarter of it suffices, so that it does not change its size again and again.
        if wanted > old.len() || wanted * 4 <= old.len() {
            let new = table(wanted);
            for (at, slot) in new.iter().enumerate() {
                slot.store(old[at % old.len()].load(Ordering::Relaxed), Ordering::Relaxed);
            }
            self.table.store(Arc::new(new));
        }
    }

    pub(crate) fn clear(&self) {
        self.table.store(Arc::new(table(SMALLEST_TABLE)));
    }
}

/// The progress of the log's rounds, measured by evicted bytes: a round ends when about as many bytes of entries were
/// evicted as the files have.
#[derive(Default)]
pub(super) struct Rounds {
    bytes: u64,
}

impl Rounds {
    /// Counts `bytes` evicted from files of `of` bytes, and returns the number of completed ticks.
    pub(super) fn evicted(&mut self, bytes: u64, of: u64) -> u32 {
        self.bytes += bytes;
        let tick = (of / u64::from(TICKS)).max(1);
        let ticks = (self.bytes / tick).min(u64::from(TICKS));
        self.bytes = (self.bytes - ticks * tick).min(tick);
        ticks as u32
    }
}

#[cfg(all(test, not(feature = "shuttle")))]
mod tests {
    use super::*;
    use refdb_testkit::Rng;

    #[test]
    fn what_was_evicted_is_remembered_while_the_table_grows_and_shrinks() {
        let (past, mut rng) = (GhostList::new(), Rng::new(1));
        let hashes: Vec<u64> = (0..200).map(|_| rng.bits()).collect();
        let known = |past: &GhostList| hashes.iter().filter(|hash| past.rate(**hash).reads() > 0.9).count();
        hashes.iter().for_each(|hash| past.remember(*hash, Rate::of_reads(1.0)));
        let before = known(&past);
        assert!(before > 190, "{before}: all but those that found no free slot");
        past.fit(100_000);
        assert_eq!((past.table.load().len(), known(&past)), (1 << 18, before));
        past.fit(90_000);
        assert_eq!(past.table.load().len(), 1 << 18);
        past.fit(100);
        assert_eq!((past.table.load().len(), known(&past)), (SMALLEST_TABLE, before));
        let strangers = (0..100_000).filter(|_| past.rate(rng.bits()) != Rate::new()).count();
        assert!(strangers < 100, "{strangers} were taken for others");
        past.clear();
        assert_eq!(known(&past), 0);
    }

    #[test]
    fn what_was_evicted_long_ago_counts_less() {
        let past = GhostList::new();
        past.remember(77, Rate::of_reads(2.0));
        assert!(past.rate(77).reads() >= 2.0);
        let mut rounds = Rounds::default();
        for _ in 0..8 {
            past.goes_on(rounds.evicted(250, 1_000), Popularity::Steady);
        }
        assert_eq!(past.now.load(Ordering::Relaxed), 2 * TICKS);
        let reads = past.rate(77).reads();
        assert!((0.9..1.5).contains(&reads), "{reads}");
    }
}
