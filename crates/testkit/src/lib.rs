//! What refdb's tests share. Dev only: it panics with a clear message where a library would return an error.
//!
//! Read [`Git`] and [`Repo`] (the oracle: real git, in a clean environment) and [`JGit`] (the other implementation)
//! first. Then read [`Rng`] and [`names`] (things to try), [`Model`] (the expected result) and [`crash`] (after a kill
//! or power loss). Last come [`differential`] (command lines beside git's), [`orders`] (of events in a model) and
//! [`this_program`] (a process to kill).

mod again;
pub mod crash;
pub mod differential;
pub mod exercise;
mod folder;
mod git;
mod jgit;
mod model;
pub mod names;
pub mod orders;
mod repo;
mod rng;
mod size;

pub use again::{at_most, is_emulated, this_program};
pub use folder::files_below;
pub use git::Git;
pub use jgit::JGit;
pub use model::{Model, ModelChange, ModelEdit, Old, Refusal};
pub use repo::{Listed, RefFormat, Repo};
pub use rng::Rng;
pub use size::{every, rounds};
