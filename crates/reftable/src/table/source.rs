use super::BlockCache;
use refdb_vfs::{File, Mapping};
use std::sync::Arc;

/// Where the bytes of a table come from.
#[derive(Debug)]
pub enum Source {
    /// A mapped file, for short-lived processes: a process that reads a mapping of a truncated file is killed.
    Mapped(Arc<Mapping>),
    /// Memory that holds the whole table.
    Memory(Arc<[u8]>),
    /// A file whose blocks are read when they are needed.
    Paged(PagedFile),
}

/// An open file whose blocks are kept in a [`BlockCache`].
#[derive(Debug)]
pub struct PagedFile {
    pub(crate) file: File,
    pub(crate) len: u64,
    pub(crate) cache: Arc<BlockCache>,
    /// The number of the file in the cache.
    pub(crate) number: u64,
}

impl PagedFile {
    /// Wraps an open file, whose length is determined once.
    ///
    /// # Errors
    ///
    /// [`Error::Io`](crate::Error::Io) if the length cannot be determined.
    pub fn new(file: File, cache: Arc<BlockCache>) -> crate::Result<Self> {
        let len = file.stat()?.len_bytes;
        let number = cache.file();
        Ok(PagedFile { file, len, cache, number })
    }
}

impl Source {
    pub(crate) fn len(&self) -> u64 {
        match self {
            Source::Mapped(mapping) => mapping.len() as u64,
            Source::Memory(bytes) => bytes.len() as u64,
            Source::Paged(paged) => paged.len,
        }
    }

    /// All bytes, unless they are read block by block.
    #[inline]
    pub(crate) fn whole(&self) -> Option<&[u8]> {
        match self {
            Source::Mapped(mapping) => Some(mapping),
            Source::Memory(bytes) => Some(bytes),
            Source::Paged(_) => None,
        }
    }

    /// Reads `len` bytes at `position`, which must lie within the file.
    pub(crate) fn read(&self, position: u64, len: usize) -> crate::Result<Vec<u8>> {
        debug_assert!(position + len as u64 <= self.len(), "it lies within the file: {len} bytes at {position}");
        match self {
            Source::Paged(paged) => {
                let mut bytes = vec![0; len];
                paged.file.read_exact_at(&mut bytes, position)?;
                Ok(bytes)
            }
            Source::Mapped(_) | Source::Memory(_) => {
                let whole = self.whole().unwrap_or_default();
                Ok(whole[position as usize..position as usize + len].to_vec())
            }
        }
    }
}
