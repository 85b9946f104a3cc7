//! Locks: a `.lock` file beside each ref that a transaction touches, and beside packed-refs.
//!
//! [`set`] holds all locks of one transaction, [`publish`] renames the new content of a locked ref to the ref's path,
//! and [`stale`] removes locks that killed processes left behind.

pub(super) mod publish;
pub(super) mod set;
pub(super) mod stale;
