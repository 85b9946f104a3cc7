//! Moves files out of a quarantine, the index of a pack after all other files of its folder, and never through a
//! symbolic link in the quarantine.

use super::LOCK;
use refdb::config::SharedRepository;
use refdb_vfs::{EntryKind, Error, Folder, Fs, Result};
use std::{ffi::OsStr, os::unix::ffi::OsStrExt, path::Path};

fn folder_of(path: &Path) -> &Path {
    path.parent().unwrap_or_else(|| unreachable!("a file in a folder has a folder"))
}

/// Maximum number of attempts to link a file whose folder, or whose existing copy, other processes keep removing.
const ATTEMPTS_MAX: usize = 100;

/// The operation in the error that a pack with an existing name and other content causes.
const REPLACE: &str = "replace by another file of its name";

/// Moves objects out of a quarantine.
pub(super) struct Release<'f> {
    pub(super) fs: &'f Fs,
    pub(super) sync: bool,
    pub(super) sharing: SharedRepository,
}

impl Release<'_> {
    /// Returns the entries to be moved, in the order of the moves: neither the lock file nor the temporary files
    /// (`tmp_*`) that failed programs have left. Fails if an entry is neither a file nor a folder.
    pub(super) fn entries(&self, from: &Folder) -> Result<Vec<(Vec<u8>, EntryKind)>> {
        let mut entries = from.entries()?;
        entries.retain(|(name, _)| name != LOCK.as_bytes() && !name.starts_with(b"tmp_"));
        if let Some((name, _)) = entries.iter().find(|(_, kind)| !matches!(kind, EntryKind::File | EntryKind::Dir)) {
            // Git creates no such entry, so a hook has created it. A link that was moved among the objects could lead
            // out of the repository.
            return Err(Error {
                operation: "move into the repository",
                path: from.path().join(OsStr::from_bytes(name)),
                source: std::io::Error::other("it is neither a file nor a folder, and a hook must not put it there"),
            });
        }
        entries.sort_by(|(a, _), (b, _)| (rank(a), a).cmp(&(rank(b), b)));
        Ok(entries)
    }

    /// Syncs the files in a folder and below it that are to be moved. Fails, too, if an entry must not be moved.
    pub(super) fn sync_files(&self, folder: &Folder) -> Result<()> {
        for (name, kind) in self.entries(folder)? {
            let name = OsStr::from_bytes(&name);
            match kind {
                EntryKind::Dir => self.sync_files(&folder.folder(name)?)?,
                _ => folder.open(name)?.sync()?,
            }
        }
        Ok(())
    }

    pub(super) fn folder(&self, from: &Folder, to: &Path) -> Result<()> {
        let entries = self.entries(from)?;
        for (name, kind) in &entries {
            let name = OsStr::from_bytes(name);
            let to = to.join(name);
            match kind {
                EntryKind::Dir => {
                    self.make_folder(&to)?;
                    self.folder(&from.folder(name)?, &to)?;
                }
                _ => self.file(from, name, &to)?,
            }
        }
        // A directory is synced before the one that holds its name, so that no name is durable before its content.
        if self.sync && !entries.is_empty() { self.sync_folder(to) } else { Ok(()) }
    }

    pub(super) fn restore_missing(&self, from: &Folder, to: &Path) -> Result<()> {
        let mut is_changed = false;
        for (name, _) in self.entries(from)? {
            let name = OsStr::from_bytes(&name);
            if self.fs.find(&to.join(name))?.is_none() {
                self.file(from, name, &to.join(name))?;
                is_changed = true;
            }
        }
        if is_changed && self.sync { self.sync_folder(to) } else { Ok(()) }
    }

    fn sync_folder(&self, folder: &Path) -> Result<()> {
        match self.fs.sync_dir(folder) {
            // The directory is gone because other processes have packed its content; making the pack durable was up to
            // them.
            Err(error) if error.is_not_found() => Ok(()),
            synced => synced,
        }
    }

    fn make_folder(&self, path: &Path) -> Result<()> {
        match self.fs.create_dir(path, 0o777) {
            // A concurrent `git gc` may remove the directory while it is empty; [`Self::file`] then creates it again.
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

    fn file(&self, from: &Folder, name: &OsStr, to: &Path) -> Result<()> {
        for _ in 0..ATTEMPTS_MAX {
            let done = match from.hard_link(name, to) {
                Err(error) if error.is_exists() => self.same(from, name, to),
                Err(error) if !error.is_not_found() => return self.rename(from, name, to),
                linked => linked,
            };
            match done {
                // A concurrent `git gc` removes empty directories, and packs that it has packed again.
                Err(error) if error.is_not_found() => self.make_folder(folder_of(to))?,
                done => return done,
            }
        }
        self.rename(from, name, to)
    }

    /// Renames a file that could not be linked, for example because its file system has no hard links. A file that has
    /// the name already stays.
    fn rename(&self, from: &Folder, name: &OsStr, to: &Path) -> Result<()> {
        match self.fs.find_link(to)? {
            Some(_) => self.same(from, name, to),
            None => from.rename(name, to),
        }
    }

    /// Checks a file whose name is already taken. For a loose object nothing is compared, because its name is the hash
    /// of its content, and the bytes of the files may differ by their compression. The files of a pack, except its keep
    /// file, must be equal byte by byte, because their name depends on all bytes of the pack.
    fn same(&self, from: &Folder, name: &OsStr, to: &Path) -> Result<()> {
        let is_pack = from.path().file_name().is_some_and(|folder| folder == "pack");
        let is_keep = Path::new(name).extension().is_some_and(|extension| extension == "keep");
        if is_pack && !is_keep && !self.equal(from, name, to)? {
            return Err(Error {
                operation: REPLACE,
                path: to.to_owned(),
                source: std::io::ErrorKind::AlreadyExists.into(),
            });
        }
        Ok(())
    }

    fn equal(&self, from: &Folder, name: &OsStr, to: &Path) -> Result<bool> {
        const PIECE_BYTES: usize = 64 << 10;
        let (one, other) = (from.open(name)?, self.fs.open(to)?);
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

/// Returns the rank of a file in the order in which the files of a folder become visible: keep files first, and the
/// index of a pack last.
fn rank(name: &[u8]) -> u8 {
    match name.rsplit(|byte| *byte == b'.').next() {
        Some(b"keep") => 0,
        Some(b"pack") => 1,
        Some(b"rev") => 2,
        Some(b"idx") => 4,
        _ => 3,
    }
}
