//! How room is freed. `plan`, `keep` and `pace` decide, without effects; `past` remembers evictions; `steps` acts, with
//! `evict` and `copy`. `doomed` has the segments that `deletion` deletes; `worker` and `calls` are the background
//! threads.

pub(crate) mod calls;
mod choice;
mod copy;
mod deletion;
mod doomed;
pub(crate) mod evict;
mod expiry;
pub(crate) mod ghost;
mod keep;
mod pace;
pub(crate) mod past;
pub(crate) mod plan;
pub(crate) mod report;
pub(crate) mod steps;
pub(crate) mod worker;
