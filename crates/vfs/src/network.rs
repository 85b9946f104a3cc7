//! Network file systems: what their clients cache, and how a name is looked up on the server.
//!
//! An NFS client believes a name that it has looked up, and also that a name is absent, until it sees that the folder
//! has changed, for which it asks the server once or twice a minute. Opening a file asks the server about that file
//! alone. A name that another machine has replaced therefore leads to the old file as long as somebody, on any machine,
//! holds that file open, and to "stale file handle" (`ESTALE`) otherwise. The number of the old file's names
//! (`st_nlink`) does not show that it was replaced either: if a program on the other machine had the file open, that
//! machine gave it a hidden name (`.nfs...`).
//!
//! Opening a folder, however, asks the server for its attributes, and if the folder has changed, the client looks its
//! names up again. A [`Fs`] for a folder on a network file system (see [`Fs::at`]) opens the folder of a file before it
//! opens the file to read it or to write to it, or examines the file. So a file that it returns had its name, and a
//! name that it does not find was absent, at some time since the call began, or since the
//! [`AskingOnce`](crate::AskingOnce) of the thread was created. In NFS 3, where only time stamps and no counter show
//! that a folder has changed, this holds only as far as the server's time stamps differ.

use crate::{
    Error, File, Fs, LookUp, Result, ServerHandle, Stat, again_if_lost, asked, error::is_stale, kind, path, planted,
};
use rustix::{
    fd::{AsFd, BorrowedFd, OwnedFd},
    fs::{AtFlags, CWD, Mode, OFlags, StatFs, StatxFlags},
    io::Errno,
};
use std::{io, path::Path, time::Duration};

/// How often a name is looked up anew while others keep replacing its file.
const ATTEMPTS_MAX: usize = 16;

/// How many levels above a path are searched for a folder that exists. The folder above them is taken to exist.
const DEPTH_MAX: usize = 64;

impl Fs {
    /// Makes the server of a network file system take the bytes that were written to a file, and reports its errors,
    /// such as that it has no room. On other file systems, this does nothing.
    ///
    /// A client keeps written bytes to itself until the file is synced or closed. A caller that does not sync a file
    /// calls this before it renames the file or counts the bytes as written. On NFS it costs the server no more than
    /// close(2), which would send the same bytes, but whose error would come too late. On a file system of another kind
    /// that is not known to be local, it can cost a sync of the disk.
    pub fn deliver(&self, file: &File) -> Result<()> {
        if self.asks_server() { file.sync_data() } else { Ok(()) }
    }

    /// Returns this file system with the settings that the files in `folder` need. On a network file system, and on any
    /// that is not known to be local, the server is asked about the folder of a file before the file is opened to read
    /// it or to write to it, or is examined, so that an open file had its name, and an absent name was absent, at some
    /// time since the call began, or as [`AskingOnce`](crate::AskingOnce) says while one lives. Other methods, such as
    /// [`find_link_content`](Self::find_link_content), do without that.
    ///
    /// # Errors
    ///
    /// Fails if the folder's file system cannot be examined.
    pub fn at(&self, folder: &Path) -> Result<Self> {
        let fs = self.clone().on(&self.kind_of(folder)?);
        Ok(if fs.asks_server() && fs.signs_locks() { fs.with_spares(folder) } else { fs })
    }

    /// Returns, without opening it, what a name leads to on a network file system: its attributes, and the handle by
    /// which the server identifies it. `None` if there is nothing. If the client provides the handle, the attributes
    /// may be those that it has cached; otherwise they come from the server.
    ///
    /// # Errors
    ///
    /// Fails if the name cannot be looked up.
    pub fn identify(&self, path: &Path) -> Result<Option<(Stat, Option<ServerHandle>)>> {
        let look = || {
            let path = self.hooks().look_up(path, LookUp::Attributes)?;
            let flags = OFlags::PATH | OFlags::CLOEXEC;
            let opened = self.hooks().opening(|| rustix::fs::open(&*path, flags, Mode::empty()))?;
            let handle = ServerHandle::of(&opened);
            let flags =
                if handle.is_some() { AtFlags::EMPTY_PATH } else { AtFlags::EMPTY_PATH | AtFlags::STATX_FORCE_SYNC };
            let raw = rustix::fs::statx(&opened, c"", flags, StatxFlags::BASIC_STATS)?;
            Ok(((Stat::of_statx(&raw), handle), Name::of(raw.stx_nlink.into(), || rustix::fs::fstatfs(&opened))))
        };
        match self.asking(path, true, look) {
            Ok(found) => Ok(Some(found)),
            Err(error) if is_absent(&error) => Ok(None),
            Err(error) => Err(Error::new("identify", path, error)),
        }
    }

    /// Returns whether a name that was found absent may soon lead to a file again: its lock exists, so that another
    /// machine may be replacing the file. If a program of that machine has the old file open, the machine renames the
    /// old file before it renames the new one, so that for a moment the server has no file of that name.
    ///
    /// Pauses for 2 ms before it returns true. On a local file system the result is always false.
    pub fn is_being_replaced(&self, path: &Path) -> bool {
        let look =
            || -> io::Result<_> { Ok(rustix::fs::lstat(&*self.hooks().look_up(&path::lock_of(path), LookUp::Name)?)?) };
        let is_locked = self.asks_server() && look().is_ok();
        if is_locked {
            asked::forget();
            std::thread::sleep(Duration::from_millis(2));
        }
        is_locked
    }

    /// Opens something by its name. On a network file system the result is as new as [`Fs::at`] says. Fails with
    /// `ESTALE` if others keep replacing the file.
    pub(crate) fn opening<T: AsFd, E: Into<io::Error>>(
        &self,
        path: &Path,
        open: impl FnMut() -> std::result::Result<T, E>,
    ) -> io::Result<T> {
        self.opening_as(path, true, open)
    }

    /// As [`opening`](Self::opening), for a folder, about which the server is asked when it is opened.
    pub(crate) fn opening_folder<T: AsFd, E: Into<io::Error>>(
        &self,
        path: &Path,
        open: impl FnMut() -> std::result::Result<T, E>,
    ) -> io::Result<T> {
        self.opening_as(path, false, open)
    }

    fn opening_as<T: AsFd, E: Into<io::Error>>(
        &self,
        path: &Path,
        refresh_first: bool,
        mut open: impl FnMut() -> std::result::Result<T, E>,
    ) -> io::Result<T> {
        if !self.asks_server() {
            return self.hooks().opening(open);
        }
        self.asking(path, refresh_first, || {
            let opened = self.hooks().opening(&mut open)?;
            let name = Name::of_open(&opened)?;
            Ok((opened, name))
        })
    }

    /// Returns the attributes of what a path leads to. On a network file system they come from the server.
    pub(crate) fn attributes(&self, path: &Path, flags: AtFlags) -> io::Result<Stat> {
        if !self.asks_server() {
            return Ok(Stat::of_raw(&rustix::fs::statat(CWD, path, flags)?));
        }
        self.asking(path, true, || {
            let found = self.hooks().look_up(path, LookUp::Attributes)?;
            let raw = rustix::fs::statx(CWD, &*found, flags | AtFlags::STATX_FORCE_SYNC, StatxFlags::BASIC_STATS)?;
            let stat = Stat::of_statx(&raw);
            if stat.is_dir() {
                asked::note(path);
            }
            Ok((stat, Name::of(raw.stx_nlink.into(), || rustix::fs::statfs(path))))
        })
    }

    /// Returns whether a path is a folder itself, not a link to one. On a network file system, the server is asked
    /// about the parent folder, but need not be asked for the attributes of the path, because a file never changes its
    /// kind.
    ///
    /// # Errors
    ///
    /// Fails if the path cannot be looked up. A path that does not exist is no folder, which is not an error.
    pub fn is_folder_itself(&self, path: &Path) -> Result<bool> {
        if !self.asks_server() {
            return Ok(self.find_link(path)?.is_some_and(|stat| stat.is_dir()));
        }
        let look = || {
            let found = self.hooks().look_up(path, LookUp::Name)?;
            let raw = rustix::fs::statat(CWD, &*found, AtFlags::SYMLINK_NOFOLLOW)?;
            Ok((Stat::of_raw(&raw).is_dir(), Name::of(raw.st_nlink as u64, || rustix::fs::statfs(path))))
        };
        match self.asking(path, true, look) {
            Err(error) if is_absent(&error) => Ok(false),
            found => found.map_err(|error| Error::new("stat", path, error)),
        }
    }

    /// Returns the length of a file in bytes, which on a network file system may be one that the client has cached; 0
    /// if the file or a folder on the way to it does not exist.
    ///
    /// # Errors
    ///
    /// Fails if the path cannot be looked up, for example because a file is in the place of a folder.
    pub fn probable_len(&self, path: &Path) -> Result<u64> {
        match rustix::fs::stat(path) {
            Ok(stat) => Ok(Stat::of_raw(&stat).len_bytes),
            Err(Errno::NOENT | Errno::STALE) => Ok(0),
            Err(error) => Err(Error::new("stat", path, error)),
        }
    }

    /// Repeats `look`, which looks up the name of a path, at most [`ATTEMPTS_MAX`] times, while it fails with `ESTALE`
    /// or finds a file without a name on the server, or the client may be wrong in taking the file for absent.
    fn asking<T>(
        &self,
        path: &Path,
        refresh_first: bool,
        mut look: impl FnMut() -> io::Result<(T, Name)>,
    ) -> io::Result<T> {
        let mut has_refreshed = false;
        let mut attempts_left = ATTEMPTS_MAX;
        loop {
            if refresh_first || has_refreshed {
                if !self.refresh_parent(path, DEPTH_MAX) {
                    return Err(Errno::NOENT.into());
                }
                has_refreshed = true;
            }
            let error = match look() {
                Ok((found, Name::Some)) => return Ok(found),
                Ok((_, Name::None)) => Errno::STALE.into(),
                Err(error) => error,
            };
            let is_in_doubt = is_stale(&error) || is_absent(&error) && !has_refreshed;
            if !is_in_doubt || attempts_left == 0 {
                return Err(error);
            }
            attempts_left -= 1;
            has_refreshed = true;
            asked::forget();
        }
    }

    /// Sends a request that gives the file `from`, looked up in `folder`, the name `to`. If the reply of a server is
    /// lost, the client sends the request again, and the server answers that `to` exists already or that `from` no
    /// longer does. After an error, `to` is therefore looked up: the request has succeeded if `to` leads to the file
    /// and, if the error is that `to` exists, the file has more names than before.
    pub(crate) fn sending_once(
        &self,
        folder: BorrowedFd<'_>,
        from: &Path,
        to: &Path,
        mut send: impl FnMut() -> io::Result<()>,
    ) -> io::Result<()> {
        if !self.asks_server() {
            return send();
        }
        let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let file = self.hooks().opening(|| rustix::fs::openat(folder, from, flags, Mode::empty()))?;
        // Only this process changes the file, so the client knows its attributes without a request.
        let (own, links) = identity(&file, AtFlags::empty())?;
        self.hooks().sent(send).or_else(|error| {
            // `to` may have been a name of this file before.
            let is_new = |now_links| error.kind() != io::ErrorKind::AlreadyExists || now_links > links;
            match self.identity_of(to) {
                Ok((now, now_links)) if now == own && is_new(now_links) => Ok(()),
                _ => Err(error),
            }
        })
    }

    /// Returns whether a name leads to an open file, by the server's answer.
    pub(crate) fn leads_to(&self, path: &Path, file: &File) -> io::Result<bool> {
        let own = identity(file.as_std(), AtFlags::empty())?.0;
        match self.identity_of(path) {
            Ok((found, _)) => Ok(found == own),
            Err(error) if is_absent(&error) => Ok(false),
            Err(error) => Err(error),
        }
    }

    fn identity_of(&self, path: &Path) -> io::Result<(Identity, u32)> {
        self.asking(path, true, || {
            let found = self.hooks().look_up(path, LookUp::Attributes)?;
            let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
            let file = self.hooks().opening(|| rustix::fs::open(&*found, flags, Mode::empty()))?;
            Ok((identity(&file, AtFlags::STATX_FORCE_SYNC)?, Name::Some))
        })
    }

    /// Calls `read`, which opens a file by its name and reads it, again if the server lost the file while it was read.
    pub(crate) fn reading<T>(&self, path: &Path, read: impl FnMut() -> io::Result<T>) -> io::Result<T> {
        self.again_if_stale(|| self.look_again(path), is_stale, read)
    }

    /// Calls `change`, which changes a name, again if the client took a folder that another machine has removed for the
    /// one to which the path leads. Nothing was changed then.
    pub(crate) fn changing<T>(&self, path: &Path, change: impl FnMut() -> Result<T>) -> Result<T> {
        self.again_if_stale(|| self.look_again(path), Error::is_stale, change)
    }

    /// Makes the client look up the names in the folder of `path` again, even if this thread has asked about the folder
    /// already. Always returns true.
    pub(crate) fn look_again(&self, path: &Path) -> bool {
        asked::forget();
        self.refresh_parent(path, DEPTH_MAX);
        true
    }

    /// Repeats `attempt` while the client takes a file or folder that another machine has removed for the present one,
    /// up to [`ATTEMPTS_MAX`] times. `look_again` is called before each repetition, makes the client look up the names
    /// again, and returns whether the repetition can succeed.
    pub(crate) fn again_if_stale<T, E>(
        &self,
        look_again: impl Fn() -> bool,
        is_stale: impl Fn(&E) -> bool,
        attempt: impl FnMut() -> std::result::Result<T, E>,
    ) -> std::result::Result<T, E> {
        again_if_lost(ATTEMPTS_MAX + 1, |error| self.asks_server() && is_stale(error) && look_again(), attempt)
    }
}

/// Whether a file that was opened by a name has any name left on the server.
enum Name {
    Some,
    None,
}

impl Name {
    /// Returns [`Name::None`] if the file has no link left on NFS. Other file systems are not known to report the
    /// number of links. `kind` returns the file system of the file.
    fn of(links: u64, kind: impl FnOnce() -> rustix::io::Result<StatFs>) -> Self {
        let is_gone = links == 0 && kind().is_ok_and(|kind| kind::is_nfs(&kind));
        if is_gone { Name::None } else { Name::Some }
    }

    fn of_open(opened: &impl AsFd) -> io::Result<Self> {
        let links = rustix::fs::fstat(opened)?.st_nlink as u64;
        Ok(Name::of(links, || rustix::fs::fstatfs(opened)))
    }
}

/// Device, inode and, if the client provides it, the server's handle.
type Identity = (u64, u64, Option<ServerHandle>);

/// Returns what identifies a file, and the number of its names.
fn identity(file: &impl AsFd, flags: AtFlags) -> io::Result<(Identity, u32)> {
    let stat = rustix::fs::statx(file, c"", flags | AtFlags::EMPTY_PATH, StatxFlags::BASIC_STATS)?;
    let device = rustix::fs::makedev(stat.stx_dev_major, stat.stx_dev_minor);
    Ok(((device, stat.stx_ino, ServerHandle::of(file)), stat.stx_nlink))
}

/// Asks the server for the number of names of an open file.
pub(crate) fn links(file: &File) -> io::Result<u32> {
    Ok(identity(file.as_std(), AtFlags::STATX_FORCE_SYNC)?.1)
}

fn is_absent(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory)
}

impl Fs {
    /// Asks the server about the folder of `path`, unless this thread need not ask again, so that the client looks its
    /// names up again if the folder has changed. Returns whether the folder exists, or true if that cannot be
    /// determined.
    fn refresh_parent(&self, path: &Path, depth_left: usize) -> bool {
        if planted("vfs-refresh") {
            return true;
        }
        match path.parent() {
            Some(parent) if parent.as_os_str().is_empty() => self.refresh(Path::new("."), depth_left),
            Some(parent) => self.refresh(parent, depth_left),
            None => true,
        }
    }

    fn refresh(&self, folder: &Path, depth_left: usize) -> bool {
        if asked::was_asked(folder) {
            return true;
        }
        match self.ask_about(folder) {
            Ok(Some(_)) => {
                asked::note(folder);
                return true;
            }
            Err(error) if !is_absent(&error) && !is_stale(&error) => return true,
            _ if depth_left == 0 || planted("vfs-parents") => return true,
            _ => {}
        }
        // The folder's own name no longer leads to it, or the client only believes so.
        self.refresh_parent(folder, depth_left - 1) && matches!(self.ask_about(folder), Ok(Some(_)))
    }

    /// Opens a folder, which asks the server for its attributes; `None` if it has been removed.
    fn ask_about(&self, folder: &Path) -> io::Result<Option<OwnedFd>> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let found = self.hooks().look_up(folder, LookUp::Folder)?;
        let opened = self.hooks().opening(|| rustix::fs::open(&*found, flags, Mode::empty()))?;
        Ok(matches!(Name::of_open(&opened)?, Name::Some).then_some(opened))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{IoHook, Lock, LockTimeout, Op, Verdict};
    use std::{
        cell::Cell,
        sync::{
            Arc,
            atomic::{AtomicUsize, Ordering::SeqCst},
        },
    };

    fn network() -> Fs {
        Fs::real().asking_server(true)
    }

    /// Previously, the file was looked for where the link leads.
    #[test]
    fn a_link_that_leads_nowhere_is_renamed() {
        let dir = tempfile::tempdir().unwrap();
        let [from, to] = ["from", "to"].map(|name| dir.path().join(name));
        std::os::unix::fs::symlink("nowhere", &from).unwrap();
        network().rename(&from, &to).unwrap();
        assert_eq!(std::fs::read_link(&to).unwrap(), Path::new("nowhere"));
    }

    #[test]
    fn a_request_whose_reply_was_lost_has_succeeded_if_its_name_leads_to_the_file() {
        let dir = tempfile::tempdir().unwrap();
        let (from, to) = (dir.path().join("from"), dir.path().join("to"));
        std::fs::write(&from, "new").unwrap();
        let answer = |errno: Errno| Err(io::Error::from(errno));
        // The request was sent again after it had been carried out: the link exists, and the file is gone.
        network().sending_once(CWD, &from, &to, || std::fs::hard_link(&from, &to).and(answer(Errno::EXIST))).unwrap();
        std::fs::remove_file(&to).unwrap();
        network().sending_once(CWD, &from, &to, || std::fs::rename(&from, &to).and(answer(Errno::NOENT))).unwrap();
        // The answers are the same for requests that were not carried out.
        std::fs::write(&from, "newer").unwrap();
        assert!(network().sending_once(CWD, &from, &to, || answer(Errno::EXIST)).is_err());
        assert!(network().sending_once(CWD, &from, &to, || answer(Errno::NOENT)).is_err());
        std::fs::hard_link(&from, dir.path().join("already")).unwrap();
        let again = || std::fs::hard_link(&from, dir.path().join("already"));
        assert!(network().sending_once(CWD, &from, &dir.path().join("already"), again).is_err());
        // On a local file system an error means what it says.
        let renamed = || std::fs::rename(&from, &to).and(answer(Errno::NOENT));
        assert!(Fs::real().sending_once(CWD, &from, &to, renamed).is_err());
    }

    #[test]
    fn a_stale_handle_is_answered_by_another_look_and_not_for_ever() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("file");
        let looks = Cell::new(0);
        let look = |stale: usize| {
            looks.set(looks.get() + 1);
            if looks.get() <= stale { Err(Errno::STALE.into()) } else { Ok(((), Name::Some)) }
        };
        network().asking(&path, true, || look(3)).unwrap();
        assert_eq!(looks.replace(0), 4);
        let error = network().asking(&path, true, || look(usize::MAX)).unwrap_err();
        assert!(is_stale(&error), "{error}");
        assert_eq!(looks.get(), 1 + ATTEMPTS_MAX);
        // A file that has lost its name counts as replaced.
        let names = Cell::new(0);
        let gone = || {
            names.set(names.get() + 1);
            Ok(((), if names.get() == 1 { Name::None } else { Name::Some }))
        };
        network().asking(&path, true, gone).unwrap();
        assert_eq!(names.get(), 2);
    }

    /// Fails as many changes as the number says with ESTALE, like an NFS client that still takes a removed folder for
    /// the one that now has its name.
    #[derive(Debug)]
    struct OldFolder(AtomicUsize);

    impl IoHook for OldFolder {
        fn before(&self, _op: Op<'_>) -> Verdict {
            match self.0.fetch_update(SeqCst, SeqCst, |left| left.checked_sub(1)) {
                Ok(_) => Verdict::Fail(Errno::STALE.into()),
                Err(_) => Verdict::Proceed,
            }
        }
    }

    #[test]
    fn a_change_in_a_folder_that_another_machine_has_replaced_is_tried_again() {
        let dir = tempfile::tempdir().unwrap();
        let path = |name: &str| dir.path().join(name);
        let old = Arc::new(OldFolder(AtomicUsize::new(0)));
        let fs = Fs::with_hook(Arc::<OldFolder>::clone(&old) as Arc<dyn IoHook>).asking_server(true);
        let stale = |count: usize| old.0.store(count, SeqCst);
        stale(3);
        let file = fs.create_new(&path("new"), 0o666).unwrap();
        stale(3);
        fs.link_own(&file, &path("new"), &path("lock")).unwrap();
        stale(3);
        fs.hard_link(&path("new"), &path("other")).unwrap();
        stale(3);
        fs.rename(&path("lock"), &path("ref")).unwrap();
        stale(3);
        fs.remove_file(&path("other")).unwrap();
        stale(3);
        fs.create_dir(&path("folder"), 0o777).unwrap();
        stale(3);
        fs.append(&path("folder/log"), 0o666).unwrap();
        fs.remove_file(&path("folder/log")).unwrap();
        stale(3);
        fs.remove_dir(&path("folder")).unwrap();
        stale(3);
        Lock::acquire(&fs, &path("HEAD"), 0o666, LockTimeout::None).unwrap().release().unwrap();
        stale(usize::MAX);
        assert!(fs.create_new(&path("never"), 0o666).unwrap_err().is_stale(), "but not for ever");
        assert_eq!(usize::MAX - old.0.load(SeqCst), 1 + ATTEMPTS_MAX);
    }

    #[test]
    fn a_folder_is_asked_about_before_a_name_in_it() {
        let dir = tempfile::tempdir().unwrap();
        let looks = Cell::new(0);
        let look = || {
            looks.set(looks.get() + 1);
            Ok(((), Name::Some))
        };
        network().asking(&dir.path().join("file"), true, look).unwrap();
        let missing = network().asking(&dir.path().join("a/b/file"), true, look);
        let is_missing = missing.is_err_and(|error| is_absent(&error));
        assert!(is_missing && looks.get() == 1, "a name is looked for only in a folder that exists");
    }

    #[test]
    fn files_are_found_as_on_a_local_file_system() {
        let dir = tempfile::tempdir().unwrap();
        let (fs, path) = (network(), dir.path().join("a/b/file"));
        for _ in 0..2 {
            assert!(fs.open(&path).unwrap_err().is_not_found());
            assert_eq!(fs.find(&path).unwrap(), None);
            assert_eq!(fs.identify(&path).unwrap(), None);
            assert!(fs.read(&path).unwrap_err().is_not_found());
        }
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, "content").unwrap();
        assert_eq!(fs.read(&path).unwrap(), b"content");
        assert_eq!(fs.find(&path).unwrap(), Fs::real().find(&path).unwrap());
        let (stat, handle) = fs.identify(&path).unwrap().unwrap();
        assert_eq!(stat, fs.stat(&path).unwrap());
        assert_eq!(fs.open(&path).unwrap().server_handle(), handle);
        // A file that replaces the first has another handle, even if it looks the same.
        let other = dir.path().join("other");
        std::fs::write(&other, "content").unwrap();
        std::fs::rename(&other, &path).unwrap();
        assert!(handle.is_none() || fs.identify(&path).unwrap().unwrap().1 != handle);
    }
}
