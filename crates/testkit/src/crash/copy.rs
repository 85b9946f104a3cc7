use crate::folder::copy_tree;
use std::path::Path;
use tempfile::TempDir;

/// Makes a fresh copy of `start`, named `copy`, in a temporary folder. The folder is removed when the returned guard
/// is dropped.
pub(super) fn fresh(start: &Path) -> TempDir {
    let temp = tempfile::Builder::new().prefix("refdb-crash-").tempdir().expect("a temporary folder can be made");
    copy_tree(start, &temp.path().join("copy"));
    temp
}
