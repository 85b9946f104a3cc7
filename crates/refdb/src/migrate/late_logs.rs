//! Finds what others did to the reflogs between their copy and the moment when the old files were moved away. Entries
//! are compared rather than counted, because a reflog does not only grow: it may also be expired or recreated.

use super::{
    Result,
    in_two::in_two,
    to_reftable::{Base, CopiedLog, add_entry, is_too_long, marker},
};
use crate::{files::FilesBackend, reftable::shown};
use bstr::{BStr, BString, ByteSlice};
use refdb_types::{LogEntry, ObjectId, RefName};
use reftable::{LogRecord, LogValue, Merged, MergedLogCursor, WriteOptions, stack::AdditionWriter};

/// The changes that bring a reflog in the tables up to date with the one in the file.
pub(super) struct LateLog {
    pub(super) name: BString,
    /// The entries to add, newest first: those that only the file has, and newer ones that only the tables have, which
    /// get new update indexes.
    entries: Vec<LogEntry>,
    /// The update indexes of the records to remove, greatest first.
    gone: Vec<u64>,
    /// Whether the file exists but the tables would have no record of the reflog.
    needs_marker: bool,
}

/// A record of a reflog in a table.
#[derive(PartialEq, Eq)]
struct Kept {
    index: u64,
    /// `None` for a record that only says that the reflog exists.
    entry: Option<LogEntry>,
}

impl Kept {
    fn new(record: &LogRecord<'_>) -> Self {
        Kept { index: record.update_index, entry: shown(record) }
    }
}

/// Returns the changes that others made to reflogs in the old files after the copy and that the current tables do not
/// have yet.
pub(super) fn late_logs(old: &FilesBackend, base: &Base<'_>, current: &Merged) -> Result<Vec<LateLog>> {
    let mut names = old.own_log_names()?;
    names.retain(|name| RefName::new_safe(name.to_vec()).is_some());
    let mut late = Vec::new();
    let mut compare = |name: BString, copied: &[Kept], is_there: bool| -> Result<()> {
        let file = if is_there { Some(entries(old, name.as_bstr())?) } else { None };
        late.extend(Log { name, copied, write: &base.write }.compare(file, current)?);
        Ok(())
    };
    match base.copied {
        Some(copied) => compare_changed(old, base.merged, &copied.logs, names, &mut compare)?,
        None => compare_all(base.merged, names, &mut compare)?,
    }
    Ok(late)
}

/// A function that is called with the name of a reflog, its records in the copy, and whether its file exists.
type Compare<'c> = dyn FnMut(BString, &[Kept], bool) -> Result<()> + 'c;

/// Compares all reflogs except those whose files still look as they did when they were copied.
fn compare_changed(
    old: &FilesBackend,
    base: &Merged,
    copied: &[CopiedLog],
    names: Vec<BString>,
    compare: &mut Compare<'_>,
) -> Result<()> {
    debug_assert!(copied.is_sorted_by(|a, b| a.name < b.name), "reflogs are listed in order");
    let looks_the_same = in_two(
        copied,
        || old.nearby(),
        |near, log| Ok(log.looked.is_some() && old.log_stat(near, log.name.as_bstr())? == log.looked),
    )?;
    let mut names = names.into_iter().peekable();
    for (log, looks_the_same) in copied.iter().zip(looks_the_same) {
        while let Some(made) = names.next_if(|made| *made < log.name) {
            compare(made, &[], true)?;
        }
        let is_there = names.next_if_eq(&log.name).is_some();
        if !(is_there && looks_the_same) {
            compare(log.name.clone(), &records(base, log.name.as_bstr())?, is_there)?;
        }
    }
    names.try_for_each(|made| compare(made, &[], true))
}

/// Compares all reflogs of the copy and of the files.
fn compare_all(base: &Merged, names: Vec<BString>, compare: &mut Compare<'_>) -> Result<()> {
    let mut names = names.into_iter().peekable();
    let mut copies = Copies { cursor: base.logs(), head: None };
    while let Some((name, copied)) = copies.next()? {
        while let Some(made) = names.next_if(|made| *made < name) {
            compare(made, &[], true)?;
        }
        let is_there = names.next_if_eq(&name).is_some();
        compare(name, &copied, is_there)?;
    }
    names.try_for_each(|made| compare(made, &[], true))
}

/// An iterator over the reflogs of the copy, each with its records, newest first.
struct Copies {
    cursor: MergedLogCursor,
    head: Option<(BString, Vec<Kept>)>,
}

impl Copies {
    fn next(&mut self) -> Result<Option<(BString, Vec<Kept>)>> {
        while let Some(record) = self.cursor.next()? {
            let kept = Kept::new(&record);
            match &mut self.head {
                Some((name, records)) if *name == record.name => records.push(kept),
                head => {
                    let before = head.replace((record.name.to_owned(), vec![kept]));
                    if before.is_some() {
                        return Ok(before);
                    }
                }
            }
        }
        Ok(self.head.take())
    }
}

/// Returns all entries of a reflog that readers of tables would see, newest first.
fn entries(old: &FilesBackend, name: &BStr) -> Result<Vec<LogEntry>> {
    let mut entries = Vec::new();
    old.for_each_entry(name, None, &mut |entry| {
        if !(entry.old.is_null() && entry.new.is_null()) {
            entries.push(entry.clone());
        }
        Ok(())
    })?;
    Ok(entries)
}

/// Returns the records of a reflog in tables, newest first.
fn records(tables: &Merged, name: &BStr) -> Result<Vec<Kept>> {
    let mut records = Vec::new();
    let mut cursor = tables.logs();
    cursor.seek_log(name, u64::MAX)?;
    while let Some(record) = cursor.next()?
        && record.name == name
    {
        records.push(Kept::new(&record));
    }
    debug_assert!(records.is_sorted_by(|a, b| a.index > b.index), "an index has one record");
    Ok(records)
}

fn has(records: &[Kept], wanted: &Kept) -> bool {
    // The records are in descending order of their indexes.
    records.binary_search_by(|record| wanted.index.cmp(&record.index)).is_ok_and(|at| records[at] == *wanted)
}

/// A reflog in the state in which it was copied.
struct Log<'l> {
    name: BString,
    copied: &'l [Kept],
    write: &'l WriteOptions,
}

impl Log<'_> {
    /// Compares the reflog with its file. Returns `None` if nothing has to change.
    ///
    /// The tables may have more records than the copy if an earlier run was interrupted: either that run added them,
    /// or others have written since. The entries of all such records are kept.
    fn compare(self, file: Option<Vec<LogEntry>>, current: &Merged) -> Result<Option<LateLog>> {
        let is_there = file.is_some();
        let (gone, entries) = match file {
            None => (self.copied.iter().collect(), Vec::new()),
            Some(file) => self.difference(file),
        };
        if gone.is_empty() && entries.is_empty() && !self.copied.is_empty() {
            return Ok(None);
        }
        let now = records(current, self.name.as_bstr())?;
        let mut gone: Vec<u64> = gone.into_iter().filter(|gone| has(&now, gone)).map(|gone| gone.index).collect();
        // Records are removed and entries added in a single table, so if the records still exist, no earlier run has
        // added the entries.
        let entries = if gone.is_empty() { self.without_known(entries, &now) } else { entries };
        let entries = self.mixed(entries, &now, &mut gone);
        let needs_marker = is_there && entries.is_empty() && now.len() == gone.len();
        if gone.is_empty() && entries.is_empty() && !needs_marker {
            return Ok(None);
        }
        Ok(Some(LateLog { name: self.name, entries, gone, needs_marker }))
    }

    /// Returns the records that the file no longer has, and the entries that are not in the copy, both newest first.
    ///
    /// Records are kept as long as they follow one another in the file as well, so that a reflog that only grew, or
    /// only lost entries, is not rewritten.
    fn difference(&self, mut file: Vec<LogEntry>) -> (Vec<&Kept>, Vec<LogEntry>) {
        let mut left = file.len();
        let mut gone = Vec::new();
        for record in self.copied.iter().rev() {
            // A record without an entry is not shown, and may be kept.
            let Some(entry) = &record.entry else { continue };
            if left > 0 && self.is_same(entry, &file[left - 1]) {
                left -= 1;
            } else {
                gone.push(record);
            }
        }
        gone.reverse();
        file.truncate(left);
        (gone, file)
    }

    /// Returns whether two entries are the same, although one that is too long for a table was shortened there.
    fn is_same(&self, kept: &LogEntry, entry: &LogEntry) -> bool {
        let key =
            |entry: &LogEntry| (entry.old, entry.new, entry.committer.time_seconds, entry.committer.offset_decimal);
        let is_start = || {
            entry.message.starts_with(&kept.message)
                && entry.committer.name.starts_with(&kept.committer.name)
                && entry.committer.email.starts_with(&kept.committer.email)
        };
        kept == entry || key(kept) == key(entry) && is_start() && is_too_long(self.write, self.name.as_bstr(), entry)
    }

    /// Merges late entries with newer ones in the tables. If an earlier run was interrupted, the new format may have
    /// received entries that are newer than late ones. These newer entries are added again among the late ones, in
    /// order of time, and their old records are removed.
    fn mixed(&self, late: Vec<LogEntry>, now: &[Kept], gone: &mut Vec<u64>) -> Vec<LogEntry> {
        let gained = now.iter().filter(|record| !has(self.copied, record));
        let mut gained = gained.filter_map(|record| Some((record.index, record.entry.as_ref()?))).peekable();
        let (mut mixed, mut moved) = (Vec::with_capacity(late.len()), Vec::new());
        for entry in late {
            let is_newer = |gained: &LogEntry| gained.committer.time_seconds >= entry.committer.time_seconds;
            while let Some((index, newer)) = gained.next_if(|(_, gained)| is_newer(gained)) {
                mixed.push(newer.clone());
                moved.push(index);
            }
            mixed.push(entry);
        }
        debug_assert!(moved.iter().all(|index| !gone.contains(index)), "what the copy has was not gained since");
        gone.splice(..0, moved);
        debug_assert!(gone.is_sorted_by(|a, b| a > b), "the newest record goes first");
        mixed
    }

    /// Drops the entries that the tables have in addition to the copy, because an earlier run has added them: one entry
    /// for each such record, so that further entries that are equal to it are kept.
    fn without_known(&self, mut entries: Vec<LogEntry>, now: &[Kept]) -> Vec<LogEntry> {
        let later = now.iter().filter(|record| !has(self.copied, record));
        for kept in later.filter_map(|record| record.entry.as_ref()) {
            if let Some(at) = entries.iter().position(|entry| self.is_same(kept, entry)) {
                entries.remove(at);
            }
        }
        entries
    }
}

impl LateLog {
    /// Returns the number of update indexes that the entries need.
    pub(super) fn len(&self) -> u64 {
        self.entries.len() as u64
    }

    /// Writes the records, with update indexes from `first` on.
    pub(super) fn write(&self, writer: &mut AdditionWriter<'_>, first: u64, null: ObjectId) -> Result<()> {
        let name = self.name.as_bstr();
        for (index, entry) in (first..first.saturating_add(self.len())).rev().zip(&self.entries) {
            add_entry(writer, name, index, entry)?;
        }
        if self.needs_marker {
            writer.add_log(&marker(name, first, null))?;
        }
        for index in &self.gone {
            debug_assert!(*index < first, "removed records are older than added ones");
            writer.add_log(&LogRecord { name, update_index: *index, value: LogValue::Deletion })?;
        }
        Ok(())
    }
}
