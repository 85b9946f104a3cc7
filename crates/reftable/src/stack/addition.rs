use super::{
    AdditionWriter, Committed, Compaction, Listed, NewTable, Snapshot, Stack, StackError, TableName,
    backoff::{Backoff, Past},
    compact::{Claim, limits, write_merged},
    group::{Group, Outcome, Turn},
    plan,
    snapshot::merge,
};
use crate::{Summary, TableWriter, format::BlockKind};
use refdb_vfs::{Acquired, Lock, LockTimeout};
use std::{
    ops::{Range, RangeInclusive},
    sync::MutexGuard,
    time::Instant,
};

/// A merge of the new tables with older ones that is due is made under the list's lock if the [cost] of all of them is
/// at most this. Such a merge takes less time than the system calls of a separate compaction, so it does not make other
/// writers wait longer.
const MERGE_AT_ONCE_BYTES: u64 = 32 << 10;

/// The factor by which the size of a table with log entries is multiplied, because inflating and deflating them takes
/// longer.
const LOGS_COUNT_TIMES: u64 = 4;

/// A new table that will have to be merged with older ones is written merged at once only if the [cost] of the older
/// ones is at most this many times its expected size, or at most [`MERGE_AT_ONCE_BYTES`]: writing it alone and then all
/// of them again would cost more. The list stays locked during the merge, but checking the new refs under the same lock
/// has taken several times as long.
const MERGE_AT_MOST_TIMES: u64 = 2;

/// A locked stack, to which tables are being added. Dropping it removes what it made and unlocks the stack, unless the
/// lock is that of another writer, which this addition has [joined](Stack::join).
#[must_use = "the addition is rolled back when this is dropped"]
#[derive(Debug)]
pub struct Addition {
    pub(super) stack: Stack,
    pub(super) base: Snapshot,
    /// The number of tables of `base` that stay, counted from the oldest. The records of the others are in new tables.
    pub(super) kept: usize,
    pub(super) next_update_index: u64,
    pub(super) locked: Instant,
    // Fields are dropped in this order, so that the files are removed before the lock.
    pub(super) tables: Vec<NewTable>,
    pub(super) lock: Held,
}

/// Under whose lock an addition is made.
#[derive(Debug)]
#[expect(clippy::large_enum_variant, reason = "nearly all are the large one")]
pub(super) enum Held {
    /// The lock that this process holds; this process replaces the list.
    Lock(Lock),
    /// The lock of another writer, which adds the records of this addition to its own.
    Turn(Turn),
}

impl Stack {
    /// Locks the stack for an addition, waiting as long as `lock_timeout` says, and reads the list again.
    ///
    /// Except with [`LockTimeout::None`], this first pauses for some milliseconds if writers that do not wait in the
    /// same queue, such as git and JGit, have written a moment ago, so that they get the lock, too, or if this open
    /// stack has just been in a group of writers that [join](Self::join) one another, so that the others can come. On a
    /// network file system there is no queue.
    ///
    /// # Errors
    ///
    /// [`StackError::Lock`] if the lock cannot be acquired, for example because it is held for longer than
    /// `lock_timeout`, and errors of reading the list and its tables.
    pub fn lock(&self, lock_timeout: LockTimeout) -> Result<Addition, StackError> {
        self.locked(self.take_turn(lock_timeout, false)?.into_lock())
    }

    /// Locks the list, or gets a turn under the lock of another writer if this one `joins`. If writers outside the
    /// queue are expected, this first pauses as [`lock`](Self::lock) does, so that they can take the lock.
    pub(super) fn take_turn(&self, lock_timeout: LockTimeout, joins: bool) -> Result<Acquired, StackError> {
        let pause = self.backoff().pause(Instant::now());
        if !pause.is_zero() && lock_timeout != LockTimeout::None {
            std::thread::sleep(pause);
        }
        let crowd = self.backoff().crowd(Instant::now());
        self.lock_list_or_join(lock_timeout, joins, crowd)
    }

    /// Begins an addition for a caller that has already locked the list, [`list_path`](Self::list_path).
    ///
    /// # Errors
    ///
    /// If the list or a table cannot be read or is invalid.
    ///
    /// # Panics
    ///
    /// If the lock is not that of this stack's list.
    pub fn locked(&self, lock: Lock) -> Result<Addition, StackError> {
        assert_eq!(lock.target(), self.list_path(), "the lock is that of this stack's list");
        let locked = Instant::now();
        let base = self.reload()?;
        Ok(Addition::new(self.clone(), lock, locked, base))
    }
}

impl Addition {
    pub(super) fn new(stack: Stack, lock: Lock, locked: Instant, base: Snapshot) -> Self {
        let next_update_index = base.next_update_index();
        let kept = base.tables().len();
        Addition { stack, base, kept, next_update_index, locked, tables: Vec::new(), lock: Held::Lock(lock) }
    }

    /// The stack under the lock, without the tables that this addition adds.
    pub fn snapshot(&self) -> &Snapshot {
        &self.base
    }

    /// The least update index that the next table may have.
    pub fn next_update_index(&self) -> u64 {
        self.next_update_index
    }

    /// Drops the tables that were added. The stack stays locked.
    pub fn clear(&mut self) {
        self.tables.clear();
        self.kept = self.base.tables().len();
        self.next_update_index = self.base.next_update_index();
    }

    /// Adds a table with the records that `build` writes. The update indexes of refs must lie within `limits`. A log
    /// entry may have a smaller one, and a tombstone of a log entry any. If `build` writes no records, no table is
    /// added.
    ///
    /// `expected_bytes` is an estimate of the table's size, which should be too low rather than too high, or 0 if it is
    /// unknown. If a table of that size would be merged with older ones at once, their records can be copied into it
    /// while it is written. If there is no room for them on the disk, or if the table cannot be completed because they
    /// do not fit into its blocks, the table is written again without them; `build` is called twice then.
    ///
    /// # Errors
    ///
    /// The error of `build`; [`StackError::UpdateIndex`] if `limits` begin before
    /// [`next_update_index`](Self::next_update_index) or are empty; and errors of copying older tables and of writing.
    pub fn add_table<E: From<StackError>>(
        &mut self,
        limits: RangeInclusive<u64>,
        expected_bytes: u64,
        mut build: impl FnMut(&mut AdditionWriter<'_>) -> Result<(), E>,
    ) -> Result<Summary, E> {
        let (min, max, next) = (*limits.start(), *limits.end(), self.next_update_index);
        if min < next || max < min {
            return Err(StackError::UpdateIndex { min, max, next }.into());
        }
        let mut start = self.taken_in_from(expected_bytes);
        let (mut table, mut written, is_too_much) = self.write_table(&limits, start, &mut build);
        if start < self.kept && is_too_much {
            drop(table);
            start = self.kept;
            (table, written, _) = self.write_table(&limits, start, &mut build);
        }
        debug_assert!(start <= self.kept, "a new table stands behind those that stay: {start}");
        let Some(summary) = written? else { return Ok(Summary::default()) };
        assert!(start == self.kept || self.tables.is_empty(), "only the first new table takes in older ones");
        self.kept = start;
        self.next_update_index = max.saturating_add(1);
        if has_records(summary) {
            self.tables.push(table);
        }
        Ok(summary)
    }

    /// Writes a table with the records of `build` and of the older tables from `start` on. The summary is `None` if
    /// `build` adds no records. Under this process's own lock, a table with records of older ones is written to its
    /// file here, because the caller can still do without them if there is no room. The flag is set if writing failed
    /// because of those records or because there was no room.
    fn write_table<E: From<StackError>>(
        &self,
        limits: &RangeInclusive<u64>,
        start: usize,
        build: &mut impl FnMut(&mut AdditionWriter<'_>) -> Result<(), E>,
    ) -> (NewTable, Result<Option<Summary>, E>, bool) {
        let older = &self.base.tables()[start..self.kept];
        let (min, max) = (*limits.start(), *limits.end());
        debug_assert!(older.iter().all(|listed| listed.table.max_update_index() <= min), "a new table is the newest");
        let oldest = older.iter().map(|listed| listed.table.min_update_index()).min().unwrap_or(min);
        let mut table = NewTable::under_lock(&self.stack, oldest, max);
        let mut is_too_large = false;
        let mut write = || {
            let options = self.stack.options().write;
            let writer = TableWriter::new(options, oldest, max, &mut table).map_err(StackError::from)?;
            let merged = if older.is_empty() { None } else { Some(merge(older)?) };
            let with_oldest = start == 0 && merged.is_some();
            let mut writer = AdditionWriter::new(writer, limits.clone(), merged.as_ref(), with_oldest);
            let built = build(&mut writer);
            is_too_large = writer.is_older_too_large();
            built?;
            let summary = writer.finish().inspect_err(|error| is_too_large = error.is_too_large())?;
            let is_written_here = matches!(self.lock, Held::Lock(_));
            if is_written_here && !older.is_empty() && summary.is_some_and(has_records) {
                table.write_out()?;
            }
            Ok(summary)
        };
        let written = write();
        let is_too_much = written.is_err() && (is_too_large || table.lacks_room());
        (table, written, is_too_much)
    }

    /// Makes the added tables visible, all or none, and unlocks the stack.
    ///
    /// With [`Durability::Sync`](super::Durability::Sync) the addition survives a crash of the machine once this
    /// returns.
    ///
    /// # Errors
    ///
    /// If a table or the list cannot be written, or if tables that are merged at once cannot be read or a signal asks
    /// the process to end meanwhile. The stack is unchanged then, except after [`StackError::NotDurable`], and unless
    /// the server of a network file system replaces the list nevertheless. An addition that [joined](Stack::join)
    /// another writer can also fail with [`StackError::GroupGivenUp`], after which the stack is unchanged, and with
    /// [`StackError::OutcomeUnknown`].
    pub fn commit(mut self) -> Result<Committed, StackError> {
        if matches!(self.lock, Held::Turn(_)) {
            return self.end_turn();
        }
        let mut group = self.gather()?;
        if self.tables.is_empty() && self.kept == self.base.tables().len() {
            self.lock.into_own().release()?;
            if let Some(group) = &mut group {
                let past = group.past(&self.stack, &self.base, self.next_update_index, self.locked.elapsed());
                group.tell(Outcome::Done { is_durable: true, group: past });
            }
            return Ok(Committed { compaction: None });
        }
        let mut tables = self.base.tables()[..self.kept].to_vec();
        for table in &mut self.tables {
            if !table.is_small() {
                table.write_out()?;
            }
            tables.push(table.open()?);
        }
        let mut due = self.plan(&tables);
        if let Some(start) = due.as_ref().and_then(|range| self.merge_start(&tables, range)) {
            due = None;
            self.merge_from(start, &mut tables)?;
        }
        // The leader of a group syncs its tables together with the list, so that no member waits for one sync after
        // another.
        let syncs_jointly = group.as_ref().is_some_and(Group::has_members);
        let mut unsynced = Vec::new();
        for table in &mut self.tables {
            if syncs_jointly {
                unsynced.extend(table.write_unsynced()?);
            } else if !refdb_vfs::planted("reftable-list") {
                table.write_out()?;
            }
        }
        assert!(self.tables.iter().all(NewTable::is_complete), "a list names written tables");
        assert!(
            names(&tables[..self.kept]).eq(names(&self.base.tables()[..self.kept])),
            "the tables that stay are those of the list that is replaced, in its order"
        );
        debug_assert_eq!(tables.len(), self.kept + self.tables.len(), "the new tables stand behind those that stay");
        // A larger compaction locks its tables here, while the list is locked anyway, since under contention it might
        // never get the list's lock. If another process compacts the tables, there is nothing to do.
        let claim = |range| Compaction::claim(&self.stack, &tables, range, Claim::WhatIsFree).unwrap_or_default();
        let compaction = due.and_then(claim);
        let Addition { stack, base, kept, tables: added, lock, locked, next_update_index } = self;
        let begun = Instant::now();
        if let Some(group) = group.as_mut().filter(|_| refdb_vfs::planted("reftable-group")) {
            group.tell(Outcome::Done { is_durable: true, group: Past::default() });
        }
        if let Err(failure) = stack.replace_list(lock.into_own(), tables, unsynced) {
            added.into_iter().for_each(|table| table.keep_in_doubt(&failure));
            return Err(failure);
        }
        added.into_iter().for_each(NewTable::keep);
        let synced = stack.sync_names().map_err(StackError::NotDurable);
        let mut backoff = turn_ended(&stack, &base, locked, next_update_index);
        backoff.end_list(begun.elapsed());
        let past = group.as_mut().map(|group| group.past(&stack, &base, next_update_index, locked.elapsed()));
        past.into_iter().for_each(|past| backoff.end_group(past));
        drop(backoff);
        if let (Some(group), Some(past)) = (&mut group, past) {
            group.tell(Outcome::Done { is_durable: synced.is_ok(), group: past });
        }
        // The next writer need not wait until the tables that are merged now are removed.
        drop(group);
        synced?;
        let kept = if refdb_vfs::planted("reftable-retire") { 0 } else { kept };
        stack.remove_tables(&base.tables()[kept..]);
        Ok(Committed { compaction })
    }

    fn plan(&self, tables: &[Listed]) -> Option<Range<usize>> {
        self.plan_sizes(tables.iter().map(Listed::weight).collect())
    }

    fn plan_sizes(&self, sizes: Vec<u64>) -> Option<Range<usize>> {
        let options = self.stack.options();
        if options.auto_compact { plan(&sizes, options.geometric_factor) } else { None }
    }

    /// The position of the first table of `base` whose records a new table of about this size should include, or `kept`
    /// if it should include none. Only the first new table includes older ones.
    ///
    /// An estimate that is too low does no harm, because the plan for it merges no more tables than that for the real
    /// size.
    fn taken_in_from(&self, expected_bytes: u64) -> usize {
        let tables = self.base.tables();
        let (old, none) = (tables.len(), self.kept);
        match &self.lock {
            // The table of those that had their turn before has no file of its own.
            Held::Turn(turn) => return if self.tables.is_empty() { turn.listed } else { none },
            // Each member of a group would copy the records of older tables again.
            Held::Lock(lock) if lock.has_queue() => return none,
            Held::Lock(_) => {}
        }
        if expected_bytes == 0 || none < old || !self.tables.is_empty() {
            return none;
        }
        let sizes = tables.iter().map(Listed::weight).chain([expected_bytes]).collect();
        let Some(due) = self.plan_sizes(sizes).filter(|due| due.end > old) else { return none };
        let most = MERGE_AT_ONCE_BYTES.max(expected_bytes.saturating_mul(MERGE_AT_MOST_TIMES));
        if cost(&tables[due.start..]) > most { none } else { self.free_from(tables, due.start) }
    }

    /// The position in `tables`, which end with the new ones, of the first that is merged at once; `None` if none is.
    fn merge_start(&self, tables: &[Listed], due: &Range<usize>) -> Option<usize> {
        debug_assert!(due.start < due.end && due.end <= tables.len(), "a plan is of these tables: {due:?}");
        // No list names a part of the new tables, so a merge includes all of them.
        let start = due.start.min(self.kept);
        if due.end < tables.len() || cost(&tables[start..]) > MERGE_AT_ONCE_BYTES {
            return None;
        }
        let start = self.free_from(&tables[..self.kept], start);
        (tables.len() - start >= 2).then_some(start)
    }

    /// The first position, not before `start`, from which on no table has a lock file, as a table has while it is
    /// compacted. No other process can begin a compaction now, because this one holds the list's lock.
    fn free_from(&self, tables: &[Listed], start: usize) -> usize {
        let is_locked = |listed: &Listed| {
            let lock = Lock::path_of(&self.stack.path_of(&listed.name));
            !self.stack.fs().stat_link(&lock).is_err_and(|error| error.is_not_found())
        };
        let locked = (start..tables.len()).rev().find(|at| is_locked(&tables[*at]));
        locked.map_or(start, |locked| locked + 1)
    }

    /// Replaces `tables[start..]`, which include all new tables, with one table of their records. If there is no room
    /// for it, or if the records do not fit into blocks, nothing is merged, and the next addition tries again.
    fn merge_from(&mut self, start: usize, tables: &mut Vec<Listed>) -> Result<(), StackError> {
        let inputs = &tables[start..];
        let (min, max) = limits(inputs);
        assert!(start <= tables.len() - self.tables.len(), "all new tables are merged, since none is listed by itself");
        debug_assert!(inputs.len() >= 2, "one table alone is merged already");
        let mut merged = NewTable::under_lock(&self.stack, min, max);
        let written =
            write_merged(&merge(inputs)?, self.stack.options().write, min..=max, start == 0, None, &mut merged);
        let written = written.and_then(|summary| {
            if has_records(summary) {
                merged.write_out()?;
            }
            Ok(summary)
        });
        if written.as_ref().is_err_and(|error| error.is_too_large() || merged.lacks_room()) {
            return Ok(());
        }
        let summary = written?;
        self.kept = self.kept.min(start);
        tables.truncate(start);
        self.tables.clear();
        debug_assert!(tables.len() == self.kept, "the merged table stands behind those that stay: {tables:?}");
        if has_records(summary) {
            tables.push(merged.open()?);
            self.tables.push(merged);
        }
        Ok(())
    }
}

impl Held {
    fn into_own(self) -> Lock {
        match self {
            Held::Lock(lock) => lock,
            Held::Turn(_) => unreachable!("a turn ends with an answer, not with a list"),
        }
    }
}

/// Records the end of a turn that began when the list was `locked`, found `base`, and left this next update index.
pub(super) fn turn_ended<'s>(stack: &'s Stack, base: &Snapshot, locked: Instant, left: u64) -> MutexGuard<'s, Backoff> {
    let (mut backoff, now) = (stack.backoff(), Instant::now());
    if has_met_strangers(stack, base, backoff.left()) {
        backoff.expect_strangers(now);
    }
    backoff.end_turn(locked, now, base.next_update_index(), left);
    backoff
}

/// Returns whether a writer outside the queue of `stack` has written since the last turn of this open stack. `left` is
/// the next update index at the end of that turn, or `None` if there was no turn yet, and `found` is the stack as read
/// under its lock. On a network file system, where there is no queue, such a writer is assumed from the second turn on.
fn has_met_strangers(stack: &Stack, found: &Snapshot, left: Option<u64>) -> bool {
    let Some(left) = left else { return false };
    let mut new = found.tables().iter().rev().take_while(|listed| listed.table.max_update_index() >= left);
    stack.fs().asks_server() || new.any(|listed| !listed.name.is_by(stack.writers()))
}

/// Returns whether a table has any records.
fn has_records(summary: Summary) -> bool {
    summary.refs + summary.logs > 0
}

fn names(tables: &[Listed]) -> impl Iterator<Item = &TableName> {
    tables.iter().map(|listed| &listed.name)
}

/// The cost of merging these tables: their size in bytes, in which tables with log entries count [`LOGS_COUNT_TIMES`].
fn cost(tables: &[Listed]) -> u64 {
    let cost = |listed: &Listed| {
        let has_logs = listed.table.section(BlockKind::Log).is_some();
        listed.table.len_bytes().saturating_mul(if has_logs { LOGS_COUNT_TIMES } else { 1 })
    };
    tables.iter().map(cost).fold(0, u64::saturating_add)
}
