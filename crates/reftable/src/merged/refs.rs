use super::{Merged, cursor::MergedCursor};
use crate::{RefRecord, Result, record::RefRecords, table::Cursor};
use std::ops::ControlFlow;

/// Steps through the refs of a stack in order of name.
///
/// A sorted batch of names costs one walk, be they sought with [`seek`](Self::seek) and [`next`](Self::next) or with
/// [`lookup`](Self::lookup), and however many tombstones lie between.
pub struct MergedRefCursor {
    walk: MergedCursor<RefRecords>,
    tables: Merged,
    /// The look-ups' own cursors, newest table first.
    points: Vec<Cursor<RefRecords>>,
}

impl MergedRefCursor {
    pub(crate) fn new(tables: Merged) -> Self {
        MergedRefCursor { walk: MergedCursor::new(tables.clone()), tables, points: Vec::new() }
    }

    /// Moves before the first ref whose name is not less than `name`. Forward it gallops from where it stands.
    pub fn seek(&mut self, name: &[u8]) -> Result<()> {
        self.walk.seek(name)
    }

    /// The next ref that exists.
    #[expect(clippy::should_implement_trait, reason = "the record borrows from the cursor")]
    #[inline]
    pub fn next(&mut self) -> Result<Option<RefRecord<'_>>> {
        self.walk.next_visible()?;
        Ok(self.walk.current().map(Cursor::<RefRecords>::record))
    }

    /// Hands the refs that follow to `visit` until it breaks, or there are no more: what `next` does in a loop, but for a
    /// good deal less where one table is left.
    #[inline]
    pub fn for_each(&mut self, mut visit: impl FnMut(&RefRecord<'_>) -> ControlFlow<()>) -> Result<ControlFlow<()>> {
        self.walk.for_each_visible(|key, value, context, records| visit(&value.record(key, context, records)))
    }

    /// The record that [`next`](Self::next) returned last, once more.
    pub fn current(&self) -> Result<Option<RefRecord<'_>>> {
        Ok(self.walk.current().map(Cursor::<RefRecords>::record))
    }

    /// The next record, be it a tombstone: what compaction copies.
    pub fn next_with_tombstones(&mut self) -> Result<Option<RefRecord<'_>>> {
        self.walk.next_any()?;
        Ok(self.walk.current().map(Cursor::<RefRecords>::record))
    }

    /// Looks up exactly one ref, `None` if it does not exist or is deleted. It keeps a place of its own, apart from
    /// that of [`seek`](Self::seek) and [`next`](Self::next), and is cheapest when names ascend.
    pub fn lookup(&mut self, name: &[u8]) -> Result<Option<RefRecord<'_>>> {
        if self.points.is_empty() {
            self.points = self.tables.tables().iter().rev().map(|table| Cursor::new(table.clone())).collect();
        }
        for cursor in &mut self.points {
            if cursor.seek(name)? && cursor.key() == name {
                let record = cursor.record();
                return Ok(Some(record).filter(|record| !record.is_deletion()));
            }
        }
        Ok(None)
    }

    /// Whether names that begin with `NAME/` may be there, `name` being what [`lookup`](Self::lookup) was asked for
    /// last. `true` only says that a closer look is due. It costs one step for each table that has the name.
    pub fn may_have_below(&mut self, name: &[u8]) -> Result<bool> {
        for cursor in &mut self.points {
            if !cursor.seek(name)? || cursor.key() == name && !cursor.pass()? {
                continue;
            }
            // `NAME/` sorts before whatever goes on with a greater byte.
            let rest = cursor.key().strip_prefix(name);
            if rest.and_then(<[u8]>::first).is_some_and(|byte| *byte <= b'/') {
                return Ok(true);
            }
        }
        Ok(false)
    }
}
