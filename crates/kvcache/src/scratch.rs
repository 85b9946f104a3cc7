use crate::sync::thread_local;
use std::cell::RefCell;

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
    static SCRATCH: RefCell<Scratch> = RefCell::default();
}

pub(crate) fn with_scratch<T>(body: impl FnOnce(&mut Scratch) -> T) -> T {
    SCRATCH.with(|scratch| {
        let scratch = &mut *scratch.borrow_mut();
        let result = body(scratch);
        if scratch.record.capacity() > KEPT_SCRATCH_BYTES {
            *scratch = Scratch::default();
        }
        result
    })
}
