//! The Unix socket through which `refdb upload-pack`, the shim, lets the server do its work.
//!
//! sshd, `git daemon` and `git http-backend` start a process for each request. The shim is that process: it passes the
//! descriptors of the client's connection to the server, which lists refs without starting anything. Once the client
//! asks for objects, the server gives the connection back, and the shim runs git, so that git has the limits, the
//! environment and the control group of whoever started the shim.
//!
//! ```text
//! message      what shim and server say to each other
//! variables    the variables that must be equal in both
//! ask          the shim's side
//! passed       the server's side: messages with descriptors, reads and writes on what was passed
//! session      what the server does for a client
//! attend       one connection of a shim, from its request to its end
//! ```
//!
//! Only processes of the server's own user are heard, so that nobody gains rights through the socket.

mod ask;
mod attend;
pub(crate) mod message;
mod passed;
mod session;
mod variables;

pub use crate::upload::wants::CHECKED;
pub use ask::{Answered, NotAsked, ask};
pub(crate) use attend::attend;
pub use message::{HandOver, Mode, Request};
pub use variables::variables;
