//! What git's reference storage needs to know of a repository besides its refs: where it is and whether it is safe to
//! use, its configuration, the committer, its objects, and its hooks.
//!
//! Read in this order: [`Environment`], [`Repository`], [`config`], [`committer`], [`objects`], [`hooks`]. The crate
//! `refdb` reads and writes refs on top of this crate.

pub mod config;
mod environment;
pub mod hooks;
mod ident;
mod log_policy;
#[doc(hidden)]
pub mod messages;
pub mod objects;
mod passwd;
#[doc(hidden)]
pub mod real_git;
mod repository;

pub use bstr;
pub use config::{Config, ConfigError, Settings};
pub use environment::Environment;
pub use ident::{Approximate, IdentError, Zone, approximate, committer, expiry, rfc2822};
pub use log_policy::LogPolicy;
pub use objects::{ObjectCheck, ObjectClass, ObjectError, Objects};
pub use refdb_types as types;
pub use refdb_vfs as vfs;
pub use repository::{
    FormatWatch, RefFormat, RefStorage, Repository, RepositoryError, Served, Worktree, with_ref_format,
};

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
