//! Git's object database, read with gitoxide: loose objects, packs, multi-pack indexes, alternates.

use super::{ObjectError, bases::Bases};
use gix_object::{Exists, FindHeader};
use gix_odb::{HandleArc, Store, store, store::prefix::disambiguate::Candidate};
use gix_pack::Find;
use refdb_types::{HashKind, ObjectId};
use std::{
    collections::HashSet,
    path::{Path, PathBuf},
    sync::Arc,
};

/// The kind of an object.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ObjectKind {
    /// A commit.
    Commit,
    /// A tree.
    Tree,
    /// A blob.
    Blob,
    /// An annotated tag.
    Tag,
}

/// The content of an object's header.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Header {
    /// The kind of the object.
    pub kind: ObjectKind,
    /// The size of the content in bytes.
    pub size_bytes: u64,
}

impl ObjectKind {
    /// Returns the word for the kind in objects and in `%(objecttype)`.
    pub fn name(self) -> &'static str {
        match self {
            ObjectKind::Commit => "commit",
            ObjectKind::Tree => "tree",
            ObjectKind::Blob => "blob",
            ObjectKind::Tag => "tag",
        }
    }

    /// Returns the kind that a word stands for.
    pub fn from_name(name: &[u8]) -> Option<Self> {
        [ObjectKind::Commit, ObjectKind::Tree, ObjectKind::Blob, ObjectKind::Tag]
            .into_iter()
            .find(|kind| kind.name().as_bytes() == name)
    }
}

impl From<gix_object::Kind> for ObjectKind {
    fn from(kind: gix_object::Kind) -> Self {
        match kind {
            gix_object::Kind::Commit => ObjectKind::Commit,
            gix_object::Kind::Tree => ObjectKind::Tree,
            gix_object::Kind::Blob => ObjectKind::Blob,
            gix_object::Kind::Tag => ObjectKind::Tag,
        }
    }
}

impl From<ObjectKind> for gix_object::Kind {
    fn from(kind: ObjectKind) -> Self {
        match kind {
            ObjectKind::Commit => gix_object::Kind::Commit,
            ObjectKind::Tree => gix_object::Kind::Tree,
            ObjectKind::Blob => gix_object::Kind::Blob,
            ObjectKind::Tag => gix_object::Kind::Tag,
        }
    }
}

pub(super) struct Database {
    dir: PathBuf,
    handle: HandleArc,
    hash: HashKind,
    bases: Bases,
    read_max_bytes: Option<usize>,
}

/// Result of reading an object's content.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Unpacked {
    /// The content is in the buffer.
    Kind(ObjectKind),
    /// Reading the object would take more memory than the limit on reads allows.
    TooLarge,
    /// There is no such object, or it cannot be unpacked.
    Missing,
}

impl std::fmt::Debug for Database {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Database({})", self.handle.store_ref().path().display())
    }
}

impl Database {
    /// Opens the objects in a folder. An object that needs more than `read_max_bytes` of memory at once is not
    /// unpacked.
    pub(super) fn open(dir: &Path, hash: HashKind, read_max_bytes: Option<usize>) -> Result<Self, ObjectError> {
        // 32 slots for packs suffice for nearly all repositories, and the folder need not be listed to count its packs.
        let few = store::init::Slots::Given(32);
        let handle = open(dir, hash, few, read_max_bytes)?;
        Ok(Database { dir: dir.to_owned(), handle, hash, bases: Bases::default(), read_max_bytes })
    }

    /// Calls `act`. If it fails, the database is opened anew with room for more packs, and `act` is called once more,
    /// because the first database has room for few packs only.
    fn twice<T, E>(&mut self, mut act: impl FnMut(&HandleArc) -> Result<Option<T>, E>) -> Option<T> {
        match act(&self.handle) {
            Ok(found) => found,
            Err(_) => {
                let many = store::init::Slots::AsNeededByDiskState { multiplier: 2.0, minimum: 1024 };
                self.handle = open(&self.dir, self.hash, many, self.read_max_bytes).ok()?;
                // An object that cannot be unpacked is treated as missing.
                act(&self.handle).ok().flatten()
            }
        }
    }

    /// Reads an object's content, as its pack or file has it.
    ///
    /// The caller must verify the content. If it is wrong, call [`Database::forget`] and read once more: the cache of
    /// bases is keyed by pack numbers, which are reused when packs come and go.
    pub(super) fn read(&mut self, id: &ObjectId, buffer: &mut Vec<u8>) -> Unpacked {
        debug_assert!(id.kind() == self.hash, "gitoxide is asked for ids of its own hash: {id}");
        let mut bases = std::mem::take(&mut self.bases);
        let unpacked = self.twice(|handle| match handle.try_find_cached(to_gix(id), buffer, &mut bases) {
            Ok(found) => Ok(found.map(|(data, _)| Unpacked::Kind(data.kind.into()))),
            Err(error) if error.is_resource_exhausted() => Ok(Some(Unpacked::TooLarge)),
            Err(error) => Err(error),
        });
        self.bases = bases;
        unpacked.unwrap_or(Unpacked::Missing)
    }

    /// Reads an object's content without the cache of bases, for callers that do not verify the content.
    pub(super) fn read_anew(&mut self, id: &ObjectId, data: &mut Vec<u8>) -> Option<ObjectKind> {
        debug_assert!(id.kind() == self.hash, "gitoxide is asked for ids of its own hash: {id}");
        self.twice(|handle| {
            let found = handle.try_find(to_gix(id), data);
            found.map(|found| found.map(|(data, _)| data.kind.into()))
        })
    }

    /// Empties the cache of bases, and returns whether it contained anything.
    pub(super) fn forget(&mut self) -> bool {
        !std::mem::take(&mut self.bases).is_empty()
    }

    pub(super) fn exists(&mut self, id: &ObjectId) -> bool {
        debug_assert!(id.kind() == self.hash, "gitoxide is asked for ids of its own hash: {id}");
        self.handle.exists(to_gix(id)) || self.header(id).is_some()
    }

    pub(super) fn header(&mut self, id: &ObjectId) -> Option<Header> {
        debug_assert!(id.kind() == self.hash, "gitoxide is asked for ids of its own hash: {id}");
        let header = self.twice(|handle| FindHeader::try_header(handle, to_gix(id)))?;
        Some(Header { kind: header.kind.into(), size_bytes: header.size })
    }

    /// Returns the number of objects in packs.
    pub(super) fn packed_count(&mut self) -> Result<u64, ObjectError> {
        let count = self.twice(|handle| handle.packed_object_count().map(Some));
        count.ok_or_else(|| ObjectError::Count)
    }

    /// Returns the ids of all objects. An id may occur more than once.
    pub(super) fn ids(&mut self) -> Result<Vec<ObjectId>, ObjectError> {
        let ids = self.twice(|handle| {
            let mut all = Vec::new();
            for id in handle.iter().map_err(drop)? {
                all.push(from_gix(&id.map_err(drop)?));
            }
            Ok::<_, ()>(Some(all))
        });
        let ids = ids.ok_or_else(|| ObjectError::List(self.dir.clone()))?;
        debug_assert!(ids.iter().all(|id| id.kind() == self.hash), "a database has ids of one hash");
        Ok(ids)
    }

    /// Returns the smallest number of digits, at least `least`, that distinguishes an id from all others.
    pub(super) fn unique_len(&mut self, id: &ObjectId, least: usize) -> Result<usize, ObjectError> {
        debug_assert!(id.kind() == self.hash, "gitoxide is asked for ids of its own hash: {id}");
        let candidate = Candidate::new(to_gix(id).to_owned(), least);
        let candidate = candidate.map_err(|error| ObjectError::Shorten { id: *id, source: error.into() })?;
        let found = self.twice(|handle| handle.disambiguate_prefix(candidate).map(Some));
        let found = found.ok_or_else(|| ObjectError::Like(*id))?;
        Ok(found.map_or(least, |prefix| prefix.hex_len()))
    }

    /// Returns all ids that begin with these digits, sorted.
    pub(super) fn with_prefix(&mut self, digits: &str) -> Result<Vec<ObjectId>, ObjectError> {
        // gitoxide takes the hash function of a prefix from the id that it is made of, so the digits are padded to an
        // id of the repository's hash function.
        let padded = format!("{digits:0<len$}", len = self.hash.len_hex());
        let Ok(id) = ObjectId::from_hex(self.hash, padded.as_bytes()) else { return Ok(Vec::new()) };
        let Ok(prefix) = gix_hash::Prefix::new(to_gix(&id), digits.len()) else { return Ok(Vec::new()) };
        let mut found = HashSet::new();
        if self.twice(|handle| handle.lookup_prefix(prefix, Some(&mut found)).map(Some)).is_none() {
            return Err(ObjectError::Prefix(digits.to_owned()));
        }
        let mut ids: Vec<_> = found.iter().map(|id| from_gix(id)).filter(|id| id.kind() == self.hash).collect();
        ids.sort_unstable();
        Ok(ids)
    }
}

/// Opens an object database. Replace refs are not applied, because a ref holds the id that it was given.
fn open(
    dir: &Path,
    hash: HashKind,
    slots: store::init::Slots,
    alloc_limit_bytes: Option<usize>,
) -> Result<HandleArc, ObjectError> {
    let options = store::init::Options { slots, alloc_limit_bytes, ..Default::default() };
    let store = Store::at_opts(dir.to_owned(), gix_kind(hash), &mut std::iter::empty(), options);
    let store = store.map_err(|error| ObjectError::Open { dir: dir.to_owned(), source: error.into() })?;
    Ok(Arc::new(store).to_cache_arc())
}

pub(super) fn gix_kind(hash: HashKind) -> gix_hash::Kind {
    match hash {
        HashKind::Sha1 => gix_hash::Kind::Sha1,
        HashKind::Sha256 => gix_hash::Kind::Sha256,
    }
}

pub(super) fn to_gix(id: &ObjectId) -> &gix_hash::oid {
    gix_hash::oid::from_bytes_unchecked(id.as_bytes())
}

pub(super) fn from_gix(id: &gix_hash::oid) -> ObjectId {
    let bytes = id.as_bytes();
    let kind = if bytes.len() == HashKind::Sha1.len_bytes() { HashKind::Sha1 } else { HashKind::Sha256 };
    assert_eq!(bytes.len(), kind.len_bytes(), "an id is whole");
    ObjectId::from_bytes(kind, bytes).unwrap_or(ObjectId::null(kind))
}
