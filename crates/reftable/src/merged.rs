//! Tables on top of one another: the newest record of a key counts, and tombstones hide older ones.

mod cursor;
mod logs;
mod refs;

pub(crate) use cursor::MergedCursor;
pub use logs::MergedLogCursor;
pub use refs::{MergedRefCursor, RefEntry};

use crate::{
    Error, HashKind, ObjectId, PointingRef, RefRecord, Result, Table,
    format::BlockKind,
    record::RefRecords,
    table::{BlockLoader, Seeker},
};
use std::sync::Arc;

/// An immutable stack of tables. Cheap to clone; cursors keep the tables alive.
#[derive(Clone, Debug)]
pub struct Merged {
    /// Oldest first.
    tables: Arc<[Arc<Table>]>,
}

impl Merged {
    /// Stacks tables, oldest first. All must have the same kind of object ids. None at all is a stack without refs.
    pub fn new(tables: impl Into<Arc<[Arc<Table>]>>) -> Result<Self> {
        let tables = tables.into();
        for pair in tables.windows(2) {
            if pair[0].hash() != pair[1].hash() {
                return Err(Error::Hash {
                    table: pair[1].name().to_owned(),
                    found: pair[1].hash().name(),
                    expected: pair[0].hash().name(),
                });
            }
        }
        Ok(Merged { tables })
    }

    /// The tables, oldest first.
    pub fn tables(&self) -> &[Arc<Table>] {
        &self.tables
    }

    /// The kind of the object ids; `None` for a stack without tables.
    pub fn hash(&self) -> Option<HashKind> {
        self.tables.first().map(|table| table.hash())
    }

    /// The highest update index of all tables; 0 where there is none.
    pub fn max_update_index(&self) -> u64 {
        self.tables.iter().map(|table| table.max_update_index()).max().unwrap_or(0)
    }

    /// A cursor before the first ref.
    pub fn refs(&self) -> MergedRefCursor {
        MergedRefCursor::new(self.clone())
    }

    /// A cursor before the first log entry.
    pub fn logs(&self) -> MergedLogCursor {
        MergedLogCursor::new(self.clone())
    }

    /// Whether any of the tables has a section of log entries.
    pub fn has_logs(&self) -> bool {
        self.tables.iter().any(|table| table.section(BlockKind::Log).is_some())
    }

    /// Looks one ref up and hands it to `then`. Who looks up many keeps a cursor and uses [`MergedRefCursor::lookup`].
    pub fn get<T>(&self, name: &[u8], then: impl FnOnce(RefRecord<'_>) -> T) -> Result<Option<T>> {
        self.get_noting(name, &mut false, then)
    }

    /// The same; `has_read` is set if that took a read.
    pub fn get_noting<T>(
        &self,
        name: &[u8],
        has_read: &mut bool,
        then: impl FnOnce(RefRecord<'_>) -> T,
    ) -> Result<Option<T>> {
        debug_assert!(self.tables.iter().all(|table| Some(table.hash()) == self.hash()), "ids are of one kind");
        let mut loader = BlockLoader::default();
        let mut then = Some(then);
        let mut hand_over = |record: RefRecord<'_>| match then.take() {
            Some(then) if !record.is_deletion() => Some(then(record)),
            _ => None,
        };
        for table in self.tables.iter().rev() {
            let found = table.find(name, &mut loader, &mut hand_over);
            *has_read |= loader.has_read();
            if let Some(found) = found? {
                return Ok(found);
            }
        }
        Ok(None)
    }

    /// The refs that point at an object directly or through a tag, in order of name.
    pub fn refs_pointing_at(&self, id: &ObjectId) -> Result<Vec<PointingRef>> {
        let mut found = Vec::new();
        for (at, table) in self.tables.iter().enumerate() {
            let mut newer: Vec<_> =
                self.tables[at + 1..].iter().map(|table| Seeker::<RefRecords>::new(table.clone())).collect();
            for candidate in table.refs_pointing_at(id)? {
                let mut overridden = false;
                for cursor in &mut newer {
                    overridden = overridden || cursor.seek(&candidate.name)? && cursor.key() == candidate.name;
                }
                if !overridden {
                    found.push(candidate);
                }
            }
        }
        found.sort_unstable_by(|a, b| a.name.cmp(&b.name));
        Ok(found)
    }
}
