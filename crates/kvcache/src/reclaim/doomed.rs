//! Segments to be deleted: those that were compacted, which wait for their copies, and those that a clear made void.

use crate::sync::{Lock, Rank};
use std::any::Any;

/// A segment, by slot and number: the slot may be given to another.
pub(super) type Named = (u16, u64);

/// Segments that wait for their deletion, and memory that does.
pub(crate) struct Doomed {
    /// Compacted; deleted by the syncer.
    pub(super) condemned: Lock<Vec<Named>>,
    /// Void since a clear.
    pub(super) void: Lock<Vec<Named>>,
    /// What a clear left, to be given back by the worker.
    garbage: Lock<Vec<Box<dyn Any + Send>>>,
}

impl Doomed {
    pub(super) fn new() -> Self {
        Doomed {
            condemned: Lock::new(Rank::Leaf, Vec::new()),
            void: Lock::new(Rank::Leaf, Vec::new()),
            garbage: Lock::new(Rank::Leaf, Vec::new()),
        }
    }

    /// A clear made these void; the holder of the log's lock says so.
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

    /// A segment is gone.
    pub(super) fn forget(&self, seq: u64) {
        for list in [&self.condemned, &self.void] {
            list.lock().retain(|(_, other)| *other != seq);
        }
    }
}
