use super::{Context, Records};
use crate::{
    Fault,
    format::{BlockKind, varint},
};

/// The records of index blocks. Each key is the last key of the block to which the record leads.
pub(crate) struct IndexRecords;

/// The position in the file of the block to which the record leads.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub(crate) struct IndexValue {
    pub(crate) position: u64,
}

impl IndexValue {
    /// The three bits that are stored beside the length of the key; index records do not use them.
    pub(crate) const TYPE_BITS: u8 = 0;

    pub(crate) fn encode(self, out: &mut Vec<u8>) {
        varint::put(out, self.position);
    }
}

impl Records for IndexRecords {
    const BLOCK: BlockKind = BlockKind::Index;
    type Value = IndexValue;

    fn parse(records: &[u8], mut at: usize, _: u8, _: &Context, _: &[u8]) -> Result<(IndexValue, usize), Fault> {
        Ok((IndexValue { position: varint::get(records, &mut at)? }, at))
    }

    fn is_deletion(_: &IndexValue) -> bool {
        false
    }
}
