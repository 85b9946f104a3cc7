//! The server's side of a Git push: what `git receive-pack` does.
//!
//! [`wire`] is the protocol without I/O: bytes go in, values come out, and the reverse. A server of your own
//!
//! 1. writes its refs with an [`Advertisement`](wire::Advertisement),
//! 2. reads as many bytes as a [`RequestReader`](wire::RequestReader) wants, until it holds a
//!    [`Request`](wire::Request),
//! 3. reads a [`PackHeader`](wire::PackHeader) and the pack, unless every command deletes a ref,
//! 4. answers with [`wire::report`], in a [side band](wire::pkt::band) where the client asked for one.
//!
//! [`serve`](fn@serve) does all of this for a repository on disk, including the quarantine, the connectivity check and
//! the hooks, and updates the refs in transactions of the engine. Call [`delegation_reason`](fn@delegation_reason)
//! first: it returns the reason if only `git receive-pack` can serve the repository's pushes correctly. Read the
//! requests of such pushes with a [`Screen`], and pass to git only those that it lets through.
#![forbid(unsafe_code)]

mod delegation;
mod ending;
mod hidden;
mod proc_receive;
mod reception;
mod screen;
mod serve;
mod settings;
mod watch;
pub mod wire;

pub use bstr;
/// The engine, whose [`Store`](refdb::Store) is served.
pub use refdb;

pub use delegation::{DelegationReason, Facts, delegation_reason};
pub use hidden::HiddenRefs;
pub use proc_receive::ProcReceive;
#[doc(hidden)]
pub use reception::{Client, Failure, Reception};
pub use screen::{Screen, Screened};
pub use serve::{Call, RefusedPush, ServeError, serve, turn_away};
#[doc(hidden)]
pub use serve::{Maintenance, session_id};
pub use settings::{Deny, Settings};
pub use watch::{Excess, Watch, WorkLimits, end};
