use crate::log::buffer::Lease;
// Not those of `sync`: nobody relies on the order in which single words are seen, and a test's scheduler has more to
// find elsewhere.
use std::sync::atomic::{AtomicU64, Ordering};

const WORD: usize = 8;

/// The bytes of a segment that is being filled, in memory. One thread writes at a time (the holder of the log's lock),
/// at places no reader knows yet; any number read.
///
/// Words are atomic so that no lock is needed; the place in the index is published after the bytes, which makes them
/// visible, and a reader that comes too late finds bytes that fail its checks.
pub(crate) struct Image {
    words: Box<[AtomicU64]>,
    /// Its share of the write buffer.
    _lease: Option<Lease>,
}

impl Image {
    /// An image of `len` bytes, rounded up to a word. The system gives the memory page by page as it is written to.
    pub(crate) fn leased(len: usize, lease: Lease) -> Self {
        Image { _lease: Some(lease), ..Image::new(len) }
    }

    fn new(len: usize) -> Self {
        Image { words: bytemuck::zeroed_slice_box(len.div_ceil(WORD)), _lease: None }
    }

    pub(crate) fn len(&self) -> usize {
        self.words.len() * WORD
    }

    /// Writes `bytes` at `offset`; both are multiples of 8 and inside the image.
    pub(crate) fn write(&self, offset: usize, bytes: &[u8]) {
        debug_assert!(offset.is_multiple_of(WORD) && bytes.len().is_multiple_of(WORD));
        let words = &self.words[offset / WORD..(offset + bytes.len()) / WORD];
        let (chunks, _) = bytes.as_chunks::<WORD>();
        for (word, bytes) in words.iter().zip(chunks) {
            word.store(u64::from_le_bytes(*bytes), Ordering::Relaxed);
        }
    }

    /// Reads into `bytes` from `offset`; both are multiples of 8. False if the range is not inside the image.
    pub(crate) fn read(&self, offset: usize, bytes: &mut [u8]) -> bool {
        let Some(words) = self.words.get(offset / WORD..(offset + bytes.len()) / WORD) else { return false };
        let (chunks, _) = bytes.as_chunks_mut::<WORD>();
        for (word, bytes) in words.iter().zip(chunks) {
            *bytes = word.load(Ordering::Relaxed).to_le_bytes();
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_written_is_read_and_nothing_past_the_end() {
        let image = Image::new(30);
        assert_eq!(image.len(), 32);
        image.write(8, &[1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16]);
        let mut bytes = [0; 16];
        assert!(image.read(16, &mut bytes));
        assert_eq!(bytes, [9, 10, 11, 12, 13, 14, 15, 16, 0, 0, 0, 0, 0, 0, 0, 0]);
        assert!(!image.read(24, &mut bytes));
    }
}
