use super::{
    Cursor, Table,
    cursor::{At, wrong_kind},
    index::IndexWalk,
};
use crate::{Result, record::Records};
use std::{
    cmp::Ordering,
    ops::{Deref, DerefMut},
    sync::Arc,
};

/// The number of records that a forward seek steps over before it searches the restart points of the block.
const STEPS_BEFORE_SEARCH: usize = 3;

/// Where a seek ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Found {
    /// At the record with the wanted key.
    Wanted,
    /// At a record with a greater key, because no record has the wanted key.
    Behind,
    /// After the last record.
    End,
}

/// A cursor that can also seek, through the index of the section if it has one.
pub(crate) struct Seeker<R: Records> {
    cursor: Cursor<R>,
    index: Option<Box<IndexWalk>>,
}

impl<R: Records> Deref for Seeker<R> {
    type Target = Cursor<R>;

    #[inline(always)]
    fn deref(&self) -> &Cursor<R> {
        &self.cursor
    }
}

impl<R: Records> DerefMut for Seeker<R> {
    #[inline(always)]
    fn deref_mut(&mut self) -> &mut Cursor<R> {
        &mut self.cursor
    }
}

impl<R: Records> Seeker<R> {
    pub(crate) fn new(table: Arc<Table>) -> Self {
        Seeker { cursor: Cursor::new(table), index: None }
    }

    /// Moves to the first record whose key is not less than `wanted`. Returns whether there is one.
    ///
    /// A forward seek gallops: it tries a few records, then the restart points of the block, then the next block, and
    /// then the index, or each later block if there is no index.
    pub(crate) fn seek(&mut self, wanted: &[u8]) -> Result<bool> {
        Ok(self.find(wanted)? != Found::End)
    }

    /// Seeks, and returns where the seek ended.
    pub(crate) fn find(&mut self, wanted: &[u8]) -> Result<Found> {
        let sought = match self.cursor.at {
            At::Record => match self.cursor.key().cmp(wanted) {
                Ordering::Equal => return Ok(Found::Wanted),
                Ordering::Greater if self.cursor.floor_is_set && self.cursor.floor.as_slice() <= wanted => {
                    return Ok(Found::Behind);
                }
                Ordering::Less => self.seek_forward(wanted),
                Ordering::Greater => self.seek_from_index(wanted, false),
            },
            At::End if self.cursor.is_past_end(wanted) => return Ok(Found::End),
            At::Start | At::End | At::Lost => self.seek_from_index(wanted, false),
        };
        if sought.is_err() {
            self.cursor.be(At::Lost);
        }
        sought?;
        let Cursor { at, .. } = &self.cursor;
        debug_assert!(*at != At::Record || self.cursor.key() >= wanted, "a seek ends at the wanted key or behind");
        debug_assert!(matches!(at, At::Record | At::End), "a seek that found no damage knows where it is");
        self.cursor.floor.clear();
        self.cursor.floor.extend_from_slice(wanted);
        self.cursor.floor_is_set = true;
        Ok(match self.cursor.at {
            At::Record if self.cursor.key() == wanted => Found::Wanted,
            At::Record => Found::Behind,
            _ => Found::End,
        })
    }

    fn seek_forward(&mut self, wanted: &[u8]) -> Result<()> {
        if self.cursor.step_in_block(wanted, STEPS_BEFORE_SEARCH)? {
            return Ok(());
        }
        let indexed = self.cursor.table().section(R::BLOCK).is_some_and(|section| section.index > 0);
        if self.cursor.search_blocks(wanted, if indexed { 1 } else { usize::MAX })? {
            Ok(())
        } else {
            self.seek_from_index(wanted, true)
        }
    }

    /// Seeks through the index, or from the first block if there is none. `ahead` says that `wanted` is greater than
    /// the key of the current record.
    fn seek_from_index(&mut self, wanted: &[u8], ahead: bool) -> Result<()> {
        let start = match self.cursor.table().section(R::BLOCK) {
            Some(section) if section.index > 0 => {
                let index = self.index.get_or_insert_with(|| Box::new(IndexWalk::new(self.cursor.table().clone())));
                index.find(section.index, R::BLOCK, wanted, ahead)?
            }
            section => section.map(|section| section.start),
        };
        let Some(position) = start else {
            self.cursor.key.clear();
            self.cursor.be(At::End);
            return Ok(());
        };
        if self.cursor.block.as_ref().is_some_and(|block| block.position == position) {
            self.cursor.restart = 0;
            self.cursor.be(At::Start);
        } else if let Some(found) = self.cursor.load(position)? {
            return Err(wrong_kind(self.cursor.table(), position, R::BLOCK, found));
        }
        self.cursor.search_blocks(wanted, usize::MAX).map(drop)
    }
}
