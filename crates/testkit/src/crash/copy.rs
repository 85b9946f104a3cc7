use crate::folder::copy_tree;
use std::path::Path;
use tempfile::TempDir;

/// A fresh copy of `start` in a temporary folder. The caller keeps the folder's guard as long as it uses the copy. The
/// copy has the name "copy" in it.
pub(super) fn fresh(start: &Path) -> TempDir {
    let temp = tempfile::Builder::new().prefix("refdb-crash-").tempdir().expect("a temporary folder can be made");
    copy_tree(start, &temp.path().join("copy"));
    temp
}
