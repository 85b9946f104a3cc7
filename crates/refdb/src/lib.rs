//! Git's reference storage: loose refs, packed-refs and reftable behind one transaction.
//!
//! A write is an [`Edit`] (what is to happen, and what must be true for it) in a transaction, which locks, checks
//! everything in one sorted walk and hands the resulting [`Step`]s to a [`Backend`]. A read asks a [`Snapshot`], by
//! name or with a [`Cursor`].

pub mod backend;
pub mod config;
mod edit;
mod environment;
mod error;
pub mod files;
mod hooks;
mod ident;
pub mod iter;
pub mod objects;
pub mod reftable;
mod repository;
mod store;
pub mod transaction;

pub use backend::{Backend, Cursor, Locked, Probe, RefView, Snapshot, Step, TargetView};
pub use config::{Config, Settings};
pub use edit::{Change, Edit, LogWish, Precondition};
pub use environment::Environment;
pub use error::{BrokenRef, Error, Reason, Rejection, Result};
pub use ident::{IdentError, Zone, committer};
pub use objects::Objects;
pub use refdb_types::{HashKind, Ident, LogEntry, ObjectId, RefName, Scope, Target};
pub use repository::{RefFormat, RefStorage, Repository, RepositoryError, Worktree};
pub use store::{Committer, Reading, Resolved, Store, StoreOptions, resolve};
pub use transaction::{Committed, Prepared, Transaction, TransactionOptions};
