//! Segments to be deleted: those that were emptied, which usually wait until the copies of their entries are durable,
//! and those that a clear made void.

use crate::sync::{Lock, Rank};
use std::any::Any;

/// A segment by slot and number, because the slot may be given to another segment.
pub(super) type Named = (u16, u64);

/// Segments that wait for their deletion, and values that wait to be dropped.
pub(crate) struct PendingDeletion {
    /// Emptied segments, which the syncer deletes unless another thread does so first.
    pub(super) emptied: Lock<Vec<Named>>,
    /// Segments that a clear made void.
    pub(super) void: Lock<Vec<Named>>,
    /// Memory and open files that a clear or the opening of the cache left behind, which the worker drops.
    garbage: Lock<Vec<Box<dyn Any + Send>>>,
}

impl PendingDeletion {
    pub(super) fn new() -> Self {
        PendingDeletion {
            emptied: Lock::new(Rank::Leaf, Vec::new()),
            void: Lock::new(Rank::Leaf, Vec::new()),
            garbage: Lock::new(Rank::Leaf, Vec::new()),
        }
    }

    /// Adds segments that a clear made void. The caller holds the log's lock.
    pub(crate) fn add_void(&self, void: Vec<Named>) {
        debug_assert!(void.is_sorted_by_key(|(slot, _)| *slot), "each slot once: {void:?}");
        self.void.lock().extend(void);
    }

    pub(crate) fn add_garbage(&self, memory: impl Any + Send) {
        self.garbage.lock().push(Box::new(memory));
    }

    pub(super) fn drop_garbage(&self) {
        let garbage = std::mem::take(&mut *self.garbage.lock());
        drop(garbage);
    }

    /// Forgets a segment that was deleted.
    pub(super) fn forget(&self, seq: u64) {
        for list in [&self.emptied, &self.void] {
            list.lock().retain(|(_, other)| *other != seq);
        }
    }
}
