//! Deletion of segments: when each kind may be deleted, and in which order.

use super::{pending_deletion::Named, steps::Reclaim};
use crate::error::Result;

impl Reclaim {
    /// Syncs the copies and deletes the segments that were emptied. The copies must be durable first, because an older
    /// segment may contain an older value of a copied key, and a loss of power must not take the copy and leave that
    /// value. Returns false if there are no such segments or if they must stay for now.
    pub(crate) fn delete_emptied(&self) -> Result<bool> {
        let emptied = self.pending_deletion.emptied.lock().clone();
        if emptied.is_empty() {
            return Ok(false);
        }
        let end = {
            let mut log = self.store.log();
            // Entries that were dropped from these segments must not come back either, so their tombstones come first.
            if log.has_pending_removals() && log.write_removals_at(&self.store.view, self.store.ages.now_ms()).is_err()
            {
                return Ok(false);
            }
            log.end()
        };
        self.store.sync_through(end)?;
        self.delete_all(emptied)?;
        Ok(true)
    }

    /// Deletes emptied segments that are the oldest of all as soon as the copies are in the files. Because no older
    /// value could come back, nothing needs to be durable as long as no write was ever synced. Returns false if there
    /// are no such segments or if a write was synced before this call.
    pub(super) fn delete_oldest_emptied(&self) -> Result<bool> {
        let mut any = false;
        while !self.store.files.has_promised() {
            let oldest = self.store.log().oldest_seq();
            let found = self.pending_deletion.emptied.lock().iter().copied().find(|(_, seq)| *seq == oldest);
            let Some((slot, seq)) = found else { break };
            if !any {
                self.store.write_all()?;
            }
            any = true;
            if let Some(segment) = self.store.view.segment(slot, seq)
                && !self.store.delete_unless_promised(&segment)?
            {
                break;
            }
            self.pending_deletion.forget(seq);
        }
        Ok(any)
    }

    /// Deletes the segments that a clear made void, oldest first; false if there are none.
    pub(super) fn delete_void(&self) -> Result<bool> {
        if self.pending_deletion.void.lock().is_empty() {
            return Ok(false);
        }
        // The header that makes them void comes first.
        self.store.write_all()?;
        self.delete_all_void()?;
        Ok(true)
    }

    pub(super) fn delete_all_void(&self) -> Result<()> {
        let void = self.pending_deletion.void.lock().clone();
        self.delete_all(void)
    }

    /// Deletes these segments, oldest first, because the tombstones of a younger segment may concern an older one.
    fn delete_all(&self, mut segments: Vec<Named>) -> Result<()> {
        segments.sort_by_key(|(_, seq)| *seq);
        // A second clear makes the same segments void again.
        segments.dedup();
        debug_assert!(segments.is_sorted_by(|a, b| a.1 < b.1), "each segment once: {segments:?}");
        for (slot, seq) in segments {
            // The slot may belong to another segment by now.
            if let Some(segment) = self.store.view.segment(slot, seq) {
                self.store.delete(&segment)?;
            }
            self.pending_deletion.forget(seq);
        }
        Ok(())
    }
}
