use crate::StaleLock;

/// Settles what dead batches left. Their locks are never just removed.
pub trait RecoveryHandler: Send + Sync {
    /// Settles the record of the batch to which this lock belongs, and gives up its locks. Whether the lock is worth
    /// another try.
    fn settle(&self, met: StaleLock) -> bool;
}
