//! Reads in place of page faults for the first searches in a mapped packed-refs file. A fault maps many pages around
//! the one that is touched and costs as much as ten reads, so the first searches, which jump far, read until they are
//! near their goal and use the mapping only then.

use bstr::{BStr, ByteSlice};
use refdb_types::{HashKind, space::is_space};
use refdb_vfs::File;
use std::{
    cmp::Ordering,
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering::Relaxed},
    },
};

/// The length in bytes up to which a range is searched in the mapping; one fault maps as much.
pub(crate) const NEAR_LEN: usize = 64 << 10;

/// The bytes to read around a position, usually a few lines. The mapping is used if they contain no whole record.
const READ_LEN: usize = 512;

/// The number of searches after which most places are mapped already, so that reads no longer pay.
pub(crate) const SEARCHES_MAX: u32 = 32;

/// The file behind a mapping, and how many searches may still read it.
#[derive(Debug)]
pub(crate) struct FarReads {
    file: Arc<File>,
    searches_left: AtomicU32,
}

impl FarReads {
    pub(crate) fn new(file: &Arc<File>) -> Self {
        FarReads { file: Arc::clone(file), searches_left: AtomicU32::new(SEARCHES_MAX) }
    }

    /// Returns whether later searches use the mapping alone.
    pub(crate) fn is_spent(&self) -> bool {
        self.searches_left.load(Relaxed) == 0
    }

    /// Takes one of the remaining searches and returns whether there was one. Two threads may take the same one.
    fn take(&self) -> bool {
        let left = self.searches_left.load(Relaxed);
        self.searches_left.store(left.saturating_sub(1), Relaxed);
        left > 0
    }

    /// Bisects the range in which `name` is searched until the range is short or a read is of no use. Both ends remain
    /// the beginnings of records, except for an upper end at the end of the file, and a record at the upper end is not
    /// less than `name`. Both ends are equal if the bisection met the record itself. Ids are of `hash`.
    pub(crate) fn narrow(&self, mut low: usize, mut high: usize, hash: HashKind, name: &BStr) -> (usize, usize) {
        if high.saturating_sub(low) <= NEAR_LEN || !self.take() {
            return (low, high);
        }
        let mut buffer = [0; READ_LEN];
        while high - low > NEAR_LEN {
            let middle = READ_LEN / 2;
            let from = low + (high - low) / 2 - middle;
            // The search in the mapping reports a truncated file and bytes that are no record.
            let Ok(len) = self.file.read_at(&mut buffer, from as u64) else { break };
            let Some(found) = record_around(&buffer[..len], middle, hash, name) else { break };
            let (at, next) = (from + found.start, from + found.next);
            if at < low || next > high {
                break; // Two peeled lines in a row: none of this is a record.
            }
            debug_assert!(at < next, "each half is smaller: {at} in {low}..{high}");
            (low, high) = match found.order {
                Ordering::Less => (next, high),
                Ordering::Equal => (at, at),
                Ordering::Greater => (low, at),
            };
        }
        (low, high)
    }
}

/// A record found in the bytes that were read.
struct Found {
    start: usize,
    next: usize,
    order: Ordering,
}

/// The record to which the byte at `position` belongs, with the comparison of its name. Returns `None` if the bytes do
/// not contain the whole record and what shows where it begins and ends, or if they are no record.
fn record_around(bytes: &[u8], position: usize, hash: HashKind, name: &BStr) -> Option<Found> {
    let line_before = |end: usize| bytes.get(..end)?.rfind_byte(b'\n').map(|newline| newline + 1);
    let line_end = |from: usize| bytes.get(from..)?.find_byte(b'\n').map(|newline| from + newline);
    let mut start = line_before(position)?;
    if bytes.get(start) == Some(&b'^') {
        start = line_before(start - 1)?;
    }
    let end = line_end(start)?;
    let found = name_of(&bytes[start..end], hash)?;
    let mut next = end + 1;
    if *bytes.get(next)? == b'^' {
        next = line_end(next)? + 1;
    }
    Some(Found { start, next, order: found.cmp(name) })
}

/// The name in a ref's line without its newline. Returns `None` for any other line; the id is not checked.
#[inline]
pub(crate) fn name_of(line: &[u8], hash: HashKind) -> Option<&[u8]> {
    let (start, name) = line.split_at_checked(hash.len_hex() + 1)?;
    let is_ref = !name.is_empty() && start.last().is_some_and(is_space) && line[0] != b'^';
    is_ref.then_some(name)
}
