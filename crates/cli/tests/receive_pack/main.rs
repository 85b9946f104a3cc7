//! Compares `refdb receive-pack` with git's, driven by git's own client, and checks what may remain after failures.

#![expect(clippy::unwrap_used, reason = "a test that panics has failed, which is what it should do")]

mod alternates;
mod beside_git;
mod common;
mod connectivity;
mod crafted;
mod harm;
mod hooks;
mod hosts;
mod left_to_git;
mod limits;
mod linear;
mod lying;
mod processes;
mod raw;
mod refusals;
mod screened;
mod security;
mod trouble;
mod unusual_objects;
mod work_limits;
