//! The reftable backend: an adapter from the stacks of the crate `reftable` to the [`Backend`](crate::Backend)
//! interface.
//!
//! A single stack holds the shared refs and those of the main worktree. Each linked worktree has a stack for its own
//! refs.

// `stacks` routes a refname to its stack, and `state` holds the content of the stacks. `snapshot` reads, with
// `cursor`, `probe` (many look-ups in one walk) and `logs`; `locked` writes. `log_edit` takes entries out of logs,
// which `log_walk` reads.
mod backend;
mod cursor;
mod estimate;
mod locked;
mod log_edit;
mod log_walk;
mod logs;
mod options;
mod probe;
mod snapshot;
mod stacks;
mod state;
mod values;

pub use backend::ReftableBackend;
pub use locked::ReftableLocked;
pub(crate) use logs::shown;
pub use options::ReftableOptions;
