use super::{
    BlockLoader, Loaded, Table,
    cursor::{Cursor, wrong_kind},
};
use crate::{Fault, Result, format::BlockKind, record::IndexRecords};
use std::sync::Arc;

/// Finds blocks through an index, and remembers the last position, since the next key is often near.
pub(crate) struct IndexWalk {
    table: Arc<Table>,
    /// A cursor in the lowest level of the index. It is on the record that led to the block that was found last, if
    /// any.
    index: Cursor<IndexRecords>,
    loader: BlockLoader,
}

/// The greatest depth that is followed. No sensible index is deeper, since nearly all of its blocks have two records or
/// more.
pub(super) const DEPTH_MAX: usize = 40;

impl IndexWalk {
    pub(crate) fn new(table: Arc<Table>) -> Self {
        IndexWalk { index: Cursor::new(table.clone()), table, loader: BlockLoader::default() }
    }

    /// Returns the position of the block with the first record whose key is not less than `wanted`, or `None` if there
    /// is no such record. With `ahead` the caller promises that `wanted` is not less than the key of the previous call.
    pub(crate) fn find(&mut self, root: u64, kind: BlockKind, wanted: &[u8], ahead: bool) -> Result<Option<u64>> {
        if ahead && self.index.is_on_record() && (self.index.key() >= wanted || self.index.search_block(wanted)?) {
            return Ok(Some(self.index.value().position));
        }
        if let Some(found) = self.index.load(root)? {
            return Err(wrong_kind(&self.table, root, BlockKind::Index, found));
        }
        // C git can leave several root blocks.
        while !self.index.search_block(wanted)? {
            let next = self.index.block().map_or(u64::MAX, |block| block.next);
            if self.index.load(next)?.is_some() {
                return Ok(None);
            }
        }
        for _ in 0..DEPTH_MAX {
            debug_assert!(self.index.is_on_record() && self.index.key() >= wanted, "the entry leads to the wanted key");
            let position = self.index.value().position;
            match self.loader.load_if(&self.table, position, BlockKind::Index)? {
                Some(Loaded::Other(found)) if found == kind => return Ok(Some(position)),
                Some(Loaded::Block(below)) => self.index.stand_before(below),
                Some(Loaded::Other(found)) => return Err(wrong_kind(&self.table, position, kind, found as u8)),
                None => return Err(wrong_kind(&self.table, position, kind, 0)),
            }
            if !self.index.search_block(wanted)? {
                return Err(self.table.corrupt(position, Fault::IndexPromise));
            }
        }
        Err(self.table.corrupt(root, Fault::IndexDepth))
    }
}
