use crate::Orphan;

/// Settles what dead batches left. Their locks are never just removed.
pub trait Heir: Send + Sync {
    /// Settles the record of the batch to which this lock belongs, and gives up its locks. Whether the lock is worth
    /// another try.
    fn settle(&self, met: Orphan) -> bool;
}
