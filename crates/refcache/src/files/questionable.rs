use super::FilesReader;
use crate::Result;
use bstr::BString;
use refdb::{
    Store,
    files::{FilesBackend, Look, Packed},
};
use std::{cmp::Ordering, ops::ControlFlow};

impl FilesReader {
    /// The names of all single refs that are cached, and of the refs in cached pages that the packed-refs of `disk`,
    /// which is read in parts, lacks or has with other values.
    pub(super) fn questionable_names(&self, disk: &Store) -> Result<Vec<BString>> {
        let mut names = self.memory.name_cache.of(self.knowledge.number);
        names.extend(self.memory.direct_mapped.of(self.owner));
        let (Some(ours), Some(disk)) = (self.backend.packed_in_memory(), disk.backend_as::<FilesBackend>()) else {
            return Ok(names);
        };
        let theirs = disk.packed(Look::Stat)?;
        let mut walk = Walk::new(&theirs.packed)?;
        let mut failure = None;
        ours.packed.for_each_kept(&mut |name, id, peeled| {
            loop {
                match walk.compare(name, |record| record.id == *id && record.peeled == peeled) {
                    Ok((Ordering::Less, _)) => {}
                    Ok((Ordering::Equal, true)) => return ControlFlow::Continue(()),
                    Ok(_) => {
                        names.push(name.to_owned());
                        return ControlFlow::Continue(());
                    }
                    Err(error) => {
                        failure = Some(error);
                        return ControlFlow::Break(());
                    }
                }
            }
        });
        failure.map_or(Ok(names), Err)
    }
}

/// Steps through the records of packed-refs, of which one part at a time is in memory.
struct Walk<'p> {
    packed: &'p Packed,
    part: Packed,
    at: usize,
    /// Where the next part begins.
    next: usize,
}

impl<'p> Walk<'p> {
    fn new(packed: &'p Packed) -> Result<Self> {
        let (part, next) = packed.part(packed.start(), Vec::new())?;
        Ok(Walk { packed, at: part.start(), part, next })
    }

    /// Compares the name of the present record with `name`, and its value by `is_same`. If the record's name is less,
    /// the walk moves on to the next record. The end of the file is greater than all names.
    fn compare(
        &mut self,
        name: &bstr::BStr,
        is_same: impl FnOnce(&refdb::files::PackedRecord<'_>) -> bool,
    ) -> Result<(Ordering, bool)> {
        if self.at >= self.part.end() && self.next < self.packed.end() {
            (self.part, self.next) = self.packed.part(self.next, Vec::new())?;
            self.at = self.part.start();
        }
        if self.at >= self.part.end() {
            return Ok((Ordering::Greater, false));
        }
        debug_assert!(self.next <= self.packed.end(), "a part lies within the file: {}", self.next);
        let record = self.part.record(self.at)?;
        let order = record.name.cmp(name);
        let is_same = order.is_eq() && is_same(&record);
        if order.is_lt() {
            self.at = record.next;
        }
        Ok((order, is_same))
    }
}
