//! A transaction is open, then prepared, then committed or aborted. If it is dropped before the commit, all refs stay
//! as they were.
//!
//! ```text
//! open      edits are added; no ref is locked or read                   Transaction
//! prepared  refs are locked, edits are checked, new values are staged   Prepared
//! committed everyone sees it                                            Committed
//! ```

// `decide` decides about one ref's value, `conflicts` about names, `expand` about symbolic refs, and `log_policy` about
// reflogs. None of them changes anything on disk; `prepare` carries the decisions out.
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
