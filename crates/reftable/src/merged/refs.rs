use super::{Merged, cursor::MergedCursor};
use crate::{
    ObjectId, RefRecord, Result,
    record::{Context, RefPlace, RefRecords},
    table::{Cursor, Seeker},
};
use bstr::{BStr, ByteSlice};
use std::{fmt, ops::ControlFlow};

/// A ref whose value lies where it was found until it is asked for.
pub struct RefEntry<'a> {
    key: &'a [u8],
    place: &'a RefPlace,
    context: &'a Context,
    records: &'a [u8],
}

impl fmt::Debug for RefEntry<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.record().fmt(f)
    }
}

impl<'a> RefEntry<'a> {
    /// Its full name.
    #[inline(always)]
    pub fn name(&self) -> &'a BStr {
        self.key.as_bstr()
    }

    /// The object, if it is one that is no tag.
    #[inline(always)]
    pub fn direct(&self) -> Option<ObjectId> {
        self.place.direct(self.records, self.context.hash)
    }

    /// All of it.
    #[inline]
    pub fn record(&self) -> RefRecord<'a> {
        self.place.record(self.key, self.context, self.records)
    }
}

/// Steps through the refs of a stack in order of name.
///
/// A sorted batch of names costs one walk, however many tombstones lie between. The caller may seek with
/// [`seek`](Self::seek) and [`next`](Self::next), or with [`lookup`](Self::lookup).
pub struct MergedRefCursor {
    walk: MergedCursor<RefRecords>,
    tables: Merged,
    /// The look-ups' own cursors, newest table first.
    points: Vec<Seeker<RefRecords>>,
}

impl fmt::Debug for MergedRefCursor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MergedRefCursor").field("tables", &self.tables).finish_non_exhaustive()
    }
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

    /// Moves to the next ref that exists, for [`current`](Self::current). Returns whether there is one.
    #[inline]
    pub fn advance(&mut self) -> Result<bool> {
        self.walk.next_visible()?;
        Ok(self.walk.current().is_some())
    }

    /// Hands the refs that follow to `visit` until it breaks, or there are no more. `next` in a loop does the same, but
    /// costs a good deal more where one table is left.
    #[inline]
    pub fn for_each(&mut self, mut visit: impl FnMut(&RefEntry<'_>) -> ControlFlow<()>) -> Result<ControlFlow<()>> {
        self.walk.for_each_visible(|key, place, context, records| visit(&RefEntry { key, place, context, records }))
    }

    /// For a caller that ends a walk at the current ref because of its name, as behind some prefix. In a damaged table
    /// the name may only seem to be there. That is an error, as far as a look at the next names can tell.
    pub fn check_ahead(&mut self) -> Result<()> {
        self.walk.check_ahead()
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
            self.points = self.tables.tables().iter().rev().map(|table| Seeker::new(table.clone())).collect();
        }
        debug_assert_eq!(self.points.len(), self.tables.tables().len(), "each table is asked");
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
