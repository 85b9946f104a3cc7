//! A transaction is open, then prepared, then committed or aborted. If it is dropped before the commit, all refs stay
//! as they were.
//!
//! ```text
//! open      edits are added; nothing is locked or checked               Transaction
//! prepared  every ref is locked, every check passed, new values staged  Prepared
//! committed everyone sees it                                            Committed
//! ```

// Functions that touch no disk decide. `decide` does so for one ref's value, `conflicts` for names, `expand` for
// symbolic refs, `log_policy` for reflogs. `prepare` carries the decisions out.
mod change;
mod conflicts;
mod context;
mod decide;
mod edits;
mod expand;
mod hook;
mod ids;
mod log_only;
mod log_policy;
mod message;
mod names;
mod open;
mod options;
mod plan;
mod prepare;
#[cfg(test)]
mod tests;
mod walk;

pub use crate::error::HookState;
pub use change::was;
pub use context::Context;
pub use hook::{Hook, HookSource, NoHook};
pub(crate) use log_only::append_log;
pub use message::normalize_message;
pub use open::{Committed, Prepared, Transaction};
pub use options::{Mode, TransactionOptions};
pub use refdb_repo::{
    LogPolicy, ObjectCheck, ObjectClass,
    hooks::{HookProgram, HookPrograms},
};
