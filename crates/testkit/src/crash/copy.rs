use crate::folder::copy_tree;
use std::path::Path;
use tempfile::TempDir;

/// A fresh copy of `start` in a temporary folder: the folder's guard, to be kept as long as the copy is used. The
/// copy has the name "copy" in it.
pub(super) fn fresh(start: &Path) -> TempDir {
    let temp = tempfile::Builder::new().prefix("refdb-crash-").tempdir().expect("a temporary folder can be made");
    copy_tree(start, &temp.path().join("copy"));
    temp
}
