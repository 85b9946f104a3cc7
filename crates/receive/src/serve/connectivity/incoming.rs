//! The objects that came with a push, in its quarantine.

use refdb::{
    Objects,
    objects::{Link, ObjectKind, links},
};
use refdb_types::{HashKind, ObjectId};
use std::{collections::HashSet, path::PathBuf};

/// More than this are left to git, which walks many objects in less memory.
const OBJECTS_MAX: usize = 50_000;

/// The objects of a quarantine. Git has just computed their ids from their content.
#[derive(Debug)]
pub(super) struct Incoming {
    objects: Objects,
    ids: HashSet<ObjectId>,
}

impl Incoming {
    /// The content of the folder. `None`: too much, or it cannot be listed.
    pub(super) fn of(folder: PathBuf, hash: HashKind) -> Option<Self> {
        let objects = Objects::in_dir(folder, hash);
        let ids = objects.ids().ok().filter(|ids| ids.len() <= OBJECTS_MAX)?;
        Some(Incoming { objects, ids: ids.into_iter().collect() })
    }

    /// A push without objects.
    pub(super) fn nothing(hash: HashKind) -> Self {
        Incoming { objects: Objects::in_dir(PathBuf::new(), hash), ids: HashSet::new() }
    }

    pub(super) fn has(&self, id: &ObjectId) -> bool {
        self.ids.contains(id)
    }

    /// What an object is. `None` if it did not come, or is no good.
    pub(super) fn kind(&self, id: &ObjectId) -> Option<ObjectKind> {
        if self.has(id) { self.objects.kind(id).ok().flatten() } else { None }
    }

    /// Shows all that an object names, and returns what it is. `None` if it did not come, or is no good.
    pub(super) fn links(&self, id: &ObjectId, found: &mut dyn FnMut(Link<'_>)) -> Option<ObjectKind> {
        if !self.has(id) {
            return None;
        }
        let mut data = Vec::new();
        let kind = self.objects.content(id, &mut data).ok().flatten()?;
        links(kind, &data, id.kind(), &mut |link| found(link))?;
        Some(kind)
    }
}
