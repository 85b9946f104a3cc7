//! Network file systems: what their clients cache, and how a name is looked up on the server.
//!
//! An NFS client believes a name that it has looked up, and also that a name is absent, until it sees that the folder
//! has changed, for which it asks the server once or twice a minute. Opening a file asks the server about that file
//! alone, so that a name which another machine has replaced leads to the old file as long as somebody, on any machine,
//! holds that file open, and to "stale file handle" (`ESTALE`) otherwise. Two facts tell the truth:
//!
//! - A file that was opened just now and has no name left (`st_nlink` is 0) was replaced or removed.
//! - Opening a folder asks the server for its attributes. If the folder has changed, the client looks its names up again.
//!
//! A [`Fs`] for a folder on a network file system (see [`Fs::at`]) opens every file in this way, so that a file which it
//! returns had its name, and a name which it does not find was absent, at some time since the call began.

use crate::{Fs, Result, Stat};
use rustix::{
    fd::{AsFd, OwnedFd},
    fs::{AtFlags, CWD, Mode, OFlags, StatxFlags},
    io::Errno,
};
use std::{io, os::fd::AsRawFd, path::Path};

/// How often a name is looked up anew while others keep replacing its file.
const ATTEMPTS_MAX: usize = 16;

/// How far up missing folders are looked for, which no path of a ref exceeds.
const DEPTH_MAX: usize = 64;

impl Fs {
    /// The same file system as suits the files in `folder`: on a network file system, and on any that is not known to
    /// be local, names are looked up on the server (see the [module](self)).
    ///
    /// # Errors
    ///
    /// If the folder's file system cannot be examined.
    pub fn at(&self, folder: &Path) -> Result<Self> {
        Ok(self.clone().asking_server(!self.is_local(folder)?))
    }

    /// Makes the client of a network file system look up the names in a folder again if the folder has changed. Does
    /// nothing on a local file system.
    pub fn refresh(&self, folder: &Path) {
        if self.asks_server() {
            refresh(folder, DEPTH_MAX);
        }
    }

    /// Opens something by its name. On a network file system the result had that name during the call, and an error
    /// that says it is absent is the server's.
    pub(crate) fn opening<T: AsFd, E: Into<io::Error>>(
        &self,
        path: &Path,
        mut open: impl FnMut() -> std::result::Result<T, E>,
    ) -> io::Result<T> {
        if !self.asks_server() {
            return self.hooks().opening(open);
        }
        self.asking(path, || {
            let opened = self.hooks().opening(&mut open)?;
            let stat = rustix::fs::fstat(&opened)?;
            Ok((opened, Name::of(stat.st_mode, stat.st_nlink as u64)))
        })
    }

    /// The attributes of what a path leads to. Those of a network file system are the server's.
    pub(crate) fn attributes(&self, path: &Path, flags: AtFlags) -> io::Result<Stat> {
        if !self.asks_server() {
            return Ok(Stat::of_raw(&rustix::fs::statat(CWD, path, flags)?));
        }
        self.asking(path, || {
            let raw = rustix::fs::statx(CWD, path, flags | AtFlags::STATX_FORCE_SYNC, StatxFlags::BASIC_STATS)?;
            Ok((Stat::of_statx(&raw), Name::of(raw.stx_mode.into(), raw.stx_nlink.into())))
        })
    }

    /// Repeats `look`, which looks up the name of a path, until what it finds has that name on the server.
    fn asking<T>(&self, path: &Path, mut look: impl FnMut() -> io::Result<(T, Name)>) -> io::Result<T> {
        let mut has_refreshed = false;
        let mut attempts_left = ATTEMPTS_MAX;
        loop {
            let error = match look() {
                Ok((found, Name::Own)) => return Ok(found),
                Ok((found, Name::OneOfSeveral)) if has_refreshed => return Ok(found),
                Ok((_, Name::None | Name::OneOfSeveral)) => Errno::STALE.into(),
                Err(error) => error,
            };
            if !(is_stale(&error) || is_absent(&error) && !has_refreshed) || attempts_left == 0 {
                return Err(error);
            }
            attempts_left -= 1;
            has_refreshed = true;
            if !refresh_parent(path, DEPTH_MAX) {
                return Err(Errno::NOENT.into());
            }
        }
    }

    /// Repeats what opens a file by its name and reads it, if the file is replaced while it is read.
    pub(crate) fn reading<T>(&self, path: &Path, mut read: impl FnMut() -> io::Result<T>) -> io::Result<T> {
        let mut attempts_left = if self.asks_server() { ATTEMPTS_MAX } else { 0 };
        loop {
            match read() {
                Err(error) if is_stale(&error) && attempts_left > 0 => {
                    attempts_left -= 1;
                    refresh_parent(path, DEPTH_MAX);
                }
                read => return read,
            }
        }
    }
}

/// How a file that was opened by a name is known on the server.
enum Name {
    /// It has one name, which therefore is the one by which it was opened, unless somebody has renamed it.
    Own,
    /// It has several names, so that the one by which it was opened may lead to another file by now.
    OneOfSeveral,
    /// It has been removed or replaced.
    None,
}

impl Name {
    fn of(mode: u32, links: u64) -> Self {
        let is_folder = mode & 0o170_000 == 0o040_000;
        match links {
            0 => Name::None,
            1 => Name::Own,
            // The names of a folder are its own and one in each folder that is in it.
            _ if is_folder => Name::Own,
            _ => Name::OneOfSeveral,
        }
    }
}

fn is_stale(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::StaleNetworkFileHandle
}

fn is_absent(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory)
}

/// Makes the client look up the names in the folder of `path` again. Returns whether the folder exists, as far as that
/// can be told.
fn refresh_parent(path: &Path, depth_left: usize) -> bool {
    match path.parent() {
        Some(parent) if parent.as_os_str().is_empty() => refresh(Path::new("."), depth_left),
        Some(parent) => refresh(parent, depth_left),
        None => true,
    }
}

fn refresh(folder: &Path, depth_left: usize) -> bool {
    match open_folder(folder) {
        Ok(Some(_)) => return true,
        Err(error) if !is_absent(&error) && !is_stale(&error) => return true,
        _ if depth_left == 0 => return true,
        _ => {}
    }
    // Its own name is out of date, or the client only believes that it is.
    refresh_parent(folder, depth_left - 1) && matches!(open_folder(folder), Ok(Some(_)))
}

/// Opens a folder, which asks the server for its attributes; `None` if it has been removed.
fn open_folder(folder: &Path) -> io::Result<Option<OwnedFd>> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let opened = rustix::fs::open(folder, flags, Mode::empty())?;
    let stat = rustix::fs::fstat(&opened)?;
    Ok((stat.st_nlink > 0).then_some(opened))
}

/// See [`File::server_handle`](crate::File::server_handle).
pub(crate) fn server_handle(file: &std::fs::File) -> Option<Box<[u8]>> {
    /// `struct file_handle` with room for the largest handle (`MAX_HANDLE_SZ`).
    #[repr(C)]
    struct Handle {
        len_bytes: libc::c_uint,
        kind: libc::c_int,
        bytes: [u8; 128],
    }
    let mut handle = Handle { len_bytes: 128, kind: 0, bytes: [0; 128] };
    let mut mount: libc::c_int = 0;
    // SAFETY: the descriptor is open as long as `file` is borrowed, and the empty path ends with a NUL. `Handle` begins
    // with the fields of `file_handle`, in their order and with C's layout, and behind them has the 128 bytes that its
    // first field promises, into which alone the kernel writes. `mount` is a C int of our own.
    #[expect(unsafe_code, reason = "no crate offers this call")]
    let result = unsafe {
        libc::name_to_handle_at(
            file.as_raw_fd(),
            c"".as_ptr(),
            (&raw mut handle).cast(),
            &raw mut mount,
            libc::AT_EMPTY_PATH,
        )
    };
    if result != 0 {
        return None;
    }
    let bytes = handle.bytes.get(..handle.len_bytes as usize)?;
    Some([&handle.kind.to_ne_bytes(), bytes].concat().into())
}
