//! The words of Git's reference storage, without I/O: object ids, ref names, targets and reflog entries.
//!
//! Read [`ObjectId`] (the object a ref points at), then [`RefName`] and [`check_format`] (the valid names of refs).
//! Then read [`Scope`] (whose ref it is: the repository's or one worktree's). Then come [`Target`] (an object or
//! another ref) and [`LogEntry`] (one line of a reflog). Last are [`Memo`] (what was found out about ids) and
//! [`LineStart`] (an id as text).

mod bytes;
mod gits_files;
mod line_start;
mod log;
mod memo;
mod name;
mod oid;
mod scope;
mod target;

pub use bytes::common_prefix;
pub use gits_files::is_file_of_git;
pub use line_start::LineStart;
pub use log::{Ident, LogEntry};
pub use memo::{Memo, Spread};
pub use name::{
    FormatOptions, NameError, OrderedNames, RefName, check_format, is_below, is_plain_path, is_safe, normalize,
};
pub use oid::{HashKind, HexError, ObjectId};
pub use scope::{Scope, elsewhere, is_pseudo, is_root_ref, is_root_syntax, is_worktree_itself, plain_name};
pub use target::Target;

/// How many symbolic refs may follow one another before the chain counts as broken. The limit is git's.
pub const SYMREF_DEPTH_MAX: usize = 5;

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
