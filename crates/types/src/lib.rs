//! The vocabulary of Git's reference storage, without I/O: object ids, ref names, targets and reflog entries.
//!
//! Start with [`ObjectId`] (the object a ref points at), [`RefName`] and [`check_format`] (which names a ref may have),
//! and [`Scope`] (whether a ref belongs to the repository or to one worktree). [`Target`] is the value of a ref, either
//! an object or another ref, and [`LogEntry`] is one line of a reflog. [`Memo`] and [`LineStart`] serve lists of
//! millions of refs: a small cache keyed by object ids, and an id that is already formatted as text.

mod bytes;
mod gits_files;
mod line_start;
mod log;
mod memo;
mod name;
mod oid;
mod scope;
#[doc(hidden)]
pub mod space;
mod target;

pub use bstr;
pub use bytes::common_prefix;
#[doc(hidden)]
pub use bytes::has_nul;
pub use gits_files::is_file_of_git;
pub use line_start::LineStart;
pub use log::{Ident, LogEntry};
pub use memo::{Memo, Spread};
pub use name::{
    FormatOptions, NameError, OrderedNames, RefName, check_format, is_below, is_plain_path, is_safe, normalize,
};
pub use oid::{HashKind, HexError, ObjectId};
pub use scope::{Scope, canonical_name, is_pseudo, is_root_ref, is_root_syntax, is_worktree_itself, qualified_name};
pub use target::Target;

/// The greatest number of refs in a chain that a look-up follows, as in git: four symbolic refs and the ref to which
/// they lead.
pub const SYMREF_DEPTH_MAX: usize = 5;

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
