use crate::{log::image::Image, sync::thread_local};
use std::{cell::Cell, sync::Arc};

/// The bytes of a record that is not in a mapped file.
#[derive(Default)]
pub(crate) struct RecordBuffer {
    /// Bytes that were read from a file, or a record under construction.
    pub(crate) bytes: Vec<u8>,
    /// The image that contains the record, kept while it is read.
    pub(crate) image: Option<Arc<Image>>,
}

/// Buffers that a thread keeps from call to call, so that calls need not allocate.
#[derive(Default)]
pub(crate) struct Scratch {
    /// A record as in the file.
    pub(crate) record: RecordBuffer,
    /// A decrypted record.
    pub(crate) opened: Vec<u8>,
}

/// Capacity in bytes beyond which a buffer is freed after the call.
const KEPT_SCRATCH_BYTES: usize = 256 << 10;

/// Frees a buffer with a capacity of more than [`KEPT_SCRATCH_BYTES`].
pub(crate) fn trim(buffer: &mut Vec<u8>) {
    if buffer.capacity() > KEPT_SCRATCH_BYTES {
        *buffer = Vec::new();
    }
    debug_assert!(buffer.capacity() <= KEPT_SCRATCH_BYTES, "no thread keeps a large buffer");
}

impl RecordBuffer {
    /// Releases the image, and a large buffer.
    pub(crate) fn give_back(&mut self) {
        self.image = None;
        trim(&mut self.bytes);
    }
}

thread_local! {
    static SCRATCH: Cell<Option<Box<Scratch>>> = Cell::default();
}

/// Calls `body` with the thread's buffers. A call within `body`, on this cache or another, gets buffers of its own.
pub(crate) fn with_scratch<T>(body: impl FnOnce(&mut Scratch) -> T) -> T {
    let mut scratch = SCRATCH.with(Cell::take).unwrap_or_default();
    let result = body(&mut scratch);
    scratch.record.give_back();
    trim(&mut scratch.opened);
    SCRATCH.with(|kept| kept.set(Some(scratch)));
    result
}

#[cfg(all(test, not(feature = "shuttle")))]
mod tests {
    use super::*;

    #[test]
    fn no_buffer_stays_large_in_a_thread() {
        with_scratch(|scratch| scratch.opened.resize(40 << 20, 1));
        with_scratch(|scratch| scratch.record.bytes.resize(40 << 20, 1));
        with_scratch(|scratch| {
            assert!(scratch.opened.capacity() + scratch.record.bytes.capacity() <= 2 * KEPT_SCRATCH_BYTES);
        });
    }
}
