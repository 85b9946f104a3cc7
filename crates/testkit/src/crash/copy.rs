use std::{fs, io, path::Path};
use tempfile::TempDir;

/// A fresh copy of `start` in a temporary folder: the folder's guard, to be kept as long as the copy is used. The
/// copy has the name "copy" in it.
pub(super) fn fresh(start: &Path) -> TempDir {
    let temp = tempfile::Builder::new().prefix("refdb-crash-").tempdir().expect("a temporary folder can be made");
    copy(start, &temp.path().join("copy")).unwrap_or_else(|error| panic!("cannot copy '{}': {error}", start.display()));
    temp
}

fn copy(from: &Path, to: &Path) -> io::Result<()> {
    fs::create_dir(to)?;
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        let (source, target) = (entry.path(), to.join(entry.file_name()));
        let kind = entry.file_type()?;
        if kind.is_dir() {
            copy(&source, &target)?;
        } else if kind.is_symlink() {
            std::os::unix::fs::symlink(fs::read_link(&source)?, &target)?;
        } else {
            fs::copy(&source, &target)?;
        }
    }
    Ok(())
}
