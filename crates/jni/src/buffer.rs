//! Memory outside of Java's heap that a Java thread lends to a call.

use crate::failure::Failure;
use jni::{Env, objects::JByteBuffer, sys::jlong};
use std::ptr::NonNull;

/// The address of `LEN` bytes that a Java thread allocated outside of the heap.
///
/// Except in tests, Rust code never creates one: it is an argument of entry points, for which Java passes a result of
/// [`Lent::address_of`].
#[repr(transparent)]
pub(crate) struct Lent<const LEN: usize>(jlong);

impl<const LEN: usize> Lent<LEN> {
    /// The address of a direct buffer. Fails if the buffer is in Java's heap or has another length than `LEN`.
    pub(crate) fn address_of(env: &Env<'_>, buffer: &JByteBuffer<'_>) -> Result<jlong, Failure> {
        if env.get_direct_buffer_capacity(buffer)? != LEN {
            return Err(Failure::Malformed("a buffer of another size"));
        }
        Ok(env.get_direct_buffer_address(buffer)? as jlong)
    }

    /// The content of the buffer.
    pub(crate) fn bytes(&mut self) -> Result<&mut [u8], Failure> {
        let start = NonNull::new(self.0 as *mut u8).ok_or(Failure::Malformed("no buffer"))?;
        // SAFETY: `Exchange.java` and `LookupBuffer.java` pass a result of `address_of`, which has verified the
        // length. Java has initialised the buffer, and no other thread uses it. Both classes keep the buffer alive
        // until the call returns, and no borrow of the argument of the call lasts longer.
        Ok(unsafe { std::slice::from_raw_parts_mut(start.as_ptr(), LEN) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_address_is_no_buffer() {
        assert!(matches!(Lent::<8>(0).bytes(), Err(Failure::Malformed(_))));
    }

    #[test]
    fn a_call_writes_where_java_reads() {
        let mut memory = [0_u8; 8];
        Lent::<8>(memory.as_mut_ptr() as jlong).bytes().unwrap()[7] = 1;
        assert_eq!(memory, [0, 0, 0, 0, 0, 0, 0, 1]);
    }
}
