//! The stack: the folder of tables that is a ref database, and the list that says which of them count.
//!
//! `tables.list` names the tables, the oldest first. It is only ever replaced by a rename, under `tables.list.lock`:
//! that is the one moment at which a change becomes visible, whole. Tables are never changed, so a [`Snapshot`] stays
//! what it was.
//!
//! Read in this order: `name` and `list` (what stands on disk), [`Snapshot`] (what was read), `load` (how it is read
//! while others compact), [`Stack`] (the handle), [`Addition`] (one transaction), [`plan()`] (which tables ought to be
//! one), [`Compaction`] (how they become one), `clean` (what others left behind).

mod addition;
mod addition_writer;
mod clean;
mod compact;
mod courtesy;
mod error;
mod handle;
mod list;
mod load;
mod name;
mod new_table;
mod options;
mod plan;
mod snapshot;

pub use addition::Addition;
pub use addition_writer::AdditionWriter;
pub use clean::{LEFTOVER_AGE, Leftover};
pub use compact::{Committed, Compacted, Compaction, LogExpiry, Scope};
pub use error::StackError;
pub use handle::Stack;
pub use list::{ListFault, table_names};
pub use name::TableName;
pub use new_table::NewTable;
pub use options::{Access, Durability, StackOptions};
pub use plan::{DEFAULT_FACTOR, plan};
pub use snapshot::{Listed, Snapshot};
