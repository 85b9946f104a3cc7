//! The two sides of a group (see `group`): a leader gathers the records of others before it commits, and a member hands
//! over its own instead of committing.

use super::{
    Addition, Committed, NewTable, Snapshot, Stack, StackError,
    addition::{Held, turn_ended},
    group::{self, Group, NewList, Turn},
    snapshot::{ListFile, merge},
};
use refdb_vfs::{Acquired, LockTimeout};
use std::time::Instant;

impl Stack {
    /// Begins an addition as [`lock`](Self::lock) does, for a caller that commits it without delay. If another writer
    /// holds the lock, this addition can become part of what that one writes, which saves files and syncs.
    ///
    /// # Errors
    ///
    /// As for [`lock`](Self::lock). [`Addition::commit`] can also fail with [`StackError::GroupGivenUp`], after which
    /// nothing has changed, and with [`StackError::OutcomeUnknown`].
    pub fn join(&self, lock_timeout: LockTimeout) -> Result<Addition, StackError> {
        match self.take_turn(lock_timeout, true)? {
            Acquired::Lock(lock) => self.locked(lock),
            Acquired::Turn(turn) => {
                match Turn::begin(self, turn, lock_timeout).map(|turn| Addition::of_turn(self, turn)) {
                    None | Some(Err(StackError::GroupGivenUp)) => self.lock(lock_timeout),
                    Some(joined) => joined,
                }
            }
        }
    }
}

impl Addition {
    /// Begins an addition under the lock of another writer, on top of the table that the other writer is about to add.
    fn of_turn(stack: &Stack, turn: Turn) -> Result<Self, StackError> {
        let locked = Instant::now();
        let listed = stack.refresh()?;
        let mut tables = listed.tables().to_vec();
        if tables.len() != turn.listed {
            return Err(StackError::GroupGivenUp);
        }
        let base = if turn.table.is_empty() {
            listed
        } else {
            tables.push(stack.small_table(&turn.table)?.open()?);
            let merged = merge(&tables)?;
            Snapshot::new(listed.sequence(), ListFile::absent(), tables, merged)
        };
        let (next_update_index, kept) = (base.next_update_index(), base.tables().len());
        let (stack, lock) = (stack.clone(), Held::Turn(turn));
        Ok(Addition { stack, base, kept, next_update_index, locked, tables: Vec::new(), lock })
    }

    /// Gives those that wait to join a turn each, to add their records to the table of this addition. Nobody gets a
    /// turn if this addition has several tables or a large one, if it takes listed tables in, or if replacing the
    /// list is so cheap here that sharing a new list does not pay. Returns the group, which may have no members; `None`
    /// if there is no queue, or if the lock is that of another writer.
    pub(super) fn gather(&mut self) -> Result<Option<Group>, StackError> {
        let listed = self.base.tables().len();
        let is_small = self.tables.len() <= 1 && self.tables.iter().all(NewTable::is_small) && self.kept == listed;
        let Held::Lock(lock) = &mut self.lock else { return Ok(None) };
        let Some(mut group) = lock.take_queue().map(Group::new) else { return Ok(None) };
        if !is_small || !self.stack.backoff().is_worth_joining() {
            return Ok(Some(group));
        }
        let new_list =
            NewList { file: lock.content()?.stat()?.file_id(), is_signed: lock.content_path() != lock.path() };
        loop {
            let so_far = self.tables.first().map_or(&[][..], NewTable::bytes);
            let Some((member, answer)) = group.next_turn(new_list, listed, so_far) else { return Ok(Some(group)) };
            match self.take_answer(&answer) {
                Some(()) => group.accept(member),
                None => group.leave_out(&member),
            }
        }
    }

    /// Replaces the table of this addition by a member's, which contains the same records and the member's own. An
    /// empty answer changes nothing; `None` if the answer is of no use.
    fn take_answer(&mut self, answer: &[u8]) -> Option<()> {
        let bytes = group::table_of(answer)?;
        if !bytes.is_empty() {
            let table = self.stack.small_table(bytes).ok()?;
            let (min, max) = table.limits();
            let is_newest = min >= self.base.next_update_index() && max >= self.next_update_index;
            self.next_update_index = is_newest.then(|| max.saturating_add(1))?;
            self.tables = vec![table];
        }
        Some(())
    }

    /// Commits under the lock of another writer: hands that writer the table and waits until it has committed.
    pub(super) fn end_turn(self) -> Result<Committed, StackError> {
        let Addition { stack, base, kept, tables, lock, locked, .. } = self;
        let Held::Turn(turn) = lock else { unreachable!("only the lock of another process is used in turns") };
        let table = match tables.as_slice() {
            [] => &[][..],
            [table] if table.is_small() && kept == turn.listed => table.bytes(),
            // The records do not fit into one table with those before.
            _ => return Err(StackError::GroupGivenUp),
        };
        let group = turn.end(&stack, table)?;
        let left = group.relay.left.max(base.next_update_index());
        turn_ended(&stack, &base, locked, left).end_group(group);
        Ok(Committed { compaction: None })
    }
}
