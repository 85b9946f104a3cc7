use crate::{BatchId, File};

/// Recovers the batches of processes that have ended. A lock of such a batch must not simply be removed.
pub trait RecoveryHandler: Send + Sync {
    /// Recovers the batch `id` to which a lock file belongs, and releases its locks. The lock file is open and locked
    /// by `flock(2)`, and its owner is gone. Returns whether it is worthwhile to try the lock again.
    fn recover(&self, id: BatchId, lock: File) -> bool;
}
