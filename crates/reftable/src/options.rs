use crate::{Error, HashKind, Result};

/// How a table is written. The defaults are git's.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct WriteOptions {
    /// The kind of the object ids; it decides the version of the file.
    pub hash: HashKind,
    /// Bytes in a block, at most [`WriteOptions::BLOCK_SIZE_MAX`]. No record can be larger than a block.
    pub block_size: u32,
    /// The block size that bounds the lengths of new names too, if it is smaller: the one with which another program
    /// will rewrite the tables.
    pub name_block_size: Option<u32>,
    /// One record in this number is stored with its whole name, so that a search can start there.
    pub restart_interval: u16,
    /// Whether large tables get an index from object ids to refs.
    pub index_objects: bool,
    /// Whether blocks are padded to `block_size`, as git does by default. Small tables are not padded either way.
    pub aligned: bool,
}

impl WriteOptions {
    /// The format's limit: lengths of blocks have 24 bits.
    pub const BLOCK_SIZE_MAX: u32 = (1 << 24) - 1;

    /// Git's block size where `reftable.blockSize` is not set.
    pub const DEFAULT_BLOCK_SIZE: u32 = 4096;

    pub(crate) fn checked(self) -> Result<Self> {
        if self.block_size == 0 || self.block_size > Self::BLOCK_SIZE_MAX {
            return Err(Error::BlockSize(self.block_size));
        }
        Ok(WriteOptions { restart_interval: self.restart_interval.max(1), ..self })
    }
}

impl Default for WriteOptions {
    fn default() -> Self {
        WriteOptions {
            hash: HashKind::Sha1,
            block_size: Self::DEFAULT_BLOCK_SIZE,
            name_block_size: None,
            restart_interval: 16,
            index_objects: true,
            aligned: true,
        }
    }
}
