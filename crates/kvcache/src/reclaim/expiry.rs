//! Removes entries that had expired before the clock was set back, and those whose creation lies too far in the future
//! since then.

use super::steps::Reclaim;
use crate::{
    error::Result,
    log::{index::known, scratch::with_scratch},
};

impl Reclaim {
    /// Removes the entries that have expired now or had expired at `seen_ms`, whose time of creation lies too far in
    /// the future, or whose record cannot be read.
    pub(crate) fn drop_expired(&self, seen_ms: u64) {
        let (view, ages) = (&self.store.view, &self.store.ages);
        let mut expired = Vec::new();
        view.index.for_each(|hash, place| {
            let slot = view.slots[usize::from(place.slot())].load();
            let header = slot
                .as_ref()
                .and_then(|segment| with_scratch(|scratch| segment.record_header(place, &mut scratch.record)));
            match header {
                Some(header) if !ages.was_expired(header.created_ms, seen_ms) => {}
                Some(header) if known(header.hash) == hash => expired.push((header.hash, place)),
                // An entry that cannot be read is of no use either.
                _ => expired.push((hash, place)),
            }
        });
        for (hash, place) in expired {
            self.store.log().drop_entry(view, hash, place, true);
        }
    }

    /// If the clock was set back, trusts it again. First the entries are removed that would have expired if it had not
    /// been set back, and then those whose creation now lies too far in the future. Without this, what is put with the
    /// right time would look older than it is, and might expire at once.
    pub(super) fn follow_clock(&self) -> Result<()> {
        let ages = &self.store.ages;
        if ages.is_set_back() {
            self.finish_loading();
            // No entry is moved while it is judged.
            let turn = self.turn();
            let seen_ms = ages.now_ms();
            self.drop_expired(seen_ms);
            // Until the tombstones are written, the next run must remove these entries itself.
            ages.defer_expiry(seen_ms);
            ages.believe_clock();
            self.drop_expired(0);
            drop(turn);
        }
        self.keep_removals()
    }

    /// Writes removals of entries that would otherwise be left to the next run ([`Ages::defer_expiry`]), and syncs them
    /// if a write was ever synced. After an error they stay left to it, so that the time of this run is not published.
    ///
    /// [`Ages::defer_expiry`]: crate::age::Ages::defer_expiry
    pub(crate) fn keep_removals(&self) -> Result<()> {
        let (store, ages) = (&self.store, &self.store.ages);
        if !ages.owes_expiry() {
            return Ok(());
        }
        let end = loop {
            {
                let mut log = store.log();
                if log.write_removals_at(&store.view, ages.now_ms()).is_ok() {
                    break log.end();
                }
            }
            let worked = store.write_step(&mut store.files.turn())? | self.step()?;
            if !worked && !self.free_one()? {
                return Err(store.files.health.error());
            }
        };
        match store.files.has_promised() {
            true => store.sync_through(end)?,
            false => store.write_through(end)?,
        }
        ages.defer_expiry(0);
        // If publishing fails, the next start finds the old time and also removes entries of this run, but no removed
        // entry comes back.
        let _ = self.report();
        Ok(())
    }
}
