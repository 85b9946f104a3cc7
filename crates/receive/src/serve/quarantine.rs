//! Keeps the objects of a push apart from the repository's until the checks and the pre-receive hook have passed; see
//! "QUARANTINE ENVIRONMENT" in git-receive-pack(1).
//!
//! The directory is named `tmp_objdir-incoming-*`, so that `git prune` recognizes it. The push holds a lock on a file
//! in it, and a later push removes a directory only if it contains that file and the lock is free. Directories of git,
//! and those whose lock file does not exist yet, therefore stay.
//!
//! Hooks know the path of the directory, so they can put something else there. Files are therefore moved and removed
//! through the descriptor of the directory that was created, and never through a symbolic link in it.

mod release;

use refdb::config::SharedRepository;
use refdb_vfs::{EntryKind, Error, File, Folder, Fs, Lock, Result};
use release::Release;
use std::{
    ffi::{OsStr, OsString},
    os::unix::ffi::{OsStrExt, OsStringExt},
    path::Path,
};

const PREFIX: &[u8] = b"tmp_objdir-incoming-";
const LOCK: &str = "refdb.lock";
/// The name of the lock file before it is locked.
const LOCK_AT_FIRST: &str = "refdb.lock.new";

/// A quarantine directory, which is removed on drop with everything in it.
#[derive(Debug)]
pub(super) struct Quarantine {
    fs: Fs,
    folder: Folder,
    objects: Folder,
    /// The open lock file. `None` only during the drop.
    lock: Option<File>,
}

impl Quarantine {
    /// Creates a quarantine in the object directory, after removing those of pushes that were killed.
    pub(super) fn make(fs: &Fs, objects: &Path) -> Result<Self> {
        let objects = fs.folder(objects)?;
        clear_abandoned(fs, &objects)?;
        let name = loop {
            let letters = random_letters(objects.path())?;
            let name = OsString::from_vec([PREFIX, &letters[..]].concat());
            match objects.create_dir(&name, 0o700) {
                Ok(()) => break name,
                Err(error) if error.is_exists() => {}
                Err(error) => return Err(error),
            }
        };
        match objects.folder(&name).and_then(|folder| Ok((lock(fs, &folder)?, folder))) {
            Ok((lock, folder)) => Ok(Quarantine { fs: fs.clone(), folder, objects, lock: Some(lock) }),
            Err(error) => {
                remove(&objects, &name);
                Err(error)
            }
        }
    }

    pub(super) fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// Removes the quarantines of pushes that were killed, for a push that does not yet create its own.
    pub(super) fn clear_abandoned(fs: &Fs, objects: &Path) -> Result<()> {
        clear_abandoned(fs, &fs.folder(objects)?)
    }

    /// Returns the environment variables that make git's programs use the quarantine.
    pub(super) fn variables(&self) -> Vec<(OsString, Option<OsString>)> {
        let folder = self.folder().as_os_str().to_owned();
        vec![
            ("GIT_OBJECT_DIRECTORY".into(), Some(folder.clone())),
            ("GIT_ALTERNATE_OBJECT_DIRECTORIES".into(), Some(quoted(self.objects.path()))),
            ("GIT_QUARANTINE_PATH".into(), Some(folder)),
        ]
    }

    /// Moves all objects into the repository, except those that it has already. If `sync` is set, the moved objects and
    /// the directories that receive them are on stable storage when the call succeeds.
    ///
    /// The index of a pack is moved last, because git finds a pack by its index. If the call fails, some objects may
    /// have been moved; no ref leads to them, so `git gc` removes them in time.
    pub(super) fn release(&self, sync: bool, sharing: SharedRepository) -> Result<()> {
        let release = Release { fs: &self.fs, sync, sharing };
        if sync {
            // All files are synced before the first is moved, which shortens the time in which `git gc` may take moved
            // objects for garbage because no ref leads to them yet.
            release.sync_files(&self.folder)?;
        }
        release.folder(&self.folder, self.objects.path())
    }

    /// Restores, after the refs were updated, loose objects that have disappeared since they were
    /// [released](Self::release).
    ///
    /// They disappear if `git gc` packs them while no ref leads to them and a concurrent `git repack -ad` drops that
    /// pack. Packs of a push do not need this, because they have a keep file until the refs are updated. On a file
    /// system without hard links nothing is restored, because the quarantine does not keep the objects that it has
    /// released.
    pub(super) fn restore(&self, sync: bool, sharing: SharedRepository) -> Result<()> {
        const FOLDER_LETTERS: usize = 2;
        let release = Release { fs: &self.fs, sync, sharing };
        for (name, kind) in release.entries(&self.folder)? {
            if kind != EntryKind::Dir || name.len() != FOLDER_LETTERS {
                continue;
            }
            let name = OsStr::from_bytes(&name);
            release.restore_missing(&self.folder.folder(name)?, &self.objects.path().join(name))?;
        }
        Ok(())
    }
}

impl Drop for Quarantine {
    fn drop(&mut self) {
        // The directory is emptied even if it has been renamed. If something else has its original name now, that
        // stays, unless it is an empty directory.
        empty(&self.folder);
        // A client of NFS keeps an open file in its directory, under another name, until the file is closed.
        self.lock = None;
        if let Some(name) = self.folder().file_name() {
            let _ = self.objects.remove_dir(name);
        }
    }
}

fn lock(fs: &Fs, folder: &Folder) -> Result<File> {
    let mut file = folder.create_new(OsStr::new(LOCK_AT_FIRST), 0o600)?;
    let locked = Lock::keep(fs, &mut file)?;
    // No other process knows the file by this name.
    assert!(locked, "a new file in a folder of ours is locked by another");
    folder.rename_within(OsStr::new(LOCK_AT_FIRST), OsStr::new(LOCK))?;
    Ok(file)
}

/// Removes quarantines that have a lock file and whose push is no longer running. On a file system that machines share,
/// those of other machines and of earlier boots stay, and all stay if locks are not known to reach the server, because
/// their pushes may be running; `git prune` removes them in time. A quarantine that cannot be examined is left alone
/// rather than failing the push.
fn clear_abandoned(fs: &Fs, objects: &Folder) -> Result<()> {
    for (name, kind) in objects.entries()? {
        if kind != EntryKind::Dir || !name.starts_with(PREFIX) {
            continue;
        }
        let name = OsStr::from_bytes(&name);
        let Ok(folder) = objects.folder(name) else { continue };
        if let Ok(Some(lock)) = Lock::take_abandoned(fs, &folder, OsStr::new(LOCK)) {
            empty(&folder);
            drop(lock);
            let _ = objects.remove_dir(name);
        }
    }
    Ok(())
}

/// Removes a directory and its content, as far as possible.
fn remove(objects: &Folder, name: &OsStr) {
    if let Ok(folder) = objects.folder(name) {
        empty(&folder);
    }
    let _ = objects.remove_dir(name);
}

/// Removes the content of a directory. What cannot be removed is left to `git prune`.
fn empty(folder: &Folder) {
    for (name, kind) in folder.entries().unwrap_or_default() {
        let _ = folder.remove_tree(OsStr::from_bytes(&name), kind);
    }
}

/// Returns six random letters and digits.
fn random_letters(objects: &Path) -> Result<[u8; 6]> {
    const LETTERS: &[u8; 32] = b"abcdefghijklmnopqrstuvwxyz234567";
    let mut random = [0; 6];
    getrandom::fill(&mut random).map_err(|error| Error {
        operation: "name a folder in",
        path: objects.to_owned(),
        source: std::io::Error::other(error.to_string()),
    })?;
    Ok(random.map(|byte| LETTERS[usize::from(byte % 32)]))
}

/// Quotes a path, if necessary, for a list that is separated by `:`, as git reads it.
fn quoted(path: &Path) -> OsString {
    let bytes = path.as_os_str().as_bytes();
    if !bytes.contains(&b':') && !bytes.starts_with(b"\"") {
        return path.as_os_str().to_owned();
    }
    let mut quoted = vec![b'"'];
    for &byte in bytes {
        match byte {
            b'"' | b'\\' => quoted.extend([b'\\', byte]),
            b' '..=b'~' => quoted.push(byte),
            _ => quoted.extend(format!("\\{byte:03o}").bytes()),
        }
    }
    quoted.push(b'"');
    OsString::from_vec(quoted)
}

#[cfg(test)]
mod tests {
    use super::*;
    use refdb_vfs::{IoHook, Op, Verdict};
    use std::sync::Arc;

    fn names(folder: &Path) -> Vec<String> {
        let mut names: Vec<_> =
            std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }

    #[test]
    fn dropping_removes_everything_and_releasing_moves_it() {
        let (temp, fs) = (tempfile::tempdir().unwrap(), Fs::real());
        let fill = |quarantine: &Quarantine| {
            for path in ["ab/cdef", "pack/pack-1.idx", "pack/pack-1.pack", "pack/tmp_pack_x"] {
                let path = quarantine.folder().join(path);
                std::fs::create_dir_all(path.parent().unwrap()).unwrap();
                std::fs::write(path, "x").unwrap();
            }
        };
        let quarantine = Quarantine::make(&fs, temp.path()).unwrap();
        fill(&quarantine);
        drop(quarantine);
        assert!(names(temp.path()).is_empty());
        let quarantine = Quarantine::make(&fs, temp.path()).unwrap();
        fill(&quarantine);
        quarantine.release(true, SharedRepository::Umask).unwrap();
        std::fs::remove_dir_all(temp.path().join("ab")).unwrap();
        quarantine.restore(true, SharedRepository::Umask).unwrap();
        assert_eq!(names(&temp.path().join("ab")), ["cdef"]);
        drop(quarantine);
        assert_eq!(names(temp.path()), ["ab", "pack"]);
        assert_eq!(names(&temp.path().join("pack")), ["pack-1.idx", "pack-1.pack"]);
    }

    #[test]
    fn a_pack_of_the_same_name_must_be_the_same() {
        let (temp, fs) = (tempfile::tempdir().unwrap(), Fs::real());
        std::fs::create_dir(temp.path().join("pack")).unwrap();
        std::fs::write(temp.path().join("pack/pack-1.pack"), "one").unwrap();
        for (content, good) in [("one", true), ("two", false), ("longer", false)] {
            let quarantine = Quarantine::make(&fs, temp.path()).unwrap();
            std::fs::create_dir(quarantine.folder().join("pack")).unwrap();
            std::fs::write(quarantine.folder().join("pack/pack-1.pack"), content).unwrap();
            assert_eq!(quarantine.release(false, SharedRepository::Umask).is_ok(), good, "{content}");
            assert_eq!(std::fs::read(temp.path().join("pack/pack-1.pack")).unwrap(), b"one");
        }
    }

    /// Previously, a pack was replaced by another of its name if it could not be read, or if there were no hard links.
    #[test]
    fn a_pack_is_never_replaced_by_one_with_which_it_was_not_compared() {
        struct NoHardLinks;
        impl IoHook for NoHardLinks {
            fn before(&self, op: Op<'_>) -> Verdict {
                match op {
                    Op::Link(..) => Verdict::Fail(std::io::ErrorKind::Unsupported.into()),
                    _ => Verdict::Proceed,
                }
            }
        }
        for fs in [Fs::real(), Fs::with_hook(Arc::new(NoHardLinks))] {
            let temp = tempfile::tempdir().unwrap();
            let pack = temp.path().join("pack/pack-1.pack");
            std::fs::create_dir(pack.parent().unwrap()).unwrap();
            let release = |content: &str| {
                let quarantine = Quarantine::make(&fs, temp.path()).unwrap();
                std::fs::create_dir(quarantine.folder().join("pack")).unwrap();
                std::fs::write(quarantine.folder().join("pack/pack-1.pack"), content).unwrap();
                quarantine.release(false, SharedRepository::Umask).is_ok()
            };
            std::os::unix::fs::symlink("pack-1.pack", &pack).unwrap();
            assert!(!release("two") && pack.is_symlink());
            std::fs::remove_file(&pack).unwrap();
            std::fs::write(&pack, "one").unwrap();
            assert!(release("one") && !release("two"));
            assert_eq!(std::fs::read(&pack).unwrap(), b"one");
            std::fs::remove_file(&pack).unwrap();
            assert!(release("two"));
            assert_eq!(std::fs::read(&pack).unwrap(), b"two");
        }
    }

    #[test]
    fn only_a_folder_whose_lock_is_free_is_cleared() {
        let (temp, fs) = (tempfile::tempdir().unwrap(), Fs::real());
        let alive = Quarantine::make(&fs, temp.path()).unwrap();
        // A quarantine of a killed push; one of a push that was killed before it had the lock; and a directory of
        // git's.
        for (folder, file) in [("dead", LOCK), ("young", LOCK_AT_FIRST), ("gits", "pack")] {
            let folder = temp.path().join(format!("tmp_objdir-incoming-{folder}"));
            std::fs::create_dir(&folder).unwrap();
            std::fs::write(folder.join(file), "").unwrap();
        }
        let next = Quarantine::make(&fs, temp.path()).unwrap();
        let left = names(temp.path());
        assert_eq!(left.len(), 4, "{left:?}");
        assert!(!left.iter().any(|name| name.ends_with("dead")));
        assert!(alive.folder().exists() && next.folder().exists());
    }

    #[test]
    fn a_path_in_a_list_is_quoted_where_git_would_cut_it() {
        assert_eq!(quoted(Path::new("/a b/c")), "/a b/c");
        assert_eq!(quoted(Path::new("/a:b\"\\\n")), "\"/a:b\\\"\\\\\\012\"");
    }
}
