//! The encoding of requests and answers in one array: little-endian integers, and byte strings that follow their length
//! in four bytes. `org.refdb.engine.Packer` and `Unpacker` are the Java side.

use crate::failure::Failure;
use std::{ffi::OsStr, os::unix::ffi::OsStrExt, path::PathBuf};

/// Decodes a request. Every length is checked against the bytes that remain.
pub(crate) struct Request<'a> {
    rest: &'a [u8],
}

impl<'a> Request<'a> {
    pub(crate) fn new(bytes: &'a [u8]) -> Self {
        Request { rest: bytes }
    }

    fn take(&mut self, len: usize) -> Result<&'a [u8], Failure> {
        let (taken, rest) = self.rest.split_at_checked(len).ok_or(Failure::Malformed("it ends early"))?;
        self.rest = rest;
        Ok(taken)
    }

    pub(crate) fn u8(&mut self) -> Result<u8, Failure> {
        Ok(self.take(1)?[0])
    }

    pub(crate) fn u32(&mut self) -> Result<u32, Failure> {
        let mut bytes = [0; 4];
        bytes.copy_from_slice(self.take(4)?);
        Ok(u32::from_le_bytes(bytes))
    }

    pub(crate) fn u64(&mut self) -> Result<u64, Failure> {
        let mut bytes = [0; 8];
        bytes.copy_from_slice(self.take(8)?);
        Ok(u64::from_le_bytes(bytes))
    }

    pub(crate) fn bytes(&mut self) -> Result<&'a [u8], Failure> {
        let len = self.u32()?;
        self.take(len as usize)
    }

    pub(crate) fn path(&mut self) -> Result<PathBuf, Failure> {
        Ok(to_path(self.bytes()?))
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.rest.is_empty()
    }
}

/// Returns the path that consists of these bytes, which Java has encoded.
pub(crate) fn to_path(bytes: &[u8]) -> PathBuf {
    PathBuf::from(OsStr::from_bytes(bytes))
}

/// Encodes an answer.
#[derive(Default)]
pub(crate) struct Answer {
    bytes: Vec<u8>,
}

impl Answer {
    /// Creates an empty answer with room for the row of a usual ref.
    pub(crate) fn of_one_ref() -> Self {
        Answer::with_room(128)
    }

    pub(crate) fn with_room(len: usize) -> Self {
        Answer { bytes: Vec::with_capacity(len) }
    }

    pub(crate) fn u8(&mut self, value: u8) {
        self.bytes.push(value);
    }

    pub(crate) fn u32(&mut self, value: u32) {
        self.bytes.extend_from_slice(&value.to_le_bytes());
    }

    pub(crate) fn u64(&mut self, value: u64) {
        self.bytes.extend_from_slice(&value.to_le_bytes());
    }

    pub(crate) fn raw(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
    }

    /// Appends a byte string, which must be shorter than 4 GiB, as everything is that fits into a Java array.
    pub(crate) fn bytes(&mut self, bytes: &[u8]) -> Result<(), Failure> {
        self.u32(u32::try_from(bytes.len()).map_err(|_| Failure::TooLarge(bytes.len()))?);
        self.raw(bytes);
        Ok(())
    }

    pub(crate) fn len(&self) -> usize {
        self.bytes.len()
    }

    pub(crate) fn as_slice(&self) -> &[u8] {
        &self.bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_packed_is_unpacked() {
        let mut answer = Answer::default();
        answer.u8(7);
        answer.u32(u32::MAX);
        answer.u64(1 << 40);
        answer.bytes(b"name").unwrap();
        let mut request = Request::new(answer.as_slice());
        assert_eq!(request.u8().unwrap(), 7);
        assert_eq!(request.u32().unwrap(), u32::MAX);
        assert_eq!(request.u64().unwrap(), 1 << 40);
        assert_eq!(request.bytes().unwrap(), b"name");
        assert!(request.is_empty());
    }

    #[test]
    fn a_length_beyond_the_end_is_refused() {
        for bytes in [&[][..], &[1, 0, 0], &[5, 0, 0, 0, 1], &[0xff, 0xff, 0xff, 0xff, 0]] {
            assert!(matches!(Request::new(bytes).bytes(), Err(Failure::Malformed(_))), "{bytes:?}");
        }
    }
}
