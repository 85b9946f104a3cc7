//! Walks and removes whole trees of folders without following a symbolic link.
//!
//! Each folder is opened from the one above it, and a step up checks that it arrives at the folder that the walk came
//! from. A removal is therefore not led astray by a link that another process puts in the place of a folder. However
//! deep the tree is, only a few folders are open at a time, because refnames can have thousands of components.

use crate::{EntryKind, Error, Folder, Fs, Result, folder::name_of, fs::place};
use std::{
    ffi::{OsStr, OsString},
    io,
    path::Path,
};

impl Folder {
    /// Walks this folder and all folders below it.
    ///
    /// `enter` is called for each folder and returns which of its folders are entered next. `leave` is called with a
    /// folder's parent and name, once everything below the folder is done, but not for the folder where the walk
    /// begins. A folder that is gone, or has become a link, is skipped. If a folder cannot be opened, `unreadable` is
    /// called, and the walk goes on without the folder. The walk ends with the first error that one of these three
    /// functions returns, and fails if this folder cannot be opened again or the id of a folder cannot be read. The
    /// walk ends early, with `Ok(false)`, if `enter` returns `None` or `leave` returns `false`. If the walk cannot go
    /// up again, for example because a folder was moved, `unreadable` is called, and the walk ends with `Ok(true)`
    /// unless `unreadable` fails.
    pub fn walk<E: From<Error>>(
        &self,
        mut unreadable: impl FnMut(Error) -> std::result::Result<(), E>,
        mut enter: impl FnMut(&Folder) -> std::result::Result<Option<Vec<OsString>>, E>,
        mut leave: impl FnMut(&Folder, &OsStr) -> std::result::Result<bool, E>,
    ) -> std::result::Result<bool, E> {
        let mut at = self.again()?;
        let Some(first) = enter(&at)? else { return Ok(false) };
        // `waiting` holds the folders to enter, level by level; `way` holds the names on the way down, each with its
        // parent's id.
        let (mut waiting, mut way) = (vec![first], Vec::new());
        while let Some(level) = waiting.last_mut() {
            if let Some(name) = level.pop() {
                match at.folder(&name) {
                    Err(error) if error.is_not_found() => {}
                    Err(error) => unreadable(error)?,
                    Ok(inner) => {
                        let Some(next) = enter(&inner)? else { return Ok(false) };
                        way.push((name, at.id()?));
                        waiting.push(next);
                        at = inner;
                    }
                }
                continue;
            }
            waiting.pop();
            let Some((name, above)) = way.pop() else { break };
            at = match at.above(above) {
                Ok(above) => above,
                Err(error) => return unreadable(error).map(|()| true),
            };
            if !leave(&at, &name)? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Removes the entry `name`, which was listed as `kind`: a file, or a folder with everything in it. An entry that
    /// is already gone is not an error.
    pub fn remove_tree(&self, name: &OsStr, kind: EntryKind) -> Result<()> {
        if kind != EntryKind::Dir {
            return removed(self.remove_file(name));
        }
        let enter = |folder: &Folder| {
            let mut folders = Vec::new();
            for (name, kind) in entries_or_none(folder)? {
                match kind {
                    EntryKind::Dir => folders.push(name_of(&name).to_owned()),
                    _ => removed(folder.remove_file(name_of(&name)))?,
                }
            }
            Ok(Some(folders))
        };
        match self.folder(name) {
            Err(error) if error.is_not_found() => return Ok(()),
            folder => folder?.walk(Err, enter, |parent, name| removed(parent.remove_dir(name)).map(|()| true))?,
        };
        removed(self.remove_dir(name))
    }

    /// Removes a folder that holds nothing but folders, at any depth. Returns `false` if something else is in it, or if
    /// one of the folders cannot be removed.
    fn remove_empty_tree(&self, name: &OsStr) -> Result<bool> {
        let enter = |folder: &Folder| {
            let mut folders = Vec::new();
            for (name, kind) in entries_or_none(folder)? {
                if kind != EntryKind::Dir {
                    return Ok(None);
                }
                folders.push(name_of(&name).to_owned());
            }
            let mut full = Vec::new();
            for name in folders {
                match emptied(folder.remove_dir(&name)) {
                    Emptied::Gone => {}
                    Emptied::NotYet => full.push(name),
                    Emptied::Never => return Ok(None),
                }
            }
            Ok(Some(full))
        };
        let is_gone = |parent: &Folder, name: &OsStr| emptied(parent.remove_dir(name)) == Emptied::Gone;
        match self.folder(name) {
            Err(error) if error.is_not_found() => {}
            folder => {
                if !folder?.walk(Err, enter, |parent, name| Ok(is_gone(parent, name)))? {
                    return Ok(false);
                }
            }
        }
        Ok(is_gone(self, name))
    }
}

impl Fs {
    /// Removes a folder that holds nothing but folders, at any depth, as git does where it wants to write a ref.
    /// Returns `false` if something else is in the folder or in its place, or if a folder cannot be removed. Fails if
    /// `path` has entries and its parent, `path` itself or a folder with entries below it cannot be read, or is moved
    /// meanwhile.
    pub fn remove_empty_tree(&self, path: &Path) -> Result<bool> {
        // Nearly all such folders are empty, so one call suffices.
        match emptied(self.remove_dir(path)) {
            Emptied::Gone => return Ok(true),
            Emptied::Never => return Ok(false),
            Emptied::NotYet => {}
        }
        let Some((folder, name)) = place(path) else { return Ok(false) };
        match self.folder(folder) {
            Err(error) if error.is_not_found() => Ok(true),
            folder => folder?.remove_empty_tree(name),
        }
    }
}

/// The result of an attempt to remove an empty folder.
#[derive(PartialEq, Eq)]
enum Emptied {
    Gone,
    /// The folder has entries.
    NotYet,
    /// The folder cannot be removed, or is no folder.
    Never,
}

fn emptied(removed: Result<()>) -> Emptied {
    match removed.map_err(|error| error.source.kind()) {
        Ok(()) | Err(io::ErrorKind::NotFound) => Emptied::Gone,
        Err(io::ErrorKind::DirectoryNotEmpty) => Emptied::NotYet,
        Err(_) => Emptied::Never,
    }
}

/// Returns the entries of a folder, and none if another process has removed the folder since it was opened.
fn entries_or_none(folder: &Folder) -> Result<Vec<(Vec<u8>, EntryKind)>> {
    match folder.entries() {
        Err(error) if error.is_not_found() => Ok(Vec::new()),
        entries => entries,
    }
}

fn removed(removed: Result<()>) -> Result<()> {
    match removed {
        Err(error) if error.is_not_found() => Ok(()),
        removed => removed,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Previously, a folder that had gone since it was opened was an error.
    #[test]
    fn two_remove_one_tree() {
        let (dir, fs) = (tempfile::tempdir().unwrap(), Fs::real());
        let folder = fs.folder(dir.path()).unwrap();
        let top = dir.path().join("top");
        for round in 0..80 {
            for (at, inner) in (0..30).flat_map(|at| (0..5).map(move |inner| (at, inner))) {
                std::fs::create_dir_all(top.join(format!("{at}/{inner}"))).unwrap();
            }
            let remove = || match round % 2 {
                0 => folder.remove_tree("top".as_ref(), EntryKind::Dir),
                _ => fs.remove_empty_tree(&top).map(drop),
            };
            std::thread::scope(|scope| {
                let other = scope.spawn(|| fs.folder(dir.path())?.remove_tree("top".as_ref(), EntryKind::Dir));
                remove().unwrap();
                other.join().unwrap().unwrap();
            });
            assert!(!top.exists());
        }
    }

    #[test]
    fn a_tree_of_empty_folders_goes_and_one_with_a_file_stays() {
        let (dir, fs) = (tempfile::tempdir().unwrap(), Fs::real());
        let top = dir.path().join("a");
        std::fs::create_dir_all(top.join("b/c")).unwrap();
        std::fs::create_dir_all(top.join("d")).unwrap();
        assert!(fs.remove_empty_tree(&top).unwrap());
        assert!(!top.exists());
        assert!(fs.remove_empty_tree(&top).unwrap());
        std::fs::create_dir_all(top.join("b/c")).unwrap();
        std::fs::write(top.join("b/x"), "").unwrap();
        assert!(!fs.remove_empty_tree(&top).unwrap());
        assert!(top.join("b/x").exists());
        fs.symlink(&top, &dir.path().join("link")).unwrap();
        assert!(!fs.remove_empty_tree(&dir.path().join("link")).unwrap());
    }
}
