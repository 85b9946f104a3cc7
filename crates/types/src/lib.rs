//! The words of Git's reference storage, without I/O: object ids, ref names, targets and reflog entries.
//!
//! Read [`ObjectId`] (the object a ref points at), then [`RefName`] and [`check_format`] (the valid names of refs).
//! Then read [`Scope`] (whose ref it is: the repository's or one worktree's). Then come [`Target`] (an object or
//! another ref) and [`LogEntry`] (one line of a reflog). Last is [`Memo`] (what was found out about ids).

mod bytes;
mod log;
mod memo;
mod name;
mod oid;
mod scope;
mod target;

pub use bytes::common_prefix;
pub use log::{Ident, LogEntry};
pub use memo::{Memo, Spread};
pub use name::{FormatOptions, NameError, OrderedNames, RefName, check_format, is_plain_path, is_safe, normalize};
pub use oid::{HashKind, HexError, ObjectId};
pub use scope::{Scope, elsewhere, is_pseudo, is_root_ref, is_worktree_itself, plain_name};
pub use target::Target;

/// How many symbolic refs may follow one another before the chain counts as broken. The limit is git's.
pub const SYMREF_DEPTH_MAX: usize = 5;

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
