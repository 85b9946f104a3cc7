//! The object databases of a repository: its own, those that `GIT_ALTERNATE_OBJECT_DIRECTORIES` names, and the empty
//! tree, which git has even if it is not stored.

use super::{
    ObjectError,
    database::{Database, Header, ObjectKind, Unpacked, gix_kind, to_gix},
};
use refdb_types::{HashKind, ObjectId};
use std::path::{Path, PathBuf};

/// Object databases that are asked one after another until one has an object.
#[derive(Debug)]
pub(super) struct Databases {
    /// The repository's own comes first. Each has the alternates of its own `info/alternates`.
    each: Vec<Database>,
}

impl Databases {
    /// Opens the objects in `dir` and in the folders `alternates`. As in git, an alternate that is no folder is
    /// ignored.
    pub(super) fn open(
        dir: &Path,
        alternates: &[PathBuf],
        hash: HashKind,
        read_max_bytes: Option<usize>,
    ) -> Result<Self, ObjectError> {
        let folders = alternates.iter().map(PathBuf::as_path).filter(|folder| folder.is_dir());
        let opened = std::iter::once(dir).chain(folders).map(|folder| Database::open(folder, hash, read_max_bytes));
        Ok(Databases { each: opened.collect::<Result<_, _>>()? })
    }

    /// Reads an object's content as [`Database::read`] does.
    pub(super) fn read(&mut self, id: &ObjectId, buffer: &mut Vec<u8>) -> Unpacked {
        let mut reads = self.each.iter_mut().map(|database| database.read(id, buffer));
        match reads.find(|unpacked| *unpacked != Unpacked::Missing) {
            Some(unpacked) => unpacked,
            None if is_empty_tree(id) => {
                buffer.clear();
                Unpacked::Kind(ObjectKind::Tree)
            }
            None => Unpacked::Missing,
        }
    }

    /// Reads an object's content as [`Database::read_anew`] does.
    pub(super) fn read_anew(&mut self, id: &ObjectId, data: &mut Vec<u8>) -> Option<ObjectKind> {
        let found = self.each.iter_mut().find_map(|database| database.read_anew(id, data));
        if found.is_none() && is_empty_tree(id) {
            data.clear();
            return Some(ObjectKind::Tree);
        }
        found
    }

    /// Empties the caches of bases, and returns whether one of them contained anything.
    pub(super) fn forget(&mut self) -> bool {
        self.each.iter_mut().filter_map(|database| database.forget().then_some(())).count() > 0
    }

    pub(super) fn exists(&mut self, id: &ObjectId) -> bool {
        self.each.iter_mut().any(|database| database.exists(id)) || is_empty_tree(id)
    }

    pub(super) fn header(&mut self, id: &ObjectId) -> Option<Header> {
        let found = self.each.iter_mut().find_map(|database| database.header(id));
        found.or_else(|| is_empty_tree(id).then_some(Header { kind: ObjectKind::Tree, size_bytes: 0 }))
    }

    /// Returns the number of objects in packs.
    pub(super) fn packed_count(&mut self) -> Result<u64, ObjectError> {
        self.each.iter_mut().map(Database::packed_count).sum()
    }

    /// Returns the ids of all objects. An id may occur more than once.
    pub(super) fn ids(&mut self) -> Result<Vec<ObjectId>, ObjectError> {
        let lists: Vec<_> = self.each.iter_mut().map(Database::ids).collect::<Result<_, _>>()?;
        Ok(lists.concat())
    }

    /// Returns the smallest number of digits, at least `least`, that distinguishes an id from all others.
    pub(super) fn unique_len(&mut self, id: &ObjectId, least: usize) -> Result<usize, ObjectError> {
        // If the id is missing, gitoxide stops at the shortest prefix that one object has, although it is another one.
        if let [only] = &mut *self.each
            && only.exists(id)
        {
            return only.unique_len(id, least);
        }
        let hex = id.to_string();
        for len in least..hex.len() {
            if self.with_prefix(&hex[..len])?.iter().all(|like| like == id) {
                return Ok(len);
            }
        }
        Ok(hex.len())
    }

    /// Returns all ids that begin with these digits, sorted.
    pub(super) fn with_prefix(&mut self, digits: &str) -> Result<Vec<ObjectId>, ObjectError> {
        let lists: Vec<_> =
            self.each.iter_mut().map(|database| database.with_prefix(digits)).collect::<Result<_, _>>()?;
        let mut ids = lists.concat();
        ids.sort_unstable();
        ids.dedup();
        Ok(ids)
    }
}

fn is_empty_tree(id: &ObjectId) -> bool {
    *to_gix(id) == *gix_hash::ObjectId::empty_tree(gix_kind(id.kind()))
}
