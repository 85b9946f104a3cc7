use super::{Cursor, Seeker, Table};
use crate::{RefRecord, Result, record::RefRecords};
use std::{fmt, sync::Arc};

/// A cursor over the refs of one table, in order of name, including tombstones.
///
/// It keeps the table open, and so outlives a reload of the table's stack. Records borrow from the cursor. After an
/// error the cursor is at the end until the next seek.
pub struct RefCursor {
    pub(crate) records: Seeker<RefRecords>,
    /// Whether `next` has yet to return the current record.
    pending: bool,
}

impl Table {
    /// Returns a cursor before the first ref.
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

    /// Moves before the first ref whose name is not less than `name`. Seeking forward gallops from the current
    /// position.
    ///
    /// # Errors
    ///
    /// [`Error::Io`](crate::Error::Io) if the table cannot be read, [`Error::Corrupt`](crate::Error::Corrupt) if it is
    /// damaged.
    pub fn seek(&mut self, name: &[u8]) -> Result<()> {
        // After an error the cursor is at the end.
        self.pending = false;
        self.pending = self.records.seek(name)?;
        Ok(())
    }

    /// Moves to the next ref and returns it, or `None` at the end.
    ///
    /// # Errors
    ///
    /// [`Error::Io`](crate::Error::Io) if the table cannot be read, [`Error::Corrupt`](crate::Error::Corrupt) if it is
    /// damaged.
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
        debug_assert!(self.is_on_record(), "the cursor is on a record");
        self.value().record(self.key(), self.context(), self.records())
    }
}
