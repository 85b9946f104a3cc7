//! Splits standard input into requests, with a single buffer.

use crate::failure::{Failure, Result, message};
use bstr::ByteSlice;
use std::io::Read;

/// Splits a stream into records: lines or, with `-z`, as many NUL-terminated fields as the first field asks for.
///
/// A record is a slice of the buffer, which grows if a record does not fit into it.
pub struct Records<R> {
    input: R,
    buffer: Vec<u8>,
    start: usize,
    end: usize,
    at_eof: bool,
}

/// A record, without its last terminator.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Record<'a> {
    /// The bytes of the record. With `-z`, its fields are separated by NUL.
    pub bytes: &'a [u8],
    /// Whether the terminator was present; it may be missing at the end of the input.
    pub terminated: bool,
    /// Whether fields are terminated by NUL and never quoted.
    pub nul: bool,
}

const BUFFER_BYTES: usize = 64 << 10;

impl<R: Read> Records<R> {
    /// Splits `input`.
    pub fn new(input: R) -> Self {
        Records { input, buffer: vec![0; BUFFER_BYTES], start: 0, end: 0, at_eof: false }
    }

    /// Returns the next line, or `None` at the end of the input.
    pub fn line(&mut self) -> Result<Option<Record<'_>>> {
        self.record(b'\n', |_| 1)
    }

    /// Returns the next record of NUL-terminated fields. `fields` returns the number of fields from the first one;
    /// fewer are returned if the input ends.
    pub fn fields(&mut self, fields: impl Fn(&[u8]) -> usize) -> Result<Option<Record<'_>>> {
        self.record(0, fields)
    }

    fn record(&mut self, terminator: u8, fields: impl Fn(&[u8]) -> usize) -> Result<Option<Record<'_>>> {
        let nul = terminator == 0;
        // The offset `searched` is relative to `start`, so that it stays valid when the content of the buffer is moved;
        // `wanted` is the number of fields that are still to come.
        let (mut searched, mut wanted) = (0, None);
        loop {
            let held = &self.buffer[self.start..self.end];
            match held[searched..].find_byte(terminator) {
                Some(found) => {
                    let at = searched + found;
                    let left = wanted.unwrap_or_else(|| fields(&held[..at])).saturating_sub(1);
                    if left == 0 {
                        let from = self.start;
                        self.start += at + 1;
                        return Ok(Some(Record { bytes: &self.buffer[from..from + at], terminated: true, nul }));
                    }
                    wanted = Some(left);
                    searched = at + 1;
                }
                None if self.at_eof && held.is_empty() => return Ok(None),
                None if self.at_eof => {
                    let rest = self.start..self.end;
                    self.start = self.end;
                    let bytes = &self.buffer[rest];
                    let terminated = bytes.last() == Some(&terminator);
                    let bytes = if terminated { &bytes[..bytes.len() - 1] } else { bytes };
                    return Ok(Some(Record { bytes, terminated, nul }));
                }
                None => {
                    searched = held.len();
                    self.fill()?;
                }
            }
        }
    }

    fn fill(&mut self) -> Result<()> {
        self.buffer.copy_within(self.start..self.end, 0);
        self.end -= self.start;
        self.start = 0;
        if self.end == self.buffer.len() {
            self.buffer.resize(self.buffer.len() * 2, 0);
        }
        loop {
            match self.input.read(&mut self.buffer[self.end..]) {
                Ok(0) => self.at_eof = true,
                Ok(got) => self.end += got,
                Err(error) if refdb_vfs::interrupt::received().is_some() => {
                    drop(error);
                    return Err(Failure::Interrupted);
                }
                Err(error) if error.kind() == std::io::ErrorKind::Interrupted => continue,
                Err(error) => return Err(Failure::Fatal(message!["cannot read standard input: ", error.to_string()])),
            }
            return Ok(());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A reader that returns its bytes in small pieces.
    struct Drip<'a>(&'a [u8], usize);

    impl Read for Drip<'_> {
        fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
            let len = self.1.min(self.0.len()).min(buffer.len());
            buffer[..len].copy_from_slice(&self.0[..len]);
            self.0 = &self.0[len..];
            Ok(len)
        }
    }

    #[test]
    fn lines_are_the_same_however_the_input_arrives() {
        let long = vec![b'x'; BUFFER_BYTES * 3 + 5];
        let input = [b"one\n\ntwo\n", &long[..], b"\nlast"].concat();
        for step in [1000, 7, 1 << 20] {
            let mut records = Records::new(Drip(&input, step));
            let mut seen = Vec::new();
            while let Some(record) = records.line().unwrap() {
                seen.push((record.bytes.to_vec(), record.terminated));
            }
            let expected: Vec<(&[u8], bool)> =
                vec![(b"one", true), (b"", true), (b"two", true), (&long, true), (b"last", false)];
            assert_eq!(seen.len(), expected.len());
            assert!(seen.iter().zip(expected).all(|(seen, expected)| (&seen.0[..], seen.1) == expected));
        }
    }

    #[test]
    fn a_record_of_fields_takes_as_many_as_its_first_one_asks_for() {
        let wanted = |first: &[u8]| if first.starts_with(b"two") { 2 } else { 1 };
        for step in [1, 100] {
            let mut records = Records::new(Drip(b"one\0two a\0b\0\0two c\0", step));
            let mut seen = Vec::new();
            while let Some(record) = records.fields(wanted).unwrap() {
                seen.push((record.bytes.to_vec(), record.terminated));
            }
            let expected = [(&b"one"[..], true), (b"two a\0b", true), (b"", true), (b"two c", true)];
            assert_eq!(seen, expected.map(|(bytes, terminated)| (bytes.to_vec(), terminated)));
        }
    }
}
