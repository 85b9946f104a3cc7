use crate::log::lease::Lease;
use refdb_vfs::{Filled, Filler};
use std::{ops::Range, sync::Arc};

/// The bytes of a segment in memory, from which records are read until a mapping of the file has them or the file is
/// complete.
///
/// A place is published in the index only after its bytes are in the image. A reader that arrives so late that another
/// segment has taken the slot finds no bytes, bytes that fail its checks, or an intact record, whose key it compares.
pub(crate) struct Image {
    filled: Filled,
    /// The image's share of the write buffer.
    _lease: Lease,
}

impl Image {
    /// An image with room for `len` bytes.
    pub(crate) fn leased(len: usize, lease: Lease) -> Filling {
        let (filler, filled) = Filled::new(len);
        Filling { filler, image: Arc::new(Image { filled, _lease: lease }) }
    }

    /// Reuses the memory for another segment; `None` if something still writes to it.
    pub(crate) fn refill(mut self) -> Option<Filling> {
        let filler = self.filled.refill()?;
        debug_assert_eq!(self.len(), 0, "nothing is left of the previous segment");
        Some(Filling { filler, image: Arc::new(self) })
    }

    pub(crate) fn capacity(&self) -> usize {
        self.filled.capacity()
    }

    /// Number of bytes that were written.
    pub(crate) fn len(&self) -> usize {
        self.filled.len()
    }

    /// Bytes that were written; `None` if some of the range were not.
    pub(crate) fn get(&self, range: Range<usize>) -> Option<&[u8]> {
        self.filled.get(range)
    }
}

/// An image together with the right to write to it, which the log's lock guards.
pub(crate) struct Filling {
    filler: Filler,
    pub(crate) image: Arc<Image>,
}

impl Filling {
    /// Appends `bytes`.
    pub(crate) fn append(&mut self, bytes: &[u8]) {
        self.filler.append(bytes);
    }
}
