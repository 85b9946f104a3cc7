//! A fresh, shared, bounded view of repositories' refs, for a server that lives long and serves many of them.
//!
//! [`Views`] is one for the process: it owns the memory that caches may use. It hands out a [`View`] a repository, which
//! all threads share. Every answer of a view comes with a proof that it is still true, as far as the administrator's
//! [`Trust`] says: a cached value is given only after the files it came from were looked at. What this process writes
//! goes through [`View::commit`] and is seen by the next look-up; what others write, by any program, is seen because
//! the proof fails. Nothing is mapped, so a file that someone truncates is an error and not the end of the process.
//!
//! Read in this order: `trust` (what counts as a proof), `identity` (whether it is still the same repository), `found`
//! (the found ref), `answer` (and its proof), `opened` and its readers `tables` (reftable) and `files` (loose refs and packed-refs), `hot`,
//! `plan`, `row` and `listing`,
//! [`View`], `open_views` (which of them are closed when they are too many), `batch` and `group` (writing), `broken`, `disorder`, `verify`, `stats`,
//! [`Views`].

mod answer;
mod batch;
mod broken;
mod disorder;
mod error;
mod files;
mod found;
mod group;
mod hot;
mod identity;
mod listing;
mod memory;
mod names;
mod open_views;
mod opened;
mod plan;
mod process;
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
