//! The Unix socket through which `refdb upload-pack`, called the shim, passes its client to the server.
//!
//! sshd, `git daemon` and `git http-backend` start a process for each request. The shim is that process: it passes the
//! file descriptors of the client's connection to the server, which lists the refs from its caches. When the client
//! asks for objects, the server hands the client back, and the shim runs git. Git therefore has the limits, the
//! environment and the control group that sshd or the other program gave to the shim.
//!
//! ```text
//! message      the messages between shim and server
//! variables    the environment variables that must be equal in both
//! ask          the shim's side
//! passed       the server's side: receives messages with descriptors, reads from and writes to these descriptors
//! session      serves the client of a shim
//! attend       serves one connection of a shim, from its request to its end
//! ```
//!
//! The server accepts only processes of its own user, so that nobody gains rights through the socket.

mod ask;
mod attend;
pub(crate) mod message;
mod passed;
mod session;
mod variables;

pub use crate::program::CHECKED;
pub use ask::{Answered, NotAsked, ask};
pub(crate) use attend::attend;
pub use message::{HandOver, Mode, Request};
pub use variables::variables;
