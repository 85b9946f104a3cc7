//! Serves a push to a repository on disk, from the advertisement to the last hook.
//!
//! ```text
//! advertise    sends the refs, and the tips of alternates     advertise, alternates
//! request      reads the client's commands                    wire
//! unpack       puts its objects into a quarantine             unpack, quarantine
//! check        connectivity, hidden refs, pre-receive         connectivity, hooks
//! release      moves the objects to the repository            quarantine
//! update       policy, update hook, transaction of refs       policy, update, aliases, large_tags
//! report       answers; post-receive, post-update             session, maintenance, turn_away
//! ```
//!
//! The push has changed no ref if the client disconnects, or a signal or a kill ends the process, before `update`. Once
//! the first transaction of refs begins to commit, the push is completed even if the client disconnects.

mod advertise;
mod aliases;
mod alternates;
mod ancestry;
mod channel;
mod child;
mod connectivity;
mod deadline;
mod error;
mod hooks;
mod large_tags;
pub(crate) mod long_names;
mod maintenance;
mod policy;
mod quarantine;
mod redactor;
mod session;
mod spawner;
mod turn_away;
mod unpack;
mod update;

pub use error::ServeError;
pub use long_names::RefusedPush;
pub(crate) use session::offer;
pub use session::{Call, Maintenance, serve, session_id, turn_away};

#[cfg(test)]
mod power_tests;
