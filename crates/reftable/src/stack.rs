//! A stack: the folder of tables that is a ref database, and the list that names the tables in use.
//!
//! Read in this order: `name`, `list`, [`Snapshot`], `load`, [`Stack`], [`Addition`], `group`, `joint`, [`plan()`],
//! [`Compaction`], `clean`.

mod addition;
mod addition_writer;
mod backoff;
mod clean;
mod compact;
mod error;
mod group;
mod handle;
mod joint;
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
