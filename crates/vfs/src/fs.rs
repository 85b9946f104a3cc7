use crate::{
    Descriptors, EndedBoot, Error, File, IoHook, LookUp, Op, RecoveryHandler, Result, Stat, abort::Note,
    io_hooks::IoHooks, kind, signature::Signature, spares::Spares,
};
use rustix::{
    fs::{AtFlags, CWD, Mode, OFlags, RenameFlags, StatFs},
    io::Errno,
};
use std::{
    ffi::OsStr,
    fmt, io,
    ops::ControlFlow,
    os::{
        fd::AsRawFd,
        unix::fs::{OpenOptionsExt, PermissionsExt},
    },
    path::{Path, PathBuf},
    sync::{Arc, Weak},
};

/// The file system. Cheap to clone; all clones share the same hook.
#[derive(Clone, Default)]
pub struct Fs {
    hooks: IoHooks,
    signs_locks: bool,
    asks_server: bool,
    is_nfs: bool,
    /// The spare files to which locks are links, on a network file system where locks are signed.
    spares: Option<Arc<Spares>>,
    heir: Option<Weak<dyn RecoveryHandler>>,
    ended_boot: Option<Arc<EndedBoot>>,
}

impl fmt::Debug for Fs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.hooks.has_hook() { "Fs(hooked)" } else { "Fs" })
    }
}

/// The kind of a folder entry.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum EntryKind {
    /// A regular file.
    File,
    /// A folder.
    Dir,
    /// A symbolic link.
    Symlink,
    /// A socket, a pipe or a device.
    Other,
}

impl Fs {
    /// The real file system.
    pub fn real() -> Self {
        Fs::default()
    }

    pub(crate) fn has_hook(&self) -> bool {
        self.hooks.has_hook()
    }

    /// Returns the real file system with a hook, to which changes are shown first; see [`IoHook`].
    pub fn with_hook(hook: Arc<dyn IoHook>) -> Self {
        Fs { hooks: IoHooks::new(hook), ..Fs::default() }
    }

    /// Returns this file system, which counts its open files in `descriptors`, and has `descriptors` close some files
    /// when the process cannot open more.
    pub fn counting(self, descriptors: &Arc<Descriptors>) -> Self {
        Fs { hooks: self.hooks.counting(descriptors), ..self }
    }

    /// Returns this file system, whose lock files name their holders, so that the next writer can remove a lock file
    /// that a dead process left behind. This is meant for servers, and costs a few system calls for each lock. Every
    /// refdb writer understands such locks; git and JGit wait for them as for their own. Without `/proc`, nothing is
    /// signed.
    pub fn signing_locks(self) -> Self {
        Fs { signs_locks: Signature::own().is_some(), ..self }
    }

    /// Returns this file system, which [signs](Self::signing_locks) the locks of files in `folder`.
    ///
    /// # Errors
    ///
    /// Fails if locks were not signed before and the folder's file system cannot be examined.
    pub fn signing_in(&self, folder: &Path) -> Result<Self> {
        if self.signs_locks { Ok(self.clone()) } else { self.clone().signing_locks().at(folder) }
    }

    /// Returns this file system, on which `heir` recovers the batches of dead processes whose locks are found, as long
    /// as `heir` exists. Without a recovery handler, such a lock is waited for like a lock of git's.
    pub fn with_recovery(self, heir: Weak<dyn RecoveryHandler>) -> Self {
        Fs { heir: Some(heir), ..self }
    }

    /// Returns this file system without a recovery handler.
    pub fn without_recovery(&self) -> Self {
        Fs { heir: None, ..self.clone() }
    }

    /// Returns this file system, on which the locks of that boot are treated as those of ended processes, unless
    /// somebody holds them or the file system does not show whether somebody does (see [`EndedBoot::machine_is_off`]).
    pub fn with_ended_boot(self, boot: EndedBoot) -> Self {
        Fs { ended_boot: Some(Arc::new(boot)), ..self }
    }

    pub(crate) fn ended_boot(&self) -> Option<&EndedBoot> {
        self.ended_boot.as_deref()
    }

    pub(crate) fn heir(&self) -> Option<Arc<dyn RecoveryHandler>> {
        self.heir.as_ref()?.upgrade()
    }

    pub(crate) fn signs_locks(&self) -> bool {
        self.signs_locks
    }

    /// Returns this file system, whose signed locks are links to spare files in a folder where that is possible.
    pub(crate) fn with_spares(self, folder: &Path) -> Self {
        Fs { spares: Some(Arc::new(Spares::within(folder))), ..self }
    }

    pub(crate) fn without_spares(&self) -> Self {
        Fs { spares: None, ..self.clone() }
    }

    /// Returns this file system without what only locks need.
    pub(crate) fn without_locks(&self) -> Self {
        Fs { hooks: self.hooks.clone(), asks_server: self.asks_server, is_nfs: self.is_nfs, ..Fs::default() }
    }

    pub(crate) fn spares(&self) -> Option<&Arc<Spares>> {
        self.spares.as_ref()
    }

    #[cfg(test)]
    pub(crate) fn asking_server(self, asks_server: bool) -> Self {
        Fs { asks_server, ..self }
    }

    /// Returns this file system with the settings that suit a file system of these attributes.
    pub(crate) fn on(self, kind: &StatFs) -> Self {
        let is_network = self.hooks.is_network();
        Fs { asks_server: !kind::is_local(kind) || is_network, is_nfs: kind::is_nfs(kind) || is_network, ..self }
    }

    /// Returns whether names are looked up on the server of a network file system; see [`Fs::at`].
    pub fn asks_server(&self) -> bool {
        self.asks_server
    }

    pub(crate) fn hooks(&self) -> &IoHooks {
        &self.hooks
    }

    /// Counts an open file and returns it as a file of this file system.
    pub(crate) fn file(&self, inner: std::fs::File, path: &Path) -> File {
        File::new(&self.hooks, inner, path)
    }

    /// Opens a file for reading.
    ///
    /// A pipe without a writer does not block the caller, because a pipe where a file is expected is an accident.
    pub fn open(&self, path: &Path) -> Result<File> {
        self.open_with(path, OFlags::NONBLOCK)
    }

    /// Opens a file for reading. Fails if the path is a symbolic link; see [`Error::is_symlink`].
    pub fn open_no_follow(&self, path: &Path) -> Result<File> {
        self.open_with(path, OFlags::NONBLOCK | OFlags::NOFOLLOW)
    }

    /// Opens an existing file for reading and overwriting. Fails if the path is a symbolic link.
    pub fn open_to_overwrite(&self, path: &Path) -> Result<File> {
        self.open_as(std::fs::OpenOptions::new().read(true).write(true), path, OFlags::NONBLOCK | OFlags::NOFOLLOW)
    }

    /// Opens an existing file for appending. Fails if the path is a symbolic link.
    pub(crate) fn open_to_append(&self, path: &Path) -> Result<File> {
        self.open_as(std::fs::OpenOptions::new().append(true), path, OFlags::NONBLOCK | OFlags::NOFOLLOW)
    }

    fn open_with(&self, path: &Path, flags: OFlags) -> Result<File> {
        self.open_as(std::fs::OpenOptions::new().read(true), path, flags)
    }

    fn open_as(&self, options: &mut std::fs::OpenOptions, path: &Path, flags: OFlags) -> Result<File> {
        let open = |flags: OFlags| {
            let options = options.custom_flags(flags.bits() as i32);
            self.opening(path, || options.open(self.hooks.look_up(path, LookUp::Name)?))
        };
        match past_lease(flags, open) {
            Ok(inner) => Ok(self.file(inner, path)),
            Err(source) => Err(Error::new("open", path, source)),
        }
    }

    /// Returns whether the real user of this process may execute the file, or enter the folder.
    pub fn is_executable(&self, path: &Path) -> bool {
        rustix::fs::access(path, rustix::fs::Access::EXEC_OK).is_ok()
    }

    /// Returns whether permissions, of the file or of a folder on the way to it, or the mount option `noexec` forbid
    /// the real user of this process to execute the file.
    pub fn is_execution_denied(&self, path: &Path) -> bool {
        matches!(rustix::fs::access(path, rustix::fs::Access::EXEC_OK), Err(rustix::io::Errno::ACCESS))
    }

    /// Fails if the process, as its effective user, may not create and remove files in a folder, for example because of
    /// the folder's mode or owner or a read-only file system.
    pub fn check_writable(&self, folder: &Path) -> Result<()> {
        let access = rustix::fs::Access::WRITE_OK | rustix::fs::Access::EXEC_OK;
        rustix::fs::accessat(CWD, folder, access, AtFlags::EACCESS)
            .map_err(|source| Error::new("write to the folder", folder, source))
    }

    /// Stats what a path leads to, following symbolic links.
    pub fn stat(&self, path: &Path) -> Result<Stat> {
        self.attributes(path, AtFlags::empty()).map_err(|source| Error::new("stat", path, source))
    }

    /// Stats the path itself, even if it is a symbolic link.
    pub fn stat_link(&self, path: &Path) -> Result<Stat> {
        self.attributes(path, AtFlags::SYMLINK_NOFOLLOW).map_err(|source| Error::new("stat", path, source))
    }

    /// As [`Fs::stat`], but returns `None` if there is nothing. This avoids the cost of an error for callers to whom
    /// that happens all the time.
    pub fn find(&self, path: &Path) -> Result<Option<Stat>> {
        Stat::found(self.attributes(path, AtFlags::empty()), path)
    }

    /// As [`Fs::stat_link`], but returns `None` if there is nothing.
    pub fn find_link(&self, path: &Path) -> Result<Option<Stat>> {
        Stat::found(self.attributes(path, AtFlags::SYMLINK_NOFOLLOW), path)
    }

    /// The content of a symbolic link. Returns `None` if there is nothing at the path, or something that is not a
    /// symbolic link, for example a file that has just replaced the link.
    pub fn find_link_content(&self, path: &Path) -> Result<Option<PathBuf>> {
        match std::fs::read_link(path) {
            Ok(content) => Ok(Some(content)),
            Err(source) if source.kind() == io::ErrorKind::InvalidInput => Ok(None),
            Err(source) => match Error::new("read the link", path, source) {
                error if error.is_not_found() => Ok(None),
                error => Err(error),
            },
        }
    }

    /// Returns whether the path is on a local file system of a kind that is known to keep open files readable.
    pub fn is_local(&self, path: &Path) -> Result<bool> {
        Ok(kind::is_local(&self.kind_of(path)?) && !self.hooks.is_network())
    }

    /// The attributes of the file system that a path is on.
    pub(crate) fn kind_of(&self, path: &Path) -> Result<StatFs> {
        rustix::fs::statfs(path).map_err(|source| Error::new("stat the file system of", path, source))
    }

    /// Returns whether an open file is on a local file system of a kind that is known to keep open files readable.
    pub(crate) fn is_file_local(&self, file: &File) -> Result<bool> {
        let stat = rustix::fs::fstatfs(file.as_std());
        let kind = stat.map_err(|source| Error::new("stat the file system of", file.path(), source))?;
        Ok(kind::is_local(&kind) && !self.hooks.is_network())
    }

    /// A folder's entries, unsorted, without `.` and `..`.
    pub fn read_dir(&self, path: &Path) -> Result<Vec<(Vec<u8>, EntryKind)>> {
        let mut entries = Vec::new();
        self.read_dir_with(path, &mut |name, kind| {
            entries.push((name.to_vec(), kind));
            ControlFlow::Continue(())
        })?;
        Ok(entries)
    }

    /// Calls `entry` with a folder's entries, unsorted, without `.` and `..`, until `entry` breaks.
    pub fn read_dir_with(&self, path: &Path, entry: &mut dyn FnMut(&[u8], EntryKind) -> ControlFlow<()>) -> Result<()> {
        self.folder(path)?.read_with(entry)
    }

    /// Creates a new, empty file; fails if the name exists. `mode` is subject to the process's umask.
    pub fn create_new(&self, path: &Path, mode: u32) -> Result<File> {
        self.create_noted(path, mode, Note::NONE)
    }

    /// As [`create_new`](Self::create_new), for a lock: nothing that can fail happens between creating the file and
    /// recording it for an abort.
    pub(crate) fn create_noted(&self, path: &Path, mode: u32, note: Note) -> Result<File> {
        let created = self.changing(path, || {
            self.hooks.change(Op::Create(path), "create", path, || {
                let mut options = std::fs::OpenOptions::new();
                options.write(true).read(true).create_new(true).mode(mode);
                self.hooks.opening(|| options.open(path)).inspect(|_| note.arm())
            })
        });
        created.map(|inner| self.file(inner, path))
    }

    /// As [`create_new`](Self::create_new), but replaces a file that a dead process left behind. The caller must hold a
    /// lock, so that nobody else writes this name.
    pub fn create_afresh(&self, path: &Path, mode: u32) -> Result<File> {
        match self.create_new(path, mode) {
            Err(error) if error.is_exists() => {
                self.remove_file(path)?;
                self.create_new(path, mode)
            }
            created => created,
        }
    }

    /// Creates a file without a name, which [`name`](Self::name) later gives the name `path`; without that, the file
    /// vanishes when it is closed. Returns `None` if the file system does not support this. `mode` is subject to the
    /// process's umask.
    pub(crate) fn create_unnamed(&self, path: &Path, mode: u32) -> Result<Option<File>> {
        let folder = place(path).map_or(Path::new("."), |(folder, _)| folder);
        let flags = OFlags::TMPFILE | OFlags::RDWR | OFlags::CLOEXEC;
        match self.hooks.opening(|| rustix::fs::open(folder, flags, Mode::from_raw_mode(mode))) {
            // Nobody sees the file or its content before it has a name, so the hook is not called until then.
            Ok(file) => Ok(Some(File::new(&self.hooks.without_hook(), file.into(), path))),
            Err(error) => match Errno::from_io_error(&error) {
                Some(Errno::OPNOTSUPP | Errno::ISDIR | Errno::INVAL) => Ok(None),
                _ => Err(Error::new("create", path, error)),
            },
        }
    }

    /// Gives a file without a name the path for which it was created. Fails if the path exists.
    pub(crate) fn name(&self, file: &File) -> Result<()> {
        let opened = PathBuf::from(format!("/proc/self/fd/{}", file.as_std().as_raw_fd()));
        self.changing(file.path(), || {
            self.hooks.change(Op::Create(file.path()), "create", file.path(), || {
                self.linking_own(file, file.path(), || {
                    rustix::fs::linkat(CWD, &opened, CWD, file.path(), AtFlags::SYMLINK_FOLLOW).map_err(Into::into)
                })
            })
        })
    }

    /// Shows the hook the content of a file that was written before it had a name, and syncs the file if `sync` is set.
    pub(crate) fn tell_named(&self, file: &File, content: &[u8], sync: bool) -> Result<()> {
        self.hooks.change(Op::Write(file.path(), content), "write", file.path(), || Ok(()))?;
        if sync {
            self.hooks.change(Op::Sync(file.path()), "sync", file.path(), || file.as_std().sync_all())?;
        }
        Ok(())
    }

    /// Opens a file for appending, and creates it if it does not exist. `mode` is subject to the process's umask. A
    /// pipe in its place does not block the caller: without a reader, that is an error. On a network file system, the
    /// server is asked for the file as [`open`](Self::open) asks it.
    pub fn append(&self, path: &Path, mode: u32) -> Result<File> {
        let mut options = std::fs::OpenOptions::new();
        options.append(true).mode(mode).custom_flags(OFlags::NONBLOCK.bits() as i32);
        let open = || {
            let path = self.hooks.look_up(path, LookUp::Name)?;
            past_lease(OFlags::NONBLOCK, |flags| options.clone().custom_flags(flags.bits() as i32).open(&path))
        };
        let create = || self.hooks.opening(|| options.clone().create(true).open(path));
        let inner = self.changing(path, || match self.opening(path, open) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                self.hooks.change(Op::Create(path), "create", path, create)
            }
            opened => opened.map_err(|source| Error::new("open", path, source)),
        });
        inner.map(|inner| self.file(inner, path))
    }

    /// Renames `from` to `to`, replacing what was there.
    pub fn rename(&self, from: &Path, to: &Path) -> Result<()> {
        self.changing(to, || {
            self.hooks.change(Op::Rename(from, to), "rename a file to", to, || {
                self.sending_once(CWD, from, to, || std::fs::rename(from, to))
            })
        })
    }

    /// Renames `from` to `to`; fails if `to` exists, unless the file system cannot refuse that, as over NFS: what was
    /// there is replaced then.
    pub fn rename_new(&self, from: &Path, to: &Path) -> Result<()> {
        let rename = || match rustix::fs::renameat_with(CWD, from, CWD, to, RenameFlags::NOREPLACE) {
            Err(Errno::INVAL | Errno::NOSYS) => std::fs::rename(from, to),
            renamed => Ok(renamed?),
        };
        self.changing(to, || {
            self.hooks.change(Op::Rename(from, to), "rename a file to", to, || self.sending_once(CWD, from, to, rename))
        })
    }

    /// Exchanges two paths in one atomic step, whatever they are. Many network file systems do not support it.
    pub fn exchange(&self, one: &Path, other: &Path) -> Result<()> {
        self.hooks.change(Op::Exchange(one, other), "exchange a file with", other, || {
            rustix::fs::renameat_with(CWD, one, CWD, other, RenameFlags::EXCHANGE).map_err(Into::into)
        })
    }

    /// Brings everything on a folder's file system to stable storage, including other programs' files. After thousands
    /// of files were created, this is one call instead of thousands.
    pub fn sync_all(&self, folder: &Path) -> Result<()> {
        self.hooks.change(Op::SyncAll(folder), "sync the file system of", folder, || {
            let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
            let folder = self.hooks.opening(|| rustix::fs::open(folder, flags, Mode::empty()))?;
            rustix::fs::syncfs(folder).map_err(Into::into)
        })
    }

    /// Makes `to` another name of the file `from`; fails if `to` exists.
    pub fn hard_link(&self, from: &Path, to: &Path) -> Result<()> {
        let link = || rustix::fs::linkat(CWD, from, CWD, to, AtFlags::empty()).map_err(io::Error::from);
        self.changing(to, || {
            self.hooks.change(Op::Link(from, to), "link", to, || self.sending_once(CWD, from, to, link))
        })
    }

    /// As [`hard_link`](Self::hard_link), for a file to which only this process gives names. `file` is the open file
    /// `from`.
    pub(crate) fn link_own(&self, file: &File, from: &Path, to: &Path) -> Result<()> {
        let link = || rustix::fs::linkat(CWD, from, CWD, to, AtFlags::empty()).map_err(io::Error::from);
        self.changing(to, || self.hooks.change(Op::Link(from, to), "link", to, || self.linking_own(file, to, link)))
    }

    /// Sends a request that makes `to` a name of an open file to which only this process gives names. If it fails, the
    /// server is asked whether it has succeeded and only its reply was lost. If it cannot be asked, the error of the
    /// request stays.
    fn linking_own(&self, file: &File, to: &Path, link: impl FnMut() -> io::Result<()>) -> io::Result<()> {
        self.hooks.sent(link).or_else(|error| {
            match self.asks_server && self.leads_to(to, file).is_ok_and(|is_linked| is_linked) {
                true => Ok(()),
                false => Err(error),
            }
        })
    }

    /// Makes `path` a symbolic link with this content.
    pub fn symlink(&self, content: &Path, path: &Path) -> Result<()> {
        self.hooks.change(Op::Symlink(path, content), "link", path, || std::os::unix::fs::symlink(content, path))
    }

    /// Removes a file's name.
    pub fn remove_file(&self, path: &Path) -> Result<()> {
        self.changing(path, || {
            self.hooks.change(Op::Remove(path), "remove", path, || self.hooks.sent(|| std::fs::remove_file(path)))
        })
    }

    /// Removes the name of a file that must exist, because the caller holds its lock and has just seen it. If a server
    /// reports that there is no such file, its reply to the first request was lost, and the file has been removed.
    pub fn remove_existing(&self, path: &Path) -> Result<()> {
        match self.remove_file(path) {
            Err(error) if self.asks_server && error.is_not_found() => Ok(()),
            removed => removed,
        }
    }

    /// Creates a folder; its parent must exist.
    pub fn create_dir(&self, path: &Path, mode: u32) -> Result<()> {
        self.changing(path, || {
            self.hooks.change(Op::MakeDir(path), "create the folder", path, || {
                self.hooks.sent(|| rustix::fs::mkdirat(CWD, path, Mode::from_raw_mode(mode)).map_err(Into::into))
            })
        })
    }

    /// Removes an empty folder.
    pub fn remove_dir(&self, path: &Path) -> Result<()> {
        self.changing(path, || {
            self.hooks.change(Op::RemoveDir(path), "remove the folder", path, || {
                self.hooks.sent(|| std::fs::remove_dir(path))
            })
        })
    }

    /// Sets permission bits regardless of the umask.
    pub fn set_mode(&self, path: &Path, mode: u32) -> Result<()> {
        self.hooks.change(Op::SetMode(path, mode), "set the permissions of", path, || {
            std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode))
        })
    }

    /// Brings a folder's entries to stable storage. If this `Fs` was made for NFS (see [`at`](Self::at)), it does
    /// nothing, because the server has made each change of an entry durable before it answered, as the protocol
    /// demands.
    pub fn sync_dir(&self, path: &Path) -> Result<()> {
        if self.is_nfs {
            return Ok(());
        }
        self.hooks.change(Op::SyncDir(path), "sync the folder", path, || {
            let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
            let folder = self.hooks.opening(|| rustix::fs::open(path, flags, Mode::empty()))?;
            rustix::fs::fsync(folder).map_err(Into::into)
        })
    }
}

/// The effective user of this process.
pub fn effective_user() -> u32 {
    rustix::process::geteuid().as_raw()
}

/// Returns the folder of a path and the name in it; `None` if the path has no last name.
pub(crate) fn place(path: &Path) -> Option<(&Path, &OsStr)> {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    Some((folder, path.file_name()?))
}

/// The host name of this machine, with or without its domain.
pub fn host_name() -> Vec<u8> {
    rustix::system::uname().nodename().to_bytes().to_owned()
}

/// Opens a file with these flags, which contain `O_NONBLOCK` unless a pipe may block. With that flag, the file cannot
/// be opened while another process has a conflicting lease on it; then it is opened without the flag, which waits until
/// the lease has ended.
pub(crate) fn past_lease<T, E: Into<io::Error>>(
    flags: OFlags,
    mut open: impl FnMut(OFlags) -> std::result::Result<T, E>,
) -> io::Result<T> {
    match open(flags).map_err(Into::into) {
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => open(flags - OFlags::NONBLOCK).map_err(Into::into),
        opened => opened,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Verdict;
    use std::sync::Mutex;

    #[test]
    fn what_is_found_is_what_a_stat_says_and_nothing_is_no_error() {
        let dir = tempfile::tempdir().unwrap();
        let (fs, path) = (Fs::real(), dir.path().join("a"));
        std::fs::write(&path, "content").unwrap();
        fs.symlink(&path, &dir.path().join("link")).unwrap();
        for name in ["a", "link", "."] {
            let path = dir.path().join(name);
            assert_eq!(fs.find(&path).unwrap(), Some(fs.stat(&path).unwrap()), "{name}");
            assert_eq!(fs.find_link(&path).unwrap(), Some(fs.stat_link(&path).unwrap()), "{name}");
        }
        for name in ["b", "b/c", "a/b"] {
            assert!(fs.stat(&dir.path().join(name)).unwrap_err().is_not_found());
            assert_eq!(fs.find(&dir.path().join(name)).unwrap(), None, "{name}");
            assert_eq!(fs.find_link(&dir.path().join(name)).unwrap(), None, "{name}");
        }
        let error = fs.find(&dir.path().join("x".repeat(300))).unwrap_err();
        assert!(error.to_string().contains("xxx"), "{error}");
    }

    /// Previously, the error of the look that was to explain the request's error replaced it.
    #[test]
    fn a_link_that_exists_stays_the_error_if_the_server_cannot_be_asked_whose_it_is() {
        let dir = tempfile::tempdir().unwrap();
        let turning = dir.path().join("turning");
        std::os::unix::fs::symlink("turning", &turning).unwrap();
        let fs = Fs::real().asking_server(true);
        let file = fs.create_new(&dir.path().join("file"), 0o666).unwrap();
        let exists = || Err(io::ErrorKind::AlreadyExists.into());
        let error = fs.linking_own(&file, &turning.join("to"), exists).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::AlreadyExists);
    }

    #[test]
    fn a_hook_sees_every_change_and_can_tear_a_write() {
        #[derive(Default)]
        struct Tearing(Mutex<Vec<String>>);
        impl IoHook for Tearing {
            fn before(&self, op: Op<'_>) -> Verdict {
                self.0.lock().unwrap().push(format!("{op:?}").split('(').next().unwrap_or_default().to_owned());
                match op {
                    Op::Write(..) => Verdict::Tear(3, io::ErrorKind::StorageFull.into()),
                    Op::Remove(_) => Verdict::Fail(io::ErrorKind::PermissionDenied.into()),
                    _ => Verdict::Proceed,
                }
            }
        }
        let dir = tempfile::tempdir().unwrap();
        let hook = Arc::new(Tearing::default());
        let fs = Fs::with_hook(hook.clone());
        let path = dir.path().join("a");
        let mut file = fs.create_new(&path, 0o666).unwrap();
        let torn = file.write_all(b"abcdef").unwrap_err();
        assert_eq!(torn.source.kind(), io::ErrorKind::StorageFull);
        assert_eq!(fs.read(&path).unwrap(), b"abc");
        assert!(fs.remove_file(&path).is_err());
        assert!(path.exists());
        assert_eq!(*hook.0.lock().unwrap(), ["Create", "Write", "Remove"]);
    }
}
