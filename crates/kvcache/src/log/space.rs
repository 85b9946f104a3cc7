//! Room within the limit: how much a file takes, and how much is reserved for which kind of write.
//!
//! This is pure arithmetic. `docs/formats/kvcache.md` proves that there is always room to continue.

use crate::format::{
    footer::{ENTRY_BYTES, TRAILER_BYTES},
    place::{ALIGN, MAX_OFFSET_BYTES, MAX_RECORD_BYTES, MAX_SEGMENTS},
    record::{EXTRA_BYTES, RECORD_HEADER_BYTES, SEGMENT_HEADER_BYTES},
};

/// Bytes of a segment besides its records and their footer entries.
pub(crate) const SEGMENT_EXTRA_BYTES: u64 = (SEGMENT_HEADER_BYTES + TRAILER_BYTES) as u64;
/// Size of a block of the disk; files take whole blocks.
pub(crate) const BLOCK_BYTES: u64 = 4096;
const SMALLEST_SEGMENT_BYTES: u64 = 16 << 10;
const USUAL_SEGMENT_BYTES: u64 = 4 << 20;
const SEGMENTS_OF_CREDIT: u64 = 8;
const LARGEST_BUFFER_BYTES: u64 = 64 << 20;
/// Number of blocks for other files: `format`, `stats` and the file that replaces it (`lock` and `promised` are empty),
/// and one for the segment header by which a clear may exceed the room when all of it is taken.
const OTHER_FILES: u64 = 4;
/// Maximum number of bytes that a segment's name takes in the folder.
const NAME_BYTES: u64 = 40;
/// Room that the copies of a segment's records take besides the records. The copies complete the active segment and
/// fill at most two more, each with a header, a trailer and a partly filled last block, and one note of a dropped
/// segment is written.
const COPY_EXTRA_BYTES: u64 = 4 * BLOCK_BYTES;

/// The kind of write for which room is needed. Each kind leaves a reserve for the kinds after it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum Priority {
    /// A buffered put, which may be refused.
    Put,
    /// A durable put, which is refused only if it may not wait.
    Durable,
    /// Copies, tombstones and notes of dropped segments, which free room.
    Upkeep,
}

/// Sizes derived from the limit.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Space {
    pub(crate) limit_bytes: u64,
    /// Maximum size of all segments, in bytes of whole blocks.
    pub(crate) room_bytes: u64,
    /// Maximum length of a segment's file, a multiple of the block size. A larger record has a segment of its own.
    pub(crate) segment_bytes: usize,
    /// Maximum number of segments, unless about as many existed when the cache was opened.
    pub(crate) slots: usize,
    /// Size of the write buffer: bytes of segments that may wait in memory for the disk.
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

    /// Maximum length of key and value together.
    pub(crate) fn largest_entry(&self) -> usize {
        self.largest_record - RECORD_HEADER_BYTES - EXTRA_BYTES
    }

    /// Bytes that must stay free for other kinds of write.
    fn reserve_bytes(&self, priority: Priority) -> u64 {
        let segment = self.segment_bytes as u64;
        match priority {
            Priority::Upkeep => 0,
            // Enough to copy all live records of a segment of the usual size.
            Priority::Durable => segment + COPY_EXTRA_BYTES,
            Priority::Put => 2 * segment + COPY_EXTRA_BYTES,
        }
    }

    /// Number of segments that must stay available for other kinds of write.
    pub(crate) fn reserve_slots(&self, priority: Priority) -> usize {
        match priority {
            Priority::Upkeep => 0,
            Priority::Durable => 4,
            Priority::Put => 8,
        }
    }

    /// Returns whether `more_bytes` may be used in addition to `used_bytes`.
    pub(crate) fn admits(&self, used_bytes: u64, more_bytes: u64, priority: Priority) -> bool {
        used_bytes + more_bytes + self.reserve_bytes(priority) <= self.room_bytes
    }

    /// Bytes that the worker keeps free so that the next puts find room: the reserve, and either two segments or the
    /// largest segment that exists or waits for room, whichever is more.
    pub(crate) fn kept_free_bytes(&self, largest_bytes: u64) -> u64 {
        self.reserve_bytes(Priority::Put) + largest_bytes.max(2 * self.segment_bytes as u64)
    }

    /// Bytes of entries that may be copied when a segment is evicted: its own share, plus what is `left` of earlier
    /// ones, but at most the size of [`SEGMENTS_OF_CREDIT`] segments.
    pub(crate) fn keep_credit(&self, left: u64, share: u64) -> u64 {
        let most = SEGMENTS_OF_CREDIT * self.segment_bytes as u64;
        debug_assert!(share <= u64::MAX / 2, "the share of a segment or of one large entry: {share}");
        (left + share).min(most)
    }
}

/// Bytes of an evicted segment that may be copied: four fifths of its live bytes, or half if copies are expensive.
pub(crate) fn keep_share(live_bytes: u64, is_dear: bool) -> u64 {
    if is_dear { live_bytes / 2 } else { live_bytes / 5 * 4 }
}

/// Bytes of whole blocks that a file of this length takes.
pub(crate) fn blocks(len_bytes: u64) -> u64 {
    len_bytes.next_multiple_of(BLOCK_BYTES)
}

/// Length of a segment's file with this number of records, which end at `records_end`.
pub(crate) fn file_len(records_end: usize, records: usize) -> u64 {
    debug_assert!(
        records_end >= SEGMENT_HEADER_BYTES,
        "records follow the header, so they do not end at {records_end}"
    );
    (records_end + records * ENTRY_BYTES + TRAILER_BYTES) as u64
}

/// Length of the file of a segment with one record.
pub(crate) fn file_len_of_one(record_len: usize) -> u64 {
    file_len(SEGMENT_HEADER_BYTES + record_len, 1)
}

/// Bytes that a record takes of a segment's file, with its footer entry.
pub(crate) fn record_cost(record_len: usize) -> u64 {
    (record_len + ENTRY_BYTES) as u64
}

/// Maximum room that is needed to copy records of this size.
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
                // At least seven eighths are for entries, and there is room for several entries of the largest size.
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
            // As many records as a segment holds, copied after any number of records in the active segment.
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
