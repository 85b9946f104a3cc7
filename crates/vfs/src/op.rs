use std::{
    io,
    path::{Path, PathBuf},
    time::SystemTime,
};

/// An operation that changes the disk, as it is shown to an [`IoHook`].
#[derive(Clone, Copy, Debug)]
pub enum Op<'a> {
    /// A new file is created, which is empty, except that a signed lock file may have its content already. This fails
    /// if the name exists, unless the file is opened for appending.
    Create(&'a Path),
    /// These bytes are appended to the file.
    Write(&'a Path, &'a [u8]),
    /// These bytes replace those at the offset, which is within the file or at its end.
    Overwrite(&'a Path, u64, &'a [u8]),
    /// `len` bytes of `from`, starting at `offset`, are appended to `to`.
    Copy {
        /// The file from which the bytes are copied.
        from: &'a Path,
        /// Offset in `from`.
        offset: u64,
        /// Number of bytes to copy.
        len: u64,
        /// The file that grows.
        to: &'a Path,
    },
    /// The file's content goes to stable storage.
    Sync(&'a Path),
    /// The folder's entries go to stable storage.
    SyncDir(&'a Path),
    /// The first path is renamed to the second. This replaces what was there, unless it is done by
    /// [`Fs::rename_new`](crate::Fs::rename_new) on a file system that can refuse to replace anything.
    Rename(&'a Path, &'a Path),
    /// What is at the two paths is exchanged.
    Exchange(&'a Path, &'a Path),
    /// Everything on the file system of this folder goes to stable storage.
    SyncAll(&'a Path),
    /// The second path becomes another name of the file at the first; fails if the second exists.
    Link(&'a Path, &'a Path),
    /// The first path becomes a symbolic link whose content is the second.
    Symlink(&'a Path, &'a Path),
    /// A file's name is removed.
    Remove(&'a Path),
    /// A folder is created.
    MakeDir(&'a Path),
    /// An empty folder is removed.
    RemoveDir(&'a Path),
    /// The file gets these permission bits.
    SetMode(&'a Path, u32),
    /// The file gets this time of its last modification.
    SetModified(&'a Path, SystemTime),
}

/// What an [`IoHook`] decides.
#[derive(Debug)]
pub enum Verdict {
    /// The operation is done.
    Proceed,
    /// The operation is not done, and fails with this error.
    Fail(io::Error),
    /// Only this number of bytes of a write or copy are written, and then it fails with this error. Any other operation
    /// is not done.
    Tear(u64, io::Error),
}

/// How a name is looked up.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum LookUp {
    /// By what the client has cached.
    Name,
    /// By what the client has cached. The server may then be asked for the attributes of what was found.
    Attributes,
    /// To open a folder, for which the server is asked whether it has changed.
    Folder,
}

/// A hook that is called before operations that visibly change the disk. It can be an observer, a fault injector, or a
/// model of a client of a network file system.
///
/// It is not called when a process removes its own spare lock files on a network file system, or its locks at an abort.
/// A signed lock file that is written before it has a name is shown to it without its content, except that the content
/// of a batch's lock file is shown after the file has got its name.
pub trait IoHook: Send + Sync {
    /// Decides whether the operation is done.
    fn before(&self, op: Op<'_>) -> Verdict;

    /// Returns the path at which a client finds what it believes to be at `path`; `None` for `path` itself.
    ///
    /// # Errors
    ///
    /// Returns the error with which the look-up fails, such as `ENOENT` for a name that the client believes to be
    /// absent.
    fn look_up(&self, path: &Path, how: LookUp) -> io::Result<Option<PathBuf>> {
        let _ = (path, how);
        Ok(None)
    }

    /// Returns whether the server's reply to the request that has just been carried out is lost, so that the client
    /// sends the request again and gets the answer to the second one.
    fn loses_reply(&self) -> bool {
        false
    }

    /// Returns whether all files are to be treated as on a network file system.
    fn is_network(&self) -> bool {
        false
    }
}
