use crate::log::lease::Lease;
use refdb_vfs::{Filled, Filler};
use std::{ops::Range, sync::Arc};

/// The bytes of a segment that is being filled, in memory. Its records are read there until they are in the file.
///
/// The place in the index is published after the bytes. A reader that comes too late, when another segment has the place,
/// finds bytes that fail its checks.
pub(crate) struct Image {
    filled: Filled,
    /// Its share of the write buffer.
    _lease: Lease,
}

impl Image {
    /// An image with room for `len` bytes.
    pub(crate) fn leased(len: usize, lease: Lease) -> Filling {
        let (filler, filled) = Filled::new(len);
        Filling { filler, image: Arc::new(Image { filled, _lease: lease }) }
    }

    /// The same memory for another segment; None if something still fills it.
    pub(crate) fn refill(mut self) -> Option<Filling> {
        let filler = self.filled.refill()?;
        debug_assert_eq!(self.len(), 0, "nothing is left of what was there");
        Some(Filling { filler, image: Arc::new(self) })
    }

    pub(crate) fn capacity(&self) -> usize {
        self.filled.capacity()
    }

    /// How many bytes were written.
    pub(crate) fn len(&self) -> usize {
        self.filled.len()
    }

    /// These bytes; None if they were not written.
    pub(crate) fn get(&self, range: Range<usize>) -> Option<&[u8]> {
        self.filled.get(range)
    }
}

/// An image with the right to write to it, which the log's lock guards.
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
