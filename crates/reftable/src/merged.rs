//! Tables on top of one another, read as one: of each key only the newest record is visible, and tombstones hide older
//! ones.

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

/// An immutable stack of tables that is read as one table.
///
/// It is cheap to clone. Cursors keep the tables open, also when the stack on disk has been compacted meanwhile.
#[derive(Clone, Debug)]
pub struct Merged {
    /// The tables, oldest first.
    tables: Arc<[Arc<Table>]>,
}

impl Merged {
    /// Stacks tables, oldest first. Without tables the stack has no refs.
    ///
    /// # Errors
    ///
    /// [`Error::Hash`] if the tables have object ids of different hash functions.
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

    /// The hash function of the object ids, or `None` if there are no tables.
    pub fn hash(&self) -> Option<HashKind> {
        self.tables.first().map(|table| table.hash())
    }

    /// The greatest update index of all tables, or 0 if there are none.
    pub fn max_update_index(&self) -> u64 {
        self.tables.iter().map(|table| table.max_update_index()).max().unwrap_or(0)
    }

    /// Returns a cursor before the first ref.
    pub fn refs(&self) -> MergedRefCursor {
        MergedRefCursor::new(self.clone())
    }

    /// Returns a cursor before the first log entry.
    pub fn logs(&self) -> MergedLogCursor {
        MergedLogCursor::new(self.clone())
    }

    /// Returns whether any table has log entries or tombstones of log entries.
    pub fn has_logs(&self) -> bool {
        self.tables.iter().any(|table| table.section(BlockKind::Log).is_some())
    }

    /// Looks up one ref and passes it to `then`; `None` if the ref does not exist.
    ///
    /// A cursor ([`MergedRefCursor::lookup`]) is faster for many names.
    ///
    /// # Errors
    ///
    /// [`Error::Io`](crate::Error::Io) if a table cannot be read, [`Error::Corrupt`](crate::Error::Corrupt) if it is
    /// damaged.
    pub fn get<T>(&self, name: &[u8], then: impl FnOnce(RefRecord<'_>) -> T) -> Result<Option<T>> {
        self.get_noting(name, &mut false, then)
    }

    /// Looks up one ref as [`get`](Self::get) does, and sets `has_read` if a block had to be read from a file. Blocks
    /// that a cursor reads, where the index does not show whether the name exists, do not count.
    ///
    /// # Errors
    ///
    /// [`Error::Io`](crate::Error::Io) if a table cannot be read, [`Error::Corrupt`](crate::Error::Corrupt) if it is
    /// damaged.
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

    /// Returns the refs that point to an object, directly or through a tag, in order of name.
    ///
    /// A table is searched through its index of objects. If it has no such index, or if the index does not list the
    /// blocks of the object because they are too many, the table is searched from its first ref to the last.
    ///
    /// # Errors
    ///
    /// [`Error::Io`](crate::Error::Io) if a table cannot be read, [`Error::Corrupt`](crate::Error::Corrupt) if it is
    /// damaged.
    pub fn refs_pointing_at(&self, id: &ObjectId) -> Result<Vec<PointingRef>> {
        Ok(self.few_refs_pointing_at(id, usize::MAX)?.unwrap_or_default())
    }

    /// Returns what [`refs_pointing_at`](Self::refs_pointing_at) does, or `None` if a table has more than `most` such
    /// refs, so that an object which very many refs hold costs little.
    ///
    /// # Errors
    ///
    /// Those of [`refs_pointing_at`](Self::refs_pointing_at).
    pub fn few_refs_pointing_at(&self, id: &ObjectId, most: usize) -> Result<Option<Vec<PointingRef>>> {
        let mut found = Vec::new();
        for (at, table) in self.tables.iter().enumerate() {
            let mut newer: Vec<_> =
                self.tables[at + 1..].iter().map(|table| Seeker::<RefRecords>::new(table.clone())).collect();
            let Some(candidates) = table.few_refs_pointing_at(id, most)? else { return Ok(None) };
            for candidate in candidates {
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
        Ok(Some(found))
    }
}
