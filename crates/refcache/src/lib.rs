//! A fresh, shared, bounded view of repositories' refs, for a long-running server that serves many of them.
//!
//! A process has one [`Views`], which owns the memory of all caches and hands out one [`View`] for each path of a
//! repository. All threads share a view. Before a view gives out a cached value, it checks, as far as the
//! [`TrustSettings`] demand, that the files from which the value came are still the same; so it sees what git and other
//! programs write. Writes of this process go through [`View::commit`], and the next look-up sees them. Files with
//! refs are not mapped into memory, so that one which somebody truncates causes an error and does not end the process.
//!
//! Reading order: `trust` (when an answer is current) and `identity` (whether a folder still holds the same
//! repository); `found`, `answer`, `opened`, and `reader` with its two implementations `tables` and `files`;
//! `in_flight`, which hides batches that are half written; `bloom`, `name_cache`, `direct_mapped` and `memory` (the
//! caches); `plan`, `row`, `listing`, [`View`]; `open_views` (which views are closed when there are too many); `batch`
//! and `group` (writing); `loose_count` and `background_pack`; `broken`, `finding`, `ignored_trust`, `verify`, `stats`
//! and [`Views`].

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
mod ignored_trust;
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

pub use bstr;
/// The engine, which defines the types of edits, values and errors.
pub use refdb;

pub use batch::{Agreement, Batch, Outcome};
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
