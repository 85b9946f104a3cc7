//! git's ref commands on top of refdb's engine. This is a library so that the generator of the manual, the fuzzers and
//! tests can use it.
//!
//! [`run`] parses the global options ([`globals`]), finds the command by its name, and passes the rest of the command
//! line to it. Each command is a module with a table of its options and its work. Most commands parse their words with
//! [`options`], the way git does. [`failure`] has git's messages and exit codes for commands that end early.

#![allow(
    missing_docs,
    missing_debug_implementations,
    reason = "a library for this workspace alone: a name that says all needs no comment"
)]

pub mod beside;
pub mod branch;
pub mod cache;
pub mod check_ref_format;
pub mod check_storage;
pub mod clock;
pub mod columns;
mod dispatch;
pub mod dump;
pub mod failure;
pub mod for_each_ref;
pub mod globals;
pub mod group;
pub mod lab;
pub mod listing;
pub mod names;
pub mod numbers;
pub mod options;
pub mod output;
pub mod pack_refs;
pub mod progress;
pub mod real_git;
pub mod receive_pack;
pub mod reflog;
pub mod refs;
pub mod replaced;
pub mod revision;
pub mod serve;
pub mod session;
pub mod shortlist;
pub mod show_ref;
pub mod stat;
pub mod symbolic_ref;
pub mod tag;
pub mod update_ref;
pub mod upload_pack;

pub use dispatch::{Invocation, commands, groups, run};
