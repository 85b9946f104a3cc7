//! packed-refs files that claim to be sorted and are not, because somebody has edited them or a bit has flipped.
//!
//! Readers do not search for disorder, because that would mean reading the whole file. A walk notices the misplaced
//! names that it meets, a cursor also looks around the position of a seek, and pack-refs checks the whole file. After
//! that, the promise in the file's header is ignored: the file is opened again and sorted in memory.

use crate::files::{Packed, packed::disorder::Disorder};
use crate::{Result, backend::Peeled};
use bstr::{BStr, BString};
use refdb_types::ObjectId;
use std::{collections::HashSet, ops::Range};

/// A ref out of order, with its object and what is known about the peeled object.
pub type Misplaced = (BString, ObjectId, Peeled);

impl Packed {
    /// Notes that the record at `offset` is out of order. Returns whether the file claims to be sorted, and so has to
    /// be read again and sorted in memory.
    #[cold]
    pub fn note_disorder(&self, offset: usize, name: &BStr) -> bool {
        // Only the first misplaced record is kept.
        let found = Disorder { path: self.path().to_owned(), offset: offset as u64, name: name.to_owned() };
        let _ = self.disorder_cell().set(found);
        self.is_copyable()
    }

    /// Returns whether the four records around `at`, the position where a search ended, are in order: the two before
    /// it and the two from it on. A search for a misplaced record may end at either side of that record. The result is
    /// always `true` if the records were sorted in memory, since nothing can then be misplaced.
    pub fn is_in_order_around(&self, at: usize) -> Result<bool> {
        let mut position = at;
        for _ in 0..2 {
            if position > self.start() {
                position = self.first_up_to(position - 1)?;
            }
        }
        debug_assert!(position <= at, "two records before are looked at: {position} {at}");
        let mut before = BStr::new("");
        for _ in 0..4 {
            if position >= self.end() {
                break;
            }
            let record = self.record(position)?;
            if record.name <= before && self.note_disorder(position, record.name) {
                return Ok(false);
            }
            (before, position) = (record.name, record.next);
        }
        Ok(true)
    }

    /// Where this file was found not to be sorted although it claims to be. Searches in such a file may miss refs.
    pub fn disorder(&self) -> Option<&Disorder> {
        if self.is_copyable() { self.disorder_cell().get() } else { None }
    }

    /// The refs from `from` on, before `end`, that `sorted` contains and a walk over `range` of this file does not
    /// meet. `sorted` is the same file in order.
    pub fn left_out(
        &self,
        range: Range<usize>,
        sorted: &Packed,
        from: &BStr,
        end: Option<&BStr>,
    ) -> Result<Vec<Misplaced>> {
        debug_assert!(range.end <= self.end(), "what was walked over lies before the end: {range:?}");
        let mut given = HashSet::new();
        let mut at = range.start;
        while at < range.end {
            let record = self.record(at)?;
            given.insert(record.name.to_owned());
            at = record.next;
        }
        let mut left_out = Vec::new();
        let mut at = sorted.lower_bound(from)?;
        while at < sorted.end() {
            let record = sorted.record(at)?;
            if end.is_some_and(|end| record.name >= end) {
                break;
            }
            if !given.contains(record.name) {
                left_out.push((record.name.to_owned(), record.id, record.peeled));
            }
            at = record.next;
        }
        Ok(left_out)
    }
}
