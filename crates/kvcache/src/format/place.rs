/// Alignment of records in a segment, in bytes.
pub(crate) const ALIGN: usize = 16;

const USES_BITS: u32 = 2;
const LEN_BITS: u32 = 24;
const OFFSET_BITS: u32 = 22;

/// Length of the largest record, padding included, in bytes.
pub(crate) const MAX_RECORD_BYTES: usize = ((1 << LEN_BITS) - 1) * ALIGN;
/// Largest offset of a record in bytes, which bounds the length of a segment with more than one record.
pub(crate) const MAX_OFFSET_BYTES: usize = ((1 << OFFSET_BITS) - 1) * ALIGN;
/// Maximum number of segments of a cache.
pub(crate) const MAX_SEGMENTS: usize = u16::MAX as usize;
/// The value at which a use counter stops.
pub(crate) const MAX_USES: u8 = (1 << USES_BITS) - 1;

/// Where a record is, how long it is and how often its key was read, in one word so that all three change atomically.
///
/// ```text
/// bit 63      48 47        26 25        2 1  0
///    [   slot   |  offset/16 |  len/16  | uses ]
/// ```
///
/// A place is never 0, because no record starts at offset 0.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Place(u64);

impl Place {
    /// The place of a record; `offset` and `len` are multiples of [`ALIGN`] within the limits above.
    pub(crate) fn new(slot: u16, offset: usize, len: usize) -> Self {
        debug_assert!(offset.is_multiple_of(ALIGN) && offset <= MAX_OFFSET_BYTES && offset > 0);
        debug_assert!(len.is_multiple_of(ALIGN) && len <= MAX_RECORD_BYTES);
        let (offset, len) = ((offset / ALIGN) as u64, (len / ALIGN) as u64);
        Place(
            u64::from(slot) << (OFFSET_BITS + LEN_BITS + USES_BITS)
                | offset << (LEN_BITS + USES_BITS)
                | len << USES_BITS,
        )
    }

    /// The place in `slot` that the second word of a footer entry describes. All bits of the word below the slot are
    /// kept, also the lowest two: a footer entry has the kind of the record there, which [`uses`](Self::uses) returns.
    pub(crate) fn in_slot(word: u64, slot: u16) -> Self {
        let at = OFFSET_BITS + LEN_BITS + USES_BITS;
        Place(word & ((1 << at) - 1) | u64::from(slot) << at)
    }

    /// This place with another slot, for example the one that the segment has after the cache is opened again.
    pub(crate) fn in_other_slot(self, slot: u16) -> Self {
        Place::in_slot(self.0, slot)
    }

    /// The place of only the first `len` bytes of the record.
    pub(crate) fn with_len(self, len: usize) -> Self {
        Place::new(self.slot(), self.offset(), len)
    }

    pub(crate) fn from_word(word: u64) -> Option<Self> {
        (word != 0).then_some(Place(word))
    }

    pub(crate) fn word(self) -> u64 {
        self.0
    }

    /// The slot of the record's segment.
    pub(crate) fn slot(self) -> u16 {
        (self.0 >> (OFFSET_BITS + LEN_BITS + USES_BITS)) as u16
    }

    /// Offset in the segment, in bytes.
    pub(crate) fn offset(self) -> usize {
        (self.0 >> (LEN_BITS + USES_BITS)) as usize % (1 << OFFSET_BITS) * ALIGN
    }

    /// Length of the record, padding included, in bytes.
    pub(crate) fn len(self) -> usize {
        (self.0 >> USES_BITS) as usize % (1 << LEN_BITS) * ALIGN
    }

    /// How often the key was read since it got a value, the cache was opened or an eviction last kept its record,
    /// whichever came last, up to [`MAX_USES`].
    pub(crate) fn uses(self) -> u8 {
        self.0 as u8 & MAX_USES
    }

    pub(crate) fn with_uses(self, uses: u8) -> Self {
        debug_assert!(uses <= MAX_USES, "{uses} uses are not counted");
        Place(self.0 & !u64::from(MAX_USES) | u64::from(uses.min(MAX_USES)))
    }

    /// Returns whether both lead to the same record, however often it was read.
    pub(crate) fn is_same(self, other: Place) -> bool {
        self.with_uses(0) == other.with_uses(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_keeps_its_parts_at_their_limits() {
        for (slot, offset, len) in [(0, 16, 32), (65_535, MAX_OFFSET_BYTES, MAX_RECORD_BYTES), (7, 1 << 20, 0)] {
            for uses in 0..=MAX_USES {
                let place = Place::new(slot, offset, len).with_uses(uses);
                assert_eq!((place.slot(), place.offset(), place.len(), place.uses()), (slot, offset, len, uses));
                assert!(place.is_same(Place::new(slot, offset, len)));
            }
        }
    }
}
