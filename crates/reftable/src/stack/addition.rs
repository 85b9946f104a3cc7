use super::{
    AdditionWriter, Committed, Compaction, Listed, NewTable, Snapshot, Stack, StackError, TableName,
    compact::{Claim, limits, write_merged},
    plan,
    snapshot::merge,
};
use crate::{Summary, TableWriter, format::BlockKind};
use refdb_vfs::{Lock, Patience};
use std::{
    ops::{Range, RangeInclusive},
    time::Instant,
};

/// New tables are merged with their neighbours under the list's lock if together they come to at most this size. A
/// merge of this size takes less time than the system calls of a separate compaction. So no other writer waits longer
/// for it.
const MERGE_AT_ONCE_BYTES: u64 = 32 << 10;

/// A table with log entries counts this number of times. They are deflated, and to inflate and deflate them takes
/// longer.
const LOGS_COUNT_TIMES: u64 = 4;

/// A new table is due to be merged with older ones. If it will be this many times as large as they are, or larger, it
/// is written merged at once. To write it alone, and then both again, would cost more. The list stays locked for that.
/// To find out that the new refs may be made took several times as long under the same lock.
const MERGE_AT_MOST_TIMES: u64 = 2;

/// A locked stack, to which tables are being added. Dropping it removes what it made and unlocks the stack.
#[must_use = "the addition is rolled back when this is dropped"]
#[derive(Debug)]
pub struct Addition {
    stack: Stack,
    base: Snapshot,
    /// The number of tables of `base` that stay, the oldest ones. The records of the others are in new tables.
    kept: usize,
    next_update_index: u64,
    locked: Instant,
    // In this order: the files go before the lock does.
    tables: Vec<NewTable>,
    lock: Lock,
}

impl Stack {
    /// Locks the stack for an addition, waiting as `patience` says. Under the lock the list is read again, so what
    /// another writer did meanwhile is no reason to fail.
    pub fn lock(&self, patience: Patience) -> Result<Addition, StackError> {
        let pause = self.courtesy().pause(Instant::now());
        if !pause.is_zero() && patience != Patience::None {
            std::thread::sleep(pause);
        }
        let lock = self.lock_list(patience)?;
        self.locked(lock)
    }

    /// The addition of a caller that has locked the stack's list already. The same as [`lock`](Self::lock) from there
    /// on.
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
        Addition { stack, base, kept, next_update_index, locked, tables: Vec::new(), lock }
    }

    /// The stack as it is under the lock, without what this addition adds.
    pub fn snapshot(&self) -> &Snapshot {
        &self.base
    }

    /// The lowest update index that the next table may have.
    pub fn next_update_index(&self) -> u64 {
        self.next_update_index
    }

    /// Gives up the tables that were added. The stack stays locked.
    pub fn clear(&mut self) {
        self.tables.clear();
        self.kept = self.base.tables().len();
        self.next_update_index = self.base.next_update_index();
    }

    /// Adds a table with the records that `build` writes, whose update indexes lie within `limits`. Without records
    /// there is no table.
    ///
    /// `expected_bytes` is about what these records will come to, at least; 0 where that is not known. A table that
    /// would be merged with older ones at once takes in their records while it is written. If there is no room for
    /// that, or if the records of all do not fit into blocks, it is written without them: then `build` is called twice.
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

    /// Writes what `build` does, and what the older tables from `start` on have. `None` if `build` gives no record. A
    /// table that takes in older ones is in its file then, since there is another way still. The flag tells that it
    /// failed because of what it took in, or for want of room.
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
        let mut is_unindexable = false;
        let mut write = || {
            let options = self.stack.options().write;
            let writer = TableWriter::new(options, oldest, max, &mut table).map_err(StackError::from)?;
            let merged = if older.is_empty() { None } else { Some(merge(older)?) };
            let with_oldest = start == 0 && merged.is_some();
            let mut writer = AdditionWriter::new(writer, limits.clone(), merged.as_ref(), with_oldest);
            build(&mut writer)?;
            let summary = writer.finish().inspect_err(|error| is_unindexable = error.is_too_large())?;
            if !older.is_empty() && summary.is_some_and(has_records) {
                table.write_out()?;
            }
            Ok(summary)
        };
        let written = write();
        let is_too_much = written.is_err() && (is_unindexable || table.lacks_room());
        (table, written, is_too_much)
    }

    /// Makes the addition visible, whole or not at all, and unlocks the stack.
    pub fn commit(mut self) -> Result<Committed, StackError> {
        if self.tables.is_empty() && self.kept == self.base.tables().len() {
            self.lock.release()?;
            return Ok(Committed { snapshot: self.base, compaction: None });
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
        for table in &mut self.tables {
            table.write_out()?;
        }
        assert!(self.tables.iter().all(NewTable::is_complete), "a list names written tables");
        assert!(
            names(&tables[..self.kept]).eq(names(&self.base.tables()[..self.kept])),
            "the tables that stay are those of the list that is replaced, in its order"
        );
        debug_assert_eq!(tables.len(), self.kept + self.tables.len(), "the new tables stand behind those that stay");
        // A larger compaction claims its tables here, where the list is locked anyway. Under contention the lock would
        // never be free for it. If another compactor has them, it is that one's turn.
        let claim = |range| Compaction::claim(&self.stack, &tables, range, Claim::WhatIsFree).unwrap_or_default();
        let compaction = due.and_then(claim);
        let Addition { stack, base, kept, tables: added, lock, locked, next_update_index } = self;
        let snapshot = stack.replace_list(lock, tables)?;
        stack.courtesy().end_turn(locked, Instant::now(), base.next_update_index(), next_update_index);
        added.into_iter().for_each(NewTable::keep);
        stack.retire(&base.tables()[kept..])?;
        Ok(Committed { snapshot, compaction })
    }

    fn plan(&self, tables: &[Listed]) -> Option<Range<usize>> {
        self.plan_sizes(tables.iter().map(Listed::weight).collect())
    }

    fn plan_sizes(&self, sizes: Vec<u64>) -> Option<Range<usize>> {
        let options = self.stack.options();
        if options.auto_compact { plan(&sizes, options.geometric_factor) } else { None }
    }

    /// The position in the base's tables from which a new one of about this size takes them in. It is behind the last
    /// if the new one takes in none. Only the first new table takes in old ones.
    ///
    /// An estimate that is too low does no harm. The plan then asks for less than it will for the known size.
    fn taken_in_from(&self, expected_bytes: u64) -> usize {
        let tables = self.base.tables();
        let (old, none) = (tables.len(), self.kept);
        if expected_bytes == 0 || none < old || !self.tables.is_empty() {
            return none;
        }
        let sizes = tables.iter().map(Listed::weight).chain([expected_bytes]).collect();
        let Some(due) = self.plan_sizes(sizes).filter(|due| due.end > old) else { return none };
        let most = MERGE_AT_ONCE_BYTES.max(expected_bytes.saturating_mul(MERGE_AT_MOST_TIMES));
        if cost(&tables[due.start..]) > most { none } else { self.free_from(tables, due.start) }
    }

    /// Where in `tables`, which end with the new ones, the tables begin that are merged at once. `None` if no table is
    /// merged at once.
    fn merge_start(&self, tables: &[Listed], due: &Range<usize>) -> Option<usize> {
        debug_assert!(due.start < due.end && due.end <= tables.len(), "a plan is of these tables: {due:?}");
        if due.end < tables.len() || cost(&tables[due.clone()]) > MERGE_AT_ONCE_BYTES {
            return None;
        }
        let start = self.free_from(&tables[..self.kept], due.start);
        (tables.len() - start >= 2).then_some(start)
    }

    /// Where the tables from `start` on begin that nobody compacts. Who has locked a table has begun to compact it.
    /// Nobody begins now, since we hold the list's lock.
    fn free_from(&self, tables: &[Listed], start: usize) -> usize {
        let is_locked = |listed: &Listed| {
            let lock = Lock::path_of(&self.stack.path_of(&listed.name));
            !self.stack.fs().stat_link(&lock).is_err_and(|error| error.is_not_found())
        };
        let locked = (start..tables.len()).rev().find(|at| is_locked(&tables[*at]));
        locked.map_or(start, |locked| locked + 1)
    }

    /// Replaces `tables[start..]`, and all new tables, by one that holds their records. If there is no room for that,
    /// or if their records do not fit into blocks, they stay: the next addition tries again.
    fn merge_from(&mut self, start: usize, tables: &mut Vec<Listed>) -> Result<(), StackError> {
        let inputs = &tables[start..];
        let (min, max) = limits(inputs);
        assert!(start <= tables.len() - self.tables.len(), "all new tables are merged, since none is listed by itself");
        debug_assert!(inputs.len() >= 2, "one table alone is merged already");
        let mut merged = NewTable::under_lock(&self.stack, min, max);
        let written =
            write_merged(&merge(inputs)?, self.stack.options().write, (min, max), start == 0, None, &mut merged);
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

/// Whether a table that was written like this is one.
fn has_records(summary: Summary) -> bool {
    summary.refs + summary.logs > 0
}

fn names(tables: &[Listed]) -> impl Iterator<Item = &TableName> {
    tables.iter().map(|listed| &listed.name)
}

/// What it costs to merge these tables, in bytes.
fn cost(tables: &[Listed]) -> u64 {
    let cost = |listed: &Listed| {
        let has_logs = listed.table.section(BlockKind::Log).is_some();
        listed.table.len_bytes().saturating_mul(if has_logs { LOGS_COUNT_TIMES } else { 1 })
    };
    tables.iter().map(cost).fold(0, u64::saturating_add)
}
