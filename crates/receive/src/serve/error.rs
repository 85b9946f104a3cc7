//! The errors that end a session early.

use crate::wire::ProtocolError;
use std::io;

/// Why a session ended early.
///
/// Refs may have changed only if the error arose during or after the update, for example from a signal.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ServeError {
    /// The client's bytes are not a valid request, or the request exceeds a limit. No ref has changed.
    #[error(transparent)]
    Protocol(#[from] ProtocolError),
    /// The push must be delegated to git, because the client is a shallow clone, signs the push, or names refs of a
    /// proc-receive hook. No ref has changed.
    ///
    /// The value holds the bytes that were read from the client since the advertisement. Pass them, and then all
    /// further input, to `git receive-pack --stateless-rpc`. None of the commands creates or updates a ref whose name
    /// is too long for the repository: such a push is refused instead.
    #[error("only git can receive this push: pass it on to 'git receive-pack --stateless-rpc'")]
    Delegated(Vec<u8>),
    /// Reading from the client, writing to it, or running a program failed, or a signal ended the session.
    #[error(transparent)]
    Io(#[from] io::Error),
    /// The engine could not read or change the repository.
    #[error(transparent)]
    Store(#[from] refdb::Error),
}

impl ServeError {
    /// Returns whether the server of a network file system has lost a file while it was read, so that what was read can
    /// be read again.
    pub(super) fn is_stale(&self) -> bool {
        matches!(self, ServeError::Store(error) if error.is_stale())
    }
}

impl From<refdb_vfs::Error> for ServeError {
    fn from(error: refdb_vfs::Error) -> Self {
        ServeError::Store(error.into())
    }
}
