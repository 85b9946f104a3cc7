use super::{Merged, cursor::MergedCursor};
use crate::{
    LogRecord, Result,
    record::{LogRecords, log_key},
    table::Cursor,
};
use std::fmt;

/// Steps through the log entries of a stack: by name, newest first.
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

    /// Moves before the newest entry of the first ref whose name is not less than `name`.
    pub fn seek(&mut self, name: &[u8]) -> Result<()> {
        // The keys of `name` go on with a NUL byte.
        self.walk.seek(name)
    }

    /// Moves before the newest entry of `name` that is not newer than `update_index`. If there is none, moves before
    /// the first entry of the next name.
    pub fn seek_log(&mut self, name: &[u8], update_index: u64) -> Result<()> {
        log_key(&mut self.key, name, update_index);
        self.walk.seek(&self.key)
    }

    /// The next entry that is not deleted.
    #[expect(clippy::should_implement_trait, reason = "the record borrows from the cursor")]
    pub fn next(&mut self) -> Result<Option<LogRecord<'_>>> {
        self.walk.next_visible()?;
        Ok(self.walk.current().map(Cursor::<LogRecords>::record))
    }

    /// The next record, be it a deletion: what compaction copies.
    pub fn next_with_tombstones(&mut self) -> Result<Option<LogRecord<'_>>> {
        self.walk.next_any()?;
        Ok(self.walk.current().map(Cursor::<LogRecords>::record))
    }
}
