//! Renames the new content of a loose ref into place, and makes such renames durable.

use crate::files::store::Store;
use crate::{Rejection, RejectionReason, Result};
use bstr::BStr;
use refdb_vfs::Lock;
use std::{
    collections::BTreeSet,
    io,
    path::{Path, PathBuf},
};

/// Renames the new content to the ref's path. Removes a folder there that contains nothing but empty folders; any other
/// folder rejects the claim.
pub(crate) fn publish_ref(store: &Store, name: &BStr, lock: &mut Lock) -> Result<()> {
    match lock.publish() {
        Err(error) if matches!(error.source.kind(), io::ErrorKind::IsADirectory | io::ErrorKind::DirectoryNotEmpty) => {
            if !store.options.fs.remove_empty_tree(lock.target())? {
                return Err(Rejection::of_claim(name, RejectionReason::Folder { path: lock.target().to_owned() }));
            }
            Ok(lock.publish()?)
        }
        published => Ok(published?),
    }
}

/// Syncs the folders of these refs, and the parents of the folders that were created for them (`made`).
pub(crate) fn sync_folders(store: &Store, names: &mut dyn Iterator<Item = &BStr>, made: &[PathBuf]) -> Result<()> {
    Ok(store.options.fs.sync_together(Vec::new(), &changed_folders(store, names, made))?)
}

/// The folders of these refs, and the parents of the folders that were created for them (`made`).
pub(crate) fn changed_folders(
    store: &Store,
    names: &mut dyn Iterator<Item = &BStr>,
    made: &[PathBuf],
) -> BTreeSet<PathBuf> {
    let of_names = names.filter_map(|name| Some(store.layout.ref_path(name)?.parent()?.to_owned()));
    of_names.chain(made.iter().filter_map(|folder| folder.parent()).map(Path::to_owned)).collect()
}
