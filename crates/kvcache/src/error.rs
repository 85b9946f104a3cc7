use std::path::PathBuf;

/// Why a cache could not be opened or an operation on it failed. A miss is not an error.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// An operation on a file failed.
    #[error(transparent)]
    File(#[from] refdb_vfs::Error),
    /// Another process, or another handle of this one, writes to this cache.
    #[error(
        "the cache '{}' is in use by another process; stop it, or open the cache for reading only", path.display()
    )]
    Locked {
        /// The lock file.
        path: PathBuf,
    },
    /// The folder holds a cache that a newer program wrote.
    #[error(
        "'{}' has cache format {found}, this program knows {known}; use the newer program, or remove the folder to \
         start with an empty cache", path.display()
    )]
    Version {
        /// The file that says so.
        path: PathBuf,
        /// What it says.
        found: u32,
        /// What this program writes.
        known: u32,
    },
    /// The folder holds a cache that an older program wrote: a program that may write starts it empty.
    #[error("'{}' has the older cache format {found}, this program writes {known}: the cache starts empty", path.display())]
    OldVersion {
        /// The file that says so.
        path: PathBuf,
        /// What it says.
        found: u32,
        /// What this program writes.
        known: u32,
    },
    /// The bytes of a file are not what its format asks for.
    #[error("'{}', offset {offset}: {what}", path.display())]
    Corrupt {
        /// The file.
        path: PathBuf,
        /// Where in it, in bytes.
        offset: u64,
        /// What was expected and found.
        what: String,
    },
    /// The cache is encrypted, and none of the keys given opens it.
    #[error("none of the given keys opens the encrypted cache '{}'; give its key, or remove the folder", path.display())]
    WrongKey {
        /// The file that holds the wrapped key.
        path: PathBuf,
    },
    /// The entry is larger than any this cache takes.
    #[error("an entry of {len} bytes is larger than the {max} bytes this cache takes; raise its limit")]
    TooLarge {
        /// Length of key and value.
        len: usize,
        /// The largest length.
        max: usize,
    },
    /// The cache was opened for reading only.
    #[error("the cache was opened for reading only")]
    ReadOnly,
    /// The cache was closed.
    #[error("the cache is closed")]
    Closed,
    /// A writing operation waited for the disk and the disk failed; the operation is in memory only.
    #[error("the cache cannot write to its disk: {0}")]
    Disk(String),
    /// The limit is too small to hold anything, or a name or key is not usable.
    #[error("{0}")]
    Misuse(String),
}

/// What operations on a cache return.
pub type Result<T, E = Error> = std::result::Result<T, E>;
