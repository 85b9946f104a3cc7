//! Header, footer, and the encoding of numbers.

mod footer;
mod header;
pub(crate) mod varint;

pub(crate) use footer::{Footer, OBJECT_ID_LEN_MAX};
pub(crate) use header::{Header, Version};

/// The kind of a block, which is the first byte of the block's own header.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub(crate) enum BlockKind {
    Ref = b'r',
    Object = b'o',
    Log = b'g',
    Index = b'i',
}

impl BlockKind {
    pub(crate) fn from_byte(byte: u8) -> Option<Self> {
        [BlockKind::Ref, BlockKind::Object, BlockKind::Log, BlockKind::Index]
            .into_iter()
            .find(|kind| *kind as u8 == byte)
    }
}

/// The length of a block's own header, in bytes: the kind and the length of the block.
pub(crate) const BLOCK_HEADER_LEN: usize = 4;
/// The length of a restart point, in bytes.
pub(crate) const RESTART_LEN: usize = 3;
/// The length, in bytes, of the number of restart points, with which a block ends.
pub(crate) const RESTART_COUNT_LEN: usize = 2;

/// The greatest length of a stored piece of a zlib stream, in bytes.
pub(crate) const PIECE_MAX: usize = u16::MAX as usize;

/// The number of bytes by which a zlib stream is longer than the `len` bytes that are stored in it.
pub(crate) fn stored_extra(len: usize) -> usize {
    const PIECE: usize = 5;
    const WHOLE: usize = 6;
    WHOLE + len.div_ceil(PIECE_MAX).max(1) * PIECE
}

/// The three-byte number at `at`, which must lie within `bytes`.
pub(crate) fn be24(bytes: &[u8], at: usize) -> u32 {
    u32::from(bytes[at]) << 16 | u32::from(bytes[at + 1]) << 8 | u32::from(bytes[at + 2])
}

/// The eight-byte number at `at`, which must lie within `bytes`.
pub(crate) fn be64(bytes: &[u8], at: usize) -> u64 {
    let mut raw = [0; 8];
    raw.copy_from_slice(&bytes[at..at + 8]);
    u64::from_be_bytes(raw)
}

/// The three bytes of a number of at most 24 bits.
pub(crate) fn to_be24(value: usize) -> [u8; 3] {
    debug_assert!(value < 1 << 24, "a number of three bytes: {value}");
    [(value >> 16) as u8, (value >> 8) as u8, value as u8]
}
