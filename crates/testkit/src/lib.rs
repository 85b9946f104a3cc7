//! Shared code of refdb's tests. It is for development only, and panics with a clear message where a library would
//! return an error.
//!
//! Begin with [`Git`] and [`Repo`] (real git in a clean environment, which is the oracle) and [`JGit`] (the other
//! implementation). Continue with [`Rng`] and [`names`] (inputs to try), [`Model`] (the expected result) and [`crash`]
//! (what a kill or a loss of power leaves). Then read [`differential`] (command lines compared with git's), [`orders`]
//! (every order of events in a model of a protocol), [`nfs_client`] (what the clients of an NFS server remember) and
//! [`this_program`] (a process that a test can kill).

mod again;
pub mod crash;
pub mod differential;
pub mod exercise;
mod folder;
mod foreign_lock;
mod git;
mod jgit;
mod model;
pub mod names;
pub mod nfs_client;
pub mod orders;
mod queue;
mod repo;
mod rng;
mod size;
mod template;
mod update_refs;

pub use again::{at_most, is_emulated, run_with_fault, this_program};
pub use folder::files_below;
pub use foreign_lock::ForeignLock;
pub use git::Git;
pub use jgit::JGit;
pub use model::{Model, ModelChange, ModelEdit, Old, Refusal};
pub use queue::{await_queue, queued_writers};
pub use repo::{Listed, RefFormat, Repo};
pub use rng::Rng;
pub use size::{every, rounds};
pub use update_refs::UpdateRefs;
