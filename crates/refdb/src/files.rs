//! The files backend: one small file a ref, and `packed-refs` for those that seldom change (docs/formats/packed-refs.md).
//!
//! A loose file outranks a line in packed-refs. Readers look at it first: a packer writes packed-refs before it removes one.

// Read the modules in this order:
// - `options` (the settings of a repository), `layout` (where a ref lies), `loose` (one small file);
// - for the big file, `pages`, `packed_read`, `packed_lines`, `packed_search`, `packed_far`, `packed_order`, `packed_look_up` and
//   `packed_cache`;
// - `listing` (a folder), then `snapshot`, `probe` and `cursor` (all of it for readers);
// - `reflog_line`, `reflog_file` and `reflog` (a line, a file, all of them);
// - `way`, `scheme`, `names`, `locks` and `dead_locks` (who may write, and how);
// - `packed_write`, `bulk`, `transaction`, `log_edit` (entries that go) and `optimize` (pack-refs);
// - `publish`, `intent`, `slot`, `intent_file`, `batch` and `settle` (a few refs as loose files, whole all the same);
// - `own` and `fresh` (one worktree's refs, and a store written anew, for a migration).
mod audience;
mod backend;
mod batch;
mod blocks;
mod budget;
mod bulk;
mod cursor;
mod dead_locks;
mod disorder;
mod fold;
mod folders;
mod free_slots;
mod fresh;
mod intent;
mod intent_file;
mod layout;
mod listing;
mod locks;
mod log_edit;
mod loose;
mod names;
mod nested;
mod optimize;
mod options;
mod own;
mod packed_cache;
mod packed_far;
mod packed_lines;
mod packed_look_up;
mod packed_order;
mod packed_read;
mod packed_search;
mod packed_write;
mod pages;
mod probe;
mod publish;
mod reflog;
mod reflog_file;
mod reflog_line;
mod scheme;
mod settle;
mod slot;
mod snapshot;
mod store;
mod transaction;
mod way;

pub use audience::Audience;
pub use backend::{FilesBackend, Unsettled};
pub use budget::{Charge, PageBudget};
pub use disorder::Disorder;
pub use fold::{FoldOptions, Folded};
pub(crate) use folders::share;
pub(crate) use fresh::{FreshFiles, Lines};
pub use intent::{Intent, IntentFault, IntentRef, record_in_slot};
pub(crate) use intent::{intent_lines, ref_line, summed};
pub use loose::{At as AtLoosePath, LooseRef, parse as parse_loose, read as read_loose};
pub use options::{FilesOptions, PackedAccess, Sharing};
pub(crate) use own::Walked;
pub use packed_cache::{Look, PackedFile};
pub use packed_order::Misplaced;
pub use packed_read::{Packed, PackedRecord};
pub use reflog_line::parse as parse_log_line;
pub use settle::{Outcome, TakenOver};
