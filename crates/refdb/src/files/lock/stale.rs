//! Locks that killed processes left. Each is looked at and removed through the open folder that it is in.

use crate::Result;
use refdb_vfs::{EntryKind, Folder, Fs, Lock};
use std::{
    ffi::{OsStr, OsString},
    os::unix::ffi::{OsStrExt, OsStringExt},
    path::Path,
};

/// Removes the locks below `refs` whose signatures say that their owners are gone. All others stay.
pub(crate) fn clear(fs: &Fs, refs: &Path) -> Result<()> {
    // `refs` may be a link, since a repository can share its refs with another; below it no link is followed.
    clear_in(fs, fs.folder(refs))
}

/// Removes such locks below a folder that stands where a ref is to be. Nothing happens if it is a link.
pub(crate) fn clear_below(fs: &Fs, folder: &Path) -> Result<()> {
    clear_in(fs, fs.folder_no_follow(folder))
}

fn clear_in(fs: &Fs, top: refdb_vfs::Result<Folder>) -> Result<()> {
    // A folder that is gone or may not be read keeps what it has.
    let Ok(top) = top else { return Ok(()) };
    let enter = |folder: &Folder| {
        let mut folders = Vec::new();
        for (name, kind) in folder.entries().unwrap_or_default() {
            match (kind, name.strip_suffix(b".lock")) {
                (EntryKind::Dir, _) => folders.push(OsString::from_vec(name)),
                // A ready content goes along with its lock.
                (_, Some(target)) if !target.ends_with(b".lock") => {
                    Lock::remove_if_dead(fs, folder, OsStr::from_bytes(&name));
                }
                _ => {}
            }
        }
        Ok(Some(folders))
    };
    top.walk(|_| Ok(()), enter, |_, _| Ok(true)).map(drop)
}

/// Removes the lock of one file if its owner is gone.
pub(crate) fn clear_of(fs: &Fs, target: &Path) {
    let lock = Lock::path_of(target);
    if let (Some(folder), Some(name)) = (target.parent(), lock.file_name())
        && let Ok(folder) = fs.folder(folder)
    {
        Lock::remove_if_dead(fs, &folder, name);
    }
}
