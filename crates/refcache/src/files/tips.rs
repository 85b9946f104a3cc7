use crate::Result;
use bstr::{BString, ByteSlice};
use refdb::{
    backend::Peeled,
    files::{Charge, Packed, PackedFile, PackedRecord, PageBudget},
    transaction::{ObjectCheck, ObjectClass},
};
use refdb_types::ObjectId;
use std::sync::Arc;

/// The index of a packed-refs file from objects to refs.
///
/// Each ref takes an entry of eight bytes, and the object that a tag leads to takes one more; equal entries are kept
/// once. The upper half of an entry is the beginning of the object id. The lower half is the number of the place, a
/// piece of [`PLACE_LEN`] bytes of the file, in which the ref's record begins.
#[derive(Debug)]
pub(crate) struct Tips {
    generation: u64,
    /// The entries, sorted.
    entries: Vec<u64>,
    charge: Charge,
}

/// The length in bytes of a place, the piece of packed-refs that is read to find a ref.
const PLACE_LEN: usize = 4 << 10;

impl Tips {
    /// Builds the index of a file. Reads the whole file, and the objects of refs below `refs/tags/` without a peeled
    /// line. Notes where the file is out of order although its header says `sorted`.
    pub(crate) fn of(file: &PackedFile, objects: &dyn ObjectCheck, budget: &Arc<PageBudget>) -> Result<Self> {
        let packed = &file.packed;
        const LINE_LEN_USUAL: usize = 64;
        let mut entries = Vec::with_capacity((packed.end() - packed.start()) / LINE_LEN_USUAL);
        let (mut from, mut spare) = (packed.start(), Vec::new());
        let mut last = BString::default();
        while from < packed.end() {
            let (part, next) = packed.part(from, spare)?;
            let mut at = part.start();
            let mut before = last.as_bstr();
            while at < part.end() {
                let record = part.record(at)?;
                if record.name <= before {
                    packed.note_disorder(from + at, record.name);
                }
                before = record.name;
                let place = ((from + at) / PLACE_LEN) as u64;
                entries.push(prefix(&record.id) | place);
                if let Some(to) = behind_tag(&record, objects)? {
                    entries.push(prefix(&to) | place);
                }
                at = record.next;
            }
            last = before.to_owned();
            (from, spare) = (next, part.into_memory());
        }
        if !refdb_vfs::planted("refcache-tips") {
            entries.sort_unstable();
        }
        // Adjacent refs often lead to the same object.
        entries.dedup();
        entries.shrink_to_fit();
        let charge = budget.charge(entries.capacity() * size_of::<u64>());
        Ok(Tips { generation: file.generation, entries, charge })
    }

    pub(crate) fn generation(&self) -> u64 {
        self.generation
    }

    pub(crate) fn bytes(&self) -> usize {
        self.charge.bytes()
    }

    /// The names of the packed refs that point at the object, or `None` if there are more than `most`. `file` is the
    /// one from which the index was built.
    pub(crate) fn find(
        &self,
        file: &PackedFile,
        objects: &dyn ObjectCheck,
        id: &ObjectId,
        most: usize,
    ) -> Result<Option<Vec<BString>>> {
        debug_assert_eq!(self.generation, file.generation, "places are those of the file that was indexed");
        debug_assert!(self.entries.is_sorted_by(|a, b| a < b), "entries are sought by halves");
        let packed = &file.packed;
        let prefix = prefix(id);
        debug_assert_eq!(prefix & PLACE_MASK, 0, "the lower half of an entry is its place");
        let mut names = Vec::new();
        let first = self.entries.partition_point(|entry| *entry < prefix);
        let places = self.entries[first..].iter().take_while(|entry| *entry & !PLACE_MASK == prefix);
        for place in places {
            find_in(packed, objects, (place & PLACE_MASK) as usize, id, &mut names)?;
            if names.len() > most {
                return Ok(None);
            }
        }
        Ok(Some(names))
    }
}

const PLACE_MASK: u64 = u32::MAX as u64;

/// The upper half of an entry: the first bytes of the id.
fn prefix(id: &ObjectId) -> u64 {
    let mut bytes = [0; 8];
    bytes[..4].copy_from_slice(&id.as_bytes()[..4]);
    u64::from_be_bytes(bytes)
}

/// The object behind a tag. A ref below `refs/tags/` without a peeled line may be a tag all the same, because git 2.55
/// writes the header `fully-peeled` without peeled lines when it rewrites a file that had no header.
fn behind_tag(record: &PackedRecord<'_>, objects: &dyn ObjectCheck) -> Result<Option<ObjectId>> {
    Ok(match record.peeled {
        Peeled::To(to) => Some(to),
        _ if !record.name.starts_with(b"refs/tags/") => None,
        Peeled::NotTag | Peeled::Unknown => match objects.classify(&record.id)? {
            ObjectClass::Tag(to) => to,
            ObjectClass::Missing | ObjectClass::Commit | ObjectClass::Other => None,
        },
    })
}

/// Adds the names of those refs of a place that point at the object. The place is read without being cached: ids are
/// scattered over the file, and its pages would displace the index itself.
fn find_in(
    packed: &Packed,
    objects: &dyn ObjectCheck,
    place: usize,
    id: &ObjectId,
    names: &mut Vec<BString>,
) -> Result<()> {
    let from = (place * PLACE_LEN).max(packed.start());
    debug_assert!(from < packed.end(), "a place lies within its file: {place}");
    let part = packed.part_of(from..(place + 1) * PLACE_LEN)?;
    let mut at = part.start();
    while at < part.end() {
        let record = part.record(at)?;
        if record.id == *id || behind_tag(&record, objects)? == Some(*id) {
            names.push(record.name.to_owned());
        }
        at = record.next;
    }
    Ok(())
}
