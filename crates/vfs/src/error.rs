use crate::planted;
use std::{
    io,
    path::{Path, PathBuf},
};

/// An operation on a file failed: which operation, on which path, and why.
#[derive(Debug, thiserror::Error)]
#[error("cannot {operation} '{}': {source}{}", path.display(), remedy(source))]
pub struct Error {
    /// The operation, in words that fit between "cannot" and the path: "open", "rename a file to".
    pub operation: &'static str,
    /// The path to which the operation was applied.
    pub path: PathBuf,
    /// Why it failed. This is nearly always an error of the operating system.
    pub source: io::Error,
}

/// The result of a file operation.
pub type Result<T> = std::result::Result<T, Error>;

/// Returns advice about an error that the system's message does not explain, or an empty text.
fn remedy(source: &io::Error) -> &'static str {
    match source.kind() {
        io::ErrorKind::StaleNetworkFileHandle => {
            "; another machine replaced or removed the file on the file server meanwhile: try again"
        }
        _ => "",
    }
}

impl Error {
    pub(crate) fn new(operation: &'static str, path: &Path, source: impl Into<io::Error>) -> Self {
        Error { operation, path: path.to_owned(), source: source.into() }
    }

    /// Creates the error for an operation that the system, or this file system, does not support.
    pub fn unsupported(operation: &'static str, path: &Path) -> Self {
        Error::new(operation, path, io::ErrorKind::Unsupported)
    }

    /// Creates the error for a file that was replaced on a network file system while it was being read.
    pub fn stale(operation: &'static str, path: &Path) -> Self {
        Error::new(operation, path, io::ErrorKind::StaleNetworkFileHandle)
    }

    /// Returns whether a wait ended because a signal was caught that asks the process to end.
    pub fn is_signal(&self) -> bool {
        // An error of the system has a number.
        self.source.kind() == io::ErrorKind::Interrupted && self.source.raw_os_error().is_none()
    }

    /// Returns whether the path, or a folder on the way to it, does not exist. Something else in the place of a folder
    /// counts as a missing folder.
    pub fn is_not_found(&self) -> bool {
        // A plain file where a folder was expected (ENOTDIR) means the same to every caller.
        matches!(self.source.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory)
    }

    /// Returns whether the path is longer than the system allows, or a name in it longer than the file system allows.
    pub fn is_too_long(&self) -> bool {
        self.source.raw_os_error() == Some(rustix::io::Errno::NAMETOOLONG.raw_os_error())
    }

    /// Returns whether there was too little room: the disk or the user's quota is full, or the file may not grow so
    /// far.
    pub fn is_want_of_room(&self) -> bool {
        matches!(
            self.source.kind(),
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded | io::ErrorKind::FileTooLarge
        )
    }

    /// Returns whether the path is a symbolic link where none was to be followed, or leads through too many links.
    pub fn is_symlink(&self) -> bool {
        self.source.raw_os_error() == Some(rustix::io::Errno::LOOP.raw_os_error())
    }

    /// Returns whether the path is not a file that can be read from any offset, but a pipe, a socket or a device.
    pub fn is_special(&self) -> bool {
        let errnos = [rustix::io::Errno::SPIPE, rustix::io::Errno::NXIO].map(rustix::io::Errno::raw_os_error);
        self.source.raw_os_error().is_some_and(|errno| errnos.contains(&errno))
    }

    /// Returns whether the operation is not permitted, for example by the permissions of the file or of a folder on the
    /// way to it.
    pub fn is_forbidden(&self) -> bool {
        self.source.kind() == io::ErrorKind::PermissionDenied
    }

    /// Returns whether the system, or this file system, does not support the operation. An invalid argument, which many
    /// file systems report instead, counts, too.
    pub fn is_unsupported(&self) -> bool {
        matches!(self.source.kind(), io::ErrorKind::Unsupported | io::ErrorKind::InvalidInput)
    }

    /// Returns whether something of that name exists already.
    pub fn is_exists(&self) -> bool {
        self.source.kind() == io::ErrorKind::AlreadyExists
    }

    /// Returns whether the path is a folder where a file was expected.
    pub fn is_folder(&self) -> bool {
        self.source.kind() == io::ErrorKind::IsADirectory
    }

    /// Returns whether the system reported an error after which the same operation may well succeed a little later: the
    /// process or the machine has too many open files or too little memory, a disk or the network failed, or another
    /// machine replaced or removed the file.
    pub fn is_transient(&self) -> bool {
        use rustix::io::Errno;
        const TRANSIENT: [Errno; 5] = [Errno::MFILE, Errno::NFILE, Errno::NOMEM, Errno::IO, Errno::TIMEDOUT];
        self.source.kind() == io::ErrorKind::StaleNetworkFileHandle
            || Errno::from_io_error(&self.source).is_some_and(|errno| TRANSIENT.contains(&errno))
    }

    /// Returns whether the server of a network file system no longer has the file or folder (`ESTALE`): open it again.
    pub fn is_stale(&self) -> bool {
        is_stale(&self.source)
    }
}

/// Repeats a read if the server of a network file system has lost a file that was read, up to `attempts_max` reads in
/// all, but reads once at least. `is_loss` recognizes such an error; see [`Error::is_stale`].
///
/// # Errors
///
/// Returns the error of the last read.
pub fn again_if_lost<T, E>(
    attempts_max: usize,
    is_loss: impl Fn(&E) -> bool,
    mut read: impl FnMut() -> std::result::Result<T, E>,
) -> std::result::Result<T, E> {
    for _ in 1..attempts_max {
        match read() {
            Err(error) if is_loss(&error) => {}
            read => return read,
        }
    }
    read()
}

pub(crate) fn is_stale(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::StaleNetworkFileHandle && !planted("vfs-no-retry")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lost_file_is_transient_whether_the_system_says_so_or_this_crate() {
        let path = Path::new("ref");
        assert!(Error::stale("read", path).is_transient());
        assert!(Error::new("read", path, rustix::io::Errno::STALE).is_transient());
        assert!(!Error::unsupported("read", path).is_transient());
    }
}
