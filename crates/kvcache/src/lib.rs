//! A persistent key-value cache: a log of segments on disk, an index in memory, and a limit in bytes for the files.
//!
//! [`Cache`] is the handle for everything. Keys and values are bytes, and only the limit has to be set. A get of an
//! intact record never waits for a writer. A stored value is visible at once. It is in a file within milliseconds while
//! the disk keeps up, or before the put returns if [`Durability`] asks for that. Every get verifies a checksum, so a
//! torn, damaged or foreign value is a miss and never an answer.
//!
//! ```
//! # let dir = tempfile::tempdir().unwrap();
//! use refdb_kvcache::{Cache, Options};
//! let cache = Cache::open(dir.path(), Options::new(64 << 20))?;
//! cache.put(b"key", b"value")?;
//! assert_eq!(cache.get(b"key").unwrap().value, b"value");
//! cache.remove(b"key")?;
//! assert!(cache.get(b"key").is_none());
//! # Ok::<(), refdb_kvcache::Error>(())
//! ```
//!
//! To read the code, begin with `format` (the bytes), then `log` (where they are and in which order they came),
//! `reclaim` (which segments are deleted, and when) and `api` (the handle). Each builds on those before it.

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;

mod age;
mod api;
mod error;
mod format;
#[doc(hidden)]
pub mod fuzzing;
mod log;
mod reclaim;
mod regular_file;
mod stats;
mod sync;

pub use age::Clock;
pub use api::{
    cache::Cache,
    entries::{EntryInfo, Verified},
    get::{Found, Get},
    options::{Durability, Options},
    put::{Put, PutOptions, Ticket},
    transfer::Imported,
    versions::{clean_versions, delete_cache, version_dir},
};
pub use error::{Error, Result};
pub use format::seal::Key;
/// The error of an operation on a file, as [`Error::File`] has it.
pub use refdb_vfs::Error as FileError;
pub use stats::Stats;
