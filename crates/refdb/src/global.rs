//! Refs of which a global ref database decides, which several servers ask ([native mode](../../../docs/decisions/0092-native-mode.md)).
//!
//! A transaction is prepared, writes down its intent, asks, and then commits or gives up. Whom it asks is an [`Arbiter`].
//! An intent stays where nobody knows the answer, or where the disk failed after it. It is settled by the arbiter's word.

mod agree;
mod intent;
mod intents;

pub use agree::{Arbiter, Verdict, ask, commit_agreed, refs_of};
pub use intent::{GlobalIntent, GlobalRef, Mark};
pub use intents::GlobalIntents;

/// The key in the configuration of a repository whose refs change by the word of a global ref database alone.
pub(crate) const KEY: &str = "refdb.global";
