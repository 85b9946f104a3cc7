//! Fills the index from the entries of all segments, on as many threads as are useful.
//!
//! The records are first sorted by shard and then one shard is filled after another, because the table of a shard fits
//! into a processor's cache and the table of the whole index does not.

use crate::{
    format::{footer::Entries, place::Place, record::Kind},
    log::{
        index::{Fill, Index, SHARDS, Shard},
        space::record_cost,
    },
    sync::{on_threads, threads_for},
};
use std::ops::Range;

/// Number of records for which one more thread is worth its cost.
const RECORDS_A_THREAD: usize = 50_000;

/// Number and size of live records.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Live {
    pub(crate) entries: u64,
    pub(crate) bytes: u64,
    /// For each segment, the bytes that its live records take of its file.
    pub(crate) bytes_of: Vec<u64>,
}

impl Live {
    /// Counts a record that becomes live.
    pub(super) fn add(&mut self, place: Place) {
        self.entries += 1;
        self.bytes += place.len() as u64;
        self.bytes_of[usize::from(place.slot())] += record_cost(place.len());
    }

    fn sub(&mut self, place: Place) {
        self.entries -= 1;
        self.bytes -= place.len() as u64;
        self.bytes_of[usize::from(place.slot())] -= record_cost(place.len());
    }

    fn merge(&mut self, part: Live) {
        self.entries += part.entries;
        self.bytes += part.bytes;
        self.bytes_of.iter_mut().zip(part.bytes_of).for_each(|(sum, bytes)| *sum += bytes);
    }
}

/// Result of replaying a log.
pub(crate) struct Replayed {
    pub(crate) index: Index,
    pub(crate) fill: Fill,
    pub(crate) live: Live,
    /// For each segment, the bytes that its marks take of its file.
    pub(crate) marks: Vec<u64>,
}

impl Replayed {
    /// Combines shards that were filled in parts, in their order.
    pub(super) fn of_parts(parts: Vec<(Vec<Shard>, Live)>, marks: Vec<u64>) -> Self {
        let mut live = Live { bytes_of: vec![0; marks.len()], ..Live::default() };
        let mut shards = Vec::with_capacity(SHARDS);
        for (part_shards, part) in parts {
            shards.extend(part_shards);
            live.merge(part);
        }
        debug_assert_eq!(shards.len(), SHARDS, "each shard was filled by one thread");
        debug_assert_eq!(live.bytes_of.iter().sum::<u64>(), live.bytes + live.entries * record_cost(0), "{live:?}");
        let (index, fill) = Index::of_shards(shards);
        Replayed { index, fill, live, marks }
    }
}

/// Replays the records of these segments, which are given in the order of the log and have the slots from 0 in that
/// order.
pub(crate) fn replay(segments: &[Entries]) -> Replayed {
    let records = segments.iter().map(Entries::len).sum::<usize>();
    replay_on(segments, threads_for(records / RECORDS_A_THREAD))
}

fn replay_on(segments: &[Entries], threads: usize) -> Replayed {
    let runs = on_threads(shares(segments.len(), threads), |share| Sorted::new(segments, share));
    let filled = on_threads(shares(SHARDS, threads), |shards| fill(&runs, shards, segments.len()));
    Replayed::of_parts(filled, segments.iter().map(Entries::mark_bytes).collect())
}

/// Divides `0..len` into equal parts.
pub(super) fn shares(len: usize, parts: usize) -> Vec<Range<usize>> {
    (0..parts).map(|part| len * part / parts..len * (part + 1) / parts).collect()
}

/// The records of some segments, sorted by shard, and within a shard in the order of the log.
struct Sorted {
    /// Hash, and the word of a place with the kind instead of the use count.
    records: Vec<(u64, u64)>,
    /// Where each shard's records end.
    ends: Vec<usize>,
}

impl Sorted {
    fn new(segments: &[Entries], share: Range<usize>) -> Self {
        let words = || share.clone().flat_map(|slot| segments[slot].words().map(move |word| (slot, word)));
        // First the number of each shard's records, then where they start, and after filling where they end.
        let mut ends = vec![0; SHARDS];
        words().for_each(|(_, (hash, _))| ends[Index::shard(hash)] += 1);
        let mut sum = 0;
        for end in &mut ends {
            sum += std::mem::replace(end, sum);
        }
        let mut records = vec![(0, 0); sum];
        for (slot, (hash, word)) in words() {
            let end = &mut ends[Index::shard(hash)];
            records[*end] = (hash, Place::in_slot(word, slot as u16).word());
            *end += 1;
        }
        debug_assert_eq!(ends.last(), Some(&records.len()), "each record has its shard");
        Sorted { records, ends }
    }

    fn of_shard(&self, shard: usize) -> &[(u64, u64)] {
        let start = shard.checked_sub(1).map_or(0, |before| self.ends[before]);
        &self.records[start..self.ends[shard]]
    }
}

/// Fills a range of shards from all records, oldest first.
fn fill(runs: &[Sorted], shards: Range<usize>, segments: usize) -> (Vec<Shard>, Live) {
    let mut live = Live { bytes_of: vec![0; segments], ..Live::default() };
    let filled = shards.map(|number| {
        let mut shard = Shard::new(runs.iter().map(|run| run.of_shard(number).len()).sum());
        for (hash, word) in runs.iter().flat_map(|run| run.of_shard(number)) {
            let Some(place) = Place::from_word(*word) else { continue };
            let (kind, place) = (Kind::from_byte(place.uses()), place.with_uses(0));
            let before = match kind {
                Some(Kind::Put) => {
                    live.add(place);
                    shard.set(*hash, place)
                }
                Some(Kind::Remove) => shard.remove(*hash),
                Some(Kind::Dropped) | None => None,
            };
            if let Some(before) = before {
                live.sub(before);
            }
        }
        shard.trimmed()
    });
    let filled = filled.collect();
    (filled, live)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::{footer::Entry, rate::Rate};
    use refdb_testkit::Rng;

    #[test]
    fn any_number_of_threads_gives_the_same_index() {
        let mut rng = Rng::new(4);
        let mut record = |at: usize| {
            let kind = if rng.one_in(5) { Kind::Remove } else { Kind::Put };
            let hash = (rng.bits() % 3_000 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
            Entry { hash, kind, offset: 64 + at * 64, len: 32 + 16 * rng.below(3), rate: Rate::from_bits(hash as u16) }
        };
        let segments: Vec<Entries> = (0..8).map(|_| (0..1_000).map(&mut record).collect()).collect();
        let Replayed { index: one, live, .. } = replay_on(&segments, 1);
        assert!(live.entries > 1_000 && live.bytes + 16 * live.entries == live.bytes_of.iter().sum::<u64>());
        for threads in 2..=4 {
            let Replayed { index: many, mut fill, live: same, .. } = replay_on(&segments, threads);
            assert_eq!(same, live);
            let mut seen = 0;
            many.for_each(|hash, place| {
                seen += 1;
                assert_eq!(one.get(hash), Some(place));
            });
            assert_eq!(seen, live.entries);
            // The tables grow before they are full only if the number of used slots is right.
            for i in 0..20_000u64 {
                many.set(&mut fill, (i + 5_000).wrapping_mul(0x9e37_79b9_7f4a_7c15), Place::new(1, 64, 32));
            }
        }
    }
}
