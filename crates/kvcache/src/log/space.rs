//! Room within the limit: what a file takes of it, and who may have the last of it.
//!
//! Pure arithmetic. Why it always goes on is proved in `docs/formats/kvcache.md`.

use crate::format::{
    footer::{ENTRY_BYTES, TRAILER_BYTES},
    place::{ALIGN, MAX_OFFSET_BYTES, MAX_RECORD_BYTES, MAX_SEGMENTS},
    record::{EXTRA_BYTES, RECORD_HEADER_BYTES, SEGMENT_HEADER_BYTES},
};

/// What a segment takes beyond its records and their footer entries.
pub(crate) const SEGMENT_EXTRA_BYTES: u64 = (SEGMENT_HEADER_BYTES + TRAILER_BYTES) as u64;
/// Files take whole blocks of a disk.
pub(crate) const BLOCK_BYTES: u64 = 4096;
const SMALLEST_SEGMENT_BYTES: u64 = 16 << 10;
const USUAL_SEGMENT_BYTES: u64 = 4 << 20;
const SEGMENTS_OF_CREDIT: u64 = 8;
const LARGEST_BUFFER_BYTES: u64 = 64 << 20;
/// `format`, `stats` and the file that replaces it (`lock` and `promised` are empty). The last is the header by which a
/// clear may go beyond the room when all of it is taken.
const OTHER_FILES: u64 = 4;
/// What a segment's name takes of its folder, at most.
const NAME_BYTES: u64 = 40;
/// The room that copies take beyond themselves. They end the segment that is being filled and fill two more at most.
/// Each has a header, a trailer and an unfilled last block, and a mark is made.
const COPY_EXTRA_BYTES: u64 = 4 * BLOCK_BYTES;

/// For whom room is asked. Each kind leaves a reserve to those behind it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum Who {
    /// A put that may be refused.
    Put,
    /// A put that may not.
    Durable,
    /// Copies of entries that stay, removals, and marks: the writes that free room.
    Upkeep,
}

/// How a cache with a given limit is cut.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Space {
    pub(crate) limit_bytes: u64,
    /// The most that all segments take, whole blocks counted.
    pub(crate) room_bytes: u64,
    /// The most that a segment's file has, in whole blocks; a larger record has a segment of its own.
    pub(crate) segment_bytes: usize,
    /// How many segments there may be.
    pub(crate) slots: usize,
    /// Bytes of segments that may wait in memory for the disk.
    pub(crate) buffer_bytes: usize,
    pub(crate) largest_record: usize,
}

impl Space {
    pub(crate) fn new(limit_bytes: u64) -> Self {
        let by_count = (limit_bytes / (MAX_SEGMENTS as u64 / 4)).min(MAX_OFFSET_BYTES as u64);
        let segment = (limit_bytes / 128).clamp(SMALLEST_SEGMENT_BYTES, USUAL_SEGMENT_BYTES.max(by_count));
        let segment = segment / BLOCK_BYTES * BLOCK_BYTES;
        let slots = usize::try_from(limit_bytes / segment * 2 + 64).unwrap_or(MAX_SEGMENTS).min(MAX_SEGMENTS);
        let others = blocks(NAME_BYTES * slots as u64) + (OTHER_FILES + 1) * BLOCK_BYTES;
        assert!(others < limit_bytes, "a limit has room for more than the folder and the other files: {limit_bytes}");
        let largest = usize::try_from(limit_bytes / 8).unwrap_or(MAX_RECORD_BYTES).min(MAX_RECORD_BYTES);
        Space {
            limit_bytes,
            room_bytes: limit_bytes - others,
            segment_bytes: segment as usize,
            slots,
            buffer_bytes: (limit_bytes / 8).min(LARGEST_BUFFER_BYTES).max(4 * segment) as usize,
            largest_record: largest / ALIGN * ALIGN,
        }
    }

    /// The largest key and value together.
    pub(crate) fn largest_entry(&self) -> usize {
        self.largest_record - RECORD_HEADER_BYTES - EXTRA_BYTES
    }

    /// What must stay free for others.
    fn reserve_bytes(&self, who: Who) -> u64 {
        let segment = self.segment_bytes as u64;
        match who {
            Who::Upkeep => 0,
            // All that lives in a segment can be copied.
            Who::Durable => segment + COPY_EXTRA_BYTES,
            Who::Put => 2 * segment + COPY_EXTRA_BYTES,
        }
    }

    /// How many segments must stay free for others.
    pub(crate) fn reserve_slots(&self, who: Who) -> usize {
        match who {
            Who::Upkeep => 0,
            Who::Durable => 4,
            Who::Put => 8,
        }
    }

    /// Whether this much more may be used.
    pub(crate) fn admits(&self, used_bytes: u64, more_bytes: u64, who: Who) -> bool {
        used_bytes + more_bytes + self.reserve_bytes(who) <= self.room_bytes
    }

    /// Room kept free, so that the next puts find room. It is for two segments, or for the largest that is there or
    /// waits.
    pub(crate) fn kept_free_bytes(&self, largest_bytes: u64) -> u64 {
        self.reserve_bytes(Who::Put) + largest_bytes.max(2 * self.segment_bytes as u64)
    }

    /// How many bytes of entries in use may be copied when a segment is evicted. It is its share, and the part
    /// of theirs that some segments before did not need.
    pub(crate) fn keep_credit(&self, left: u64, share: u64) -> u64 {
        let most = SEGMENTS_OF_CREDIT * self.segment_bytes as u64;
        debug_assert!(share <= u64::MAX / 2, "of a segment, or of one large entry: {share}");
        (left + share).min(most)
    }
}

/// The share of an evicted segment's entries that may be copied. It is four fifths of the evicted bytes, or half where
/// copies are dear.
pub(crate) fn keep_share(live_bytes: u64, is_dear: bool) -> u64 {
    if is_dear { live_bytes / 2 } else { live_bytes / 5 * 4 }
}

/// What a file of this length takes.
pub(crate) fn blocks(len_bytes: u64) -> u64 {
    len_bytes.next_multiple_of(BLOCK_BYTES)
}

/// Length of a segment's file whose records end there.
pub(crate) fn file_len(records_end: usize, records: usize) -> u64 {
    debug_assert!(records_end >= SEGMENT_HEADER_BYTES, "records stand behind the header, not at {records_end}");
    (records_end + records * ENTRY_BYTES + TRAILER_BYTES) as u64
}

/// The same of a segment that has one record.
pub(crate) fn file_len_of_one(record_len: usize) -> u64 {
    file_len(SEGMENT_HEADER_BYTES + record_len, 1)
}

/// What a record takes of a segment's file.
pub(crate) fn record_cost(record_len: usize) -> u64 {
    (record_len + ENTRY_BYTES) as u64
}

/// The most that is needed to copy so much.
pub(crate) fn copy_room(kept_bytes: u64) -> u64 {
    kept_bytes + COPY_EXTRA_BYTES
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Options;

    #[test]
    fn every_limit_gives_sizes_that_places_can_hold() {
        for shift in 20..42 {
            for limit in [(1u64 << shift) - 1, 1 << shift, (1 << shift) + 12_345] {
                let limit = limit.clamp(Options::SMALLEST_LIMIT_BYTES, Options::LARGEST_LIMIT_BYTES);
                let space = Space::new(limit);
                let segment = space.segment_bytes as u64;
                assert!(segment.is_multiple_of(BLOCK_BYTES) && space.segment_bytes <= MAX_OFFSET_BYTES);
                assert!(space.slots as u64 * segment >= limit, "{space:?}");
                assert!(space.slots <= MAX_SEGMENTS && space.largest_record <= MAX_RECORD_BYTES);
                // Seven eighths at least are for entries, and beside the largest there is room for several as large.
                let kept_back = space.kept_free_bytes(0) + limit - space.room_bytes;
                assert!(kept_back < if shift < 24 { limit / 8 } else { limit / 25 }, "{space:?}");
                let largest = blocks(file_len_of_one(space.largest_record));
                assert!(space.kept_free_bytes(largest) + 5 * largest < space.room_bytes, "{space:?}");
            }
        }
    }

    #[test]
    fn copies_of_a_segment_take_no_more_than_their_room() {
        let segment = SMALLEST_SEGMENT_BYTES;
        for len in (32..8_000).step_by(16).chain([8_112, 8_128, 16_240]) {
            // As many records as a segment holds, copied behind any number of records of the one that is being filled.
            let records = (segment - file_len(SEGMENT_HEADER_BYTES, 0)) / record_cost(len);
            for before in 0..=records as usize {
                let mut files = vec![(SEGMENT_HEADER_BYTES + before * len, before)];
                let used = |files: &[(usize, usize)]| files.iter().map(|at| blocks(file_len(at.0, at.1))).sum::<u64>();
                let start = used(&files);
                for len in std::iter::repeat_n(len, records as usize).chain([RECORD_HEADER_BYTES]) {
                    let last = files.last_mut().unwrap();
                    match file_len(last.0 + len, last.1 + 1) <= segment {
                        true => *last = (last.0 + len, last.1 + 1),
                        false => files.push((SEGMENT_HEADER_BYTES + len, 1)),
                    }
                }
                let took = used(&files) - start;
                assert!(took <= copy_room(records * record_cost(len)), "{records} of {len} behind {before}: {took}");
            }
        }
    }
}
