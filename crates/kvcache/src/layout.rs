//! Sizes that follow from the limit: pure arithmetic.

use crate::{
    footer::{ENTRY_BYTES, TRAILER_BYTES},
    format::{RECORD_HEADER_BYTES, SEGMENT_HEADER_BYTES},
    place::{ALIGN, MAX_OFFSET_BYTES, MAX_RECORD_BYTES, MAX_SEGMENTS},
    seal::EXTRA_BYTES,
};

const SMALLEST_SEGMENT_BYTES: u64 = 16 << 10;
const USUAL_SEGMENT_BYTES: u64 = 4 << 20;
const SEGMENTS_OF_CREDIT: u64 = 8;
const LARGEST_BUFFER_BYTES: u64 = 64 << 20;

/// What a segment takes on disk beyond its records and their footer entries.
pub(crate) const SEGMENT_EXTRA_BYTES: u64 = (SEGMENT_HEADER_BYTES + TRAILER_BYTES) as u64;

/// How a cache with a given limit is cut.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Layout {
    pub(crate) limit_bytes: u64,
    /// Length of a segment's records, header included; a larger record has a segment of its own.
    pub(crate) segment_bytes: usize,
    /// How many segments there may be.
    pub(crate) slots: usize,
    /// Bytes of segments that may wait in memory for the disk.
    pub(crate) buffer_bytes: usize,
    /// Kept free for copies of records that are in use, and for writes that may not be refused.
    pub(crate) reserve_bytes: u64,
    /// The largest record.
    pub(crate) largest_record: usize,
}

impl Layout {
    pub(crate) fn new(limit_bytes: u64) -> Self {
        let by_count = (limit_bytes / (MAX_SEGMENTS as u64 / 2)).min(MAX_OFFSET_BYTES as u64);
        let segment = (limit_bytes / 64).clamp(SMALLEST_SEGMENT_BYTES, USUAL_SEGMENT_BYTES.max(by_count));
        let segment_bytes = segment as usize / ALIGN * ALIGN;
        let slots = usize::try_from(limit_bytes / segment * 4 + 256).unwrap_or(MAX_SEGMENTS).min(MAX_SEGMENTS);
        let buffer = (limit_bytes / 8).min(LARGEST_BUFFER_BYTES);
        Layout {
            limit_bytes,
            segment_bytes,
            slots,
            buffer_bytes: buffer.max(4 * segment) as usize,
            reserve_bytes: segment + segment / 8,
            largest_record: usize::try_from(limit_bytes / 8).unwrap_or(MAX_RECORD_BYTES).min(MAX_RECORD_BYTES) / ALIGN
                * ALIGN,
        }
    }

    /// The largest key and value together.
    pub(crate) fn largest_entry(&self) -> usize {
        self.largest_record - RECORD_HEADER_BYTES - EXTRA_BYTES
    }

    /// How many bytes of entries in use may be copied when a segment with `live_bytes` is evicted, given what was left of
    /// that the last time: half of what is evicted, and what was not needed of it for some segments before.
    pub(crate) fn keep_credit(&self, left: u64, live_bytes: u64) -> u64 {
        let most = SEGMENTS_OF_CREDIT * self.segment_bytes as u64;
        (left + live_bytes / 2).min(most)
    }

    /// Where eviction starts: puts find room for one more segment then.
    pub(crate) fn evict_above_bytes(&self) -> u64 {
        self.limit_bytes.saturating_sub(self.reserve_bytes + self.segment_bytes as u64)
    }
}

/// What a record takes on disk.
pub(crate) fn record_cost(record_len: usize) -> u64 {
    (record_len + ENTRY_BYTES) as u64
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
                let layout = Layout::new(limit);
                assert!(layout.segment_bytes.is_multiple_of(ALIGN) && layout.segment_bytes <= MAX_OFFSET_BYTES);
                assert!(layout.slots as u64 * layout.segment_bytes as u64 >= limit, "{layout:?}");
                assert!(layout.slots <= MAX_SEGMENTS && layout.largest_record <= MAX_RECORD_BYTES);
                assert!(layout.evict_above_bytes() > limit / 10 * 9, "{layout:?}");
            }
        }
    }
}
