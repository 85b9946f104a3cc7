//! Open folders. Operations on their entries stay in them even after their paths lead elsewhere.

use crate::{EntryKind, Error, File, Fs, LookUp, Op, Result, ServerHandle, Stat, io_hooks::IoHooks};
use rustix::{
    fd::{AsFd, BorrowedFd, OwnedFd},
    fs::{AtFlags, CWD, FileType, Mode, OFlags, SeekFrom},
    io::Errno,
};
use std::{
    borrow::Cow,
    ffi::OsStr,
    io,
    ops::ControlFlow,
    os::unix::ffi::OsStrExt,
    path::{Component, Path, PathBuf},
};

const FLAGS: OFlags = OFlags::RDONLY.union(OFlags::DIRECTORY).union(OFlags::CLOEXEC);

/// The number of bytes that one call lists of a local folder.
const LOCAL_LIST_BYTES: usize = 32 << 10;

/// The number of bytes that one call lists of a folder on a network file system, enough for 30,000 entries. Only in the
/// first call of a listing, an NFS client asks for the kinds of entries together with their names. Each entry of a
/// later call costs a request of its own.
const SHARED_LIST_BYTES: usize = 1 << 20;

/// A folder that is held open.
///
/// Its methods take the name of an entry and reach that entry through the folder's descriptor. Another process that
/// replaces the folder by a symbolic link therefore cannot lead these methods to other files. The path is used only for
/// messages and I/O hooks. No method follows a symbolic link. The exception is the path `to` of
/// [`rename`](Self::rename) and [`hard_link`](Self::hard_link), whose folders are looked up as usual.
pub struct Folder {
    hooks: IoHooks,
    inner: OwnedFd,
    path: PathBuf,
    /// Whether names are looked up on the server; see [`Fs::asks_server`].
    asks_server: bool,
}

impl std::fmt::Debug for Folder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Folder({})", self.path.display())
    }
}

impl Fs {
    /// Opens a folder, through symbolic links if the path has any.
    pub fn folder(&self, path: &Path) -> Result<Folder> {
        self.open_folder(path, FLAGS)
    }

    /// Opens a folder that must not be a symbolic link itself. A link is reported as "not a folder", which
    /// [`Error::is_not_found`] includes.
    pub fn folder_no_follow(&self, path: &Path) -> Result<Folder> {
        self.open_folder(path, FLAGS | OFlags::NOFOLLOW)
    }

    fn open_folder(&self, path: &Path, flags: OFlags) -> Result<Folder> {
        let open = || -> io::Result<_> {
            Ok(rustix::fs::open(&*self.hooks().look_up(path, LookUp::Folder)?, flags, Mode::empty())?)
        };
        match self.opening_folder(path, open) {
            Ok(inner) => {
                let (hooks, path) = (self.hooks().clone(), path.to_owned());
                Ok(Folder { hooks, inner, path, asks_server: self.asks_server() })
            }
            Err(source) => Err(Error::new("read the folder", path, source)),
        }
    }
}

impl Folder {
    fn open_in(&self, name: &Path, flags: OFlags, path: PathBuf) -> Result<Self> {
        let open = || -> io::Result<_> {
            let (folder, name) = self.place_of(name, LookUp::Folder)?;
            Ok(rustix::fs::openat(folder, &*name, flags, Mode::empty())?)
        };
        match self.hooks.opening(open) {
            Ok(inner) => Ok(Folder { hooks: self.hooks.clone(), inner, path, asks_server: self.asks_server }),
            Err(source) => Err(Error::new("read the folder", &path, source)),
        }
    }

    /// Returns the open folder and the name by which an entry is reached: this folder and `name`, unless a hook
    /// redirects the look-up.
    fn place_of<'n>(&'n self, name: &'n Path, how: LookUp) -> io::Result<(BorrowedFd<'n>, Cow<'n, Path>)> {
        if self.hooks.has_hook() {
            if let Cow::Owned(found) = self.hooks.look_up(&self.path.join(name), how)? {
                return Ok((CWD, Cow::Owned(found)));
            }
        }
        Ok((self.inner.as_fd(), Cow::Borrowed(name)))
    }

    /// Returns the path by which the folder was opened.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the device and the inode of the folder, which identify it.
    pub fn id(&self) -> Result<(u64, u64)> {
        match rustix::fs::fstat(&self.inner) {
            Ok(stat) => Ok(Stat::of_raw(&stat).file_id()),
            Err(source) => Err(Error::new("stat", &self.path, source)),
        }
    }

    /// Opens a folder in this one, unless it is a symbolic link.
    pub fn folder(&self, name: &OsStr) -> Result<Self> {
        let flags = FLAGS | OFlags::NOFOLLOW;
        self.open_in(Path::new(name), flags, self.path.join(name))
    }

    /// Opens another descriptor of this folder, which shares the position for [`read_with`](Self::read_with).
    pub(crate) fn again(&self) -> Result<Self> {
        match self.hooks.opening(|| self.inner.try_clone()) {
            Ok(inner) => Ok(Folder { hooks: self.hooks.clone(), inner, path: self.path.clone(), ..*self }),
            Err(source) => Err(Error::new("read the folder", &self.path, source)),
        }
    }

    /// Opens a folder some levels below this one. No component of the path may be a symbolic link.
    pub fn below(&self, relative: &Path) -> Result<Self> {
        let mut folder = self.again()?;
        for part in relative.components() {
            folder = match part {
                Component::Normal(name) => folder.folder(name)?,
                Component::CurDir => continue,
                _ => {
                    let path = self.path.join(relative);
                    return Err(Error::new("read the folder", &path, io::ErrorKind::InvalidInput));
                }
            };
        }
        Ok(folder)
    }

    /// Opens the parent of this folder. Fails unless the parent has this [`id`](Self::id).
    pub(crate) fn above(&self, id: (u64, u64)) -> Result<Self> {
        let path = self.path.parent().unwrap_or(&self.path).to_owned();
        let above = self.open_in(Path::new(".."), FLAGS, path)?;
        if above.id()? != id {
            let moved = io::Error::other("it was moved meanwhile");
            return Err(Error::new("go on from the folder", &self.path, moved));
        }
        Ok(above)
    }

    /// Returns the entries, unsorted, without `.` and `..`.
    pub fn entries(&self) -> Result<Vec<(Vec<u8>, EntryKind)>> {
        let mut entries = Vec::new();
        rustix::fs::seek(&self.inner, SeekFrom::Start(0))
            .map_err(|source| Error::new("read the folder", &self.path, source))?;
        self.read_with(&mut |name, kind| {
            entries.push((name.to_vec(), kind));
            ControlFlow::Continue(())
        })?;
        Ok(entries)
    }

    /// Calls `entry` with each entry after the current position of the descriptor, until `entry` breaks.
    pub(crate) fn read_with(&self, entry: &mut dyn FnMut(&[u8], EntryKind) -> ControlFlow<()>) -> Result<()> {
        let mut list = || -> io::Result<()> {
            let mut buffer = Vec::with_capacity(if self.asks_server { SHARED_LIST_BYTES } else { LOCAL_LIST_BYTES });
            let mut entries = rustix::fs::RawDir::new(&self.inner, buffer.spare_capacity_mut());
            while let Some(found) = entries.next() {
                let found = found?;
                let name = found.file_name().to_bytes();
                if matches!(name, b"." | b"..") {
                    continue;
                }
                let kind = match found.file_type() {
                    // Some file systems do not report the kind.
                    FileType::Unknown => {
                        let stat = rustix::fs::statat(&self.inner, found.file_name(), AtFlags::SYMLINK_NOFOLLOW)?;
                        FileType::from_raw_mode(stat.st_mode)
                    }
                    kind => kind,
                };
                let kind = match kind {
                    FileType::RegularFile => EntryKind::File,
                    FileType::Directory => EntryKind::Dir,
                    FileType::Symlink => EntryKind::Symlink,
                    _ => EntryKind::Other,
                };
                if entry(name, kind).is_break() {
                    break;
                }
            }
            Ok(())
        };
        list().map_err(|source| Error::new("read the folder", &self.path, source))
    }

    /// Opens a file for reading.
    pub fn open(&self, name: &OsStr) -> Result<File> {
        self.open_file(name, OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOFOLLOW, 0)
            .map_err(|source| Error::new("open", &self.path.join(name), source))
    }

    /// Opens a file for reading and writing.
    pub(crate) fn open_to_overwrite(&self, name: &OsStr) -> Result<File> {
        self.open_file(name, OFlags::RDWR | OFlags::NONBLOCK | OFlags::NOFOLLOW, 0)
            .map_err(|source| Error::new("open", &self.path.join(name), source))
    }

    /// Returns the attributes of an entry, or `None` if there is no such entry.
    pub(crate) fn find(&self, name: &OsStr) -> Result<Option<Stat>> {
        if self.asks_server {
            // Opening the folder makes an NFS client look the name up again if the folder has changed.
            drop(self.open_in(Path::new("."), FLAGS, self.path.clone())?);
        }
        let stat = || -> io::Result<_> {
            let (folder, name) = self.place_of(Path::new(name), LookUp::Name)?;
            Ok(Stat::of_raw(&rustix::fs::statat(folder, &*name, AtFlags::SYMLINK_NOFOLLOW)?))
        };
        Stat::found(stat(), &self.path.join(name))
    }

    /// Returns whether a name leads to this open file. On a network file system, the server is asked, and the server's
    /// handles are compared too, because another file may have the inode number of one that was removed.
    pub(crate) fn leads_to(&self, name: &OsStr, file: &File) -> Result<bool> {
        let own = file.stat()?.file_id();
        let is_same = self.find(name)?.is_some_and(|now| now.file_id() == own);
        let Some(handle) = file.server_handle().filter(|_| is_same && self.asks_server) else { return Ok(is_same) };
        let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let (folder, found) = match self.place_of(Path::new(name), LookUp::Name) {
            Ok(place) => place,
            Err(source) => return Err(Error::new("identify", &self.path.join(name), source)),
        };
        match rustix::fs::openat(folder, &*found, flags, Mode::empty()) {
            Ok(now) => Ok(ServerHandle::of(&now) == Some(handle)),
            Err(Errno::NOENT | Errno::STALE) => Ok(false),
            Err(source) => Err(Error::new("identify", &self.path.join(name), source)),
        }
    }

    /// Creates a new, empty file. Fails if the name exists. `mode` is subject to the process's umask.
    pub fn create_new(&self, name: &OsStr, mode: u32) -> Result<File> {
        let path = self.path.join(name);
        let flags = OFlags::RDWR | OFlags::CREATE | OFlags::EXCL;
        self.hooks.change(Op::Create(&path), "create", &path, || self.open_file(name, flags, mode))
    }

    fn open_file(&self, name: &OsStr, flags: OFlags, mode: u32) -> io::Result<File> {
        let mode = Mode::from_raw_mode(mode);
        let open = || -> io::Result<_> {
            let (folder, name) = self.place_of(Path::new(name), LookUp::Name)?;
            Ok(rustix::fs::openat(folder, &*name, flags | OFlags::CLOEXEC, mode)?)
        };
        let inner = self.hooks.opening(open)?;
        Ok(File::new(&self.hooks, inner.into(), &self.path.join(name)))
    }

    /// Makes a folder.
    pub fn create_dir(&self, name: &OsStr, mode: u32) -> Result<()> {
        let path = self.path.join(name);
        self.hooks.change(Op::MakeDir(&path), "create the folder", &path, || {
            rustix::fs::mkdirat(&self.inner, name, Mode::from_raw_mode(mode)).map_err(Into::into)
        })
    }

    /// Renames an entry to a path, replacing what was there.
    pub fn rename(&self, name: &OsStr, to: &Path) -> Result<()> {
        self.hooks.change(Op::Rename(&self.path.join(name), to), "rename a file to", to, || {
            rustix::fs::renameat(&self.inner, name, CWD, to).map_err(Into::into)
        })
    }

    /// Renames an entry within the folder, replacing what was there.
    pub fn rename_within(&self, name: &OsStr, to: &OsStr) -> Result<()> {
        let path = self.path.join(to);
        self.hooks.change(Op::Rename(&self.path.join(name), &path), "rename a file to", &path, || {
            rustix::fs::renameat(&self.inner, name, &self.inner, to).map_err(Into::into)
        })
    }

    /// Makes `to` another name of the file `name`. Fails if `to` exists.
    pub fn hard_link(&self, name: &OsStr, to: &Path) -> Result<()> {
        self.hooks.change(Op::Link(&self.path.join(name), to), "link", to, || {
            rustix::fs::linkat(&self.inner, name, CWD, to, AtFlags::empty()).map_err(Into::into)
        })
    }

    /// Removes a file's name.
    pub fn remove_file(&self, name: &OsStr) -> Result<()> {
        let path = self.path.join(name);
        self.hooks.change(Op::Remove(&path), "remove", &path, || {
            rustix::fs::unlinkat(&self.inner, name, AtFlags::empty()).map_err(Into::into)
        })
    }

    /// Removes an empty folder.
    pub fn remove_dir(&self, name: &OsStr) -> Result<()> {
        let path = self.path.join(name);
        self.hooks.change(Op::RemoveDir(&path), "remove the folder", &path, || {
            rustix::fs::unlinkat(&self.inner, name, AtFlags::REMOVEDIR).map_err(Into::into)
        })
    }
}

/// Returns the folder of a path and the name in it; `None` if the path has no last name.
pub(crate) fn place(path: &Path) -> Option<(&Path, &OsStr)> {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    Some((folder, path.file_name()?))
}

/// Returns the name of an entry as the type that folders take.
pub(crate) fn name_of(bytes: &[u8]) -> &OsStr {
    OsStr::from_bytes(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn neither_a_link_nor_dots_lead_out_of_an_open_folder() {
        let (dir, fs) = (tempfile::tempdir().unwrap(), Fs::real());
        std::fs::create_dir_all(dir.path().join("a/b/c")).unwrap();
        std::fs::write(dir.path().join("file"), "").unwrap();
        fs.symlink(&dir.path().join("a"), &dir.path().join("a/link")).unwrap();
        fs.symlink(&dir.path().join("file"), &dir.path().join("a/to-file")).unwrap();
        let folder = fs.folder(&dir.path().join("a")).unwrap();
        assert_eq!(folder.below(Path::new("b/c")).unwrap().path(), dir.path().join("a/b/c"));
        assert_eq!(folder.below(Path::new("")).unwrap().id().unwrap(), folder.id().unwrap());
        for relative in ["link", "link/b", "b/../b", "..", "/", "to-file"] {
            assert!(folder.below(Path::new(relative)).is_err(), "{relative}");
        }
        assert!(folder.open(OsStr::new("to-file")).unwrap_err().is_symlink());
    }
}
