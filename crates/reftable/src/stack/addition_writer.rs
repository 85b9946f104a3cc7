use super::{NewTable, StackError, compact::Checkpoint};
use crate::{
    Error, LogFit, LogRecord, Merged, RefRecord, Result, Summary, TableWriter,
    merged::MergedCursor,
    record::{LogRecords, Records, RefRecords, log_key},
    table::Cursor,
};
use bstr::BStr;
use std::{cmp::Ordering, fmt, ops::RangeInclusive};

/// Takes the records of an addition's new table: refs in order, then log entries in order.
///
/// The new table may stand in for older ones, the youngest of the stack. Then their records are written too, each in
/// its place among the new ones. New records replace those of the same key.
pub struct AdditionWriter<'t> {
    writer: TableWriter<&'t mut NewTable>,
    /// Where the update indexes of new refs lie.
    limits: RangeInclusive<u64>,
    /// The rest of the older tables' refs. Behind the last ref there are log entries.
    refs: Option<Rest<RefRecords>>,
    logs: Option<Rest<LogRecords>>,
    /// There is nothing below this table that a deletion could hide.
    with_oldest: bool,
    /// How many records were given.
    given: u64,
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
            writer,
            limits,
            refs: older.map(Rest::new),
            logs: older.map(Rest::new),
            with_oldest,
            given: 0,
            log_key: Vec::new(),
            checkpoint: Checkpoint::default(),
        }
    }

    /// Adds a ref. Names must ascend, and no log entry may have been added. A ref that C git could not write is
    /// refused.
    #[inline]
    pub fn add_ref(&mut self, record: &RefRecord<'_>) -> Result<(), StackError> {
        if !self.limits.contains(&record.update_index) {
            let (min, max) = self.limits.clone().into_inner();
            let RefRecord { name, update_index, .. } = *record;
            return Err(Error::Limits { name: name.to_owned(), update_index, min, max }.into());
        }
        self.writer.options().check_ref(record)?;
        self.given += 1;
        self.copy_refs_before(Some(record.name))?;
        if !(self.with_oldest && record.is_deletion()) {
            self.writer.add_ref(record)?;
        }
        Ok(())
    }

    /// Adds a log entry. Names must ascend, and update indexes descend within a name. An entry that C git could not
    /// write into a block is refused. Otherwise git could no longer compact the stack.
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

    /// Refuses the name of a new ref or reflog if C git could not index it.
    pub fn check_name(&self, name: &BStr) -> Result<(), StackError> {
        Ok(self.writer.options().check_name(name)?)
    }

    /// Adds a log entry, which is cut if C git could not write it otherwise. Returns whether it was, or is refused.
    pub fn add_log_cut(&mut self, record: &LogRecord<'_>) -> Result<LogFit, StackError> {
        self.copy_refs_before(None)?;
        let options = self.writer.options();
        options.with_log_cut(record, |cut| self.add_log(cut))?;
        Ok(options.log_fit(record))
    }

    /// Completes the table. `None` if no record was given.
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
        rest.take_before(key, |cursor| {
            checkpoint.pass()?;
            let record = cursor.record();
            if !(with_oldest && record.is_deletion()) {
                writer.add_ref(&record)?;
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
        rest.take_before(key, |cursor| {
            checkpoint.pass()?;
            let record = cursor.record();
            if !(with_oldest && record.is_deletion()) {
                writer.copy_log(&record)?;
            }
            Ok(())
        })?;
        if key.is_none() {
            self.logs = None;
        }
        Ok(())
    }
}

/// The records of older tables that were not copied yet.
struct Rest<R: Records> {
    walk: MergedCursor<R>,
    has_begun: bool,
}

impl<R: Records> Rest<R> {
    fn new(older: &Merged) -> Self {
        Rest { walk: MergedCursor::new(older.clone()), has_begun: false }
    }

    /// Hands over the records before `key`, or all of them, and passes over the one that has it.
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
