//! Which slots for records of batches a store knows.

use refdb_vfs::BatchId;
use std::{
    collections::VecDeque,
    sync::{Mutex, MutexGuard, PoisonError, atomic::AtomicBool},
};

/// The slots of one store.
#[derive(Default)]
pub(super) struct FreeSlots {
    /// Those that may have no record, and that no batch of this store has.
    free: Mutex<VecDeque<BatchId>>,
    /// Whether those were looked for that other processes made.
    pub(super) is_listed: AtomicBool,
    /// Whether the folder is known to outlast a loss of power.
    pub(super) has_folder: AtomicBool,
}

impl FreeSlots {
    pub(super) fn free(&self) -> MutexGuard<'_, VecDeque<BatchId>> {
        self.free.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
