//! The objects of a push, in its quarantine.

use refdb::{
    Objects,
    objects::{Link, ObjectKind, links, pack_entries},
};
use refdb_types::{HashKind, ObjectId};
use std::{collections::HashMap, path::PathBuf};

/// Maximum number of objects of a push that refdb checks itself. Git checks larger pushes, because it needs less memory
/// for many objects.
const OBJECTS_MAX: usize = 50_000;

/// Maximum length of the delta chain of a commit, tree or tag. Git checks pushes with longer chains. Each object is
/// read from the start of its chain, so the cost of reading a whole chain grows with the square of its length.
const DELTAS_MAX: u32 = 100;

/// The objects of a quarantine. Their ids are trusted, because git has just computed them from the contents.
#[derive(Debug)]
pub(super) struct Incoming {
    objects: Objects,
    kinds: HashMap<ObjectId, ObjectKind>,
}

impl Incoming {
    /// Reads which objects are in the folder. Returns `None` if git has to do the walk, because there are too many
    /// objects, because one of them other than a blob has too long a delta chain, or is, or is based on, an object of
    /// more than `read_max_bytes` bytes, or because the objects cannot be read.
    pub(super) fn of(folder: PathBuf, hash: HashKind, read_max_bytes: u64) -> Option<Self> {
        let objects = Objects::in_dir(folder.clone(), hash);
        let ids = objects.ids().ok().filter(|ids| ids.len() <= OBJECTS_MAX)?;
        let packed = pack_entries(&folder, hash).ok()?;
        let mut kinds = HashMap::with_capacity(ids.len());
        for id in ids {
            let (kind, bytes, deltas) = match packed.get(&id) {
                Some(entry) => (entry.kind, entry.largest_bytes, entry.deltas),
                None => objects.header(&id).ok()?.map(|header| (header.kind, header.size_bytes, 0))?,
            };
            let is_too_much = bytes > read_max_bytes || deltas > DELTAS_MAX;
            if kind != ObjectKind::Blob && is_too_much {
                return None;
            }
            kinds.insert(id, kind);
        }
        Some(Incoming { objects, kinds })
    }

    /// Returns the empty set, for a push without objects.
    pub(super) fn nothing(hash: HashKind) -> Self {
        Incoming { objects: Objects::in_dir(PathBuf::new(), hash), kinds: HashMap::new() }
    }

    pub(super) fn has(&self, id: &ObjectId) -> bool {
        self.kinds.contains_key(id)
    }

    /// Returns the kind of an object, or `None` if it is not in the push.
    pub(super) fn kind(&self, id: &ObjectId) -> Option<ObjectKind> {
        self.kinds.get(id).copied()
    }

    /// Passes every link of an object to `found`, and returns the kind of the object. Returns `None` if the object is
    /// not in the push, cannot be read, or is malformed. A blob has no links and is not read.
    pub(super) fn links(&self, id: &ObjectId, found: &mut dyn FnMut(Link<'_>)) -> Option<ObjectKind> {
        let kind = self.kind(id)?;
        if kind == ObjectKind::Blob {
            return Some(kind);
        }
        let mut data = Vec::new();
        let read = self.objects.content(id, &mut data).ok().flatten()?;
        links(read, &data, id.kind(), &mut |link| found(link))?;
        (read == kind).then_some(kind)
    }
}
