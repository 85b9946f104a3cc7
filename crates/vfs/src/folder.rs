//! Open folders. An operation on an entry of an open folder stays in that folder even after the path of the folder
//! leads elsewhere.

use crate::{EntryKind, Error, File, Fs, LookUp, Op, Result, ServerHandle, Stat, error::is_stale, fs::past_lease};
use rustix::{
    fd::{AsFd, BorrowedFd, OwnedFd},
    fs::{AtFlags, CWD, FileType, Mode, OFlags, SeekFrom, StatxFlags},
    io::Errno,
};
use std::{
    borrow::Cow,
    cell::Cell,
    ffi::{CStr, OsStr},
    io,
    ops::ControlFlow,
    os::unix::ffi::OsStrExt,
    path::{Component, Path, PathBuf},
};

const FLAGS: OFlags = OFlags::RDONLY.union(OFlags::DIRECTORY).union(OFlags::CLOEXEC);

/// Maximum number of bytes that one call lists of a local folder.
const LOCAL_LIST_BYTES: usize = 32 << 10;

/// Maximum number of bytes that one call lists of a folder on a network file system, enough for 30,000 entries with
/// short names. In later calls of a listing, an NFS client may not ask for the kinds of entries together with their
/// names, and the kind of each entry then costs a request of its own.
const SHARED_LIST_BYTES: usize = 1 << 20;

/// A folder that is held open.
///
/// Its methods take the name of an entry and reach that entry through the folder's descriptor. Another process that
/// replaces the folder by a symbolic link therefore cannot lead these methods to other files. The path is used only for
/// messages and I/O hooks, and on a network file system to find out whether a change within the folder that was
/// reported as failed has been made. No method follows a symbolic link. The exception is the path `to` of
/// [`rename`](Self::rename) and [`hard_link`](Self::hard_link), whose folders are looked up as usual.
///
/// Where the folder itself was removed, also by another machine, its entries are "not found". An entry that another
/// machine has replaced is looked up again on the server.
pub struct Folder {
    fs: Fs,
    inner: OwnedFd,
    path: PathBuf,
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
            Ok(inner) => Ok(Folder { fs: self.without_locks(), inner, path: path.to_owned() }),
            Err(source) => Err(Error::new("read the folder", path, source)),
        }
    }
}

impl Folder {
    fn open_in(&self, name: &Path, flags: OFlags, path: PathBuf) -> Result<Self> {
        match self.looking(|| self.open_once(name, flags)) {
            Ok(inner) => Ok(Folder { fs: self.fs.clone(), inner, path }),
            Err(source) => Err(Error::new("read the folder", &path, source)),
        }
    }

    fn open_once(&self, name: &Path, flags: OFlags) -> io::Result<OwnedFd> {
        self.fs.hooks().opening(|| -> io::Result<_> {
            let (folder, name) = self.place_of(name, LookUp::Folder)?;
            Ok(rustix::fs::openat(folder, &*name, flags, Mode::empty())?)
        })
    }

    /// Asks the server about this folder, which makes an NFS client look names up again if the folder has changed.
    fn ask(&self) -> io::Result<()> {
        self.open_once(Path::new("."), FLAGS).map(drop)
    }

    /// Calls `look`, which looks up an entry, and repeats that if the client mistook an entry that another machine has
    /// replaced for the present one.
    fn looking<T>(&self, look: impl FnMut() -> io::Result<T>) -> io::Result<T> {
        self.again_if_stale(None, is_stale, look).map_err(|(error, is_gone)| if is_gone { gone() } else { error })
    }

    /// As [`looking`](Self::looking), for a change of an entry. `to` is the path to which the change gives a name, if
    /// it does.
    fn changing<T>(&self, to: Option<&Path>, change: impl FnMut() -> Result<T>) -> Result<T> {
        let changed = self.again_if_stale(to, Error::is_stale, change);
        changed.map_err(|(error, is_gone)| if is_gone { Error { source: gone(), ..error } } else { error })
    }

    /// Repeats `attempt` after stale errors. Returns with the last error whether this folder has been removed.
    fn again_if_stale<T, E>(
        &self,
        to: Option<&Path>,
        is_stale_error: impl Fn(&E) -> bool,
        attempt: impl FnMut() -> std::result::Result<T, E>,
    ) -> std::result::Result<T, (E, bool)> {
        let is_gone = Cell::new(false);
        let look_again = || {
            if let Some(to) = to {
                self.fs.look_again(to);
            }
            is_gone.set(self.is_gone());
            !is_gone.get()
        };
        let done = self.fs.again_if_stale(look_again, is_stale_error, attempt);
        done.map_err(|error| (error, is_gone.get()))
    }

    fn is_gone(&self) -> bool {
        self.ask().is_err_and(|error| is_stale(&error))
    }

    /// Returns the open folder and the name by which an entry is reached: this folder and `name`, unless a hook
    /// redirects the look-up.
    fn place_of<'n>(&'n self, name: &'n Path, how: LookUp) -> io::Result<(BorrowedFd<'n>, Cow<'n, Path>)> {
        if self.fs.has_hook() {
            if let Cow::Owned(found) = self.fs.hooks().look_up(&self.path.join(name), how)? {
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
        // Neither ever changes, so a server that is asked could only answer that the folder has been removed.
        let flags = AtFlags::EMPTY_PATH | AtFlags::STATX_DONT_SYNC;
        match rustix::fs::statx(&self.inner, c"", flags, StatxFlags::INO) {
            Ok(stat) => Ok(Stat::of_statx(&stat).file_id()),
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
        match self.fs.hooks().opening(|| self.inner.try_clone()) {
            Ok(inner) => Ok(Folder { fs: self.fs.clone(), inner, path: self.path.clone() }),
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
            let is_shared = self.fs.asks_server();
            let mut buffer = Vec::with_capacity(if is_shared { SHARED_LIST_BYTES } else { LOCAL_LIST_BYTES });
            let mut entries = rustix::fs::RawDir::new(&self.inner, buffer.spare_capacity_mut());
            while let Some(found) = entries.next() {
                let found = found?;
                let name = found.file_name().to_bytes();
                if matches!(name, b"." | b"..") {
                    continue;
                }
                if entry(name, self.kind_of(found.file_name(), found.file_type())?).is_break() {
                    break;
                }
            }
            Ok(())
        };
        list().map_err(|error| {
            let source = if is_stale(&error) && self.is_gone() { gone() } else { error };
            Error::new("read the folder", &self.path, source)
        })
    }

    /// Returns the kind of an entry that was listed as `listed`. An entry whose kind was not listed and that has been
    /// removed meanwhile counts as a file, because whoever opens a file must expect that it is gone.
    fn kind_of(&self, name: &CStr, listed: FileType) -> io::Result<EntryKind> {
        let look = || -> io::Result<_> {
            let (folder, name) = self.place_of(Path::new(OsStr::from_bytes(name.to_bytes())), LookUp::Name)?;
            let stat = rustix::fs::statat(folder, &*name, AtFlags::SYMLINK_NOFOLLOW)?;
            Ok(FileType::from_raw_mode(stat.st_mode))
        };
        let kind = match listed {
            // Some file systems do not report the kind.
            FileType::Unknown => match self.looking(look) {
                Err(error) if error.kind() == io::ErrorKind::NotFound => FileType::RegularFile,
                found => found?,
            },
            kind => kind,
        };
        Ok(match kind {
            FileType::RegularFile => EntryKind::File,
            FileType::Directory => EntryKind::Dir,
            FileType::Symlink => EntryKind::Symlink,
            _ => EntryKind::Other,
        })
    }

    /// Opens a file for reading.
    pub fn open(&self, name: &OsStr) -> Result<File> {
        self.open_file(name, OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOFOLLOW)
            .map_err(|source| Error::new("open", &self.path.join(name), source))
    }

    /// Opens a file for reading and writing.
    pub(crate) fn open_to_overwrite(&self, name: &OsStr) -> Result<File> {
        self.open_file(name, OFlags::RDWR | OFlags::NONBLOCK | OFlags::NOFOLLOW)
            .map_err(|source| Error::new("open", &self.path.join(name), source))
    }

    /// Returns the attributes of an entry, or `None` if there is no such entry.
    pub(crate) fn find(&self, name: &OsStr) -> Result<Option<Stat>> {
        let stat = self.looking(|| {
            if self.fs.asks_server() {
                self.ask()?;
            }
            let (folder, name) = self.place_of(Path::new(name), LookUp::Name)?;
            Ok(Stat::of_raw(&rustix::fs::statat(folder, &*name, AtFlags::SYMLINK_NOFOLLOW)?))
        });
        Stat::found(stat, &self.path.join(name))
    }

    /// Returns whether a name leads to this open file. On a network file system, the server is asked, and the server's
    /// handles, if the client provides them, are compared too, because another file may have the inode number of one
    /// that was removed.
    pub(crate) fn leads_to(&self, name: &OsStr, file: &File) -> Result<bool> {
        let own = file.stat()?.file_id();
        let is_same = self.find(name)?.is_some_and(|now| now.file_id() == own);
        let is_shared = self.fs.asks_server();
        let Some(handle) = file.server_handle().filter(|_| is_same && is_shared) else { return Ok(is_same) };
        let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let open = || -> io::Result<_> {
            let (folder, found) = self.place_of(Path::new(name), LookUp::Name)?;
            self.fs.hooks().opening(|| rustix::fs::openat(folder, &*found, flags, Mode::empty()))
        };
        match self.looking(open) {
            Ok(now) => Ok(ServerHandle::of(&now) == Some(handle)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
            Err(source) => Err(Error::new("identify", &self.path.join(name), source)),
        }
    }

    /// Creates a new, empty file. Fails if the name exists. `mode` is subject to the process's umask.
    pub fn create_new(&self, name: &OsStr, mode: u32) -> Result<File> {
        let path = self.path.join(name);
        let flags = OFlags::RDWR | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
        let create = || rustix::fs::openat(&self.inner, name, flags, Mode::from_raw_mode(mode));
        let created = self.changing(None, || {
            self.fs.hooks().change(Op::Create(&path), "create", &path, || self.fs.hooks().opening(create))
        });
        created.map(|inner| File::new(self.fs.hooks(), inner.into(), &path))
    }

    fn open_file(&self, name: &OsStr, flags: OFlags) -> io::Result<File> {
        let open = || -> io::Result<_> {
            let (folder, name) = self.place_of(Path::new(name), LookUp::Name)?;
            past_lease(flags, |flags| rustix::fs::openat(folder, &*name, flags | OFlags::CLOEXEC, Mode::empty()))
        };
        let inner = self.looking(|| self.fs.hooks().opening(open))?;
        Ok(File::new(self.fs.hooks(), inner.into(), &self.path.join(name)))
    }

    /// Makes a folder.
    pub fn create_dir(&self, name: &OsStr, mode: u32) -> Result<()> {
        let path = self.path.join(name);
        self.changing(None, || {
            self.fs.hooks().change(Op::MakeDir(&path), "create the folder", &path, || {
                rustix::fs::mkdirat(&self.inner, name, Mode::from_raw_mode(mode)).map_err(Into::into)
            })
        })
    }

    /// Renames an entry to a path, replacing what was there.
    pub fn rename(&self, name: &OsStr, to: &Path) -> Result<()> {
        let path = self.path.join(name);
        self.changing(Some(to), || {
            self.fs.hooks().change(Op::Rename(&path, to), "rename a file to", to, || {
                self.fs.sending_once(self.inner.as_fd(), Path::new(name), to, || {
                    rustix::fs::renameat(&self.inner, name, CWD, to).map_err(Into::into)
                })
            })
        })
    }

    /// Renames an entry within the folder, replacing what was there.
    pub fn rename_within(&self, name: &OsStr, to: &OsStr) -> Result<()> {
        let (from, path) = (self.path.join(name), self.path.join(to));
        self.changing(None, || {
            self.fs.hooks().change(Op::Rename(&from, &path), "rename a file to", &path, || {
                self.fs.sending_once(self.inner.as_fd(), Path::new(name), &path, || {
                    rustix::fs::renameat(&self.inner, name, &self.inner, to).map_err(Into::into)
                })
            })
        })
    }

    /// Makes `to` another name of the file `name`. Fails if `to` exists.
    pub fn hard_link(&self, name: &OsStr, to: &Path) -> Result<()> {
        let path = self.path.join(name);
        self.changing(Some(to), || {
            self.fs.hooks().change(Op::Link(&path, to), "link", to, || {
                self.fs.sending_once(self.inner.as_fd(), Path::new(name), to, || {
                    rustix::fs::linkat(&self.inner, name, CWD, to, AtFlags::empty()).map_err(Into::into)
                })
            })
        })
    }

    /// Removes a file's name.
    pub fn remove_file(&self, name: &OsStr) -> Result<()> {
        self.remove("remove", name, AtFlags::empty(), |path| Op::Remove(path))
    }

    /// Removes an empty folder.
    pub fn remove_dir(&self, name: &OsStr) -> Result<()> {
        self.remove("remove the folder", name, AtFlags::REMOVEDIR, |path| Op::RemoveDir(path))
    }

    fn remove(
        &self,
        operation: &'static str,
        name: &OsStr,
        flags: AtFlags,
        op: impl Fn(&Path) -> Op<'_>,
    ) -> Result<()> {
        let path = self.path.join(name);
        self.changing(None, || {
            self.fs.hooks().change(op(&path), operation, &path, || {
                rustix::fs::unlinkat(&self.inner, name, flags).map_err(Into::into)
            })
        })
    }
}

/// The error of looking for an entry of a folder that has been removed, as it is on a local disk.
fn gone() -> io::Error {
    Errno::NOENT.into()
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

    #[test]
    fn an_entry_whose_kind_was_not_listed_is_looked_at_and_a_removed_one_counts_as_a_file() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::create_dir(dir.path().join("folder")).unwrap();
        std::fs::write(dir.path().join("file"), "").unwrap();
        let folder = Fs::real().folder(dir.path()).unwrap();
        let kind = |name: &CStr| folder.kind_of(name, FileType::Unknown).unwrap();
        assert_eq!([c"folder", c"file", c"gone"].map(kind), [EntryKind::Dir, EntryKind::File, EntryKind::File]);
    }
}
