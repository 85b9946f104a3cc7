//! What a snapshot holds: the content of stacks.

use super::stacks::{Place, Stacks};
use crate::{BrokenRef, LooseError, Result};
use bstr::{BStr, ByteSlice};
use refdb_types::{HashKind, ObjectId, Target};
use reftable::Merged;
use std::{collections::BTreeMap, sync::Arc};

/// The state of the stacks as a reader sees it.
///
/// The stacks of this worktree, and locked stacks, are read when the snapshot is taken. Other stacks are read anew each
/// time a name in them is requested.
pub(super) struct ReftableSnapshot {
    stacks: Arc<Stacks>,
    merged: BTreeMap<Place, Merged>,
}

impl ReftableSnapshot {
    /// Reads the current state.
    pub(super) fn fresh(stacks: &Arc<Stacks>) -> Result<Self> {
        Self::with(stacks, BTreeMap::new())
    }

    /// Takes the state of locked stacks from `merged`, and reads the current state of the others.
    pub(super) fn with(stacks: &Arc<Stacks>, mut merged: BTreeMap<Place, Merged>) -> Result<Self> {
        for place in stacks.own_places() {
            if !merged.contains_key(place) {
                merged.insert(place.clone(), stacks.stack(place)?.refresh()?.merged().clone());
            }
        }
        Ok(ReftableSnapshot { stacks: Arc::clone(stacks), merged })
    }

    pub(super) fn hash(&self) -> HashKind {
        self.stacks.options.stack.write.hash
    }

    pub(super) fn stacks(&self) -> &Stacks {
        &self.stacks
    }

    pub(super) fn merged(&self, place: &Place) -> Result<Merged> {
        match self.merged.get(place) {
            Some(merged) => {
                debug_assert!(merged.hash().is_none_or(|hash| hash == self.hash()), "a stack has ids of one kind");
                Ok(merged.clone())
            }
            None => Ok(self.stacks.stack(place)?.refresh()?.merged().clone()),
        }
    }

    /// Reads `FETCH_HEAD` or `MERGE_HEAD`, which are files in every ref format. The object id at the beginning of the
    /// file is the value. A file that cannot be read is a broken ref, as in files.
    pub(super) fn pseudo(&self, name: &BStr) -> Result<Option<Target>> {
        let path = self.stacks.options.git_dir.join(name.to_path_lossy());
        let (hash, fs) = (self.hash(), &self.stacks.options.fs);
        match fs.read(&path) {
            Err(error) if error.is_not_found() || error.is_folder() => Ok(None),
            Err(error) => {
                // A folder that this user may not list is no broken ref, as in files.
                if error.is_forbidden() && fs.find(&path).is_ok_and(|found| found.is_some_and(|stat| stat.is_dir())) {
                    return Ok(None);
                }
                match LooseError::of_file(&error) {
                    Some(why) => Err(BrokenRef { name: name.to_owned(), path, why }.into()),
                    None => Err(error.into()),
                }
            }
            Ok(content) => {
                let hex = content.get(..hash.len_hex()).unwrap_or(&content);
                match ObjectId::from_hex(hash, hex) {
                    Ok(id) => Ok(Some(Target::Direct(id))),
                    Err(_) => {
                        let why = LooseError::Content(hash.len_hex());
                        Err(BrokenRef { name: name.to_owned(), path, why }.into())
                    }
                }
            }
        }
    }

    /// Returns whether this worktree sees the ref of this canonical name in this stack.
    pub(super) fn is_visible(&self, place: &Place, name: &BStr) -> bool {
        !self.stacks.is_linked() || self.stacks.route(name) == (place.clone(), name)
    }
}
