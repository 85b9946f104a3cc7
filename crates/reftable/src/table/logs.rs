use super::{Cursor, Seeker, Table};
use crate::{
    LogRecord, Result,
    record::{LogRecords, log_key},
};
use std::{fmt, sync::Arc};

/// Steps through the log entries of one table by name, newest first, deletions among them.
pub struct LogCursor {
    records: Seeker<LogRecords>,
    pending: bool,
    key: Vec<u8>,
}

impl Table {
    /// A cursor before the first log entry.
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

    /// Moves before the newest entry of the first ref whose name is not less than `name`.
    pub fn seek(&mut self, name: &[u8]) -> Result<()> {
        // The keys of `name` go on with a NUL byte.
        self.pending = self.records.seek(name)?;
        Ok(())
    }

    /// Moves before the newest entry of `name` that is not newer than `update_index`. If there is none, moves before
    /// the first entry of the next name.
    pub fn seek_log(&mut self, name: &[u8], update_index: u64) -> Result<()> {
        log_key(&mut self.key, name, update_index);
        self.pending = self.records.seek(&self.key)?;
        Ok(())
    }

    /// The next entry.
    #[expect(clippy::should_implement_trait, reason = "the record borrows from the cursor")]
    pub fn next(&mut self) -> Result<Option<LogRecord<'_>>> {
        if !std::mem::take(&mut self.pending) && !self.records.step()? {
            return Ok(None);
        }
        Ok(Some(self.records.record()))
    }

    /// Where the block of the entry last returned begins, if C git cannot read it. Such a block is longer than git
    /// expects of its length inflated.
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
        debug_assert!(self.is_on_record(), "there is a record to be told of");
        self.value().record(self.key(), self.records(), self.table().hash())
    }
}
