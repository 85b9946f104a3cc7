//! Fills the index from what segments say: as many threads as help, each with its own shards.

use crate::{
    format::{Entry, Kind},
    index::{Fill, Index},
    place::Place,
};
use std::thread;

/// More threads than this would wait for memory.
const MOST_THREADS: usize = 4;
/// Fewer records than this are not worth a thread.
const RECORDS_A_THREAD: usize = 50_000;

/// What lives in the segments.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Live {
    pub(crate) entries: u64,
    pub(crate) bytes: u64,
    /// By segment.
    pub(crate) bytes_of: Vec<u64>,
}

/// An index of the records of these segments, which are in the order of the log and of their slots.
pub(crate) fn replay(segments: &[Vec<Entry>]) -> (Index, Fill, Live) {
    let records = segments.iter().map(Vec::len).sum::<usize>();
    let cores = thread::available_parallelism().map_or(1, |cores| cores.get());
    replay_on(segments, cores.min(MOST_THREADS).min(records / RECORDS_A_THREAD).max(1))
}

fn replay_on(segments: &[Vec<Entry>], threads: usize) -> (Index, Fill, Live) {
    let (index, mut fill) = Index::new(segments.iter().map(Vec::len).sum());
    let mut live = Live { bytes_of: vec![0; segments.len()], ..Live::default() };
    let parts: Vec<(Fill, Live)> = thread::scope(|scope| {
        let index = &index;
        let run = |part| scope.spawn(move || replay_part(index, segments, part, threads));
        let others: Vec<_> = (1..threads).map(run).collect();
        let first = replay_part(index, segments, 0, threads);
        let others = others.into_iter().map(|part| part.join().expect("no part panics"));
        std::iter::once(first).chain(others).collect()
    });
    for (part_fill, part) in parts {
        fill.merge(&part_fill);
        live.entries += part.entries;
        live.bytes += part.bytes;
        live.bytes_of.iter_mut().zip(part.bytes_of).for_each(|(sum, bytes)| *sum += bytes);
    }
    (index, fill, live)
}

/// Replays the records of the shards that are this part's.
fn replay_part(index: &Index, segments: &[Vec<Entry>], part: usize, parts: usize) -> (Fill, Live) {
    let mut fill = Fill::default();
    let mut live = Live { bytes_of: vec![0; segments.len()], ..Live::default() };
    for (slot, records) in segments.iter().enumerate() {
        for record in records.iter().filter(|record| Index::shard(record.hash) % parts == part) {
            let before = match record.kind {
                Kind::Put => {
                    let bytes = record.len as u64;
                    live.entries += 1;
                    live.bytes += bytes;
                    live.bytes_of[slot] += bytes;
                    index.set(&mut fill, record.hash, Place::new(slot as u16, record.offset, record.len))
                }
                Kind::Remove => index.remove(&mut fill, record.hash),
                Kind::Dropped => None,
            };
            if let Some(before) = before {
                let bytes = before.len() as u64;
                live.entries -= 1;
                live.bytes -= bytes;
                live.bytes_of[usize::from(before.slot())] -= bytes;
            }
        }
    }
    (fill, live)
}

#[cfg(test)]
mod tests {
    use super::*;
    use refdb_testkit::Rng;

    #[test]
    fn any_number_of_threads_gives_the_same_index() {
        let mut rng = Rng::new(4);
        let mut record = |at: usize| {
            let kind = if rng.one_in(5) { Kind::Remove } else { Kind::Put };
            let hash = (rng.bits() % 3_000 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
            Entry { hash, kind, offset: 64 + at * 64, len: 32 + 16 * rng.below(3) }
        };
        let segments: Vec<Vec<Entry>> = (0..8).map(|_| (0..1_000).map(&mut record).collect()).collect();
        let (one, _, live) = replay_on(&segments, 1);
        assert!(live.entries > 1_000 && live.bytes == live.bytes_of.iter().sum::<u64>());
        for threads in 2..=4 {
            let (many, mut fill, same) = replay_on(&segments, threads);
            assert_eq!(same, live);
            let mut seen = 0;
            many.for_each(|hash, place| {
                seen += 1;
                assert_eq!(one.get(hash), Some(place));
            });
            assert_eq!(seen, live.entries);
            // What is known of the tables' filling is right: they grow before they are full.
            for i in 0..20_000u64 {
                many.set(&mut fill, (i + 5_000).wrapping_mul(0x9e37_79b9_7f4a_7c15), Place::new(1, 64, 32));
            }
        }
    }
}
