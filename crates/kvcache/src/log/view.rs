use crate::{
    log::{index::Index, segment::Segment},
    stats::Counters,
    sync::SharedOption,
};
use std::sync::Arc;

/// The segments that readers use, by slot.
pub(crate) type Slots = Box<[SharedOption<Segment>]>;

/// The state that readers use without a lock. Only the holder of the log's lock changes it, except that anybody counts
/// uses and other numbers.
pub(crate) struct View {
    pub(crate) index: Index,
    pub(crate) slots: Slots,
    pub(crate) counters: Counters,
}

impl View {
    /// The segment with this number, unless its slot was given to another segment.
    pub(crate) fn segment(&self, slot: u16, seq: u64) -> Option<Arc<Segment>> {
        self.at(slot).filter(|segment| segment.seq == seq)
    }

    /// The segment that has this slot now.
    pub(crate) fn at(&self, slot: u16) -> Option<Arc<Segment>> {
        let segment = self.slots[usize::from(slot)].load_full();
        debug_assert!(segment.as_ref().is_none_or(|segment| segment.slot == slot), "a segment is in its own slot");
        segment
    }
}
