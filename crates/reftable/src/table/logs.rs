use super::{Cursor, Seeker, Table};
use crate::{
    LogRecord, Result,
    record::{LogRecords, log_key},
};
use std::{fmt, sync::Arc};

/// A cursor over the log entries of one table, by name and then from the newest to the oldest, including tombstones.
/// After an error the cursor is at the end until the next seek.
pub struct LogCursor {
    records: Seeker<LogRecords>,
    pending: bool,
    key: Vec<u8>,
}

impl Table {
    /// Returns a cursor before the first log entry.
    pub fn logs(self: &Arc<Self>) -> LogCursor {
        LogCursor::new(self.clone())
    }
}

impl fmt::Debug for LogCursor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LogCursor").field("table", self.records.table()).finish_non_exhaustive()
    }
}

impl LogCursor {
    pub(crate) fn new(table: Arc<Table>) -> Self {
        LogCursor { records: Seeker::new(table), pending: false, key: Vec::new() }
    }

    /// Moves before the newest entry of the first reflog whose name is not less than `name`.
    ///
    /// # Errors
    ///
    /// [`Error::Io`](crate::Error::Io) if the table cannot be read, [`Error::Corrupt`](crate::Error::Corrupt) if it is
    /// damaged.
    pub fn seek(&mut self, name: &[u8]) -> Result<()> {
        // A NUL byte follows the name in its keys, so that the name alone is less than each of them.
        // After an error the cursor is at the end.
        self.pending = false;
        self.pending = self.records.seek(name)?;
        Ok(())
    }

    /// Moves before the newest entry of `name` that is not newer than `update_index`, or before the first entry of the
    /// next name if there is none.
    ///
    /// # Errors
    ///
    /// [`Error::Io`](crate::Error::Io) if the table cannot be read, [`Error::Corrupt`](crate::Error::Corrupt) if it is
    /// damaged.
    pub fn seek_log(&mut self, name: &[u8], update_index: u64) -> Result<()> {
        log_key(&mut self.key, name, update_index);
        self.pending = false;
        self.pending = self.records.seek(&self.key)?;
        Ok(())
    }

    /// Moves to the next entry and returns it, or `None` at the end.
    ///
    /// # Errors
    ///
    /// [`Error::Io`](crate::Error::Io) if the table cannot be read, [`Error::Corrupt`](crate::Error::Corrupt) if it is
    /// damaged.
    #[expect(clippy::should_implement_trait, reason = "the record borrows from the cursor")]
    pub fn next(&mut self) -> Result<Option<LogRecord<'_>>> {
        if !std::mem::take(&mut self.pending) && !self.records.step()? {
            return Ok(None);
        }
        Ok(Some(self.records.record()))
    }

    /// The position of the current entry's block if C git cannot read that block, because it is longer in the file than
    /// git reads for its inflated length.
    pub fn block_beyond_git(&self) -> Option<u64> {
        let Cursor { block, .. } = &*self.records;
        let block = block.as_ref().filter(|_| self.records.is_on_record())?;
        let stored_bytes = (block.next - block.position) as usize;
        let max = self.records.table().footer.header.log_block_max(block.bytes().len());
        (stored_bytes > max).then_some(block.position)
    }
}

impl Cursor<LogRecords> {
    /// The current record.
    pub(crate) fn record(&self) -> LogRecord<'_> {
        debug_assert!(self.is_on_record(), "the cursor is on a record");
        self.value().record(self.key(), self.records(), self.table().hash())
    }
}
