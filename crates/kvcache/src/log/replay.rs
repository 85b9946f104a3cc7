//! Fills the index from the entries of all segments, some shards at a time, on as many threads as are useful.
//!
//! The records are first sorted by parts of shards and then one part is filled after another, because a part of a
//! shard's table fits into a processor's cache and the tables of the whole index do not.

use crate::{
    format::{place::Place, record::Kind},
    log::{
        footers::Footer,
        index::{Index, PARTS, SHARDS, Shard},
        space::record_cost,
    },
    sync::{on_threads, threads_for},
};
use std::ops::Range;

/// Number of records for which one more thread is worth its cost.
const RECORDS_A_THREAD: usize = 50_000;

/// Number and size of live records.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Live {
    pub(crate) entries: u64,
    pub(crate) bytes: u64,
    /// For each segment, the bytes that its live records take of its file.
    pub(crate) bytes_of: Vec<u64>,
}

impl Live {
    /// No live records yet, in this number of segments.
    pub(super) fn none(segments: usize) -> Self {
        Live { bytes_of: vec![0; segments], ..Live::default() }
    }

    /// Counts a record that becomes live.
    pub(super) fn add(&mut self, place: Place) {
        self.entries += 1;
        self.bytes += place.len() as u64;
        self.bytes_of[usize::from(place.slot())] += record_cost(place.len());
    }

    /// Counts a record that is live no more.
    pub(super) fn sub(&mut self, place: Place) {
        self.entries -= 1;
        self.bytes -= place.len() as u64;
        self.bytes_of[usize::from(place.slot())] -= record_cost(place.len());
    }
}

/// The entries of a shard that were found in the files.
pub(crate) struct FoundShard {
    pub(crate) shard: Shard,
    pub(crate) live: Live,
}

/// The records of a log, of which the live ones are found shard by shard.
pub(crate) struct Replay {
    /// In the order of the log; they have the slots from 0 in that order.
    segments: Vec<Footer>,
    threads: usize,
    /// For each thread, the segments whose records it sorts, and the number of these records in each part of a shard.
    /// Empty until the records are counted.
    shares: Vec<(Range<usize>, Vec<usize>)>,
    /// Memory for the sorted records of each share, which is used again, because new memory costs page faults.
    buffers: Vec<Vec<(u64, u64)>>,
}

impl Replay {
    /// The replay of these segments, which are given in the order of the log and have the slots from 0 in that order.
    pub(crate) fn new(segments: Vec<Footer>) -> Self {
        let records = segments.iter().map(Footer::len).sum::<usize>();
        Replay { segments, threads: threads_for(records / RECORDS_A_THREAD), shares: Vec::new(), buffers: Vec::new() }
    }

    /// Number of records.
    pub(crate) fn records(&self) -> usize {
        self.segments.iter().map(Footer::len).sum()
    }

    /// Counts the records of each part of a shard. Returns for each segment the bytes of its file that marks (see
    /// [`Kind`]) take, or `None` if the records were counted before.
    pub(crate) fn count(&mut self) -> Option<Vec<u64>> {
        if !self.shares.is_empty() {
            return None;
        }
        let counted = on_threads(shares(self.segments.len(), self.threads), |share| {
            let mut counts = vec![0; SHARDS * PARTS];
            let marks: Vec<u64> =
                self.segments[share.clone()].iter().map(|footer| count(footer, &mut counts)).collect();
            (share, counts, marks)
        });
        let mut all_marks = Vec::with_capacity(self.segments.len());
        for (share, counts, marks) in counted {
            self.shares.push((share, counts));
            all_marks.extend(marks);
        }
        Some(all_marks)
    }

    /// Finds the live entries of these shards, whose records were counted before.
    pub(crate) fn read(&mut self, shards: Range<usize>) -> Vec<FoundShard> {
        debug_assert!(!self.shares.is_empty(), "the records were counted");
        let parts = shards.start * PARTS..shards.end * PARTS;
        self.buffers.resize(self.shares.len(), Vec::new());
        let work = self.shares.iter().zip(self.buffers.drain(..)).collect();
        let runs = on_threads(work, |((share, counts), buffer): (&(Range<usize>, Vec<usize>), _)| {
            Sorted::new(&self.segments[share.clone()], share.start, &counts[parts.clone()], parts.clone(), buffer)
        });
        let filled = on_threads(shares(shards.len(), self.shares.len()), |part| {
            part.map(|at| fill(&runs, at, self.segments.len())).collect::<Vec<_>>()
        });
        self.buffers = runs.into_iter().map(|run| run.records).collect();
        filled.into_iter().flatten().collect()
    }
}

/// Adds the number of records in each part of a shard to `counts`. Returns the bytes of the segment's file that marks
/// (see [`Kind`]) take.
fn count(footer: &Footer, counts: &mut [usize]) -> u64 {
    let mut mark_bytes = 0;
    for (hash, word) in footer.words() {
        counts[Index::part(hash)] += 1;
        let place = Place::in_slot(word, 0);
        if Kind::from_byte(place.uses()) != Some(Kind::Put) {
            mark_bytes += record_cost(place.len());
        }
    }
    mark_bytes
}

/// Divides `0..len` into nearly equal parts.
pub(super) fn shares(len: usize, parts: usize) -> Vec<Range<usize>> {
    (0..parts).map(|part| len * part / parts..len * (part + 1) / parts).collect()
}

/// The records of some segments in some shards, sorted by parts of shards, and within a part in the order of the log.
struct Sorted {
    /// For each record, its hash and the word of its [`Place`], in which the record's [`Kind`] stands where the index
    /// has the use count.
    records: Vec<(u64, u64)>,
    /// Where each part's records end.
    ends: Vec<usize>,
}

impl Sorted {
    /// Sorts those records of `segments` that belong to `parts`, each of which has as many as `counts` says. The first
    /// segment has the slot `first`. The memory of `records` is used, whatever it contains.
    fn new(
        segments: &[Footer],
        first: usize,
        counts: &[usize],
        parts: Range<usize>,
        mut records: Vec<(u64, u64)>,
    ) -> Self {
        // First where the records of each part start, and after filling where they end.
        let mut sum = 0;
        let starts = counts.iter().map(|count| {
            sum += count;
            sum - count
        });
        let mut ends: Vec<usize> = starts.collect();
        records.resize(sum, (0, 0));
        for (footer, slot) in segments.iter().zip(first..) {
            for (hash, word) in footer.words() {
                let Some(end) = Index::part(hash).checked_sub(parts.start).and_then(|at| ends.get_mut(at)) else {
                    continue;
                };
                records[*end] = (hash, Place::in_slot(word, slot as u16).word());
                *end += 1;
            }
        }
        debug_assert_eq!(ends.last(), Some(&records.len()), "each record has its part");
        Sorted { records, ends }
    }

    /// The records of the part at this position.
    fn of_part(&self, at: usize) -> &[(u64, u64)] {
        let start = at.checked_sub(1).map_or(0, |before| self.ends[before]);
        &self.records[start..self.ends[at]]
    }
}

/// Fills the shard at a position of these runs from all its records, part by part, the oldest record of a part first.
fn fill(runs: &[Sorted], at: usize, segments: usize) -> FoundShard {
    let mut live = Live::none(segments);
    let records = || (at * PARTS..(at + 1) * PARTS).flat_map(|part| runs.iter().map(move |run| run.of_part(part)));
    let mut shard = Shard::new(records().map(<[_]>::len).sum());
    for (hash, word) in records().flatten() {
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
    FoundShard { shard: shard.trimmed(), live }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::{
        footer::{Entries, Entry},
        rate::Rate,
    };
    use refdb_testkit::Rng;

    /// Replays `at_once` shards at a time, and returns the index and its live records.
    fn replayed(replay: &mut Replay, at_once: usize) -> (Index, crate::log::index::Fill, Live) {
        let (index, mut fill) = Index::incomplete();
        let mut all = Live::none(replay.segments.len());
        for start in (0..SHARDS).step_by(at_once) {
            for (number, found) in (start..).zip(replay.read(start..(start + at_once).min(SHARDS))) {
                all.entries += found.live.entries;
                all.bytes += found.live.bytes;
                all.bytes_of.iter_mut().zip(&found.live.bytes_of).for_each(|(sum, bytes)| *sum += bytes);
                assert!(index.complete(&mut fill, number, found.shard, |_| panic!("nothing was changed")));
            }
        }
        assert!(fill.is_complete());
        (index, fill, all)
    }

    #[test]
    fn any_number_of_threads_and_of_parts_gives_the_same_index() {
        let mut rng = Rng::new(4);
        let mut record = |at: usize| {
            let kind = if rng.one_in(5) { Kind::Remove } else { Kind::Put };
            let hash = (rng.bits() % 3_000 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
            Entry { hash, kind, offset: 64 + at * 64, len: 32 + 16 * rng.below(3), rate: Rate::from_bits(hash as u16) }
        };
        let segments: Vec<Entries> = (0..8).map(|_| (0..1_000).map(&mut record).collect()).collect();
        let replay_on = |threads| {
            let footers = segments.iter().cloned().map(Footer::Read).collect();
            let mut replay = Replay { threads, ..Replay::new(footers) };
            let marks = replay.count().expect("it was not counted before");
            assert_eq!(marks, segments.iter().map(Entries::mark_bytes).collect::<Vec<_>>());
            assert_eq!(replay.count(), None);
            replay
        };
        let (one, _, live) = replayed(&mut replay_on(1), SHARDS);
        assert!(live.entries > 1_000 && live.bytes + 16 * live.entries == live.bytes_of.iter().sum::<u64>());
        for (threads, at_once) in [(2, SHARDS), (3, 100), (4, 1)] {
            let (many, mut fill, same) = replayed(&mut replay_on(threads), at_once);
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
