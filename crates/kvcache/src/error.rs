use std::{io, path::PathBuf};

/// Why a cache could not be opened or an operation on it failed. A miss is not an error.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// An operation on a file failed.
    #[error(transparent)]
    File(#[from] refdb_vfs::Error),
    /// Another process, or another handle of this one, has this cache open for writing or is deleting it.
    #[error(
        "the cache '{}' is in use by another process or by another part of this one; stop that, or open the cache for \
         reading only", path.display()
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
        /// The file with the version.
        path: PathBuf,
        /// The version in the file.
        found: u32,
        /// The version that this program writes.
        known: u32,
    },
    /// The folder holds a cache that an older program wrote. A program that opens it for writing starts with an empty
    /// cache.
    #[error(
        "'{}' has the older cache format {found}, this program writes {known}: opened for writing, it starts empty",
        path.display()
    )]
    OldVersion {
        /// The file with the version.
        path: PathBuf,
        /// The version in the file.
        found: u32,
        /// The version that this program writes.
        known: u32,
    },
    /// The bytes of a file or of the stream of an import do not follow the format, or the stream cannot be read.
    #[error("'{}', offset {offset}: {what}", path.display())]
    Corrupt {
        /// The file, or `the export` for the stream of an import.
        path: PathBuf,
        /// Offset in the file or stream, in bytes.
        offset: u64,
        /// What is wrong.
        what: String,
    },
    /// The cache is encrypted and none of the given keys opens it, or a key was given although the cache is not
    /// encrypted.
    #[error(
        "none of the given keys opens the cache '{}', or it is not encrypted and takes no key; give its key or none, \
         or remove the folder", path.display()
    )]
    WrongKey {
        /// The cache's `format` file.
        path: PathBuf,
    },
    /// Key and value are longer than this cache takes.
    #[error(
        "an entry of {len} bytes is larger than the {max} bytes this cache takes; a higher limit allows larger ones, \
         up to 256 MiB"
    )]
    TooLarge {
        /// Length of key and value, in bytes.
        len: usize,
        /// The largest length, in bytes.
        max: usize,
    },
    /// The cache was opened for reading only.
    #[error("the cache was opened for reading only")]
    ReadOnly,
    /// The cache was closed.
    #[error("the cache is closed")]
    Closed,
    /// A change waited for the disk in vain. The method that returns this error says what has changed in memory.
    #[error("the cache cannot write to its disk: {}", last_error.as_deref().unwrap_or("it is too slow"))]
    WriteFailed {
        /// The last error of the disk since the cache was opened, as text; `None` if there was none.
        last_error: Option<String>,
    },
    /// An entry could not be encrypted, because there is no source of randomness.
    #[error("cannot encrypt an entry: {0}")]
    Encryption(#[source] io::Error),
    /// The limit is out of range.
    #[error("a limit of {given} bytes is not possible; give {smallest} to {largest}")]
    Limit {
        /// The given limit, in bytes.
        given: u64,
        /// The smallest possible limit, in bytes.
        smallest: u64,
        /// The largest possible limit, in bytes.
        largest: u64,
    },
    /// The folder has more segments than a cache can have.
    #[error("a cache of {segments} segments is too large to open; at most {most} are possible")]
    TooManySegments {
        /// The number of segments in the folder.
        segments: usize,
        /// The largest number.
        most: usize,
    },
    /// An import comes from a cache of another name or version, whose values mean something else.
    #[error("this is an export of '{theirs}', whose values mean something else in '{ours}'")]
    OtherCache {
        /// Name and version of the cache that was exported.
        theirs: String,
        /// Name and version of this cache.
        ours: String,
    },
}

/// A result with this crate's [`Error`].
pub type Result<T, E = Error> = std::result::Result<T, E>;
