use super::{Block, BlockLoader, Loaded, Table};
use crate::{
    Fault, Result,
    format::BlockKind,
    record::{Context, Records, key::Key},
};
use std::sync::Arc;

/// Reads all blocks of a file in the order of their positions, without following the indexes.
pub(crate) struct BlockScan {
    table: Arc<Table>,
    loader: BlockLoader,
    position: u64,
}

impl BlockScan {
    pub(crate) fn new(table: Arc<Table>) -> Self {
        let header = table.footer.header.len() as u64;
        // The file's header is part of the first block, unless that is a log block whose position the footer has. C git
        // makes the header part of a first log block, too, and then leaves the position 0.
        let position = if table.footer.logs == header { header } else { 0 };
        BlockScan { table, loader: BlockLoader::default(), position }
    }

    /// The position of the next block.
    pub(crate) fn position(&self) -> u64 {
        self.position
    }

    /// Continues at `position`, which must lie ahead.
    pub(crate) fn skip_to(&mut self, position: u64) {
        debug_assert!(position > self.position, "a scan only goes forward: {position}");
        self.position = position;
    }

    pub(crate) fn next(&mut self) -> Result<Option<Block>> {
        if self.table.blocks_end == self.table.footer.header.len() as u64 {
            return Ok(None);
        }
        let kind = match self.loader.load_if(&self.table, self.position, BlockKind::Index)? {
            None => return Ok(None),
            Some(Loaded::Block(block)) => {
                self.position = block.next;
                return Ok(Some(block));
            }
            Some(Loaded::Other(kind)) => kind,
        };
        let block = self.loader.load_if(&self.table, self.position, kind)?.and_then(Loaded::block);
        let next = block.as_ref().map_or(self.table.blocks_end, |block| block.next);
        debug_assert!(next > self.position, "a scan only goes forward: {next}");
        self.position = next;
        Ok(block)
    }
}

impl Table {
    /// The position of the first block other than a log block that is larger than the header's block size, or `None`.
    ///
    /// C git takes the block size for the length of such a block, and so misses the records after that length. The
    /// method reads the blocks of the file, except logs whose position the footer has, up to the one whose position it
    /// returns.
    ///
    /// # Errors
    ///
    /// [`Error::Io`](crate::Error::Io) if the table cannot be read, [`Error::Corrupt`](crate::Error::Corrupt) if it is
    /// damaged.
    pub fn block_beyond_git(self: &Arc<Self>) -> Result<Option<u64>> {
        let logs = self.footer.logs;
        let mut scan = BlockScan::new(self.clone());
        loop {
            if logs > 0 && scan.position() == logs {
                match self.footer.log_index {
                    0 => return Ok(None),
                    index => scan.skip_to(index),
                }
            }
            let Some(block) = scan.next()? else { return Ok(None) };
            if self.len_beyond_block_size(&block).is_some() {
                return Ok(Some(block.position));
            }
        }
    }

    /// The length of a block other than a log block if it is larger than the header's block size.
    pub(crate) fn len_beyond_block_size(&self, block: &Block) -> Option<u32> {
        let (len, max) = (block.bytes().len() as u32, self.footer.header.block_size);
        (block.layout.kind != BlockKind::Log && max > 0 && len > max).then_some(len)
    }
}

impl Block {
    /// Calls `each` with the offset, the key and the value of every record. An error comes with the offset of its
    /// record.
    pub(crate) fn each<R: Records>(
        &self,
        context: &Context,
        mut each: impl FnMut(usize, &[u8], &R::Value),
    ) -> Result<(), (usize, Fault)> {
        let records = self.records();
        let mut key = Key::default();
        let mut at = self.layout.records_at;
        while at < records.len() {
            let offset = at;
            let (value, end) = key
                .read(records, &mut at)
                .and_then(|(_, value_type)| R::parse(records, at, value_type, context, key.as_slice()))
                .map_err(|fault| (offset, fault))?;
            each(offset, key.as_slice(), &value);
            at = end;
        }
        Ok(())
    }
}
