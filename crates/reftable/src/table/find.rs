use super::{Block, BlockLoader, Seeker, Table, index::DEPTH_MAX};
use crate::{
    Fault, RefRecord, Result,
    block::lower_bound,
    format::BlockKind,
    record::{Context, IndexRecords, Records, RefPlace, RefRecords},
};
use std::sync::Arc;

/// The result of a look-up.
enum Sought {
    /// The record is in this block.
    There(Block, RefPlace),
    NotThere,
    /// The way down the index does not show whether the name exists; a cursor has to find out.
    Unclear,
}

impl Table {
    /// Looks up a name and passes its record to `then`.
    ///
    /// This method walks down the index. It creates a cursor, which costs more than the look-up, only where the index
    /// does not show whether the name exists.
    pub(crate) fn find<T>(
        self: &Arc<Self>,
        name: &[u8],
        loader: &mut BlockLoader,
        then: impl FnOnce(RefRecord<'_>) -> T,
    ) -> Result<Option<T>> {
        let context = self.context();
        match self.seek_down(name, loader, &context)? {
            Sought::There(block, place) => Ok(Some(then(place.record(name, &context, block.records())))),
            Sought::NotThere => Ok(None),
            Sought::Unclear => {
                let mut cursor = Seeker::<RefRecords>::new(Arc::clone(self));
                Ok((cursor.seek(name)? && cursor.key() == name).then(|| then(cursor.record())))
            }
        }
    }

    pub(super) fn context(&self) -> Context {
        Context { hash: self.hash(), min_update_index: self.min_update_index() }
    }

    fn seek_down(&self, name: &[u8], loader: &mut BlockLoader, context: &Context) -> Result<Sought> {
        let Some(section) = self.section(BlockKind::Ref) else { return Ok(Sought::NotThere) };
        // A section without an index usually has few blocks, and mostly one.
        let mut position = if section.index > 0 { section.index } else { section.start };
        for _ in 0..DEPTH_MAX {
            let Some(block) = loader.load_any(self, position)? else { return Ok(Sought::Unclear) };
            match block.layout.kind {
                BlockKind::Index => match self.search::<IndexRecords>(&block, name, context)? {
                    Some((_, value)) => position = value.position,
                    // The name is after the last record, or C git has left several root blocks.
                    None => return Ok(Sought::Unclear),
                },
                BlockKind::Ref => {
                    return Ok(match self.search::<RefRecords>(&block, name, context)? {
                        Some((true, place)) => Sought::There(block, place),
                        Some((false, _)) => Sought::NotThere,
                        // The name is in a later block, or does not exist.
                        None => Sought::Unclear,
                    });
                }
                BlockKind::Object | BlockKind::Log => return Ok(Sought::Unclear),
            }
        }
        Err(self.corrupt(position, Fault::IndexDepth))
    }

    fn search<R: Records>(&self, block: &Block, name: &[u8], context: &Context) -> Result<Option<(bool, R::Value)>> {
        lower_bound::<R>(block.bytes(), &block.layout, name, context)
            .map_err(|fault| self.corrupt(block.position, fault))
    }
}
