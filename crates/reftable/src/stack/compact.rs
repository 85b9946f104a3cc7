use super::{Listed, NewTable, Snapshot, Stack, StackError, TableName, options::NEW_FILE_MODE, snapshot::merge};
use crate::{LogFit, LogRecord, LogValue, Merged, Sink, Summary, TableWriter, WriteOptions};
use refdb_vfs::{Lock, LockError, Patience, interrupt};
use std::ops::Range;

/// How many compactions of others, one after the other, are waited for.
const WAITS_MAX: usize = 100;

/// What a compaction takes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Scope {
    /// What the geometric rule asks for, so far as nobody else is compacting it.
    Geometric,
    /// All tables, and of the log only entries that are not expired. One table is left as it is unless C git could not
    /// rewrite it.
    All(Option<LogExpiry>),
}

/// Which log entries a compaction of all tables drops.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LogExpiry {
    /// Those made before this second since 1970.
    pub before_seconds: u64,
    /// Those with an update index below this.
    pub below_update_index: u64,
}

/// What came of a compaction.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Compacted {
    /// The stack was compact enough.
    NotNeeded,
    /// These tables became one, or none if no record was left.
    Done(usize),
    /// Someone replaced the tables meanwhile although they were locked. Nothing was changed.
    Overtaken,
}

/// An addition that was made.
#[must_use = "a stack whose compactions are not run grows without bounds"]
#[derive(Debug)]
#[non_exhaustive]
pub struct Committed {
    /// The stack right after it.
    pub snapshot: Snapshot,
    /// A compaction that is now due. Its tables are locked already, the list is not. The caller may run it after giving
    /// up other locks, or another thread may.
    pub compaction: Option<Compaction>,
}

/// Neighbouring tables that are locked to be made one. Dropping it unlocks them.
///
/// The tables are locked by `NAME.lock`, as C git and JGit do, so that nobody else compacts them. Additions to the
/// stack are not held back meanwhile.
#[must_use = "the tables are unlocked when this is dropped"]
#[derive(Debug)]
pub struct Compaction {
    stack: Stack,
    inputs: Vec<Listed>,
    /// There is nothing below the inputs that a deletion could hide.
    with_oldest: bool,
    expiry: Option<LogExpiry>,
    locks: Vec<Lock>,
}

/// What to do where another compactor has locked some of the tables.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Claim {
    Everything,
    /// The youngest two or more that are free.
    WhatIsFree,
}

impl Stack {
    /// Makes one table of those in `scope`. Locks are waited for as `patience` says.
    pub fn compact(&self, scope: Scope, patience: Patience) -> Result<Compacted, StackError> {
        match self.claim_compaction(scope, patience)? {
            None => Ok(Compacted::NotNeeded),
            Some(compaction) => compaction.run(patience),
        }
    }

    /// The present tables, and which of them [`Stack::compact`] would make one; none if the range is empty. Locks
    /// nothing.
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

    fn claim_compaction(&self, scope: Scope, patience: Patience) -> Result<Option<Compaction>, StackError> {
        let unwritable = match scope {
            Scope::All(None) => self.single_unwritable()?,
            _ => None,
        };
        let mut waits_left = WAITS_MAX;
        loop {
            let list_lock = self.lock_list(patience)?;
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
            // Another compactor has one of the tables. It needs the list's lock to finish; then we look again.
            let table = path.with_extension("");
            list_lock.release()?;
            Lock::acquire(self.fs(), &table, NEW_FILE_MODE, patience)?.release()?;
        }
    }

    /// The stack's only table, if C git needs its log entries cut, or cannot read one of its blocks. Looked for
    /// before anything is locked.
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

    /// Removes tables that the new list does not name any more, once that list is sure to last.
    pub(super) fn retire(&self, tables: &[Listed]) -> Result<(), StackError> {
        let listed = self.snapshot();
        let is_listed = |name: &TableName| listed.tables().iter().any(|listed| listed.name == *name);
        assert!(tables.iter().all(|table| !is_listed(&table.name)), "no listed table is removed: {tables:?}");
        self.sync_names().map_err(StackError::NotDurable)?;
        for listed in tables {
            // One that stays, for want of permission perhaps, is clutter that nobody reads.
            let _ = self.fs().remove_file(&self.path_of(&listed.name));
        }
        Ok(())
    }
}

impl Compaction {
    /// Locks the tables of `range`, the youngest first. A writer that adds tables while an older compaction runs can
    /// then compact those. The list must be locked. `None` if less than two are free.
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
            match Lock::acquire(stack.fs(), &stack.path_of(&listed.name), NEW_FILE_MODE, Patience::None) {
                Ok(mut lock) => {
                    lock.close();
                    locks.push(lock);
                    start -= 1;
                }
                Err(LockError::Held { .. }) if claim == Claim::WhatIsFree => break,
                Err(error) => return Err(error.into()),
            }
        }
        if claim == Claim::WhatIsFree && locks.len() < 2 {
            return Ok(None);
        }
        let inputs = tables[start..range.end].to_vec();
        assert!(
            range.start <= start && locks.len() == inputs.len(),
            "each table of a compaction is locked: {inputs:?}"
        );
        Ok(Some(Compaction { stack: stack.clone(), inputs, with_oldest: start == 0, expiry: None, locks }))
    }

    /// Merges the tables, then locks the list, waiting as `patience` says, and puts the new table in their place.
    pub fn run(self, patience: Patience) -> Result<Compacted, StackError> {
        let Compaction { stack, inputs, with_oldest, expiry, locks } = self;
        let (min, max) = limits(&inputs);
        let mut output = NewTable::without_lock(&stack, min, max);
        let write = stack.options().write;
        let summary = write_merged(&merge(&inputs)?, write, (min, max), with_oldest, expiry, &mut output)?;
        let mut output = (summary.refs + summary.logs > 0).then_some(output);
        if let Some(output) = &mut output {
            output.write_out()?;
        }

        let list_lock = stack.lock_list(patience)?;
        let mut tables = stack.reload()?.tables().to_vec();
        let Some(at) = find(&inputs, &tables).filter(|&at| at == 0 || !with_oldest) else {
            return Ok(Compacted::Overtaken);
        };
        let replacement = match &mut output {
            None => None,
            Some(output) => {
                output.put_in_place()?;
                Some(output.open()?)
            }
        };
        debug_assert_eq!(list_lock.target(), stack.list_path(), "the lock is the list's");
        assert!(output.iter().all(NewTable::is_complete), "a list names written tables");
        tables.splice(at..at + inputs.len(), replacement);
        stack.replace_list(list_lock, tables)?;
        output.into_iter().for_each(NewTable::keep);
        stack.retire(&inputs)?;
        drop(locks);
        Ok(Compacted::Done(inputs.len()))
    }
}

/// Lets a signal end a long compaction without asking for signals at every record.
#[derive(Default)]
pub(super) struct Checkpoint(u32);

impl Checkpoint {
    pub(super) fn pass(&mut self) -> Result<(), StackError> {
        self.0 = self.0.wrapping_add(1);
        if self.0.is_multiple_of(4096) {
            interrupt::check().map_err(StackError::Interrupted)?;
        }
        Ok(())
    }
}

/// Where `inputs` stand in `tables`, next to each other and in this order.
fn find(inputs: &[Listed], tables: &[Listed]) -> Option<usize> {
    let first = inputs.first()?;
    let at = tables.iter().position(|listed| listed.name == first.name)?;
    let found = tables.get(at..at + inputs.len())?;
    found.iter().map(|listed| &listed.name).eq(inputs.iter().map(|listed| &listed.name)).then_some(at)
}

/// The update indexes that the records of these tables may have.
pub(super) fn limits(tables: &[Listed]) -> (u64, u64) {
    debug_assert!(!tables.is_empty(), "a merged table has the limits of others");
    let min = tables.iter().map(|listed| listed.table.min_update_index()).min();
    let max = tables.iter().map(|listed| listed.table.max_update_index()).max();
    (min.unwrap_or(0), max.unwrap_or(0))
}

/// Writes the records of `merged` as one table. If there is nothing below (`with_oldest`), deletions hide nothing any
/// more and are left out.
pub(super) fn write_merged(
    merged: &Merged,
    options: WriteOptions,
    (min, max): (u64, u64),
    with_oldest: bool,
    expiry: Option<LogExpiry>,
    sink: &mut impl Sink,
) -> Result<Summary, StackError> {
    let mut writer = TableWriter::new(options, min, max, sink)?;
    let mut refs = merged.refs();
    let mut checkpoint = Checkpoint::default();
    while let Some(record) = refs.next_with_tombstones()? {
        checkpoint.pass()?;
        if !(with_oldest && record.is_deletion()) {
            match writer.add_ref(&record) {
                Err(error) if error.is_too_large() => return Err(refs_too_large(merged, options)?),
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

/// The error about every ref that no block has room for.
#[cold]
fn refs_too_large(merged: &Merged, options: WriteOptions) -> Result<StackError, StackError> {
    let (mut cursor, mut refs) = (merged.refs(), Vec::new());
    let mut checkpoint = Checkpoint::default();
    while let Some(record) = cursor.next_with_tombstones()? {
        checkpoint.pass()?;
        if !options.has_room_for(&record) {
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
