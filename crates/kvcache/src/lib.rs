//! A persistent key-value cache: a log of segments on disk, an index in memory, a byte limit that always holds.
//!
//! [`Cache`] is the whole of it. Keys and values are bytes. Only the limit has to be set. A get never waits for a
//! writer. A put goes to memory and within milliseconds to the disk, or at once where [`Durability`] asks for it. Each
//! read is checked first, so a torn, harmed or foreign value is a miss, never an answer.
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
//! Read `format` (the bytes) first, then `log` (where they are and in which order they came). Then read `reclaim`
//! (which segments go, and when) and `api` (all of it behind one handle). Each builds on those before it.

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
mod plain;
mod reclaim;
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
pub use stats::Stats;
