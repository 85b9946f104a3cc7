//! Git's reference storage: loose refs, packed-refs and reftable behind one transaction.
//!
//! Begin with [`Store::open`]; [`Store::find`], [`Store::refs`] and [`Store::transaction`] are what most callers need.
//!
//! A write is an [`Edit`] (a change, and the condition for it) in a transaction. The transaction locks, checks
//! everything in one sorted walk and hands the resulting [`Step`]s to a [`Backend`]. A read asks a [`Snapshot`], by
//! name or with a [`Cursor`].

pub mod backend;
mod edit;
mod error;
pub mod files;
pub mod global;
pub mod iter;
mod log_edit;
pub mod memory;
mod migrate;
mod object_name;
mod own_locks;
pub mod reftable;
mod store;
pub mod transaction;
pub mod verify;

pub use backend::{Backend, Cursor, Locked, Maintenance, Probe, RefView, Snapshot, Step, TargetView};
pub use edit::{Change, Edit, LogOptions, Precondition};
pub use error::{
    BrokenRef, Error, HookFailure, HookState, Limit, LooseError, MigrateError, Misuse, Reason, Rejection, Result,
    Undecided, Unfit, Why,
};
pub use log_edit::{LogJudge, LoggedChange, PruneLogs};
pub use migrate::{Conflict, MigrateOptions, Migrated, OnProgress, Recovered};
pub use object_name::{NameError, SHORT_NAME_RULES, find_logged_ref, resolve_name};
pub use refdb_repo::{
    Config, Environment, IdentError, ObjectError, Objects, RefFormat, RefStorage, Repository, RepositoryError,
    Settings, Worktree, Zone, approximate, committer, config, expiry, hooks, objects, with_ref_format,
};
pub use refdb_types::{HashKind, Ident, LogEntry, ObjectId, RefName, Scope, Target};
pub use store::{Committer, Reading, Ref, Refs, Resolved, Store, StoreBuilder, resolve};
pub use transaction::{Committed, Mode, Prepared, Transaction, TransactionOptions, was};

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
