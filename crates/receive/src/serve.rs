//! A push to a repository on disk, from the advertisement to the last hook.
//!
//! ```text
//! advertise    the refs, and what alternates have             advertise, alternates
//! request      what the client wants                          wire
//! unpack       its objects, into a quarantine                 unpack, quarantine
//! judge        connectivity, hidden refs, pre-receive         connectivity, hooks
//! release      the objects, synced
//! update       the refs: policy, update hook, transaction     policy, update, aliases, large_tags
//! report       what became of it; post-receive, post-update   session
//! ```
//!
//! A client that leaves, a signal or a kill before `update` changes no ref. After it, the rest is done without a
//! client.

mod advertise;
mod aliases;
mod alternates;
mod ancestry;
mod channel;
mod child;
mod connectivity;
mod error;
mod hooks;
mod large_tags;
mod policy;
mod quarantine;
mod session;
mod spawner;
mod unpack;
mod update;
mod redactor;

pub use error::ServeError;
pub use session::{Call, serve};

#[cfg(test)]
mod power_tests;
