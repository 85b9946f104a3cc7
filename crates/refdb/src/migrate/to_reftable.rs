//! Copies one worktree's refs and reflogs from files into a stack.

use super::{Migrated, Result, Ticker, in_two::in_two, levels::Levels};
use crate::{
    Error, MigrateError, RefView, TargetView, Unfit,
    backend::Peeled,
    files::{FilesBackend, Walked},
};
use bstr::{BStr, BString, ByteSlice};
use refdb_types::{LogEntry, ObjectId, OrderedNames, RefName};
use refdb_vfs::{LockTimeout, Stat, now_nanos};
use reftable::{
    LogFit, LogRecord, LogValue, Merged, RefRecord, RefValue, WriteOptions,
    stack::{AdditionWriter, Stack},
};

/// The number of refs after which the memory of the packed-refs read so far is released: a few MiB.
const FORGET_EVERY: u64 = 1 << 16;

/// The update index of every ref, of the marker of an empty reflog, and of the oldest entry that a reflog has room for.
const FIRST_INDEX: u64 = 1;

/// The update index of the newest entry of each reflog; older entries count down from it, so that the entries need not
/// be counted first. A reflog with more entries than this is refused.
const LAST_INDEX: u64 = 1 << 32;

/// The state of the files that were copied. A file that still looks the same later has not changed, and need not be
/// read again.
pub(super) struct Copied {
    /// `None` if nothing shows later which refs have changed, so that all must be compared.
    pub(super) refs: Option<Walked>,
    /// The reflogs in order of name, each with its `stat` from before it was read.
    pub(super) logs: Vec<CopiedLog>,
}

/// A reflog that was copied.
pub(super) struct CopiedLog {
    pub(super) name: BString,
    /// The `stat` of the reflog's file from before it was read; `None` if there was none, or if the file may have
    /// changed without a change of its `stat`.
    pub(super) looked: Option<Stat>,
}

/// What the old files held when they were copied, for one worktree.
pub(super) struct Base<'b> {
    pub(super) merged: &'b Merged,
    /// The state of the files that were copied, if this run copied them.
    pub(super) copied: Option<&'b Copied>,
    /// Whether reflogs are kept.
    pub(super) reflogs: bool,
    /// The options with which the copy was written.
    pub(super) write: WriteOptions,
}

/// Writes all refs, and the reflogs if they are kept, into an empty stack, as one table.
pub(super) fn copy(
    files: &FilesBackend,
    stack: &Stack,
    reflogs: bool,
    migrated: &mut Migrated,
    ticker: &mut Ticker<'_>,
) -> Result<Copied> {
    let names = if reflogs { files.own_log_names()? } else { Vec::new() };
    let last_index = if names.is_empty() { FIRST_INDEX } else { LAST_INDEX };
    let (mut refs, mut looks) = (None, Vec::new());
    let mut addition = stack.lock(LockTimeout::None)?;
    assert!(addition.snapshot().tables().is_empty(), "a copy goes into a stack of its own");
    addition.add_table(FIRST_INDEX..=last_index, 0, |writer| {
        let mut copy = Copy { files, writer, unfit: Unfit::default(), ticker };
        refs = copy.refs()?;
        // Finishing the table needs memory of its own, so the memory of packed-refs is released first.
        files.forget_packed();
        let (left_out, cut) = copy.logs(&names, &mut looks)?;
        copy.unfit.check()?;
        migrated.lines_left_out += left_out;
        migrated.entries_cut += cut;
        Ok::<_, MigrateError>(())
    })?;
    let committed = addition.commit()?;
    debug_assert!(committed.compaction.is_none(), "one table is compact");
    assert_eq!(names.len(), looks.len(), "each reflog was looked at once");
    let logs = names.into_iter().zip(looks).map(|(name, looked)| CopiedLog { name, looked }).collect();
    Ok(Copied { refs, logs })
}

struct Copy<'c, 'w, 'p> {
    files: &'c FilesBackend,
    writer: &'c mut AdditionWriter<'w>,
    unfit: Unfit,
    ticker: &'c mut Ticker<'p>,
}

impl Copy<'_, '_, '_> {
    fn refs(&mut self) -> Result<Option<Walked>> {
        let Copy { files, writer, unfit, ticker } = self;
        files.let_packed_settle()?;
        for name in files.packed_elsewhere()? {
            unfit.add(format_args!("packed-refs: {name}: only refs below refs/ are packed; remove the line"));
        }
        let (mut names, mut levels) = (OrderedNames::default(), Levels::default());
        let mut seen: u64 = 0;
        let walked = files.for_each_own_noting(&mut |found| {
            ticker.pass()?;
            seen += 1;
            if seen.is_multiple_of(FORGET_EVERY) {
                files.forget_packed_so_far()?;
            }
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
            if let Some(above) = levels.pass(view.name) {
                unfit.add(format_args!("{}: cannot stand beside {above}", view.name));
                return Ok(());
            }
            let value = value_of(files, view)?;
            let added = writer.add_ref(&RefRecord { name: view.name, update_index: FIRST_INDEX, value });
            note_too_large(unfit, added.map_err(Error::from), "")
        })?;
        Ok(walked)
    }

    /// Copies the reflogs. Returns the number of lines that readers of the table will not see, and the number of
    /// entries that were shortened.
    fn logs(&mut self, names: &[BString], looks: &mut Vec<Option<Stat>>) -> Result<(u64, u64)> {
        /// The number of reflogs that are examined ahead. The contents of small ones are held in memory.
        const READ_AHEAD: usize = 256;
        let (mut left_out, mut cut) = (0, 0);
        // `Addition::add_table` may call its closure twice.
        looks.clear();
        for part in names.chunks(READ_AHEAD) {
            let (files, now) = (self.files, now_nanos());
            let found = in_two(part, || files.nearby(), |near, name| Ok(files.look_at_log(near, name.as_bstr())?))?;
            for (name, look) in part.iter().zip(found) {
                let (stat, content) = look.unzip();
                let (log_left_out, log_cut) = self.log(name.as_bstr(), content.flatten())?;
                left_out += log_left_out;
                cut += log_cut;
                looks.push(stat.filter(|stat| !stat.is_racy(now)));
            }
        }
        Ok((left_out, cut))
    }

    /// Copies one reflog, from `content` if its bytes were already read. Returns the same two numbers as
    /// [`logs`](Self::logs).
    fn log(&mut self, name: &BStr, content: Option<Vec<u8>>) -> Result<(u64, u64)> {
        let Copy { files, writer, unfit, ticker } = self;
        // A ref with such a part in its name is skipped when files are listed, and so would be lost.
        let is_passed_over = |part: &[u8]| part.starts_with(b".") || part.ends_with(b".lock");
        if RefName::new_safe(name.to_vec()).is_none() || name.split_str("/").any(is_passed_over) {
            unfit.add(format_args!("the reflog of {name}: no ref can have that name"));
            return Ok((0, 0));
        }
        if let Err(too_long) = writer.check_name(name) {
            note_too_large(unfit, Err(too_long.into()), "the reflog of ")?;
            return Ok((0, 0));
        }
        let (mut left_out, mut cut, mut is_unfit, mut is_too_long) = (0, 0, false, false);
        let mut next_index = LAST_INDEX;
        let skipped = files.for_each_entry(name, content, &mut |entry| {
            ticker.pass()?;
            if next_index < FIRST_INDEX {
                is_too_long = true;
                return Ok(());
            }
            match add_entry(writer, name, next_index, entry) {
                _ if is_unfit => {}
                Ok(is_cut) => cut += u64::from(is_cut),
                failed => {
                    is_unfit = true;
                    note_too_large(unfit, failed.map(drop), "the reflog of ")?;
                }
            }
            // In a table, such an entry only says that the reflog exists, so readers do not show it.
            left_out += u64::from(entry.old.is_null() && entry.new.is_null());
            next_index -= 1;
            Ok(())
        })?;
        if is_too_long {
            return Err(MigrateError::LogTooLong(name.to_owned()));
        }
        if next_index == LAST_INDEX {
            writer.add_log(&marker(name, FIRST_INDEX, files.null_id()))?;
        }
        Ok((left_out + skipped, cut))
    }
}

/// Notes that a record is too large for a block, which makes only the record's ref unfit. Any other error ends the
/// copy.
fn note_too_large(unfit: &mut Unfit, added: Result<(), Error>, of: &str) -> Result<(), Error> {
    match added {
        Err(Error::Table(reftable::Error::TooLarge { name, block_size })) => {
            let room = "a block of a table, or of its index, has no room for its name and value";
            unfit.add(format_args!("{of}{name}: {room} (reftable.blockSize, {block_size} bytes)"));
            Ok(())
        }
        added => added,
    }
}

/// Returns the reason why a ref cannot be copied, as an error.
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

/// Returns the value that a record of this ref has. If `view` does not say where a tag leads, the tag is peeled.
pub(super) fn value_of<'v>(files: &FilesBackend, view: &RefView<'v>) -> Result<RefValue<'v>, Error> {
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

/// Adds an entry of a reflog. Returns whether it was shortened to fit.
pub(super) fn add_entry(
    writer: &mut AdditionWriter<'_>,
    name: &BStr,
    update_index: u64,
    entry: &LogEntry,
) -> Result<bool, Error> {
    let line = line_of(entry);
    Ok(writer.add_log_cut(&record_of(name, update_index, entry, &line))? == LogFit::Cut)
}

/// Returns whether an entry had to be shortened when it was copied.
pub(super) fn is_too_long(write: &WriteOptions, name: &BStr, entry: &LogEntry) -> bool {
    let line = line_of(entry);
    write.log_fit(&record_of(name, FIRST_INDEX, entry, &line)) != LogFit::Whole
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

/// Returns the record that says that a reflog exists even if it is empty. Readers do not show it.
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
