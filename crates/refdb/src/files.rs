//! The files backend: one small file a ref, and `packed-refs` for those that seldom change (docs/formats/packed-refs.md).
//!
//! A loose file outranks a line in packed-refs. Readers look at it first: a packer writes packed-refs before it removes one.

// Read the modules in this order:
// - `options` (the settings of a repository), `layout` (where a ref lies);
// - `loose` (one small file per ref) and `packed` (packed-refs), each with its readers and writers;
// - `snapshot`, `probe` and `cursor` (what readers see of both);
// - `reflog` (reading, appending, editing);
// - `strategy` (how a transaction writes), `lock` (what it locks), `batch` (a few loose refs, atomically), `nested`
//   (a name below another) and `transaction` (all of it together);
// - `own` and `fresh` (one worktree's refs, and a store written anew, for a migration).
mod backend;
mod batch;
mod cursor;
mod fresh;
mod layout;
mod lock;
mod loose;
mod nested;
mod options;
mod own;
mod packed;
mod probe;
mod reflog;
mod snapshot;
mod store;
mod strategy;
mod transaction;

pub use backend::{FilesBackend, Unsettled};
pub(crate) use batch::entry::{intent_lines, ref_line, summed};
pub use batch::{
    Audience,
    entry::{Intent, IntentFault, IntentRef, record_in_slot},
    recover::{Outcome, TakenOver},
};
pub(crate) use fresh::{FreshFiles, Lines};
pub use loose::file::{At as AtLoosePath, LooseRef, parse as parse_loose, read as read_loose};
pub(crate) use loose::folders::share;
pub use options::{FilesOptions, PackedAccess, Sharing};
pub(crate) use own::Walked;
pub use packed::{
    background::{FoldOptions, Folded},
    budget::{Charge, PageBudget},
    cache::{Look, PackedFile},
    order::{Disorder, Misplaced},
    read::{Packed, PackedRecord},
};
pub use reflog::line::parse as parse_log_line;
