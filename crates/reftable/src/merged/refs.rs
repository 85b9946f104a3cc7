use super::{Merged, cursor::MergedCursor};
use crate::{
    ObjectId, RefRecord, Result,
    record::{Context, RefPlace, RefRecords},
    table::{Cursor, Found, Seeker},
};
use bstr::{BStr, ByteSlice};
use std::{fmt, ops::ControlFlow};

/// A ref that [`MergedRefCursor::for_each`] visits. Its value is decoded only when it is needed.
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
    /// The full name.
    #[inline(always)]
    pub fn name(&self) -> &'a BStr {
        self.key.as_bstr()
    }

    /// The object of a ref that is stored with one id; `None` for an annotated tag that is stored with the object to
    /// which it peels, and for a symbolic ref.
    #[inline(always)]
    pub fn direct(&self) -> Option<ObjectId> {
        self.place.direct(self.records, self.context.hash)
    }

    /// The whole record.
    #[inline]
    pub fn record(&self) -> RefRecord<'a> {
        self.place.record(self.key, self.context, self.records)
    }
}

/// A cursor over the refs of a stack, in order of name. Tombstones and the records that they hide are skipped.
///
/// Looking up or seeking a sorted batch of names costs a single walk, however many tombstones lie between them.
/// [`seek`](Self::seek) and [`next`](Self::next) move the cursor; [`lookup`](Self::lookup) keeps a position of its own.
/// After an error the cursor is at the end until the next seek.
pub struct MergedRefCursor {
    walk: MergedCursor<RefRecords>,
    tables: Merged,
    /// The cursors of `lookup`, newest table first.
    points: Vec<Seeker<RefRecords>>,
    /// The table, by its place in `points`, in which `lookup` found the name.
    found_in: Option<usize>,
}

impl fmt::Debug for MergedRefCursor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MergedRefCursor").field("tables", &self.tables).finish_non_exhaustive()
    }
}

impl MergedRefCursor {
    pub(crate) fn new(tables: Merged) -> Self {
        MergedRefCursor { walk: MergedCursor::new(tables.clone()), tables, points: Vec::new(), found_in: None }
    }

    /// Moves before the first ref whose name is not less than `name`. Seeking forward gallops from the current
    /// position.
    ///
    /// # Errors
    ///
    /// [`Error::Io`](crate::Error::Io) if a table cannot be read, [`Error::Corrupt`](crate::Error::Corrupt) if it is
    /// damaged.
    pub fn seek(&mut self, name: &[u8]) -> Result<()> {
        self.walk.seek(name)
    }

    /// Moves to the next ref and returns it, or `None` at the end.
    ///
    /// # Errors
    ///
    /// [`Error::Io`](crate::Error::Io) if a table cannot be read, [`Error::Corrupt`](crate::Error::Corrupt) if it is
    /// damaged.
    #[expect(clippy::should_implement_trait, reason = "the record borrows from the cursor")]
    #[inline]
    pub fn next(&mut self) -> Result<Option<RefRecord<'_>>> {
        self.walk.next_visible()?;
        Ok(self.walk.current().map(Cursor::<RefRecords>::record))
    }

    /// Moves to the next ref, which [`current`](Self::current) then returns. Returns whether there is one.
    ///
    /// # Errors
    ///
    /// [`Error::Io`](crate::Error::Io) if a table cannot be read, [`Error::Corrupt`](crate::Error::Corrupt) if it is
    /// damaged.
    #[inline]
    pub fn advance(&mut self) -> Result<bool> {
        self.walk.next_visible()?;
        Ok(self.walk.current().is_some())
    }

    /// Passes the following refs to `visit` until it breaks or there are no more. Where a single table is left to walk,
    /// this is much faster than calling [`next`](Self::next) in a loop.
    ///
    /// # Errors
    ///
    /// [`Error::Io`](crate::Error::Io) if a table cannot be read, [`Error::Corrupt`](crate::Error::Corrupt) if it is
    /// damaged.
    #[inline]
    pub fn for_each(&mut self, mut visit: impl FnMut(&RefEntry<'_>) -> ControlFlow<()>) -> Result<ControlFlow<()>> {
        self.walk.for_each_visible(|key, place, context, records| visit(&RefEntry { key, place, context, records }))
    }

    /// Checks that the current ref's name is plausible, for a caller that ends its walk there because of that name.
    ///
    /// In a damaged table a name can sort after the wanted prefix by mistake, which would silently end the list early.
    /// The check compares the current name in each table with the next name that the table stores whole.
    ///
    /// # Errors
    ///
    /// [`Error::Io`](crate::Error::Io) if a table cannot be read, [`Error::Corrupt`](crate::Error::Corrupt) if the names
    /// are out of order or a table is otherwise damaged.
    pub fn check_ahead(&mut self) -> Result<()> {
        self.walk.check_ahead()
    }

    /// Returns the ref to which [`next`](Self::next) or [`advance`](Self::advance) has moved, or `None` at the end.
    pub fn current(&self) -> Option<RefRecord<'_>> {
        self.walk.current().map(Cursor::<RefRecords>::record)
    }

    /// Moves to the next record, tombstones included, and returns it. Compaction uses this, because a tombstone must
    /// be copied as long as older tables may have the ref.
    ///
    /// # Errors
    ///
    /// [`Error::Io`](crate::Error::Io) if a table cannot be read, [`Error::Corrupt`](crate::Error::Corrupt) if it is
    /// damaged.
    pub fn next_with_tombstones(&mut self) -> Result<Option<RefRecord<'_>>> {
        self.walk.next_any()?;
        Ok(self.walk.current().map(Cursor::<RefRecords>::record))
    }

    /// Looks up one ref; `None` if it does not exist or is deleted.
    ///
    /// This does not move the cursor that [`seek`](Self::seek) and [`next`](Self::next) use. It is fastest when names
    /// ascend from one call to the next.
    ///
    /// # Errors
    ///
    /// [`Error::Io`](crate::Error::Io) if a table cannot be read, [`Error::Corrupt`](crate::Error::Corrupt) if it is
    /// damaged.
    pub fn lookup(&mut self, name: &[u8]) -> Result<Option<RefRecord<'_>>> {
        if self.points.is_empty() {
            self.points = self.tables.tables().iter().rev().map(|table| Seeker::new(table.clone())).collect();
        }
        debug_assert_eq!(self.points.len(), self.tables.tables().len(), "each table is asked");
        self.found_in = None;
        for (at, cursor) in self.points.iter_mut().enumerate() {
            if cursor.find(name)? == Found::Wanted {
                self.found_in = Some(at);
                let record = cursor.record();
                return Ok(Some(record).filter(|record| !record.is_deletion()));
            }
        }
        Ok(None)
    }

    /// Returns whether there may be refs whose names begin with `name` and a slash.
    ///
    /// `name` must be the one that was last passed to [`lookup`](Self::lookup). `false` is certain; after `true` the
    /// caller has to look for such refs. The call itself costs one step in each table that has the name, and a search
    /// in each table where `lookup` has not sought it.
    ///
    /// # Errors
    ///
    /// [`Error::Io`](crate::Error::Io) if a table cannot be read, [`Error::Corrupt`](crate::Error::Corrupt) if it is
    /// damaged.
    pub fn may_have_below(&mut self, name: &[u8]) -> Result<bool> {
        let found_in = self.found_in.take();
        for (at, cursor) in self.points.iter_mut().enumerate() {
            let found = if found_in == Some(at) { Found::Wanted } else { cursor.find(name)? };
            debug_assert_eq!(found == Found::Wanted, cursor.is_on_record() && cursor.key() == name);
            let is_behind = match found {
                Found::Wanted => cursor.pass()?,
                Found::Behind => true,
                Found::End => false,
            };
            if !is_behind {
                continue;
            }
            // Names that continue with a slash sort before those that continue with a greater byte.
            let rest = cursor.key().strip_prefix(name);
            if rest.and_then(<[u8]>::first).is_some_and(|byte| *byte <= b'/') {
                return Ok(true);
            }
        }
        Ok(false)
    }
}
