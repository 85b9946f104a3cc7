//! Locks that killed processes left. Each is taken over and given up, as a writer of its ref would do.

use crate::Result;
use refdb_vfs::{EntryKind, Folder, Fs, Lock, Patience};
use std::{
    ffi::{OsStr, OsString},
    os::unix::ffi::{OsStrExt, OsStringExt},
    path::Path,
};

/// Removes the locks below a folder whose signatures say that their owners are gone. All others stay.
pub(crate) fn clear(fs: &Fs, folder: &Path) -> Result<()> {
    // One that is gone or may not be read keeps what it has. The folder may be a link, since a repository can share its
    // refs with another; below it no link is followed.
    let Ok(top) = fs.folder(folder) else { return Ok(()) };
    let enter = |folder: &Folder| {
        let mut folders = Vec::new();
        for (name, kind) in folder.entries().unwrap_or_default() {
            match (kind, name.strip_suffix(b".lock")) {
                (EntryKind::Dir, _) => folders.push(OsString::from_vec(name)),
                // A ready content goes along with its lock. Tried as a lock, one that was just renamed would be made anew. Its
                // removal could meet the content of the next writer.
                (_, Some(target)) if target.ends_with(b".lock") => {}
                (_, Some(target)) => clear_one(fs, &folder.path().join(OsStr::from_bytes(target)))?,
                _ => {}
            }
        }
        Ok(Some(folders))
    };
    top.walk(|_| Ok(()), enter, |_, _| Ok(true)).map(drop)
}

/// The same for the lock of one file, if it is there.
pub(crate) fn clear_of(fs: &Fs, target: &Path) -> Result<()> {
    match fs.find_link(&Lock::path_of(target)) {
        Ok(Some(_)) => clear_one(fs, target),
        _ => Ok(()),
    }
}

fn clear_one(fs: &Fs, target: &Path) -> Result<()> {
    // One that cannot be had belongs to somebody, or is none of ours.
    if let Ok(lock) = Lock::acquire(fs, target, 0o666, Patience::None) {
        debug_assert_eq!(lock.target(), target, "the lock that was met is given up");
        lock.release()?;
    }
    Ok(())
}
