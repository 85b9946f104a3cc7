//! Removes locks that killed processes left behind. Each is examined and removed through its open folder.

use crate::Result;
use refdb_vfs::{EntryKind, Folder, Fs, Lock};
use std::{
    ffi::{OsStr, OsString},
    os::unix::ffi::{OsStrExt, OsStringExt},
    path::Path,
};

/// Removes the locks below `refs` whose signatures show that their owners have died, as far as their folders can be
/// read. The lock of a small batch stays if the batch cannot be recovered.
pub(crate) fn clear(fs: &Fs, refs: &Path) -> Result<()> {
    // `refs` may be a symbolic link, because a repository can share its refs with another; below it no link is
    // followed.
    clear_in(fs, fs.folder(refs))
}

/// Removes stale locks below a folder that is in the place of a new ref. Nothing happens if it is a symbolic link.
pub(crate) fn clear_below(fs: &Fs, folder: &Path) -> Result<()> {
    clear_in(fs, fs.folder_no_follow(folder))
}

fn clear_in(fs: &Fs, top: refdb_vfs::Result<Folder>) -> Result<()> {
    // A folder that cannot be opened is skipped.
    let Ok(top) = top else { return Ok(()) };
    let enter = |folder: &Folder| {
        let mut folders = Vec::new();
        for (name, kind) in folder.entries().unwrap_or_default() {
            match (kind, name.strip_suffix(b".lock")) {
                (EntryKind::Dir, _) => folders.push(OsString::from_vec(name)),
                // A file with new content (`.lock.lock`) is removed together with its lock.
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

/// Removes the lock of one file if its owner has died.
pub(crate) fn clear_of(fs: &Fs, target: &Path) {
    let lock = Lock::path_of(target);
    if let (Some(folder), Some(name)) = (target.parent(), lock.file_name())
        && let Ok(folder) = fs.folder(folder)
    {
        Lock::remove_if_dead(fs, &folder, name);
    }
}
