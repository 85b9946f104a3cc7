use super::{NewTable, StackError, compact::Checkpoint};
use crate::{
    Error, LogFit, LogRecord, Merged, RefRecord, Result, Summary, TableWriter,
    merged::MergedCursor,
    record::{LogRecords, Records, RefLimits, RefRecords, log_key},
    table::Cursor,
};
use bstr::BStr;
use std::{cmp::Ordering, fmt, ops::RangeInclusive};

/// Writes the records of a new table: refs in order, then log entries in order.
///
/// The new table may replace the youngest tables of the stack. Then their records are written too, in order among the
/// new ones, except for those whose keys the new records have. If the new table replaces all tables, no tombstones are
/// written.
pub struct AdditionWriter<'t> {
    writer: TableWriter<&'t mut NewTable>,
    /// The limits for the update indexes of new refs.
    limits: RangeInclusive<u64>,
    ref_limits: RefLimits,
    /// The refs of the older tables that have not been copied yet; `None` if there are no older tables, and once log
    /// entries are written.
    refs: Option<Rest<RefRecords>>,
    logs: Option<Rest<LogRecords>>,
    /// Whether the new table replaces the oldest one, so that tombstones have nothing to hide.
    with_oldest: bool,
    /// The number of records that the caller has added.
    given: u64,
    /// Whether a record of the older tables did not fit into the new one.
    is_older_too_large: bool,
    log_key: Vec<u8>,
    checkpoint: Checkpoint,
}

impl fmt::Debug for AdditionWriter<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let AdditionWriter { writer, limits, given, .. } = self;
        let mut shown = f.debug_struct("AdditionWriter");
        shown.field("writer", writer).field("limits", limits).field("given", given).finish_non_exhaustive()
    }
}

impl<'t> AdditionWriter<'t> {
    pub(super) fn new(
        writer: TableWriter<&'t mut NewTable>,
        limits: RangeInclusive<u64>,
        older: Option<&Merged>,
        with_oldest: bool,
    ) -> Self {
        AdditionWriter {
            ref_limits: writer.options().ref_limits(),
            writer,
            limits,
            refs: older.map(Rest::new),
            logs: older.map(Rest::new),
            with_oldest,
            given: 0,
            is_older_too_large: false,
            log_key: Vec::new(),
            checkpoint: Checkpoint::default(),
        }
    }

    /// Adds a ref. Names must ascend, and no log entry may have been added.
    ///
    /// # Errors
    ///
    /// [`Error::TooLarge`] for a ref that C git could not write or index, [`Error::Order`], [`Error::Limits`] and
    /// [`Error::Unstorable`] for records that this table cannot have, [`StackError::Interrupted`] if a signal asks the
    /// process to end while records of older tables are copied, and errors of reading these tables and of writing.
    #[inline]
    pub fn add_ref(&mut self, record: &RefRecord<'_>) -> Result<(), StackError> {
        if !self.limits.contains(&record.update_index) {
            let (min, max) = self.limits.clone().into_inner();
            let RefRecord { name, update_index, .. } = *record;
            return Err(Error::Limits { name: name.to_owned(), update_index, min, max }.into());
        }
        if !self.ref_limits.allow(record) {
            self.writer.options().check_ref(record)?;
        }
        self.given += 1;
        self.copy_refs_before(Some(record.name))?;
        if !(self.with_oldest && record.is_deletion()) {
            self.writer.add_ref(record)?;
        }
        Ok(())
    }

    /// Adds a log entry. Names must ascend, and update indexes must descend within a name.
    ///
    /// # Errors
    ///
    /// [`Error::TooLarge`] for an entry that C git could not write or read, since it could then not compact the stack
    /// any more; otherwise as for [`add_ref`](Self::add_ref).
    pub fn add_log(&mut self, record: &LogRecord<'_>) -> Result<(), StackError> {
        self.given += 1;
        self.copy_refs_before(None)?;
        self.writer.check_log(record)?;
        let mut key = std::mem::take(&mut self.log_key);
        log_key(&mut key, record.name, record.update_index);
        let copied = self.copy_logs_before(Some(&key));
        self.log_key = key;
        copied?;
        if !(self.with_oldest && record.is_deletion()) {
            self.writer.add_log(record)?;
        }
        Ok(())
    }

    /// Checks that C git can index the name of a new ref or reflog.
    ///
    /// # Errors
    ///
    /// [`Error::TooLarge`] if the name is longer than [`name_max`](crate::WriteOptions::name_max).
    pub fn check_name(&self, name: &BStr) -> Result<(), StackError> {
        Ok(self.writer.options().check_name(name)?)
    }

    /// Adds a log entry, and cuts it if C git could not write it otherwise. Returns what
    /// [`log_fit`](crate::WriteOptions::log_fit) says of the entry.
    ///
    /// # Errors
    ///
    /// As for [`add_log`](Self::add_log), for the entry as it was cut.
    pub fn add_log_cut(&mut self, record: &LogRecord<'_>) -> Result<LogFit, StackError> {
        self.copy_refs_before(None)?;
        let options = self.writer.options();
        options.with_log_cut(record, |cut| self.add_log(cut))?;
        Ok(options.log_fit(record))
    }

    /// Returns whether adding a record failed because a record of the older tables is too large for the new table.
    pub(super) fn is_older_too_large(&self) -> bool {
        self.is_older_too_large
    }

    /// Completes the table. Returns `None` if the caller has added no record.
    pub(super) fn finish(mut self) -> Result<Option<Summary>, StackError> {
        if self.given == 0 {
            return Ok(None);
        }
        self.copy_refs_before(None)?;
        self.copy_logs_before(None)?;
        assert!(self.refs.is_none() && self.logs.is_none(), "every record of the older tables is in the new one");
        Ok(Some(self.writer.finish()?))
    }

    #[inline]
    fn copy_refs_before(&mut self, key: Option<&[u8]>) -> Result<(), StackError> {
        let Some(rest) = &mut self.refs else { return Ok(()) };
        let (writer, with_oldest, checkpoint) = (&mut self.writer, self.with_oldest, &mut self.checkpoint);
        let is_too_large = &mut self.is_older_too_large;
        rest.take_before(key, |cursor| {
            checkpoint.pass()?;
            let record = cursor.record();
            if !(with_oldest && record.is_deletion()) {
                writer.add_ref(&record).inspect_err(|error| *is_too_large = error.is_too_large())?;
            }
            Ok(())
        })?;
        if key.is_none() {
            self.refs = None;
        }
        Ok(())
    }

    fn copy_logs_before(&mut self, key: Option<&[u8]>) -> Result<(), StackError> {
        let Some(rest) = &mut self.logs else { return Ok(()) };
        let (writer, with_oldest, checkpoint) = (&mut self.writer, self.with_oldest, &mut self.checkpoint);
        let is_too_large = &mut self.is_older_too_large;
        rest.take_before(key, |cursor| {
            checkpoint.pass()?;
            let record = cursor.record();
            if !(with_oldest && record.is_deletion()) {
                writer.copy_log(&record).inspect_err(|error| *is_too_large = error.is_too_large())?;
            }
            Ok(())
        })?;
        if key.is_none() {
            self.logs = None;
        }
        Ok(())
    }
}

/// The records of older tables that have not been copied yet.
struct Rest<R: Records> {
    walk: MergedCursor<R>,
    has_begun: bool,
}

impl<R: Records> Rest<R> {
    fn new(older: &Merged) -> Self {
        Rest { walk: MergedCursor::new(older.clone()), has_begun: false }
    }

    /// Passes the records before `key`, or all if it is `None`, to `copy`, and skips the record with that key.
    #[inline]
    fn take_before(
        &mut self,
        key: Option<&[u8]>,
        mut copy: impl FnMut(&Cursor<R>) -> Result<(), StackError>,
    ) -> Result<(), StackError> {
        if !self.has_begun {
            self.has_begun = true;
            self.walk.next_any()?;
        }
        while let Some(cursor) = self.walk.current() {
            let order = key.map_or(Ordering::Less, |key| cursor.key().cmp(key));
            match order {
                Ordering::Less => copy(cursor)?,
                Ordering::Equal => {}
                Ordering::Greater => break,
            }
            self.walk.next_any()?;
            if order.is_eq() {
                break;
            }
        }
        Ok(())
    }
}
