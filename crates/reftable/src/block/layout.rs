use crate::{
    Fault,
    format::{BLOCK_HEADER_LEN, BlockKind, RESTART_COUNT_LEN, RESTART_LEN, be24},
};

/// The offsets of the parts of a block from its start.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Layout {
    pub(crate) kind: BlockKind,
    /// The offset of the first record. In the first block of a file the file's header comes before the block's own.
    pub(crate) records_at: usize,
    /// The offset of the restart points, at which the records end.
    pub(crate) restarts_at: usize,
    pub(crate) restart_count: usize,
}

/// Reads a block's own header at `at`. Returns the kind of the block and its length, which counts inflated bytes if it
/// is a log block.
pub(crate) fn peek(bytes: &[u8], at: usize) -> Result<(BlockKind, usize), Fault> {
    let header = bytes.get(at..at + BLOCK_HEADER_LEN).ok_or(Fault::BlockLen(0))?;
    let kind = BlockKind::from_byte(header[0]).ok_or(Fault::BlockType(header[0]))?;
    let len = be24(header, 1);
    if (len as usize) < at + BLOCK_HEADER_LEN + RESTART_LEN + RESTART_COUNT_LEN {
        return Err(Fault::BlockLen(len));
    }
    Ok((kind, len as usize))
}

impl Layout {
    /// Determines the parts of a block of exactly these bytes, whose own header is at `at` and valid.
    pub(crate) fn of(kind: BlockKind, bytes: &[u8], at: usize) -> Result<Self, Fault> {
        let records_at = at + BLOCK_HEADER_LEN;
        debug_assert!(bytes.len() >= records_at + RESTART_COUNT_LEN, "`peek` refuses shorter blocks");
        debug_assert_eq!(bytes[at], kind as u8, "the kind is the one that stands in the block");
        let count_at = bytes.len() - RESTART_COUNT_LEN;
        let restart_count = u16::from_be_bytes([bytes[count_at], bytes[count_at + 1]]);
        let restarts_at = count_at
            .checked_sub(usize::from(restart_count) * RESTART_LEN)
            .filter(|restarts_at| restart_count > 0 && *restarts_at >= records_at)
            .ok_or(Fault::RestartCount(restart_count))?;
        Ok(Layout { kind, records_at, restarts_at, restart_count: usize::from(restart_count) })
    }
}
