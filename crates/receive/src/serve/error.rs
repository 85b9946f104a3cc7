//! How a session ends early.

use crate::wire::ProtocolError;
use std::io;

/// Why a session ended early. No ref has changed, unless it happened after that: a signal, a broken setting of a hook.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// The client's request is none.
    #[error(transparent)]
    Protocol(#[from] ProtocolError),
    /// The client wants a thing that only git does. It is a shallow clone, or signs, or pushes to refs of a
    /// proc-receive hook. This is what it said, read after the advertisement.
    #[error("the push is one for git")]
    Delegated(Vec<u8>),
    /// The client, or a program, could not be reached.
    #[error(transparent)]
    Io(#[from] io::Error),
    /// The repository could not be used.
    #[error(transparent)]
    Store(#[from] refdb::Error),
}

impl From<refdb_vfs::Error> for ServeError {
    fn from(error: refdb_vfs::Error) -> Self {
        ServeError::Store(error.into())
    }
}
