//! Refs and reflogs in memory: a backend for tests, and for refs that need not outlive the process.
//!
//! It behaves as git's reftable format does, without the limits that blocks impose: one writer at a time, snapshots
//! that never change, reflogs of symbolic refs that survive their refs. Nothing is written to disk, and refs are gone
//! with the last clone of their [`MemoryBackend`]. Each transaction copies the whole state, which suits some thousand
//! refs.

// Read `state` (what there is, and how steps change it), `snapshot` (readers), `locked` (the writer) and `log_edit`.
mod backend;
mod defaults;
mod locked;
mod log_edit;
mod snapshot;
mod state;

pub use backend::MemoryBackend;
pub(crate) use defaults::{AnyObject, committer};
