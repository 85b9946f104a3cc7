//! Binary search for a name in a packed-refs file, over bytes that have not been checked before.

use crate::Result;
use crate::files::packed::{
    far_reads::{FarReads, NEAR_LEN, name_of},
    read::{Bytes, Packed, PackedRecord, line_around},
};
use bstr::BStr;
use std::cmp::Ordering;

impl Packed {
    /// The position of the first record from `from` on whose name is not less than `name`. The search gallops, so a
    /// near record is found quickly.
    pub fn seek(&self, from: usize, name: &BStr) -> Result<usize> {
        let mut low = from;
        let mut step = 1;
        while low < self.end() {
            let at = if step == 1 { low } else { self.record_around(low, low.saturating_add(step))? };
            match self.compare(at, name)? {
                (Ordering::Less, next) => low = next,
                (Ordering::Equal, _) => return Ok(at),
                (Ordering::Greater, _) => return self.bisect(low, at, name),
            }
            step = if step == 1 { 256 } else { step.saturating_mul(2) };
            // While the file is read instead of mapped, bisection reaches a far record with fewer reads.
            if step >= self.end() - low || (step > NEAR_LEN && self.far_reads().is_some()) {
                return self.bisect(low, self.end(), name);
            }
        }
        Ok(low)
    }

    /// The position of the first record in the file whose name is not less than `name`.
    pub fn lower_bound(&self, name: &BStr) -> Result<usize> {
        match &self.bytes {
            Bytes::Paged(pages) => {
                let page = pages.page_of(name, self.hash.len_hex() + 1)?;
                self.bisect(page.start.max(self.start()), page.end.max(self.start()), name)
            }
            _ => self.bisect(self.start(), self.end(), name),
        }
    }

    /// The record of this name; `None` if there is none.
    pub fn find(&self, name: &BStr) -> Result<Option<PackedRecord<'_>>> {
        let at = self.lower_bound(name)?;
        if at >= self.end() {
            return Ok(None);
        }
        Ok(Some(self.record(at)?).filter(|record| record.name == name))
    }

    /// The position of the first record that begins at `position` or later.
    pub fn first_from(&self, position: usize) -> Result<usize> {
        if position <= self.start() || position >= self.end() {
            return Ok(position.clamp(self.start(), self.end()));
        }
        let around = self.record_around(self.start(), position)?;
        if around < position { Ok(self.compare(around, BStr::new(""))?.1) } else { Ok(around) }
    }

    /// The position of the record to which the byte at `position` belongs.
    pub(crate) fn first_up_to(&self, position: usize) -> Result<usize> {
        self.record_around(self.start(), position)
    }

    /// The file to read from instead of the mapping, while that pays.
    fn far_reads(&self) -> Option<&FarReads> {
        match &self.bytes {
            Bytes::Mapped(_, reads) if !reads.is_spent() => Some(reads),
            _ => None,
        }
    }

    /// Bisects between two positions; a record at the upper one is not less than `name`.
    fn bisect(&self, low: usize, high: usize, name: &BStr) -> Result<usize> {
        let (mut low, mut high) = match self.far_reads() {
            Some(reads) => reads.narrow(low, high, self.hash, name),
            None => (low, high),
        };
        while low < high {
            let at = self.record_around(low, low + (high - low) / 2)?;
            debug_assert!(low <= at && at < high, "each half is smaller: {at} in {low}..{high}");
            match self.compare(at, name)? {
                (Ordering::Less, next) => low = next,
                (Ordering::Equal, _) => return Ok(at),
                (Ordering::Greater, _) => high = at,
            }
        }
        Ok(low)
    }

    /// The position of the record that contains `at`; `low` is the position of that record or of an earlier one.
    fn record_around(&self, low: usize, at: usize) -> Result<usize> {
        let at = at.min(self.end());
        let (bytes, base) = self.bytes.around(at)?;
        let low = low.max(base);
        let mut line = line_around(bytes, base, low, at);
        if line > low && bytes.get(line - base) == Some(&b'^') {
            line = line_around(bytes, base, low, line - 1);
        }
        Ok(line)
    }

    /// Compares a record's name with `name`, and returns the position of the next record. The object ids are not
    /// checked until the caller parses the record.
    fn compare(&self, at: usize, name: &BStr) -> Result<(Ordering, usize)> {
        let (bytes, base) = self.bytes.around(at)?;
        // From here on positions are relative to `bytes`.
        let at = at - base;
        let line_end = self.line_end_in(bytes, at)?;
        debug_assert!(at <= line_end && line_end < bytes.len(), "a line ends in the bytes at hand: {at} {line_end}");
        let found = name_of(&bytes[at..line_end], self.hash).ok_or_else(|| self.unexpected(base + at))?;
        let mut next = line_end + 1;
        if bytes.get(next) == Some(&b'^') {
            next = self.line_end_in(bytes, next)? + 1;
        }
        Ok((found.cmp(name), base + next))
    }
}

#[cfg(test)]
mod tests;
