use crate::{Error, HashKind, Result};

/// How a table is written. The defaults are those of git.
///
/// The fields can be read and assigned; methods of the same names build a value in one expression:
///
/// ```
/// use reftable::{HashKind, WriteOptions};
///
/// let options = WriteOptions::new(HashKind::Sha256).block_size(8192).index_objects(false);
/// assert_eq!(options.restart_interval, 16);
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct WriteOptions {
    /// The hash function of the object ids. SHA-1 is written as version 1 of the format, SHA-256 as version 2.
    pub hash: HashKind,
    /// Bytes in a block: 1 to [`WriteOptions::BLOCK_SIZE_MAX`]. A ref that is larger than a block is refused.
    pub block_size: u32,
    /// The block size with which another program will rewrite the tables, in bytes, or `None` if it is the same.
    ///
    /// [`name_max`](Self::name_max) follows the smaller of the two, because the other program could not compact a stack
    /// with longer names.
    pub name_block_size: Option<u32>,
    /// The greatest number of records from one restart point to the next; 0 is taken for 1.
    ///
    /// The key at a restart point is stored whole, and a search begins there. A block has at most 65,535 restart
    /// points, whatever this number is.
    pub restart_interval: u16,
    /// Whether a table with an index of its refs also gets an index from object ids to refs.
    pub index_objects: bool,
    /// Whether blocks of refs, of objects and of their indexes are padded to `block_size`. The last block of the file,
    /// and one before a log block, is never padded.
    pub aligned: bool,
}

impl WriteOptions {
    /// The largest block size of the format, in bytes: a block's length has 24 bits.
    pub const BLOCK_SIZE_MAX: u32 = (1 << 24) - 1;

    /// Git's block size where `reftable.blockSize` is not set, in bytes.
    pub const DEFAULT_BLOCK_SIZE: u32 = 4096;

    /// Git's defaults for object ids of this hash function.
    pub const fn new(hash: HashKind) -> Self {
        WriteOptions {
            hash,
            block_size: Self::DEFAULT_BLOCK_SIZE,
            name_block_size: None,
            restart_interval: 16,
            index_objects: true,
            aligned: true,
        }
    }

    /// Sets [`block_size`](#structfield.block_size).
    #[must_use]
    pub const fn block_size(self, block_size: u32) -> Self {
        WriteOptions { block_size, ..self }
    }

    /// Sets [`name_block_size`](#structfield.name_block_size).
    #[must_use]
    pub const fn name_block_size(self, name_block_size: Option<u32>) -> Self {
        WriteOptions { name_block_size, ..self }
    }

    /// Sets [`restart_interval`](#structfield.restart_interval).
    #[must_use]
    pub const fn restart_interval(self, restart_interval: u16) -> Self {
        WriteOptions { restart_interval, ..self }
    }

    /// Sets [`index_objects`](#structfield.index_objects).
    #[must_use]
    pub const fn index_objects(self, index_objects: bool) -> Self {
        WriteOptions { index_objects, ..self }
    }

    /// Sets [`aligned`](#structfield.aligned).
    #[must_use]
    pub const fn aligned(self, aligned: bool) -> Self {
        WriteOptions { aligned, ..self }
    }

    pub(crate) fn checked(self) -> Result<Self> {
        if self.block_size == 0 || self.block_size > Self::BLOCK_SIZE_MAX {
            return Err(Error::BlockSize(self.block_size));
        }
        Ok(WriteOptions { restart_interval: self.restart_interval.max(1), ..self })
    }
}

impl Default for WriteOptions {
    /// Git's defaults for SHA-1.
    fn default() -> Self {
        WriteOptions::new(HashKind::Sha1)
    }
}
