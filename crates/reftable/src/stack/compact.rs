use super::{Listed, NewTable, Snapshot, Stack, StackError, TableName, options::NEW_FILE_MODE, plan, snapshot::merge};
use crate::{LogFit, LogRecord, LogValue, Merged, Sink, Summary, TableWriter, WriteOptions};
use refdb_vfs::{Lock, LockError, LockTimeout, interrupt};
use std::ops::{Range, RangeInclusive};

/// The maximum number of compactions by other processes that are waited for, one after the other.
const WAITS_MAX: usize = 100;

/// Which tables a compaction merges.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Scope {
    /// Those that the geometric rule ([`plan`](super::plan())) selects, as far as no other process is compacting them.
    Geometric,
    /// All tables; expired log entries are dropped. Without an expiry a single table is left as it is, unless C git
    /// cannot read it, or could rewrite it only if log entries were cut.
    All(Option<LogExpiry>),
}

/// The log entries that a compaction of all tables drops: those to which either bound applies.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LogExpiry {
    /// Entries whose time is before this one, in seconds since 1970.
    pub before_seconds: u64,
    /// Entries with a smaller update index than this.
    pub below_update_index: u64,
}

/// The result of a compaction.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Compacted {
    /// The stack was compact enough, or other compactions hold so many of the tables to merge that fewer than two are
    /// left.
    NotNeeded,
    /// This number of tables became one, or none if no records were left.
    Done(usize),
    /// Another program replaced the tables although they were locked, so nothing was changed.
    Overtaken,
}

/// The result of an addition that was committed.
#[must_use = "a stack whose compactions are not run grows without bounds"]
#[derive(Debug)]
#[non_exhaustive]
pub struct Committed {
    /// A compaction that is due now. Its tables are locked, but the list is not, so the caller can release other locks
    /// before running it, or run it in another thread.
    pub compaction: Option<Compaction>,
}

/// Neighbouring tables that are locked to be merged into one. Dropping it unlocks them.
///
/// The tables are locked by `NAME.lock`, as C git and JGit do, so that no other process compacts them. Additions to the
/// stack can go on meanwhile.
#[must_use = "the tables are unlocked when this is dropped"]
#[derive(Debug)]
pub struct Compaction {
    stack: Stack,
    inputs: Vec<Listed>,
    /// Whether the inputs include the oldest table, so that tombstones have nothing to hide.
    with_oldest: bool,
    expiry: Option<LogExpiry>,
    locks: Vec<Lock>,
}

/// What to lock if another process has locked some of the tables.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Claim {
    /// All tables or none.
    Everything,
    /// The youngest tables that are free, or a longer run of older ones that are free, if there are at least two.
    WhatIsFree,
}

impl Stack {
    /// Merges the tables in `scope` into one.
    ///
    /// The list is locked at the beginning and at the end, each time waiting as long as `lock_timeout` says; in between
    /// other processes can add tables. With [`Scope::All`] up to 100 compactions by other processes are waited for,
    /// each as long as `lock_timeout` says.
    ///
    /// # Errors
    ///
    /// If a lock cannot be acquired, a table cannot be read or written, a ref does not fit into a block
    /// ([`StackError::RefsTooLarge`]), or a signal asks the process to end ([`StackError::Interrupted`]). The stack is
    /// unchanged then, except after [`StackError::NotDurable`], and unless the server of a network file system replaces
    /// the list nevertheless.
    pub fn compact(&self, scope: Scope, lock_timeout: LockTimeout) -> Result<Compacted, StackError> {
        match self.claim_compaction(scope, lock_timeout)? {
            None => Ok(Compacted::NotNeeded),
            Some(compaction) => compaction.run(lock_timeout),
        }
    }

    /// Returns the present tables, and the range of those that [`Stack::compact`] would merge if no other process
    /// compacts any of them. The range is empty if there is nothing to merge. Nothing is locked.
    ///
    /// # Errors
    ///
    /// If the list or a table cannot be read or is invalid, or a signal asks the process to end.
    pub fn compaction_range(&self, scope: Scope) -> Result<(Snapshot, Range<usize>), StackError> {
        let unwritable = match scope {
            Scope::All(None) => self.single_unwritable()?,
            _ => None,
        };
        let snapshot = self.reload()?;
        let range = match scope {
            Scope::Geometric => snapshot.plan(self.options()).unwrap_or_default(),
            Scope::All(None) if snapshot.tables().len() < 2 && unwritable.is_none() => 0..0,
            Scope::All(_) => 0..snapshot.tables().len(),
        };
        Ok((snapshot, range))
    }

    fn claim_compaction(&self, scope: Scope, lock_timeout: LockTimeout) -> Result<Option<Compaction>, StackError> {
        let unwritable = match scope {
            Scope::All(None) => self.single_unwritable()?,
            _ => None,
        };
        let mut waits_left = WAITS_MAX;
        loop {
            let list_lock = self.lock_list(lock_timeout)?;
            let snapshot = self.reload()?;
            let tables = snapshot.tables();
            let claimed = match scope {
                Scope::Geometric => {
                    let Some(range) = snapshot.plan(self.options()) else { return Ok(None) };
                    Compaction::claim(self, tables, range, Claim::WhatIsFree)
                }
                Scope::All(_) if tables.is_empty() => return Ok(None),
                Scope::All(None) if tables.len() < 2 && Some(&tables[0].name) != unwritable.as_ref() => {
                    return Ok(None);
                }
                Scope::All(expiry) => {
                    let claimed = Compaction::claim(self, tables, 0..tables.len(), Claim::Everything);
                    claimed.map(|claimed| claimed.map(|compaction| Compaction { expiry, ..compaction }))
                }
            };
            let Err(StackError::Lock(LockError::Held { path, .. })) = &claimed else { return claimed };
            if waits_left == 0 {
                return claimed;
            }
            waits_left -= 1;
            // Another process compacts one of the tables and needs the list's lock to finish. Wait for it, then try
            // again.
            let table = path.with_extension("");
            list_lock.release()?;
            Lock::acquire(self.fs(), &table, NEW_FILE_MODE, lock_timeout)?.release()?;
        }
    }

    /// The name of the stack's only table, if C git cannot read one of its blocks, or could rewrite a log entry only if
    /// the entry were cut. Because this may read the whole table, it is called before anything is locked.
    fn single_unwritable(&self) -> Result<Option<TableName>, StackError> {
        let snapshot = self.reload()?;
        let [listed] = snapshot.tables() else { return Ok(None) };
        if listed.table.block_beyond_git()?.is_some() {
            return Ok(Some(listed.name.clone()));
        }
        let mut logs = listed.table.logs();
        let mut checkpoint = Checkpoint::default();
        while let Some(record) = logs.next()? {
            checkpoint.pass()?;
            let is_cut = self.options().write.log_fit(&record) == LogFit::Cut;
            if is_cut || logs.block_beyond_git().is_some() {
                return Ok(Some(listed.name.clone()));
            }
        }
        Ok(None)
    }

    /// Removes the files of tables that the new list no longer names, after making that list as durable as the options
    /// demand.
    pub(super) fn retire(&self, tables: &[Listed]) -> Result<(), StackError> {
        self.sync_names().map_err(StackError::NotDurable)?;
        self.remove_tables(tables);
        Ok(())
    }

    /// Removes the files of tables that the list no longer names. The list must be as durable as the options demand.
    pub(super) fn remove_tables(&self, tables: &[Listed]) {
        let listed = self.snapshot();
        let is_listed = |name: &TableName| listed.tables().iter().any(|listed| listed.name == *name);
        assert!(tables.iter().all(|table| !is_listed(&table.name)), "no listed table is removed: {tables:?}");
        for listed in tables {
            // A file that cannot be removed does no harm, since no list names it.
            let _ = self.fs().remove_file(&self.path_of(&listed.name));
        }
    }
}

impl Compaction {
    /// Locks the tables of `range`, the youngest first, so that tables which were added while an older compaction runs
    /// can be compacted. If another process has locked one of them, [`Claim::Everything`] fails, and
    /// [`Claim::WhatIsFree`] takes the tables that are younger, or a longer run of free ones that are older and are to
    /// be merged among themselves; `None` if that leaves fewer than two. The caller must have locked the list.
    pub(super) fn claim(
        stack: &Stack,
        tables: &[Listed],
        range: Range<usize>,
        claim: Claim,
    ) -> Result<Option<Self>, StackError> {
        debug_assert!(range.start < range.end && range.end <= tables.len(), "the range is one of the stack: {range:?}");
        let mut locks = Vec::with_capacity(range.len());
        let mut start = range.end;
        for listed in tables[range.clone()].iter().rev() {
            match Lock::acquire(stack.fs(), &stack.path_of(&listed.name), NEW_FILE_MODE, LockTimeout::None) {
                Ok(mut lock) => {
                    lock.close();
                    if !refdb_vfs::planted("reftable-compaction") {
                        locks.push(lock);
                    }
                    start -= 1;
                }
                Err(LockError::Held { .. }) if claim == Claim::WhatIsFree => break,
                Err(error) => return Err(error.into()),
            }
        }
        if claim == Claim::WhatIsFree {
            let older = range.start..start.saturating_sub(1).max(range.start);
            if let Some(due) = longest_due(stack, tables, older).filter(|due| due.len() > locks.len()) {
                drop(locks);
                return Self::claim(stack, tables, due, claim);
            }
            if locks.len() < 2 {
                return Ok(None);
            }
        }
        let inputs = tables[start..range.end].to_vec();
        assert!(
            range.start <= start && locks.len() == inputs.len(),
            "each table of a compaction is locked: {inputs:?}"
        );
        Ok(Some(Compaction { stack: stack.clone(), inputs, with_oldest: start == 0, expiry: None, locks }))
    }

    /// Merges the tables, then locks the list, waiting as long as `lock_timeout` says, and replaces them with the new
    /// table.
    ///
    /// # Errors
    ///
    /// As for [`Stack::compact`].
    pub fn run(self, lock_timeout: LockTimeout) -> Result<Compacted, StackError> {
        let Compaction { stack, inputs, with_oldest, expiry, locks } = self;
        let (min, max) = limits(&inputs);
        let mut output = NewTable::without_lock(&stack, min, max);
        let write = stack.options().write;
        let summary = write_merged(&merge(&inputs)?, write, min..=max, with_oldest, expiry, &mut output)?;
        let mut output = (summary.refs + summary.logs > 0).then_some(output);
        if let Some(output) = &mut output {
            output.write_out()?;
        }

        let list_lock = stack.lock_list(lock_timeout)?;
        let mut tables = stack.reload()?.tables().to_vec();
        let Some(at) = find(&inputs, &tables).filter(|&at| at == 0 || !with_oldest) else {
            return Ok(Compacted::Overtaken);
        };
        let replacement = match &mut output {
            None => None,
            Some(output) => {
                output.put_in_place(&tables)?;
                Some(output.open()?)
            }
        };
        debug_assert_eq!(list_lock.target(), stack.list_path(), "the lock is the list's");
        assert!(output.iter().all(NewTable::is_complete), "a list names written tables");
        tables.splice(at..at + inputs.len(), replacement);
        if let Err(failure) = stack.replace_list(list_lock, tables, Vec::new()) {
            output.into_iter().for_each(|table| table.keep_in_doubt(&failure));
            return Err(failure);
        }
        output.into_iter().for_each(NewTable::keep);
        stack.retire(&inputs)?;
        drop(locks);
        Ok(Compacted::Done(inputs.len()))
    }
}

/// Lets a signal end a long compaction, or the copying of older records in an addition. It checks for signals once in
/// 4,096 records.
#[derive(Default)]
pub(super) struct Checkpoint(u32);

impl Checkpoint {
    pub(super) fn pass(&mut self) -> Result<(), StackError> {
        self.0 = self.0.wrapping_add(1);
        if self.0 % 4096 == 0 {
            interrupt::check().map_err(StackError::Interrupted)?;
        }
        Ok(())
    }
}

/// The longest range within `among` that the geometric rule wants merged and of which no table is being compacted.
///
/// Where many processes write, one of the youngest tables is being compacted nearly always. If only tables younger than
/// that one were ever claimed, the older ones would not be merged as long as the writers are busy, and the list would
/// grow without bounds.
fn longest_due(stack: &Stack, tables: &[Listed], among: Range<usize>) -> Option<Range<usize>> {
    let is_locked = |at: &usize| {
        let lock = Lock::path_of(&stack.path_of(&tables[*at].name));
        !stack.fs().stat_link(&lock).is_err_and(|error| error.is_not_found())
    };
    let (start, end) = (among.start, among.end);
    let ends: Vec<usize> = among.filter(is_locked).chain([end]).collect();
    let starts = [start].into_iter().chain(ends.iter().map(|at| at + 1));
    let free = starts.zip(&ends).filter(|(start, end)| start < end);
    let due = free.filter_map(|(start, end)| {
        let sizes: Vec<u64> = tables[start..*end].iter().map(Listed::weight).collect();
        let due = plan(&sizes, stack.options().geometric_factor)?;
        Some(start + due.start..start + due.end)
    });
    due.max_by_key(ExactSizeIterator::len)
}

/// The position in `tables` at which `inputs` stand next to each other in this order.
fn find(inputs: &[Listed], tables: &[Listed]) -> Option<usize> {
    let first = inputs.first()?;
    let at = tables.iter().position(|listed| listed.name == first.name)?;
    let found = tables.get(at..at + inputs.len())?;
    found.iter().map(|listed| &listed.name).eq(inputs.iter().map(|listed| &listed.name)).then_some(at)
}

/// The least and the greatest update index that the refs of these tables may have.
pub(super) fn limits(tables: &[Listed]) -> (u64, u64) {
    debug_assert!(!tables.is_empty(), "a merged table has the limits of others");
    let min = tables.iter().map(|listed| listed.table.min_update_index()).min();
    let max = tables.iter().map(|listed| listed.table.max_update_index()).max();
    (min.unwrap_or(0), max.unwrap_or(0))
}

/// Writes the records of `merged` as one table. Tombstones are dropped if the oldest table is among the inputs
/// (`with_oldest`), since there is nothing left for them to hide.
pub(super) fn write_merged(
    merged: &Merged,
    options: WriteOptions,
    update_indexes: RangeInclusive<u64>,
    with_oldest: bool,
    expiry: Option<LogExpiry>,
    sink: &mut impl Sink,
) -> Result<Summary, StackError> {
    let mut writer = TableWriter::new(options, *update_indexes.start(), *update_indexes.end(), sink)?;
    let mut refs = merged.refs();
    let mut checkpoint = Checkpoint::default();
    while let Some(record) = refs.next_with_tombstones()? {
        checkpoint.pass()?;
        if !(with_oldest && record.is_deletion()) {
            match writer.add_ref(&record) {
                Err(error) if error.is_too_large() => {
                    return Err(refs_too_large(merged, options, with_oldest)?);
                }
                added => added?,
            }
        }
    }
    let mut logs = merged.logs();
    while let Some(record) = logs.next_with_tombstones()? {
        checkpoint.pass()?;
        let expired = expiry.is_some_and(|expiry| expiry.drops(&record));
        if !(expired || with_oldest && record.is_deletion()) {
            writer.copy_log(&record)?;
        }
    }
    Ok(writer.finish()?)
}

/// The error about the refs for which not every table has room, except for tombstones that would be dropped.
#[cold]
fn refs_too_large(merged: &Merged, options: WriteOptions, with_oldest: bool) -> Result<StackError, StackError> {
    let (mut cursor, mut refs) = (merged.refs(), Vec::new());
    let mut checkpoint = Checkpoint::default();
    while let Some(record) = cursor.next_with_tombstones()? {
        checkpoint.pass()?;
        if !(with_oldest && record.is_deletion() || options.has_room_for(&record)) {
            refs.push(record.name.to_owned());
        }
    }
    Ok(StackError::RefsTooLarge { refs, block_size: options.block_size })
}

impl LogExpiry {
    fn drops(&self, record: &LogRecord<'_>) -> bool {
        let before = match record.value {
            LogValue::Deletion => false,
            LogValue::Update { time_seconds, .. } => time_seconds < self.before_seconds,
        };
        before || record.update_index < self.below_update_index
    }
}
