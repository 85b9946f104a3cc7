use super::{
    Committed, Compaction, Listed, NewTable, Snapshot, Stack, StackError,
    compact::{Claim, limits, write_merged},
    load::merge,
    plan,
};
use crate::{Summary, TableWriter, format::BlockKind};
use refdb_vfs::Lock;
use std::{
    ops::{Range, RangeInclusive},
    time::Instant,
};

/// New tables are merged with their neighbours while the list is locked if all that comes to at most this size.
/// So little is merged in less time than the system calls of a compaction of its own would take, so that no other
/// writer waits longer for it.
const MERGE_AT_ONCE_BYTES: u64 = 32 << 10;

/// A table with log entries counts so many times: they are deflated, and to inflate and deflate them takes longer.
const LOGS_COUNT_TIMES: u64 = 4;

/// A locked stack, to which tables are being added. Dropping it removes what it made and unlocks the stack.
#[must_use = "the addition is rolled back when this is dropped"]
#[derive(Debug)]
pub struct Addition {
    stack: Stack,
    base: Snapshot,
    next_update_index: u64,
    locked: Instant,
    // In this order: the files go before the lock does.
    tables: Vec<NewTable>,
    lock: Lock,
}

impl Addition {
    pub(super) fn new(stack: Stack, lock: Lock, locked: Instant, base: Snapshot) -> Self {
        let next_update_index = base.next_update_index();
        Addition { stack, base, next_update_index, locked, tables: Vec::new(), lock }
    }

    /// The stack as it is under the lock, without what this addition adds.
    pub fn snapshot(&self) -> &Snapshot {
        &self.base
    }

    /// The lowest update index that the next table may have.
    pub fn next_update_index(&self) -> u64 {
        self.next_update_index
    }

    /// Adds a table with the records that `build` writes, whose update indexes lie within `limits`. Without records
    /// there is no table.
    pub fn add_table<E: From<StackError>>(
        &mut self,
        limits: RangeInclusive<u64>,
        build: impl FnOnce(&mut TableWriter<&mut NewTable>) -> Result<(), E>,
    ) -> Result<Summary, E> {
        let (min, max, next) = (*limits.start(), *limits.end(), self.next_update_index);
        if min < next || max < min {
            return Err(StackError::UpdateIndex { min, max, next }.into());
        }
        let mut table = NewTable::under_lock(&self.stack, min, max);
        let mut writer =
            TableWriter::new(self.stack.options().write, min, max, &mut table).map_err(StackError::from)?;
        build(&mut writer)?;
        let summary = writer.finish().map_err(StackError::from)?;
        if summary.refs + summary.logs > 0 {
            self.tables.push(table);
            self.next_update_index = max.saturating_add(1);
        }
        Ok(summary)
    }

    /// Makes the addition visible, whole or not at all, and unlocks the stack.
    pub fn commit(mut self) -> Result<Committed, StackError> {
        if self.tables.is_empty() {
            self.lock.release()?;
            return Ok(Committed { snapshot: self.base, compaction: None });
        }
        let mut tables = self.base.tables().to_vec();
        let old = tables.len();
        for table in &mut self.tables {
            if !table.is_small() {
                table.write_out()?;
            }
            tables.push(table.open()?);
        }
        let mut due = self.plan(&tables);
        let mut replaced = old..old;
        if let Some(start) = due.as_ref().and_then(|range| self.merge_start(&tables, range)) {
            replaced.start = start.min(old);
            due = None;
            self.merge_from(start, &mut tables)?;
        }
        for table in &mut self.tables {
            table.write_out()?;
        }
        // A larger compaction claims its tables here, where the list is locked anyway: under contention the lock would
        // never be free for it. If another compactor has them, it is that one's turn.
        let claim = |range| Compaction::claim(&self.stack, &tables, range, Claim::WhatIsFree).unwrap_or_default();
        let compaction = due.and_then(claim);
        let Addition { stack, base, tables: added, lock, locked, next_update_index } = self;
        let snapshot = stack.replace_list(lock, tables)?;
        stack.courtesy().end_turn(locked, Instant::now(), base.next_update_index(), next_update_index);
        added.into_iter().for_each(NewTable::keep);
        stack.retire(&base.tables()[replaced])?;
        Ok(Committed { snapshot, compaction })
    }

    fn plan(&self, tables: &[Listed]) -> Option<Range<usize>> {
        let options = self.stack.options();
        let sizes: Vec<u64> = tables.iter().map(Listed::weight).collect();
        if options.auto_compact { plan(&sizes, options.geometric_factor) } else { None }
    }

    /// Where in `tables`, which end with the new ones, the tables begin that are merged at once; `None` if there is
    /// nothing to be merged at once.
    fn merge_start(&self, tables: &[Listed], due: &Range<usize>) -> Option<usize> {
        let old = self.base.tables().len();
        let cost = |listed: &Listed| {
            let has_logs = listed.table.section(BlockKind::Log).is_some();
            listed.table.len_bytes().saturating_mul(if has_logs { LOGS_COUNT_TIMES } else { 1 })
        };
        let bytes: u64 = tables[due.clone()].iter().map(cost).fold(0, u64::saturating_add);
        if due.end < tables.len() || bytes > MERGE_AT_ONCE_BYTES {
            return None;
        }
        // Who has locked a table has begun to compact it. Nobody begins now, since we hold the list's lock.
        let is_locked = |listed: &Listed| {
            let lock = Lock::path_of(&self.stack.path_of(&listed.name));
            !self.stack.fs().stat_link(&lock).is_err_and(|error| error.is_not_found())
        };
        let start = (due.start..old).rev().find(|&at| is_locked(&tables[at])).map_or(due.start, |locked| locked + 1);
        (tables.len() - start >= 2).then_some(start)
    }

    /// Replaces `tables[start..]`, and all new tables, by one that holds their records.
    fn merge_from(&mut self, start: usize, tables: &mut Vec<Listed>) -> Result<(), StackError> {
        let inputs = &tables[start..];
        let (min, max) = limits(inputs);
        let mut merged = NewTable::under_lock(&self.stack, min, max);
        let summary =
            write_merged(&merge(inputs)?, self.stack.options().write, (min, max), start == 0, None, &mut merged)?;
        tables.truncate(start);
        self.tables.clear();
        if summary.refs + summary.logs > 0 {
            tables.push(merged.open()?);
            self.tables.push(merged);
        }
        Ok(())
    }
}
