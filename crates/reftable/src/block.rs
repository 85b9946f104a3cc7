//! A block: records whose keys share prefixes with those before them, and restart points at which a search can begin.
//! Numbers in parentheses are lengths in bytes.
//!
//! ```text
//! | kind | length (3) | record ... | restart offset (3) ... | number of restarts (2) |
//! ```

mod deflate;
mod find;
mod layout;
mod search;
mod writer;

pub(crate) use deflate::{Deflater, Inflater, store};
pub(crate) use find::{lower_bound, restart_before};
pub(crate) use layout::{Layout, peek};
pub(crate) use search::{first_key, restart_from, restart_offset};
pub(crate) use writer::{Added, BlockWriter};
