//! Refs about which a global ref database decides for several servers ([native
//! mode](../../../docs/decisions/0092-native-mode.md)).
//!
//! A transaction is prepared, records its intent, asks an [`Arbiter`], and then commits or aborts. An intent stays if
//! the answer is unknown, or if the disk fails after the answer; it is settled later by what the database then says.

mod agree;
mod intent;
mod intents;

pub use agree::{Arbiter, Verdict, ask, commit_agreed, refs_of};
pub use intent::{GlobalIntent, GlobalRef, Mark};
pub use intents::GlobalIntents;

/// The configuration key of a repository whose refs change only if a global ref database agrees.
pub(crate) const KEY: &str = "refdb.global";
