//! A fresh, shared, bounded view of repositories' refs, for a server that lives long and serves many of them.
//!
//! [`Views`] is one for the process: it owns the memory that caches may use. It hands out a [`View`] a repository, which
//! all threads share. Every answer of a view comes with a proof that it is still true, as the administrator's [`Trust`]
//! demands. A cached value is given only after a look at the files it came from. The writes of this process go through
//! [`View::commit`], and the next look-up sees them. Writes of other programs are seen because the proof fails. Nothing
//! is mapped, so a file that someone truncates is an error and not the end of the process.
//!
//! Read `trust` (what counts as a proof) and `identity` (whether it is still the same repository) first. Then read
//! `found` (the found ref), `answer` (and its proof), `opened` and its readers `tables` (reftable) and `files`. Behind
//! `in_flight` small batches are hidden that are half done. `hot`, `plan`, `row`, `listing` and [`View`] follow;
//! `open_views` says which views are closed when they are too many. Last come `batch` and `group` (writing), `folds`
//! (with `loose_count`, when), `broken`, `finding`, `verify`, `stats` and [`Views`].

mod answer;
mod background_pack;
mod batch;
mod bloom;
mod broken;
mod direct_mapped;
mod error;
mod files;
mod finding;
mod found;
mod group;
mod identity;
mod in_flight;
mod listing;
mod loose_count;
mod memory;
mod name_cache;
mod open_views;
mod opened;
mod plan;
mod process;
mod reader;
mod row;
mod settings;
mod stats;
mod tables;
mod trust;
mod verify;
mod view;
mod views;

pub use batch::{Batch, Outcome};
pub use error::{Error, Result};
pub use found::{Found, Resolved, Storage};
pub use listing::Listing;
pub use plan::ListOptions;
pub use row::Row;
pub use settings::{ViewSettings, ViewsSettings};
pub use stats::{Holdings, Stats};
pub use trust::{Trust, TrustError, TrustSettings};
pub use verify::{Difference, Report};
pub use view::View;
pub use views::Views;
