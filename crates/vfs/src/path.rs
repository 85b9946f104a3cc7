use std::{
    ffi::OsString,
    path::{Component, Path, PathBuf},
};

/// Returns the path of the lock file of `target`.
pub(crate) fn lock_of(target: &Path) -> PathBuf {
    let mut path = OsString::from(target);
    path.push(".lock");
    path.into()
}

/// Removes `.` and `..` from a path by its text alone: nothing has to exist, and no symbolic link is followed. A `..`
/// before which no name is left to remove is dropped.
pub fn plain_path(path: &Path) -> PathBuf {
    let mut plain = PathBuf::new();
    for part in path.components() {
        match part {
            Component::ParentDir => drop(plain.pop()),
            Component::CurDir => {}
            part => plain.push(part),
        }
    }
    plain
}
