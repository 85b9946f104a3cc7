//! One suite of behaviours for every backend and both hashes. Real git makes the repositories on disk and judges the
//! result.
#![expect(clippy::unwrap_used, reason = "a test that panics has failed, which is what it should do")]

mod common;
mod concurrency;
mod conflicts;
mod crash;
mod model;
mod preconditions;
mod reading;
mod reflogs;
mod symbolic;
mod worktrees;
