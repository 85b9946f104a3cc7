//! A persistent key-value cache: a log of segments on disk, an index in memory, a byte limit that always holds.
//!
//! [`Cache`] is the whole of it. Keys and values are bytes. Nothing has to be sized but the limit; a get never waits for
//! a writer; a put goes to memory and from there to the disk within milliseconds, or at once where [`Durability`] asks
//! for it. What is read is checked first, so a torn, harmed or foreign value is a miss, never an answer.
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
//! Read in this order: `format` and `footer` (the bytes), `place` and `index` (where a key's record is), `image` and `segment`
//! (where bytes are), `log` (the one lock, and the order of everything), `shared` (how bytes get to the disk), `space`, `keep`
//! and `reclaim` (what goes), `recover` (what a file says after a crash), `cache`, `get` and `put` (all of it behind one
//! handle).

mod age;
mod buffer;
mod cache;
mod entries;
mod error;
mod footer;
mod format;
#[doc(hidden)]
pub mod fuzzing;
mod get;
mod ghost;
mod handles;
mod identity;
mod image;
mod index;
mod keep;
mod log;
mod open;
mod options;
mod place;
mod put;
mod reclaim;
mod recover;
mod replay;
mod report;
mod scratch;
mod seal;
mod segment;
mod shared;
mod space;
mod stats;
mod sync;
mod transfer;
mod versions;
mod worker;

pub use cache::Cache;
pub use entries::{EntryInfo, Verified};
pub use error::{Error, Result};
pub use get::{Found, Get};
pub use options::{Clock, Durability, Options};
pub use put::{Put, PutOptions, Ticket};
pub use seal::Key;
pub use stats::Stats;
pub use transfer::Imported;
pub use versions::{clean_versions, version_dir};
