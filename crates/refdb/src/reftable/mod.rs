//! The reftable backend: a thin adapter from crate `reftable`'s stacks to the [`Backend`](crate::Backend) contract.
//!
//! The shared refs, and the main worktree's own, live in one stack; each linked worktree has a stack for its own refs.
//! `stacks` routes a refname to its stack, `snapshot` reads, `probe` answers many questions in one walk, `locked` writes.

mod backend;
mod cursor;
mod estimate;
mod locked;
mod logs;
mod probe;
mod snapshot;
mod stacks;

pub use backend::{ReftableBackend, ReftableOptions};
