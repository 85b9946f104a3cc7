//! Deleting doomed segments: when each kind may go, and in which order.

use super::{doomed::Named, steps::Reclaim};
use crate::error::Result;

impl Reclaim {
    /// Deletes the segments that were compacted, once the copies are on stable storage. An older value of a copied key
    /// may still stand in an older segment. A power loss must not take the copy and leave that one. False if there is
    /// none, or if they must stay for now.
    pub(crate) fn delete_condemned(&self) -> Result<bool> {
        let condemned = self.doomed.condemned.lock().clone();
        if condemned.is_empty() {
            return Ok(false);
        }
        let end = {
            let mut log = self.store.log();
            // What was dropped there must not come back either.
            if log.owes() && log.pay_at(&self.store.view, self.store.ages.now_ms()).is_err() {
                return Ok(false);
            }
            log.end()
        };
        self.store.sync_through(end)?;
        self.delete_all(condemned)?;
        Ok(true)
    }

    /// Deletes condemned segments that are the oldest of all, as soon as the copies are in the files. Nothing older
    /// could come back. So nothing needs to be on stable storage, unless a promise was given. False if there is none.
    pub(super) fn delete_oldest_condemned(&self) -> Result<bool> {
        let mut any = false;
        while !self.store.files.has_promised() {
            let oldest = self.store.log().oldest_seq();
            let found = self.doomed.condemned.lock().iter().copied().find(|(_, seq)| *seq == oldest);
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
            self.doomed.forget(seq);
        }
        Ok(any)
    }

    /// Deletes a segment that a clear made void, oldest first; false if there is none.
    pub(super) fn delete_void(&self) -> Result<bool> {
        if self.doomed.void.lock().is_empty() {
            return Ok(false);
        }
        // What says that they are void comes first.
        self.store.write_all()?;
        self.delete_all_void()?;
        Ok(true)
    }

    pub(super) fn delete_all_void(&self) -> Result<()> {
        let void = self.doomed.void.lock().clone();
        self.delete_all(void)
    }

    /// Deletes these segments, oldest first: what a younger one says of an older one must not go before it.
    fn delete_all(&self, mut segments: Vec<Named>) -> Result<()> {
        segments.sort_by_key(|(_, seq)| *seq);
        // A second clear makes void again what the first did.
        segments.dedup();
        debug_assert!(segments.is_sorted_by(|a, b| a.1 < b.1), "each once: {segments:?}");
        for (slot, seq) in segments {
            // The slot may have been given to another since.
            if let Some(segment) = self.store.view.segment(slot, seq) {
                self.store.delete(&segment)?;
            }
            self.doomed.forget(seq);
        }
        Ok(())
    }
}
