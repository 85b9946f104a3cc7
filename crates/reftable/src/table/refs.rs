use super::{Cursor, Seeker, Table};
use crate::{RefRecord, Result, record::RefRecords};
use std::{fmt, sync::Arc};

/// Steps through the refs of one table in order of name, tombstones among them.
///
/// It holds the table, so it outlives a reload of the stack the table was in. Records borrow from the cursor: the name
/// is assembled in one buffer, the value lies in the block.
pub struct RefCursor {
    pub(crate) records: Seeker<RefRecords>,
    /// Whether the current record is still to be returned.
    pending: bool,
}

impl Table {
    /// A cursor before the first ref.
    pub fn refs(self: &Arc<Self>) -> RefCursor {
        RefCursor::new(self.clone())
    }
}

impl fmt::Debug for RefCursor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RefCursor").field("table", self.records.table()).finish_non_exhaustive()
    }
}

impl RefCursor {
    pub(crate) fn new(table: Arc<Table>) -> Self {
        RefCursor { records: Seeker::new(table), pending: false }
    }

    /// Moves before the first ref whose name is not less than `name`. Forward it gallops from where it stands.
    pub fn seek(&mut self, name: &[u8]) -> Result<()> {
        self.pending = self.records.seek(name)?;
        Ok(())
    }

    /// The next ref.
    #[expect(clippy::should_implement_trait, reason = "the record borrows from the cursor")]
    #[inline]
    pub fn next(&mut self) -> Result<Option<RefRecord<'_>>> {
        if !std::mem::take(&mut self.pending) && !self.records.step()? {
            return Ok(None);
        }
        Ok(Some(self.records.record()))
    }
}

impl Cursor<RefRecords> {
    /// The current record.
    #[inline(always)]
    pub(crate) fn record(&self) -> RefRecord<'_> {
        debug_assert!(self.is_on_record(), "there is a record to be told of");
        self.value().record(self.key(), self.context(), self.records())
    }
}
