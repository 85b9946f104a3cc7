//! Reads Git's reftable files and stacks, and writes them in version 1 of the format for SHA-1 and 2 for SHA-256.
//!
//! A reftable is an immutable file of sorted records: refs and reflog entries, and in larger files an index from object
//! ids to refs. A stack of tables is a ref database: newer tables override older ones, and tombstones hide what was
//! deleted. `docs/formats/reftable.md` draws the format byte by byte.
//!
//! ```
//! use reftable::{HashKind, Merged, ObjectId, RefRecord, RefValue, Source, Table, TableWriter, WriteOptions};
//!
//! # fn main() -> reftable::Result<()> {
//! let id = ObjectId::from_hex(HashKind::Sha1, b"1f2e3d4c5b6a79881f2e3d4c5b6a79881f2e3d4c").unwrap();
//! let mut bytes = Vec::new();
//! let mut writer = TableWriter::new(WriteOptions::default(), 1, 1, &mut bytes)?;
//! writer.add_ref(&RefRecord { name: "refs/heads/main".into(), update_index: 1, value: RefValue::Direct(id) })?;
//! writer.finish()?;
//!
//! let table = Table::open(Source::Memory(bytes.into()), "example")?;
//! let merged = Merged::new(vec![table])?;
//! let mut refs = merged.refs();
//! refs.seek(b"refs/heads/")?;
//! while let Some(record) = refs.next()? {
//!     println!("{} {:?}", record.name, record.value);
//! }
//! # Ok(())
//! # }
//! ```
//!
//! # Modules
//!
//! From the bottom up:
//!
//! - `format`: header, footer, and how numbers are written
//! - `record`: refs, log entries, objects and index entries, with keys that share prefixes
//! - `block`: records one after the other, searched by restart points
//! - `table`: the blocks of a file, found through indexes ([`Table`], [`TableWriter`])
//! - `merged`: tables on top of one another ([`Merged`])
//! - [`stack`]: the folder, its list and its lock
//!
//! [`check()`] and [`dump()`] read whole files.

mod block;
mod check;
mod dump;
mod error;
mod format;
mod merged;
mod options;
mod record;
mod ref_block;
pub mod stack;
mod table;

pub use bstr;
pub use check::check;
pub use dump::dump;
pub use error::{Corruption, Error, Fault, Result};
pub use merged::{Merged, MergedLogCursor, MergedRefCursor, RefEntry};
pub use options::WriteOptions;
pub use record::{LogFit, LogRecord, LogValue, RefRecord, RefValue};
pub use ref_block::{RefBlock, RefBlockWriter};
pub use refdb_types::{HashKind, ObjectId};
/// File access, with the types that signatures of this crate have, such as `Fs`, `File` and `LockTimeout`.
pub use refdb_vfs as vfs;
pub use table::{BlockCache, LogCursor, PagedFile, PointingRef, RefCursor, Sink, Source, Summary, Table, TableWriter};

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
