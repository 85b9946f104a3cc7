use super::{
    BlockLoader, Table,
    cursor::{Cursor, wrong_kind},
};
use crate::{Fault, Result, format::BlockKind, record::IndexRecords};
use std::sync::Arc;

/// Walks down an index to a block, and remembers where it came to: the next key is often near.
pub(crate) struct IndexWalk {
    table: Arc<Table>,
    /// In the lowest level, on the record that led to the block found last, if there is one.
    index: Cursor<IndexRecords>,
    loader: BlockLoader,
}

/// No sensible index is deeper: each level has at least two records a block.
pub(super) const DEPTH_MAX: usize = 40;

impl IndexWalk {
    pub(crate) fn new(table: Arc<Table>) -> Self {
        IndexWalk { index: Cursor::new(table.clone()), table, loader: BlockLoader::default() }
    }

    /// The position of the block that holds the first record whose key is not less than `wanted`. `None` if there is no
    /// such record. `ahead` tells that `wanted` does not come before what was found last.
    pub(crate) fn find(&mut self, root: u64, kind: BlockKind, wanted: &[u8], ahead: bool) -> Result<Option<u64>> {
        if ahead && self.index.is_on_record() && (self.index.key() >= wanted || self.index.search_block(wanted)?) {
            return Ok(Some(self.index.value().position));
        }
        if let Err(found) = self.index.load(root)? {
            return Err(wrong_kind(&self.table, root, BlockKind::Index, found));
        }
        // C git may leave more than one block at the highest level.
        while !self.index.search_block(wanted)? {
            let next = self.index.block().map_or(u64::MAX, |block| block.next);
            if self.index.load(next)?.is_err() {
                return Ok(None);
            }
        }
        for _ in 0..DEPTH_MAX {
            debug_assert!(self.index.is_on_record() && self.index.key() >= wanted, "the entry leads to the wanted key");
            let position = self.index.value().position;
            match self.loader.load_if(&self.table, position, BlockKind::Index)? {
                Some(Err(found)) if found == kind => return Ok(Some(position)),
                Some(Ok(below)) => self.index.stand_before(below),
                other => {
                    let found = other.and_then(|block| block.err()).map_or(0, |kind| kind as u8);
                    return Err(wrong_kind(&self.table, position, kind, found));
                }
            }
            if !self.index.search_block(wanted)? {
                return Err(self.table.corrupt(position, Fault::IndexPromise));
            }
        }
        Err(self.table.corrupt(root, Fault::IndexDepth))
    }
}
