//! Reflogs, which a view does not cache.

use super::{ATTEMPTS_MAX, View};
use crate::{Error, Result};
use bstr::BStr;
use refdb::{LogEntry, Snapshot};
use refdb_vfs::again_if_lost;
use std::{cell::Cell, ops::ControlFlow};

impl View {
    /// Shows the entries of a ref's reflog, newest first, until `entry` breaks. Returns `false` if there is no reflog.
    /// Reflogs are not cached.
    ///
    /// # Errors
    ///
    /// [`Error::is_stale`] recognizes that another machine removed the reflog after the first entry was shown. If that
    /// happens before, the reflog is read again, a few times at most.
    pub fn log(&self, name: &BStr, entry: &mut dyn FnMut(&LogEntry) -> ControlFlow<()>) -> Result<bool> {
        let has_shown = Cell::new(false);
        let may_repeat = |error: &Error| error.is_stale() && !has_shown.get();
        again_if_lost(ATTEMPTS_MAX, may_repeat, || {
            let shown = self.snapshot()?.log(name, &mut |found| {
                has_shown.set(true);
                entry(found)
            });
            Ok(shown?)
        })
    }

    /// Returns whether the ref has a reflog, which may be empty.
    pub fn has_log(&self, name: &BStr) -> Result<bool> {
        again_if_lost(ATTEMPTS_MAX, Error::is_stale, || Ok(self.snapshot()?.has_log(name)?))
    }

    fn snapshot(&self) -> Result<Box<dyn Snapshot>> {
        let opened = self.same()?;
        Ok(opened.store.snapshot()?)
    }
}
