//! How room is freed.
//!
//! `plan`, `keep` and `drift` decide without effects, and `ghost_list` remembers evicted keys. `steps` acts, with the
//! help of `evict` and `copy`. `pending_deletion` has the segments that `deletion` deletes. `worker` and `calls` are
//! the background threads, `simulation` estimates the hit ratio of other limits, and `loading` fills the index, without
//! which only a clear can free segments.

pub(crate) mod calls;
mod choice;
mod copy;
mod deletion;
mod drift;
pub(crate) mod evict;
mod expiry;
pub(crate) mod ghost_list;
mod keep;
mod loading;
mod pending_deletion;
pub(crate) mod plan;
pub(crate) mod report;
pub(crate) mod simulation;
pub(crate) mod steps;
pub(crate) mod worker;
