//! A table is a file of sections of blocks (refs, objects, logs). An index finds the blocks of a section that has many.
//!
//! ```text
//! | header, ref block ... | ref index ... | object block ... | object index ... |
//! | log block ... | log index ... | footer |
//! ```

mod cache;
mod cursor;
mod find;
mod index;
mod load;
mod logs;
mod objects;
mod output;
mod pointing;
mod reader;
mod refs;
mod scan;
mod seeker;
mod source;
mod writer;

pub use cache::BlockCache;
pub(crate) use cursor::{Cursor, Visit};
pub(crate) use load::{Block, BlockLoader, Loaded};
pub use logs::LogCursor;
pub use output::Sink;
pub use pointing::PointingRef;
pub use reader::Table;
pub use refs::RefCursor;
pub(crate) use scan::BlockScan;
pub(crate) use seeker::{Found, Seeker};
pub use source::{PagedFile, Source};
pub use writer::{Summary, TableWriter};
