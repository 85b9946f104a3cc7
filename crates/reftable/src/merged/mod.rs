//! Tables on top of one another: newer records override older ones.

use crate::{HashKind, LogRecord, ObjectId, PointingRef, RefRecord, Result, Table};
use std::sync::Arc;

/// An immutable stack of tables, oldest first. Cheap to clone.
#[derive(Clone)]
pub struct Merged(Arc<[Arc<Table>]>);

impl Merged {
    /// Stacks tables, oldest first. All must have the same kind of object ids. None at all is a stack without refs.
    pub fn new(tables: impl Into<Arc<[Arc<Table>]>>) -> Result<Self> {
        Ok(Merged(tables.into()))
    }
    /// The tables, oldest first.
    pub fn tables(&self) -> &[Arc<Table>] {
        &self.0
    }
    /// The kind of the object ids; `None` for a stack without tables.
    pub fn hash(&self) -> Option<HashKind> {
        unimplemented!()
    }
    /// The highest update index of all tables; 0 where there is none.
    pub fn max_update_index(&self) -> u64 {
        unimplemented!()
    }
    /// A cursor before the first ref.
    pub fn refs(&self) -> MergedRefCursor {
        unimplemented!()
    }
    /// A cursor before the first log entry.
    pub fn logs(&self) -> MergedLogCursor {
        unimplemented!()
    }
    /// Looks one ref up and hands it to `then`. Who looks up many keeps a cursor and uses [`MergedRefCursor::lookup`].
    pub fn get<T>(&self, name: &[u8], then: impl FnOnce(RefRecord<'_>) -> T) -> Result<Option<T>> {
        let _ = (name, then);
        unimplemented!()
    }
    /// The refs that point at an object directly or through a tag, in order of name.
    pub fn refs_pointing_at(&self, id: &ObjectId) -> Result<Vec<PointingRef>> {
        let _ = id;
        unimplemented!()
    }
}

/// Steps through the refs of a stack.
pub struct MergedRefCursor(());

impl MergedRefCursor {
    /// Moves before the first ref whose name is not less than `name`. Moving forward costs what lies between, at most.
    pub fn seek(&mut self, name: &[u8]) -> Result<()> {
        let _ = name;
        unimplemented!()
    }
    /// The next ref that exists.
    #[expect(clippy::should_implement_trait, reason = "the record borrows from the cursor")]
    pub fn next(&mut self) -> Result<Option<RefRecord<'_>>> {
        unimplemented!()
    }
    /// The next record, be it a tombstone.
    pub fn next_with_tombstones(&mut self) -> Result<Option<RefRecord<'_>>> {
        unimplemented!()
    }
    /// Looks up exactly one ref. Independent of [`seek`](Self::seek) and [`next`](Self::next): it keeps a place of its
    /// own, never walks past tombstones, and is cheapest when names ascend.
    pub fn lookup(&mut self, name: &[u8]) -> Result<Option<RefRecord<'_>>> {
        let _ = name;
        unimplemented!()
    }
}

/// Steps through the log entries of a stack: by name, newest first.
pub struct MergedLogCursor(());

impl MergedLogCursor {
    /// Moves before the newest entry of the first ref whose name is not less than `name`.
    pub fn seek(&mut self, name: &[u8]) -> Result<()> {
        let _ = name;
        unimplemented!()
    }
    /// Moves before the newest entry of `name` that is not newer than `update_index`.
    pub fn seek_log(&mut self, name: &[u8], update_index: u64) -> Result<()> {
        let _ = (name, update_index);
        unimplemented!()
    }
    /// The next entry that is not deleted.
    #[expect(clippy::should_implement_trait, reason = "the record borrows from the cursor")]
    pub fn next(&mut self) -> Result<Option<LogRecord<'_>>> {
        unimplemented!()
    }
    /// The next record, be it a deletion.
    pub fn next_with_tombstones(&mut self) -> Result<Option<LogRecord<'_>>> {
        unimplemented!()
    }
}
