//! Refs about which a global ref database decides for several servers ([native
//! mode](../../../docs/decisions/0092-native-mode.md)).
//!
//! A transaction is prepared, records its intent, asks an [`Arbiter`], and then commits or aborts. If the answer is
//! unknown, or if the disk fails after the answer, the intent stays and is settled later by asking the database
//! again.

mod agree;
mod intent;
mod intents;

pub use agree::{Arbiter, Verdict, ask, commit_agreed, commit_settling, refs_of};
pub use intent::{GlobalIntent, GlobalRef, Mark};
pub use intents::GlobalIntents;

/// The configuration key that says that a repository's refs change only if a global ref database agrees.
pub(crate) const KEY: &str = "refdb.global";
