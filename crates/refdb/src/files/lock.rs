//! Locks: a `.lock` file beside each ref that a transaction touches, and beside packed-refs.
//!
//! [`set`] holds all locks of one transaction; [`stale`] removes those that killed processes left behind.

pub(super) mod set;
pub(super) mod stale;
