use std::{path::PathBuf, sync::Arc};

/// The result of a query or a commit of a view.
pub type Result<T> = std::result::Result<T, Error>;

/// Why a view could not answer or commit.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The store failed, for instance because a ref is broken, others hold a lock, an edit was rejected, or a file
    /// could not be read.
    #[error(transparent)]
    Store(#[from] refdb::Error),
    /// The store failed for a group of batches that were to be written together; all of them have this error.
    #[error(transparent)]
    Shared(Arc<refdb::Error>),
    /// The repository cannot be opened, for instance because the folder is no repository or has a format that is not
    /// known.
    #[error(transparent)]
    Repository(#[from] refdb::RepositoryError),
    /// The repository or its configuration was removed or renamed after the view had read the configuration.
    #[error("the repository '{}' is gone: it was removed or renamed while it was open", .0.display())]
    Gone(PathBuf),
    /// The repository was replaced, converted or reconfigured again and again during a call, or batches of this process
    /// changed too many of its refs while several were being read.
    #[error("the repository '{}' changes faster than it can be read; try again", .0.display())]
    Restless(PathBuf),
    /// The thread that was writing this batch together with others panicked.
    #[error(
        "a fault ended the thread that changed the repository '{}' for others too; whether these edits were made is \
         not known: look at the refs, then try again",
        .0.display()
    )]
    Abandoned(PathBuf),
}

impl Error {
    /// Returns the broken ref that this error is about; `None` for any other error, [`refdb::Error::BadTarget`]
    /// included.
    pub fn broken_ref(&self) -> Option<&refdb::BrokenRef> {
        match self.store() {
            Some(refdb::Error::BrokenRef(broken)) => Some(broken),
            _ => None,
        }
    }

    /// Returns whether a ref exists whose value cannot be used; see [`refdb::Error::is_broken_ref`].
    pub(crate) fn is_broken_ref(&self) -> bool {
        self.store().is_some_and(refdb::Error::is_broken_ref)
    }

    /// Returns whether a batch failed because an edit was rejected, a hook refused or could not be run, or the
    /// agreement of the global ref database is missing.
    pub(crate) fn is_refusal(&self) -> bool {
        matches!(self.store(), Some(refdb::Error::Rejected(_) | refdb::Error::Hook(_) | refdb::Error::Undecided(_)))
    }

    /// Returns whether a batch with this error may have changed refs.
    pub(crate) fn may_be_applied(&self) -> bool {
        use refdb::{
            Error::{HalfDone, Hook, Interrupted, Stack, Unrecovered},
            HookFailure::NotRun,
            StackError::{NotDurable, OutcomeUnknown},
        };
        match self.store() {
            None => matches!(self, Error::Abandoned(_)),
            Some(HalfDone { .. } | Unrecovered { .. } | Interrupted(_)) => true,
            Some(Stack(NotDurable(_) | OutcomeUnknown)) => true,
            // The hook may have been that of the state `committed`.
            Some(Hook(NotRun(_))) => true,
            Some(_) => false,
        }
    }

    /// Returns whether a file operation, for instance the creation of a lock, failed because the disk was full, a quota
    /// used up, or a file too large for the file system or the process.
    pub(crate) fn is_want_of_room(&self) -> bool {
        use refdb::{
            Error::{Io, Lock, StackLocked},
            vfs::LockError,
        };
        match self.store() {
            Some(Io(error) | Lock(LockError::Io(error)) | StackLocked(LockError::Io(error))) => error.is_want_of_room(),
            _ => false,
        }
    }

    /// Returns whether a file was replaced or removed while this process was reading it, usually by another machine on
    /// a network file system. The query can then be repeated.
    pub fn is_stale(&self) -> bool {
        self.store().is_some_and(refdb::Error::is_stale)
    }

    /// The error of the store, if the store failed.
    pub fn store(&self) -> Option<&refdb::Error> {
        match self {
            Error::Store(error) => Some(error),
            Error::Shared(error) => Some(error),
            _ => None,
        }
    }
}

impl From<refdb_vfs::Error> for Error {
    fn from(error: refdb_vfs::Error) -> Self {
        Error::Store(error.into())
    }
}

impl From<refdb::ObjectError> for Error {
    fn from(error: refdb::ObjectError) -> Self {
        Error::Store(error.into())
    }
}

impl From<reftable::Error> for Error {
    fn from(error: reftable::Error) -> Self {
        Error::Store(error.into())
    }
}

impl From<reftable::stack::StackError> for Error {
    fn from(error: reftable::stack::StackError) -> Self {
        Error::Store(error.into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use refdb::vfs::LockError;
    use std::io;

    /// Regression: only failures after the locks were taken counted, so that a disk without a free inode stayed full.
    #[test]
    fn a_lock_for_which_there_is_no_room_has_refs_packed() {
        let failed = |kind: io::ErrorKind| {
            let error = refdb_vfs::Error { operation: "create", path: "a.lock".into(), source: kind.into() };
            Error::Store(refdb::Error::Lock(LockError::Io(error)))
        };
        assert!(failed(io::ErrorKind::StorageFull).is_want_of_room());
        assert!(!failed(io::ErrorKind::PermissionDenied).is_want_of_room());
    }
}
