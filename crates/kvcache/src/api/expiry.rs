//! Entries that were too old in an earlier run stay so, whatever was done to the clock since.

use crate::{api::cache::Cache, error::Result, log::store::Store, reclaim::report};

impl Cache {
    /// Where the clock was set back since the last run, removes entries for good. It takes those that were too old by
    /// then, and those that come from the future now. From then on the clock is believed again. One that was far ahead
    /// by mistake costs no later entry.
    pub(crate) fn forget_expired(&self) -> Result<()> {
        let Store { ages, files, .. } = &*self.store;
        assert!(!self.read_only, "a process that only reads removes nothing");
        let seen_ms = report::seen_ms(&files.fs, &files.dir)?;
        if seen_ms <= ages.now_ms() {
            return Ok(());
        }
        if ages.max_ms().is_none() {
            // A tool does not know how old they may get, which the next process does.
            ages.owe(seen_ms);
            return Ok(());
        }
        self.reclaim.drop_expired(seen_ms);
        self.write_last()?;
        debug_assert!(!self.store.log().owes(), "all marks are in the files before the time is told");
        if files.has_promised() {
            let end = self.store.log().end();
            self.store.sync_through(end)?;
        }
        // Behind the removals. A time that stays costs entries of this run at the next start, and brings none back.
        let _ = self.reclaim.report();
        Ok(())
    }
}
