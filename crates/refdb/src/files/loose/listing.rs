use crate::{BrokenRef, Error, LooseError, Result};
use bstr::{BStr, ByteSlice};
use refdb_vfs::{EntryKind, Fs};
use std::{collections::HashSet, ffi::OsStr, ops::ControlFlow, os::unix::ffi::OsStrExt, path::Path};

/// An entry of a folder of refs or reflogs: a ref or reflog, or a folder that may contain some.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) struct Entry {
    /// The entry's name; a folder's name ends with `/`, so that sorting entries sorts the refs in them.
    pub(crate) name: Vec<u8>,
    /// Whether only the ref's lock was seen. The ref's file may be about to be renamed into place, or not exist.
    pub(crate) is_in_doubt: bool,
    /// Whether the entry is a symbolic link that does not lead to a folder.
    pub(crate) is_link: bool,
}

impl Entry {
    pub(crate) fn is_folder(&self) -> bool {
        self.name.last() == Some(&b'/')
    }
}

/// What is known about other writers of the refs that are listed or read.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Rivals {
    /// Other processes may be writing.
    Possible,
    /// The caller holds the locks of all names that it asks for, or may miss a ref whose file is being replaced.
    LockedOut,
}

/// Lists the refs and folders in a folder, in the order of refnames; empty if there is no such folder or its path is
/// too long. Returns `None` if there are more than `limit` entries.
///
/// While a ref is renamed from its lock file, a listing on some file systems shows only the lock and neither the old
/// nor the new entry of the ref. So, where other processes may be writing, a lock that is seen without its ref puts the
/// ref into the list as well; the reader finds out whether the ref exists when it opens the file.
pub(crate) fn list(fs: &Fs, folder: &Path, limit: usize, rivals: Rivals) -> Result<Option<Vec<Entry>>> {
    list_with(fs, folder, limit, rivals, OddFolders::PassedOver)
}

/// Lists a folder as [`list`] does, for a caller that looks for some names and can open their files instead. Returns
/// `None` also if this user may not list the folder.
pub(crate) fn list_for_names(fs: &Fs, folder: &Path, limit: usize, rivals: Rivals) -> Result<Option<Vec<Entry>>> {
    match list(fs, folder, limit, rivals) {
        Err(Error::Io(error)) if error.is_forbidden() => Ok(None),
        listed => listed,
    }
}

/// Whether to list folders whose names cannot be part of a refname, because they begin with a dot or end in `.lock`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum OddFolders {
    /// Such folders are skipped, as git does among refs.
    PassedOver,
    /// Such folders are listed, as git does among reflogs.
    Listed,
}

/// Lists the reflogs and folders in a folder of reflogs, as [`list`] does among refs.
pub(crate) fn list_logs(fs: &Fs, folder: &Path) -> Result<Vec<Entry>> {
    let listed = list_with(fs, folder, usize::MAX, Rivals::Possible, OddFolders::Listed)?;
    Ok(listed.unwrap_or_default())
}

fn list_with(
    fs: &Fs,
    folder: &Path,
    limit: usize,
    rivals: Rivals,
    odd_folders: OddFolders,
) -> Result<Option<Vec<Entry>>> {
    let mut entries = Vec::new();
    let mut locked: Vec<Vec<u8>> = Vec::new();
    let mut seen = 0;
    let listed = fs.read_dir_with(folder, &mut |name, kind| {
        seen += 1;
        if seen > limit {
            return ControlFlow::Break(());
        }
        let is_odd = || name.starts_with(b".") || name.ends_with(b".lock");
        match name.strip_suffix(b".lock") {
            _ if odd_folders == OddFolders::Listed && kind == EntryKind::Dir && is_odd() => {
                entries.push(Entry { name: [name, b"/"].concat(), is_in_doubt: false, is_link: false });
            }
            // git ignores names that begin with a dot, and those that end in `.lock`.
            _ if name.starts_with(b".") => {}
            Some(name) if kind != EntryKind::Dir => {
                // `X.lock.lock` is the new content beside the lock `X.lock`.
                if rivals == Rivals::Possible && !name.is_empty() && !name.ends_with(b".lock") {
                    locked.push(name.to_vec());
                }
            }
            Some(_) => {}
            None => match is_folder(fs, folder, name, kind) {
                Some(true) => entries.push(Entry { name: [name, b"/"].concat(), is_in_doubt: false, is_link: false }),
                Some(false) => {
                    let is_link = kind == EntryKind::Symlink;
                    entries.push(Entry { name: name.to_vec(), is_in_doubt: false, is_link });
                }
                None => {}
            },
        }
        ControlFlow::Continue(())
    });
    match listed {
        Err(error) if error.is_not_found() || error.is_too_long() => return Ok(Some(Vec::new())),
        listed => listed?,
    }
    if seen > limit {
        return Ok(None);
    }
    if !locked.is_empty() {
        let known: HashSet<&[u8]> = entries.iter().map(|entry| &entry.name[..]).collect();
        locked.retain(|name| !known.contains(&name[..]));
        entries.extend(locked.into_iter().map(|name| Entry { name, is_in_doubt: true, is_link: false }));
    }
    entries.sort_unstable();
    // A folder that changes during the listing may show an entry twice.
    entries.dedup();
    Ok(Some(entries))
}

/// Returns whether an entry is a folder or a link to one. `None` for a link that cannot be followed, a pipe, a socket
/// or a device, which git ignores, too.
fn is_folder(fs: &Fs, folder: &Path, name: &[u8], kind: EntryKind) -> Option<bool> {
    match kind {
        EntryKind::Dir => Some(true),
        EntryKind::Symlink => fs.stat(&folder.join(OsStr::from_bytes(name))).ok().map(|stat| stat.is_dir()),
        EntryKind::File => Some(false),
        EntryKind::Other => None,
    }
}

/// Converts the error of a folder of refs that may not be read into a broken ref. Any other error, and one of `refs/`
/// itself, is returned as it is.
pub(crate) fn unreadable(folder: &BStr, error: refdb_vfs::Error) -> Result<BrokenRef> {
    match LooseError::of_file(&error).filter(|_| error.is_forbidden() && folder != "refs/") {
        Some(why) => Ok(BrokenRef { name: folder.trim_end_with(|char| char == '/').into(), path: error.path, why }),
        None => Err(error.into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn folders_sort_by_the_refs_in_them_and_locks_stand_for_refs_in_flight() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::create_dir(dir.path().join("a")).unwrap();
        for file in ["a-b", "a0", ".hidden", "b", "b.lock", "c.lock"] {
            std::fs::write(dir.path().join(file), "").unwrap();
        }
        std::os::unix::fs::symlink("a", dir.path().join("link")).unwrap();
        let names = |rivals| -> Vec<String> {
            let entries = list(&Fs::real(), dir.path(), 100, rivals).unwrap().unwrap();
            entries.into_iter().map(|entry| String::from_utf8(entry.name).unwrap()).collect()
        };
        assert_eq!(names(Rivals::Possible), ["a-b", "a/", "a0", "b", "c", "link/"]);
        assert_eq!(names(Rivals::LockedOut), ["a-b", "a/", "a0", "b", "link/"]);
        assert_eq!(list(&Fs::real(), dir.path(), 5, Rivals::Possible).unwrap(), None);
        assert_eq!(list(&Fs::real(), &dir.path().join("none"), 5, Rivals::Possible).unwrap(), Some(vec![]));
    }
}
