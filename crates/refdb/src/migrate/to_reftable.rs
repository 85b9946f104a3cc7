//! Copies one worktree's refs and reflogs from files into a stack.

use super::{Migrated, Ticker};
use crate::{Error, MigrateError, RefView, Result, TargetView, Unfit, backend::Peeled, files::FilesBackend};
use bstr::{BStr, BString, ByteSlice};
use refdb_types::{LogEntry, ObjectId, OrderedNames, RefName};
use refdb_vfs::Patience;
use reftable::{
    LogFit, LogRecord, LogValue, RefRecord, RefValue, WriteOptions,
    stack::{AdditionWriter, Snapshot, Stack},
};

/// A reflog may grow by this many entries between the look at its length and its copy.
const GROWTH_MAX: u64 = 1024;

/// All refs have this update index. Entries of reflogs have greater ones, the newest the greatest.
const FIRST_INDEX: u64 = 1;

/// Writes all refs, and the reflogs if wanted, into an empty stack: one table.
pub(super) fn copy(
    files: &FilesBackend,
    stack: &Stack,
    reflogs: bool,
    migrated: &mut Migrated,
    ticker: &mut Ticker<'_>,
) -> Result<Snapshot> {
    let logs = if reflogs { files.own_log_names()? } else { Vec::new() };
    let mut last_index = FIRST_INDEX;
    for name in &logs {
        last_index = last_index.max(files.log_entries_max(name.as_bstr())? + GROWTH_MAX);
    }
    let mut addition = stack.lock(Patience::None)?;
    assert!(addition.snapshot().tables().is_empty(), "a copy goes into a stack of its own");
    addition.add_table(FIRST_INDEX..=last_index, 0, |writer| {
        let mut copy = Copy { files, writer, unfit: Unfit::default(), ticker };
        copy.refs()?;
        let (left_out, cut) = copy.logs(&logs, last_index)?;
        copy.unfit.check()?;
        migrated.lines_left_out += left_out;
        migrated.entries_cut += cut;
        Ok::<_, Error>(())
    })?;
    Ok(addition.commit()?.snapshot)
}

struct Copy<'c, 'w, 'p> {
    files: &'c FilesBackend,
    writer: &'c mut AdditionWriter<'w>,
    unfit: Unfit,
    ticker: &'c mut Ticker<'p>,
}

impl Copy<'_, '_, '_> {
    fn refs(&mut self) -> Result<()> {
        let Copy { files, writer, unfit, ticker } = self;
        for name in files.packed_elsewhere()? {
            unfit.add(format_args!("packed-refs: {name}: only refs below refs/ are packed; remove the line"));
        }
        let mut names = OrderedNames::default();
        files.for_each_own(&mut |found| {
            ticker.pass()?;
            let view = match found {
                Ok(view) => view,
                Err(broken) => {
                    unfit.add(broken);
                    return Ok(());
                }
            };
            if let Err(why) = fits(&mut names, view) {
                unfit.add(format_args!("{}: {why}", view.name));
                return Ok(());
            }
            let value = value_of(files, view)?;
            Ok(writer.add_ref(&RefRecord { name: view.name, update_index: FIRST_INDEX, value })?)
        })
    }

    /// Returns how many lines were no entries, and how many entries were cut.
    fn logs(&mut self, names: &[BString], last_index: u64) -> Result<(u64, u64)> {
        let (mut left_out, mut cut) = (0, 0);
        for name in names {
            let name = name.as_bstr();
            if RefName::new_safe(name.to_vec()).is_none() {
                self.unfit.add(format_args!("the reflog of {name}: no ref can have that name"));
                continue;
            }
            let (files, writer, ticker) = (self.files, &mut *self.writer, &mut *self.ticker);
            let mut next_index = last_index;
            debug_assert!(next_index > FIRST_INDEX, "where there are reflogs there is room for entries");
            let skipped = files.for_each_entry(name, &mut |entry| {
                ticker.pass()?;
                if next_index < FIRST_INDEX {
                    return Err(MigrateError::LogGrew(name.to_owned()).into());
                }
                cut += u64::from(add_entry(writer, name, next_index, entry)?);
                // In a table it says that the reflog exists, and no more.
                left_out += u64::from(entry.old.is_null() && entry.new.is_null());
                next_index -= 1;
                Ok(())
            })?;
            left_out += skipped;
            if next_index == last_index {
                writer.add_log(&marker(name, FIRST_INDEX, files.null_id()))?;
            }
        }
        Ok((left_out, cut))
    }
}

/// Why a ref cannot be carried over.
fn fits(names: &mut OrderedNames, view: &RefView<'_>) -> std::result::Result<(), &'static str> {
    if !names.accept(view.name) {
        return Err("no ref can have that name");
    }
    match view.target {
        TargetView::Direct(id) if id.is_null() => Err("holds the null id"),
        TargetView::Symbolic(target) if RefName::new_safe(target.to_vec()).is_none() => {
            Err("leads to a name that no ref can have")
        }
        _ => Ok(()),
    }
}

/// A ref's value for a record.
pub(super) fn value_of<'v>(files: &FilesBackend, view: &RefView<'v>) -> Result<RefValue<'v>> {
    let known = |target: ObjectId, peeled: Option<ObjectId>| match peeled {
        Some(peeled) => RefValue::Peeled { target, peeled },
        None => RefValue::Direct(target),
    };
    Ok(match (view.target, view.peeled) {
        (TargetView::Symbolic(target), _) => RefValue::Symbolic(target),
        (TargetView::Direct(id), Peeled::NotTag) => RefValue::Direct(id),
        (TargetView::Direct(id), Peeled::To(peeled)) => known(id, Some(peeled)),
        (TargetView::Direct(id), Peeled::Unknown) => known(id, files.peel(&id)?),
    })
}

/// Adds an entry of a reflog; returns whether it was cut.
pub(super) fn add_entry(
    writer: &mut AdditionWriter<'_>,
    name: &BStr,
    update_index: u64,
    entry: &LogEntry,
) -> Result<bool> {
    let line = line_of(entry);
    Ok(writer.add_log_cut(&record_of(name, update_index, entry, &line))? == LogFit::Cut)
}

/// Whether an entry may have been cut when it was copied. A table has the least room where it begins with reflogs.
pub(super) fn is_too_long(write: &WriteOptions, name: &BStr, entry: &LogEntry) -> bool {
    let line = line_of(entry);
    write.log_fit(&record_of(name, FIRST_INDEX, entry, &line), false) != LogFit::Whole
}

fn line_of(entry: &LogEntry) -> BString {
    debug_assert!(!entry.message.contains(&b'\n'), "an entry of a file is one line");
    BString::from([entry.message.as_bytes(), b"\n"].concat())
}

fn record_of<'e>(name: &'e BStr, update_index: u64, entry: &'e LogEntry, line: &'e BString) -> LogRecord<'e> {
    let value = LogValue::Update {
        old: entry.old,
        new: entry.new,
        name: entry.committer.name.as_bstr(),
        email: entry.committer.email.as_bstr(),
        time_seconds: entry.committer.time_seconds,
        tz_offset: entry.committer.offset_decimal,
        message: line.as_bstr(),
    };
    LogRecord { name, update_index, value }
}

/// Says that a reflog exists, be it empty: readers do not show it.
pub(super) fn marker(name: &BStr, update_index: u64, null: ObjectId) -> LogRecord<'_> {
    let nobody = BStr::new("");
    let value = LogValue::Update {
        old: null,
        new: null,
        name: nobody,
        email: nobody,
        time_seconds: 0,
        tz_offset: 0,
        message: nobody,
    };
    LogRecord { name, update_index, value }
}
