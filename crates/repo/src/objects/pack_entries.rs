//! Determines the kind, size and delta depth of each entry of the packs in a folder. The cost is linear in the number
//! of entries, however long chains of deltas are.

use super::database::{ObjectKind, from_gix, gix_kind};
use gix_pack::data::{Entry, decode::header::ResolvedBase, entry::Header};
use refdb_types::{HashKind, ObjectId};
use std::{
    collections::HashMap,
    path::{Path, PathBuf},
};

/// What the headers in a pack reveal about an object without inflating its content.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PackEntry {
    /// The kind of the object.
    pub kind: ObjectKind,
    /// The size in bytes of the largest content that must be in memory to read the object: its own, or that of one of
    /// its bases. The deltas, which must be in memory too, are not counted.
    pub largest_bytes: u64,
    /// The number of deltas that must be applied to read the object.
    pub deltas: u32,
}

/// The reason why the entries of a pack cannot be determined.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PackError {
    /// The index names an object twice, so that the base of a delta depends on which of the two a reader picks.
    #[error("the pack contains object {0} twice; repack the objects and push again")]
    Twice(ObjectId),
    /// The base of a delta depends on that delta. The object is one whose chain of deltas contains such a delta.
    #[error("the pack cannot be read: object {0} is a delta that depends on itself; repack the objects and push again")]
    Circle(ObjectId),
    /// The folder of packs cannot be listed, a pack, its index or one of its entries cannot be read, or the base of a
    /// delta is not in the pack.
    #[error("cannot read the pack '{}'", .0.display())]
    Unreadable(PathBuf),
}

/// Returns the paths of the indexes in `folder/pack`.
fn indexes(folder: &Path) -> Result<Vec<PathBuf>, PackError> {
    let folder = folder.join("pack");
    let unreadable = |_| PackError::Unreadable(folder.clone());
    let mut paths = Vec::new();
    match std::fs::read_dir(&folder) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(paths),
        entries => {
            for entry in entries.map_err(unreadable)? {
                paths.push(entry.map_err(unreadable)?.path());
            }
        }
    }
    paths.retain(|path| path.extension().is_some_and(|extension| extension == "idx"));
    Ok(paths)
}

fn open_index(path: &Path, hash: HashKind) -> Result<gix_pack::index::File, PackError> {
    gix_pack::index::File::at(path, gix_kind(hash)).map_err(|_| PackError::Unreadable(path.to_owned()))
}

/// Checks that no index of a pack in this object folder names an object twice.
///
/// # Errors
///
/// Returns [`PackError::Twice`] if an object is named twice, or [`PackError::Unreadable`] if the folder of packs cannot
/// be listed or an index cannot be read.
pub fn check_packs(folder: &Path, hash: HashKind) -> Result<(), PackError> {
    for path in indexes(folder)? {
        let index = open_index(&path, hash)?;
        for at in 1..index.num_objects() {
            let id = index.oid_at_index(at);
            if id == index.oid_at_index(at - 1) {
                return Err(PackError::Twice(from_gix(id)));
            }
        }
    }
    Ok(())
}

/// Returns the entries of all packs in this object folder, by object id: one entry for each object, even if several
/// packs contain the object. Call [`check_packs`] first: this function does not notice that an index names an object
/// twice.
///
/// # Errors
///
/// Returns [`PackError::Circle`] if a delta depends on itself, or [`PackError::Unreadable`] if the folder of packs
/// cannot be listed, a pack or its index cannot be read, or the base of a delta is not in the pack.
pub fn pack_entries(folder: &Path, hash: HashKind) -> Result<HashMap<ObjectId, PackEntry>, PackError> {
    let mut all = HashMap::new();
    for path in indexes(folder)? {
        let index = open_index(&path, hash)?;
        let path = path.with_extension("pack");
        let pack = gix_pack::data::File::at(&path, gix_kind(hash));
        let pack = pack.map_err(|_| PackError::Unreadable(path.clone()))?;
        let mut survey = Survey { index: &index, pack: &pack, known: HashMap::new(), inflate: Default::default() };
        for entry in index.iter() {
            let id = from_gix(&entry.oid);
            all.insert(id, survey.tell(id, entry.pack_offset, &path)?);
        }
    }
    Ok(all)
}

struct Survey<'p> {
    index: &'p gix_pack::index::File,
    pack: &'p gix_pack::data::File,
    /// The entries that have been determined, by their offsets. `None` marks an entry whose chain is being followed.
    known: HashMap<u64, Option<PackEntry>>,
    inflate: gix_zlib::Inflate,
}

impl Survey<'_> {
    /// Follows a chain of deltas to an entry that is known or no delta, and then determines each delta of the chain.
    fn tell(&mut self, id: ObjectId, offset: u64, path: &Path) -> Result<PackEntry, PackError> {
        let unreadable = || PackError::Unreadable(path.to_owned());
        let mut chain = Vec::new();
        let mut offset = offset;
        let mut told = loop {
            match self.known.get(&offset) {
                Some(Some(known)) => break *known,
                Some(None) => return Err(PackError::Circle(id)),
                None => {}
            }
            let entry = self.pack.entry(offset).map_err(|_| unreadable())?;
            if let Some(kind) = entry.header.as_kind() {
                let whole = PackEntry { kind: kind.into(), largest_bytes: entry.decompressed_size, deltas: 0 };
                self.known.insert(offset, Some(whole));
                break whole;
            }
            self.known.insert(offset, None);
            let base = self.base(&entry).ok_or_else(unreadable)?;
            chain.push((offset, entry));
            offset = base;
        };
        for (offset, entry) in chain.into_iter().rev() {
            let size_bytes = self.delta_result_bytes(entry, told).ok_or_else(unreadable)?;
            let largest_bytes = told.largest_bytes.max(size_bytes);
            told = PackEntry { kind: told.kind, largest_bytes, deltas: told.deltas.saturating_add(1) };
            self.known.insert(offset, Some(told));
        }
        Ok(told)
    }

    /// Returns the offset of a delta's base.
    fn base(&self, entry: &Entry) -> Option<u64> {
        match entry.header {
            Header::OfsDelta { base_distance } => entry.checked_base_pack_offset(base_distance),
            Header::RefDelta { base_id } => Some(self.index.pack_offset_at_index(self.index.lookup(base_id)?)),
            _ => None,
        }
    }

    /// Returns the size in bytes of the content that a delta produces. The first bytes of the delta state this size.
    fn delta_result_bytes(&mut self, mut entry: Entry, base: PackEntry) -> Option<u64> {
        // For a delta by offset, gix would follow the chain to its end. For a delta by id, it asks the callback for
        // the base, whose size is already known here.
        entry.header = Header::RefDelta { base_id: self.index.object_hash().null() };
        let known = |_: &gix_hash::oid| {
            Ok(Some(ResolvedBase::OutOfPack { kind: base.kind.into(), num_deltas: Some(base.deltas) }))
        };
        self.pack.decode_header(entry, &mut self.inflate, &known).ok().map(|header| header.object_size)
    }
}
