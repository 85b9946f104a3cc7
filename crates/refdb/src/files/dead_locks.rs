//! Locks that killed processes left. Each is taken over and given up, as a writer of its ref would do.

use crate::Result;
use refdb_vfs::{EntryKind, Fs, Lock, Patience};
use std::{ffi::OsStr, os::unix::ffi::OsStrExt, path::Path};

/// Removes the locks below a folder whose signatures say that their owners are gone. All others stay.
pub(super) fn clear(fs: &Fs, folder: &Path) -> Result<()> {
    // A loop, since refnames can have thousands of folders.
    let mut waiting = vec![folder.to_owned()];
    while let Some(folder) = waiting.pop() {
        // One that is gone or may not be read keeps what it has.
        let Ok(entries) = fs.read_dir(&folder) else { continue };
        for (name, kind) in entries {
            match (kind, name.strip_suffix(b".lock")) {
                (EntryKind::Dir, _) => waiting.push(folder.join(OsStr::from_bytes(&name))),
                // A ready content goes along with its lock. Tried as a lock, one that was just renamed would be made anew. Its
                // removal could meet the content of the next writer.
                (_, Some(target)) if target.ends_with(b".lock") => {}
                (_, Some(target)) => clear_one(fs, &folder.join(OsStr::from_bytes(target)))?,
                _ => {}
            }
        }
    }
    Ok(())
}

/// The same for the lock of one file, if it is there.
pub(super) fn clear_of(fs: &Fs, target: &Path) -> Result<()> {
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
