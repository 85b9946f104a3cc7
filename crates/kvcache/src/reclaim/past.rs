//! The rates of keys that were evicted, so that one that comes back is told from one that is new.

use super::keep::Pace;
use crate::{format::rate::Rate, sync::Shared};
// Not those of `sync`: hints, on which nothing depends.
use std::sync::{
    Arc,
    atomic::{AtomicBool, AtomicU32, Ordering},
};

/// Ticks in a round of the log.
const TICKS: u32 = 8;
const SMALLEST_TABLE: usize = 1024;
const TAG_BITS: u32 = 11;
const TICK_BITS: u32 = 8;
/// What a rate loses of its bits.
const RATE_SHIFT: u32 = 2;
/// How many slots a key may have, all in one line of memory.
const WAYS: usize = 4;

/// A table of evicted keys without order: each has one slot of a few. Who comes later takes the slot of the key evicted
/// longest ago. Four bytes a slot, one and a half to three slots for each entry that the cache holds.
pub(crate) struct Past {
    table: Shared<Box<[AtomicU32]>>,
    /// How often the log has gone round, in ticks.
    now: AtomicU32,
    shifting: AtomicBool,
}

fn table(slots: usize) -> Box<[AtomicU32]> {
    (0..slots).map(|_| AtomicU32::new(0)).collect()
}

/// The slots that a key may have.
fn ways(table: &[AtomicU32], hash: u64) -> &[AtomicU32] {
    debug_assert!(table.len().is_power_of_two() && table.len() >= WAYS);
    let first = (hash >> 16) as usize & (table.len() - WAYS);
    &table[first..first + WAYS]
}

/// Whether a word is, or may be, of this key.
fn is_of(word: u32, hash: u64) -> bool {
    word != 0 && word >> (32 - TAG_BITS) == hash as u32 % (1 << TAG_BITS)
}

/// How many ticks ago the key of a word was evicted. Where it is more than their bits count this is a smaller number.
fn age(word: u32, now: u32) -> u32 {
    now.wrapping_sub(word >> (32 - TAG_BITS - TICK_BITS)) % (1 << TICK_BITS)
}

/// A key's evicted rate, in a word that is never 0.
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

impl Past {
    pub(crate) fn new() -> Self {
        Past {
            table: Shared::new(Arc::new(table(SMALLEST_TABLE))),
            now: AtomicU32::new(0),
            shifting: AtomicBool::new(false),
        }
    }

    /// The rate of a key that is put: its earlier rate, if known.
    pub(crate) fn rate(&self, hash: u64) -> Rate {
        let table = self.table.load();
        let mut words = ways(&table, hash).iter().map(|slot| slot.load(Ordering::Relaxed));
        let Some(found) = words.find(|word| is_of(*word, hash)) else { return Rate::new() };
        let rounds = age(found, self.now.load(Ordering::Relaxed)) / TICKS;
        let rate = Rate::from_bits(((found % (1 << (32 - TAG_BITS - TICK_BITS))) << RATE_SHIFT) as u16);
        self.pace().again(rate, rounds as f32)
    }

    /// A key is evicted.
    pub(super) fn remember(&self, hash: u64, rate: Rate) {
        let (table, now) = (self.table.load(), self.now.load(Ordering::Relaxed));
        // Its own slot, else an empty one, else that of the key evicted longest ago.
        let cost = |slot: &&AtomicU32| match slot.load(Ordering::Relaxed) {
            word if is_of(word, hash) => 0,
            0 => 1,
            word => 2 + (1 << TICK_BITS) - age(word, now),
        };
        if let Some(slot) = ways(&table, hash).iter().min_by_key(cost) {
            slot.store(word(hash, now, rate), Ordering::Relaxed);
        }
    }

    fn pace(&self) -> Pace {
        if self.shifting.load(Ordering::Relaxed) { Pace::Shifting } else { Pace::Steady }
    }

    /// Another part of a round is over, which had this pace.
    pub(super) fn goes_on(&self, ticks: u32, pace: Pace) {
        self.now.fetch_add(ticks, Ordering::Relaxed);
        self.shifting.store(pace == Pace::Shifting, Ordering::Relaxed);
    }

    /// Makes the table fit for a cache of this number of entries.
    pub(super) fn fit(&self, entries: u64) {
        let entries = usize::try_from(entries).unwrap_or(usize::MAX / 4);
        let wanted = (entries / 2 * 3).next_power_of_two().max(SMALLEST_TABLE);
        let old = self.table.load_full();
        // Half as many need not be a reason to begin anew.
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

/// How far a log has gone round, told by its evictions.
#[derive(Default)]
pub(super) struct Rounds {
    bytes: u64,
}

impl Rounds {
    /// So much is evicted of so much; returns the ticks that are over.
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
        let (past, mut rng) = (Past::new(), Rng::new(1));
        let hashes: Vec<u64> = (0..200).map(|_| rng.bits()).collect();
        let known = |past: &Past| hashes.iter().filter(|hash| past.rate(**hash).reads() > 0.9).count();
        hashes.iter().for_each(|hash| past.remember(*hash, Rate::of_reads(1.0)));
        let before = known(&past);
        assert!(before > 190, "{before}: but for those that find no slot of theirs free");
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
        let past = Past::new();
        past.remember(77, Rate::of_reads(2.0));
        assert!(past.rate(77).reads() >= 2.0);
        let mut rounds = Rounds::default();
        for _ in 0..8 {
            past.goes_on(rounds.evicted(250, 1_000), Pace::Steady);
        }
        assert_eq!(past.now.load(Ordering::Relaxed), 2 * TICKS);
        let reads = past.rate(77).reads();
        assert!((0.9..1.5).contains(&reads), "{reads}");
    }
}
