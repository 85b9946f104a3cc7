//! Git's reference storage: loose refs, packed-refs and reftable behind one transaction.
//!
//! Begin with [`Store::open`]; [`Store::find`], [`Store::refs`] and [`Store::transaction`] are what most callers need.
//!
//! A write is an [`Edit`] (a change, and the condition for it) in a transaction. The transaction locks refs, reads them
//! in one sorted walk, checks the edits and hands the resulting steps to the backend of the repository's format. A read
//! queries a [`Snapshot`], by name or with a [`Cursor`].
//!
//! Modules and items that are hidden from this documentation are for the other crates of the project: backends, how
//! they are read and cached, and transactions that a global ref database decides. They may change in every release.

#[doc(hidden)]
pub mod backend;
mod edit;
mod error;
#[doc(hidden)]
pub mod files;
#[doc(hidden)]
pub mod global;
pub mod iter;
mod lock_files;
mod log_edit;
pub mod memory;
mod migrate;
mod mount_check;
mod object_name;
mod own_locks;
#[doc(hidden)]
pub mod reftable;
mod store;
#[doc(hidden)]
pub mod transaction;
pub mod verify;

pub use ::reftable::{BlockCache, Error as TableError, stack::StackError};
pub use backend::{
    Answers, Cursor, Lines, OptimizeOptions, OptimizePlan, Optimized, Peeled, Probe, RefView, Snapshot, TargetView,
};
#[doc(hidden)]
pub use backend::{Backend, Locked, Maintenance, Step};
pub use bstr;
pub use edit::{Change, Edit, LogOptions, Precondition};
pub use error::{
    BrokenRef, Error, HookFailure, HookState, Limit, LooseError, MigrateError, Misuse, Rejection, RejectionClass,
    RejectionReason, Result, Undecided, Unfit,
};
pub use files::PageBudget;
#[doc(hidden)]
pub use lock_files::{LockFile, LockRemoval};
pub use log_edit::{LogJudge, LoggedChange, PruneLogs};
pub use migrate::{Conflict, MigrateOptions, Migrated, OnProgress, Recovered};
#[doc(hidden)]
pub use object_name::SHORT_NAME_RULES;
pub use object_name::{NameError, find_logged_ref, resolve_name};
pub use refdb_repo::{
    Config, Environment, IdentError, LogPolicy, ObjectCheck, ObjectClass, ObjectError, Objects, RefFormat, RefStorage,
    Repository, RepositoryError, Settings, Worktree, Zone, approximate, committer, config, expiry, hooks, objects,
    with_ref_format,
};
#[doc(hidden)]
pub use refdb_repo::{messages, real_git};
pub use refdb_types::{HashKind, Ident, LogEntry, ObjectId, RefName, Scope, Target};
/// File access as it appears in signatures of this crate: `Fs` and its errors.
pub use refdb_vfs as vfs;
pub use store::{Committer, Reading, Ref, Refs, Resolved, Store, StoreBuilder, resolve};
pub use transaction::{Committed, Mode, Prepared, Transaction, TransactionOptions, was};

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
