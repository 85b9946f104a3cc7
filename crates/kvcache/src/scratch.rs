use crate::sync::thread_local;
use std::cell::Cell;

/// What a thread keeps from call to call, so that none has to allocate.
#[derive(Default)]
pub(crate) struct Scratch {
    /// A record as it is in the file.
    pub(crate) record: Vec<u8>,
    /// The same, decrypted.
    pub(crate) opened: Vec<u8>,
}

/// A buffer that grew beyond this for one large record is given back.
const KEPT_SCRATCH_BYTES: usize = 256 << 10;

thread_local! {
    static SCRATCH: Cell<Option<Box<Scratch>>> = Cell::default();
}

/// Lends the thread's buffers. A call within `body`, of this cache or another, gets buffers of its own.
pub(crate) fn with_scratch<T>(body: impl FnOnce(&mut Scratch) -> T) -> T {
    let mut scratch = SCRATCH.with(Cell::take).unwrap_or_default();
    let result = body(&mut scratch);
    for buffer in [&mut scratch.record, &mut scratch.opened] {
        if buffer.capacity() > KEPT_SCRATCH_BYTES {
            *buffer = Vec::new();
        }
    }
    SCRATCH.with(|kept| kept.set(Some(scratch)));
    result
}

#[cfg(all(test, not(feature = "shuttle")))]
mod tests {
    use super::*;

    #[test]
    fn no_buffer_stays_large_in_a_thread() {
        with_scratch(|scratch| scratch.opened.resize(40 << 20, 1));
        with_scratch(|scratch| scratch.record.resize(40 << 20, 1));
        with_scratch(|scratch| {
            assert!(scratch.opened.capacity() + scratch.record.capacity() <= 2 * KEPT_SCRATCH_BYTES);
        });
    }
}
