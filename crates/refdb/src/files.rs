//! The files backend: one small file for each ref, and `packed-refs` for refs that seldom change
//! (docs/formats/packed-refs.md).
//!
//! A loose file outranks a line in packed-refs. Readers read the loose file first, because a packer writes packed-refs
//! before it removes a loose file.

// Read the modules in this order:
// - `options` (the settings of a repository), `layout` (where a ref lies);
// - `loose` (one small file per ref) and `packed` (packed-refs), and `snapshot`, `probe` and `cursor` (both together);
// - `reflog` (a line, a file, all of them);
// - `strategy` (how a transaction writes), `lock` (what it locks), `packing` (new packed-refs files), `batch` (a few
//   loose refs, atomically), `nested` (a name below another) and `transaction` (all of it together);
// - `log_edit` (entries that are dropped), and `backend` in front of everything;
// - `store` (what the other modules share) and `budget` (the memory that pages of packed-refs take);
// - `own` and `fresh` (one worktree's refs, and a store written anew, for a migration).
mod backend;
mod batch;
mod budget;
mod cursor;
mod fresh;
mod layout;
mod lock;
mod log_edit;
mod loose;
mod nested;
mod options;
mod own;
mod packed;
mod packing;
mod probe;
mod reflog;
mod snapshot;
mod store;
mod strategy;
mod transaction;

pub use backend::{FilesBackend, JournalEntries};
pub(crate) use batch::ended::EndedBatches;
pub(crate) use batch::entry::{journal_lines, ref_line, summed};
pub use batch::{
    entry::{JournalEntry, JournalFault, JournalRef, entry_in_journal_file},
    recover::{Outcome, TakenOver},
};
pub use budget::{Charge, PageBudget};
pub(crate) use fresh::{FreshFiles, Lines};
pub use loose::file::{At as AtLoosePath, LooseRef, parse as parse_loose, read as read_loose};
#[doc(hidden)]
pub use loose::listing::Rivals;
pub(crate) use loose::{file::is_symbolic_ref, folders::share};
pub use options::{CommitObserver, FilesOptions, PackedAccess};
pub(crate) use own::Walked;
pub use packed::{
    cache::{Look, PackedFile},
    disorder::Disorder,
    order::Misplaced,
    read::{Packed, PackedRecord},
};
pub use packing::{background::BackgroundPackOptions, job::BackgroundPacked};
pub use reflog::line::parse as parse_log_line;
