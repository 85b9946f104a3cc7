//! Entries that had expired when an earlier run last published its time stay expired, whatever was done to the clock
//! since.

use crate::{
    api::cache::Cache,
    error::{Error, Result},
    log::store::Store,
    reclaim::report,
};

impl Cache {
    /// If the clock was set back since the last run, permanently removes the entries that had expired when that run
    /// last published its time and those whose creation now lies too far in the future; without an age limit, leaves
    /// them to the next run that has one. The clock is trusted again afterwards: if it had mistakenly been far ahead
    /// for a while, entries that are put later would otherwise be lost.
    ///
    /// Returns the error of the disk if the removals may not be durable yet. They are then tried again in the background
    /// and at close, and left to the next run until that succeeds.
    pub(crate) fn forget_expired(&self) -> Result<Option<Error>> {
        let Store { ages, files, .. } = &*self.store;
        assert!(!self.read_only, "a process that only reads removes nothing");
        let seen_ms = report::seen_ms(&files.fs, &files.dir)?;
        if seen_ms <= ages.now_ms() {
            return Ok(None);
        }
        // Only once the removals are written, the time of this run is published instead.
        ages.defer_expiry(seen_ms);
        if ages.max_ms().is_none() {
            // A tool that opens the cache without an age limit leaves the removal to the next process that has one.
            return Ok(None);
        }
        self.reclaim.finish_loading();
        self.reclaim.drop_expired(seen_ms);
        match self.write_last().and_then(|()| self.reclaim.keep_removals()) {
            Ok(()) => Ok(None),
            Err(error) => {
                self.reclaim.begin_anew_if_lost()?;
                Ok(Some(error))
            }
        }
    }
}
