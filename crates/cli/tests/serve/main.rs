//! Compares `refdb serve` with `git http-backend` and `git upload-pack`, and checks what only a resident server can do
//! wrong: stale answers, and harm by clients.

#![expect(clippy::unwrap_used, reason = "a test that panics has failed, which is what it should do")]

mod agrees_with_http_backend;
mod attacks;
mod http2;
mod is_as_fresh_as_the_files;
mod lost_files;
mod operation;
mod other_clients;
mod pushes;
mod reads_equal_gits;
mod real_clients;
mod shims;
mod shims_in_hosts;
mod signals;
mod support;
mod trouble;
mod wants_are_checked_as_by_git;
mod who_may;
