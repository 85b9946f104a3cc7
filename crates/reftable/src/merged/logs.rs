use super::{Merged, cursor::MergedCursor};
use crate::{
    LogRecord, Result,
    record::{LogRecords, log_key},
    table::Cursor,
};
use std::fmt;

/// A cursor over the log entries of a stack, by name and then from the newest to the oldest. Tombstones and the entries
/// that they hide are skipped. After an error the cursor is at the end until the next seek.
pub struct MergedLogCursor {
    walk: MergedCursor<LogRecords>,
    key: Vec<u8>,
}

impl fmt::Debug for MergedLogCursor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MergedLogCursor").field("tables", self.walk.tables()).finish_non_exhaustive()
    }
}

impl MergedLogCursor {
    pub(crate) fn new(tables: Merged) -> Self {
        MergedLogCursor { walk: MergedCursor::new(tables), key: Vec::new() }
    }

    /// Moves before the newest entry of the first reflog whose name is not less than `name`.
    ///
    /// # Errors
    ///
    /// [`Error::Io`](crate::Error::Io) if a table cannot be read, [`Error::Corrupt`](crate::Error::Corrupt) if it is
    /// damaged.
    pub fn seek(&mut self, name: &[u8]) -> Result<()> {
        // A NUL byte follows the name in its keys, so that the name alone is less than each of them.
        self.walk.seek(name)
    }

    /// Moves before the newest entry of `name` that is not newer than `update_index`, or before the first entry of the
    /// next name if there is none.
    ///
    /// # Errors
    ///
    /// [`Error::Io`](crate::Error::Io) if a table cannot be read, [`Error::Corrupt`](crate::Error::Corrupt) if it is
    /// damaged.
    pub fn seek_log(&mut self, name: &[u8], update_index: u64) -> Result<()> {
        log_key(&mut self.key, name, update_index);
        self.walk.seek(&self.key)
    }

    /// Moves to the next entry and returns it, or `None` at the end.
    ///
    /// # Errors
    ///
    /// [`Error::Io`](crate::Error::Io) if a table cannot be read, [`Error::Corrupt`](crate::Error::Corrupt) if it is
    /// damaged.
    #[expect(clippy::should_implement_trait, reason = "the record borrows from the cursor")]
    pub fn next(&mut self) -> Result<Option<LogRecord<'_>>> {
        self.walk.next_visible()?;
        Ok(self.walk.current().map(Cursor::<LogRecords>::record))
    }

    /// Moves to the next record, which may be a tombstone, and returns it. A compaction copies tombstones, unless it
    /// includes the oldest table.
    ///
    /// # Errors
    ///
    /// [`Error::Io`](crate::Error::Io) if a table cannot be read, [`Error::Corrupt`](crate::Error::Corrupt) if it is
    /// damaged.
    pub fn next_with_tombstones(&mut self) -> Result<Option<LogRecord<'_>>> {
        self.walk.next_any()?;
        Ok(self.walk.current().map(Cursor::<LogRecords>::record))
    }
}
