//! Where a push's objects wait until hooks and checks have passed: git-receive-pack(1), "QUARANTINE ENVIRONMENT".
//!
//! The folder is called `tmp_objdir-incoming-*`, so that `git prune` knows it. Its push locks a file in it. A later push
//! clears only a folder whose lock is free. It leaves git's folders, and one whose lock is not made yet.

use refdb::config::SharedRepository;
use refdb_vfs::{EntryKind, Error, File, Fs, Result};
use std::{
    ffi::{OsStr, OsString},
    os::unix::ffi::{OsStrExt, OsStringExt},
    path::{Path, PathBuf},
};

const PREFIX: &[u8] = b"tmp_objdir-incoming-";
const LOCK: &str = "refdb.lock";
/// The lock file's name until it is locked.
const LOCK_AT_FIRST: &str = "refdb.lock.new";

/// A quarantine folder. Dropping it removes it with all that is in it.
#[derive(Debug)]
pub(super) struct Quarantine {
    fs: Fs,
    folder: PathBuf,
    objects: PathBuf,
    _lock: File,
}

impl Quarantine {
    /// Makes one in the folder `objects`.
    pub(super) fn make(fs: &Fs, objects: &Path) -> Result<Self> {
        clear_abandoned(fs, objects)?;
        let folder = loop {
            let folder = objects.join(OsStr::from_bytes(&[PREFIX, &random_letters(objects)?[..]].concat()));
            match fs.create_dir(&folder, 0o700) {
                Ok(()) => break folder,
                Err(error) if error.is_exists() => {}
                Err(error) => return Err(error),
            }
        };
        match lock(fs, &folder) {
            Ok(lock) => Ok(Quarantine { fs: fs.clone(), folder, objects: objects.to_owned(), _lock: lock }),
            Err(error) => {
                remove(fs, &folder);
                Err(error)
            }
        }
    }

    pub(super) fn folder(&self) -> &Path {
        &self.folder
    }

    /// What programs must be told to work in it.
    pub(super) fn variables(&self) -> Vec<(OsString, Option<OsString>)> {
        let folder = self.folder.clone().into_os_string();
        vec![
            ("GIT_OBJECT_DIRECTORY".into(), Some(folder.clone())),
            ("GIT_ALTERNATE_OBJECT_DIRECTORIES".into(), Some(quoted(&self.objects))),
            ("GIT_QUARANTINE_PATH".into(), Some(folder)),
        ]
    }

    /// Moves everything to where objects are. With `sync`, all of it and the folders it comes to are on stable storage
    /// after that.
    ///
    /// A pack's index comes last, since it makes the pack an object's place. After an error some objects may have been
    /// moved: they are no one's, and `git prune` removes them.
    pub(super) fn release(&self, sync: bool, sharing: SharedRepository) -> Result<()> {
        let release = Release { fs: &self.fs, sync, sharing };
        if sync {
            // Before the first is moved: until the ref is there, another's `git gc` may take them for garbage.
            release.sync_files(&self.folder)?;
        }
        release.folder(&self.folder, &self.objects)
    }

    /// Puts loose objects back that are gone since they were [released](Self::release), once the refs are there.
    ///
    /// `git gc` packs what no ref leads to yet, and `git repack -ad` beside it drops such packs. Packs need no such care:
    /// they have a keep file until the refs are there.
    pub(super) fn restore(&self, sync: bool, sharing: SharedRepository) -> Result<()> {
        const FOLDER_LETTERS: usize = 2;
        let release = Release { fs: &self.fs, sync, sharing };
        for (name, kind) in release.entries(&self.folder)? {
            if kind != EntryKind::Dir || name.len() != FOLDER_LETTERS {
                continue;
            }
            let name = OsStr::from_bytes(&name);
            release.what_is_gone(&self.folder.join(name), &self.objects.join(name))?;
        }
        Ok(())
    }
}

impl Drop for Quarantine {
    fn drop(&mut self) {
        remove(&self.fs, &self.folder);
    }
}

fn lock(fs: &Fs, folder: &Path) -> Result<File> {
    let at_first = folder.join(LOCK_AT_FIRST);
    let file = fs.create_new(&at_first, 0o600)?;
    let locked = file.try_lock()?;
    // Nobody else knows the file by this name.
    assert!(locked, "a new file in a folder of ours is locked by another");
    fs.rename(&at_first, &folder.join(LOCK))?;
    Ok(file)
}

/// Removes the folders of pushes that are dead. Of those, only the ones with a lock are ours to judge.
fn clear_abandoned(fs: &Fs, objects: &Path) -> Result<()> {
    for (name, kind) in fs.read_dir(objects)? {
        if kind != EntryKind::Dir || !name.starts_with(PREFIX) {
            continue;
        }
        let folder = objects.join(OsStr::from_bytes(&name));
        let Ok(lock) = fs.open(&folder.join(LOCK)) else { continue };
        if lock.try_lock()? {
            remove(fs, &folder);
        }
    }
    Ok(())
}

/// Removes a folder and its content, as far as it can be.
fn remove(fs: &Fs, folder: &Path) {
    for (name, kind) in fs.read_dir(folder).unwrap_or_default() {
        let path = folder.join(OsStr::from_bytes(&name));
        match kind {
            EntryKind::Dir => remove(fs, &path),
            // What cannot be removed stays for `git prune`.
            _ => drop(fs.remove_file(&path)),
        }
    }
    let _ = fs.remove_dir(folder);
}

/// Six letters and digits.
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

/// A path in a list that `:` separates, quoted where it needs to be, as git reads it.
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

fn folder_of(path: &Path) -> &Path {
    path.parent().unwrap_or_else(|| unreachable!("a file in a folder has a folder"))
}

/// How often a folder is made again that others remove.
const PATIENCE: usize = 100;

/// What an error says that a pack of the same name and other content causes.
const REPLACE: &str = "replace by another file of its name";

/// How objects leave a quarantine.
struct Release<'f> {
    fs: &'f Fs,
    sync: bool,
    sharing: SharedRepository,
}

impl Release<'_> {
    /// The files to be moved, in their order: those left by the lock and by failed programs are not.
    fn entries(&self, from: &Path) -> Result<Vec<(Vec<u8>, EntryKind)>> {
        let mut entries = self.fs.read_dir(from)?;
        entries.retain(|(name, _)| name != LOCK.as_bytes() && !name.starts_with(b"tmp_"));
        entries.sort_by(|(a, _), (b, _)| (rank(a), a).cmp(&(rank(b), b)));
        Ok(entries)
    }

    fn sync_files(&self, folder: &Path) -> Result<()> {
        for (name, kind) in self.entries(folder)? {
            let path = folder.join(OsStr::from_bytes(&name));
            match kind {
                EntryKind::Dir => self.sync_files(&path)?,
                _ => self.fs.open(&path)?.sync()?,
            }
        }
        Ok(())
    }

    fn folder(&self, from: &Path, to: &Path) -> Result<()> {
        let entries = self.entries(from)?;
        for (name, kind) in &entries {
            let name = OsStr::from_bytes(name);
            let (from, to) = (from.join(name), to.join(name));
            match kind {
                EntryKind::Dir => {
                    self.make_folder(&to)?;
                    self.folder(&from, &to)?;
                }
                _ => self.file(&from, &to)?,
            }
        }
        // Names must not be durable before the folder is.
        if self.sync && !entries.is_empty() { self.sync_folder(to) } else { Ok(()) }
    }

    fn what_is_gone(&self, from: &Path, to: &Path) -> Result<()> {
        let mut is_changed = false;
        for (name, _) in self.entries(from)? {
            let name = OsStr::from_bytes(&name);
            if self.fs.find(&to.join(name))?.is_none() {
                self.file(&from.join(name), &to.join(name))?;
                is_changed = true;
            }
        }
        if is_changed && self.sync { self.sync_folder(to) } else { Ok(()) }
    }

    fn sync_folder(&self, folder: &Path) -> Result<()> {
        match self.fs.sync_dir(folder) {
            // Others have packed what was in it, and synced the pack.
            Err(error) if error.is_not_found() => Ok(()),
            synced => synced,
        }
    }

    fn make_folder(&self, path: &Path) -> Result<()> {
        match self.fs.create_dir(path, 0o777) {
            // A `git gc` may remove it while it is empty; [`Self::file`] makes it again then.
            Ok(()) => match self.share(path) {
                Err(error) if error.is_not_found() => Ok(()),
                shared => shared,
            },
            Err(error) if error.is_exists() => Ok(()),
            Err(error) => Err(error),
        }
    }

    fn share(&self, folder: &Path) -> Result<()> {
        match self.sharing.adjust(self.fs.stat(folder)?.mode, true) {
            Some(mode) => self.fs.set_mode(folder, mode),
            None => Ok(()),
        }
    }

    fn file(&self, from: &Path, to: &Path) -> Result<()> {
        for _ in 0..PATIENCE {
            let done = match self.fs.hard_link(from, to) {
                Err(error) if error.is_exists() => self.same(from, to),
                linked => linked,
            };
            match done {
                // `git gc` beside us removes folders that are empty, and packs that it has packed again.
                Err(error) if error.is_not_found() => self.make_folder(folder_of(to))?,
                // Some file systems have no hard links.
                Err(error) if error.operation != REPLACE => return self.fs.rename(from, to),
                done => return done,
            }
        }
        self.fs.rename(from, to)
    }

    /// A file of the name is there already. A loose object's name is its hash. The program that wrote it has compared
    /// it with the object that was there. The bytes of a file differ by how they were deflated. A pack's name is one,
    /// too, of all its bytes.
    fn same(&self, from: &Path, to: &Path) -> Result<()> {
        let is_pack = from.parent().and_then(Path::file_name).is_some_and(|folder| folder == "pack");
        if is_pack && from.extension().is_none_or(|extension| extension != "keep") && !self.equal(from, to)? {
            return Err(Error {
                operation: REPLACE,
                path: to.to_owned(),
                source: std::io::ErrorKind::AlreadyExists.into(),
            });
        }
        Ok(())
    }

    fn equal(&self, one: &Path, other: &Path) -> Result<bool> {
        const PIECE_BYTES: usize = 64 << 10;
        let (one, other) = (self.fs.open(one)?, self.fs.open(other)?);
        let size = one.stat()?.len_bytes;
        if other.stat()?.len_bytes != size {
            return Ok(false);
        }
        let (mut ours, mut theirs) = (vec![0; PIECE_BYTES], vec![0; PIECE_BYTES]);
        let mut at = 0;
        while at < size {
            let count = PIECE_BYTES.min(usize::try_from(size - at).unwrap_or(PIECE_BYTES));
            one.read_exact_at(&mut ours[..count], at)?;
            other.read_exact_at(&mut theirs[..count], at)?;
            if ours[..count] != theirs[..count] {
                return Ok(false);
            }
            at += count as u64;
        }
        Ok(true)
    }
}

/// The order in which files become visible: what an index leads to comes before it.
fn rank(name: &[u8]) -> u8 {
    match name.rsplit(|byte| *byte == b'.').next() {
        Some(b"keep") => 0,
        Some(b"pack") => 1,
        Some(b"rev") => 2,
        Some(b"idx") => 4,
        _ => 3,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
                let path = quarantine.folder.join(path);
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
            std::fs::create_dir(quarantine.folder.join("pack")).unwrap();
            std::fs::write(quarantine.folder.join("pack/pack-1.pack"), content).unwrap();
            assert_eq!(quarantine.release(false, SharedRepository::Umask).is_ok(), good, "{content}");
            assert_eq!(std::fs::read(temp.path().join("pack/pack-1.pack")).unwrap(), b"one");
        }
    }

    #[test]
    fn only_a_folder_whose_lock_is_free_is_cleared() {
        let (temp, fs) = (tempfile::tempdir().unwrap(), Fs::real());
        let alive = Quarantine::make(&fs, temp.path()).unwrap();
        // What a killed push left; what a killed push left before it had locked; a folder of git's.
        for (folder, file) in [("dead", LOCK), ("young", LOCK_AT_FIRST), ("gits", "pack")] {
            let folder = temp.path().join(format!("tmp_objdir-incoming-{folder}"));
            std::fs::create_dir(&folder).unwrap();
            std::fs::write(folder.join(file), "").unwrap();
        }
        let next = Quarantine::make(&fs, temp.path()).unwrap();
        let left = names(temp.path());
        assert_eq!(left.len(), 4, "{left:?}");
        assert!(!left.iter().any(|name| name.ends_with("dead")));
        assert!(alive.folder.exists() && next.folder.exists());
    }

    #[test]
    fn a_path_in_a_list_is_quoted_where_git_would_cut_it() {
        assert_eq!(quoted(Path::new("/a b/c")), "/a b/c");
        assert_eq!(quoted(Path::new("/a:b\"\\\n")), "\"/a:b\\\"\\\\\\012\"");
    }
}
