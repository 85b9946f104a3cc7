use std::{path::PathBuf, sync::Arc};

/// What a view returns.
pub type Result<T> = std::result::Result<T, Error>;

/// Why a view cannot answer.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The store says why: a broken file, a lock, an edit that cannot happen.
    #[error(transparent)]
    Store(#[from] refdb::Error),
    /// The same, said to all whose batches would have been made together.
    #[error(transparent)]
    Shared(Arc<refdb::Error>),
    /// The folder is no repository, or one that is not understood.
    #[error(transparent)]
    Repository(#[from] refdb::RepositoryError),
    /// The repository was there and is gone.
    #[error("the repository '{}' is gone: it was removed or renamed while it was open", .0.display())]
    Gone(PathBuf),
    /// The repository was replaced or converted again and again while it was being read.
    #[error("the repository '{}' changes faster than it can be opened; try again", .0.display())]
    Restless(PathBuf),
    /// The thread that made this batch together with others' ended by a fault of refdb's.
    #[error(
        "a fault ended the thread that changed the repository '{}' for others too; whether these edits were made is not \
         known: look at the refs, then try again",
        .0.display()
    )]
    Abandoned(PathBuf),
}

impl Error {
    /// The broken ref that this is about, if it is about one.
    pub fn broken_ref(&self) -> Option<&refdb::BrokenRef> {
        match self.store() {
            Some(refdb::Error::BrokenRef(broken)) => Some(broken),
            _ => None,
        }
    }

    /// Whether the disk, or a quota, had no room for what was to be written.
    pub(crate) fn is_want_of_room(&self) -> bool {
        matches!(self.store(), Some(refdb::Error::Io(error)) if error.is_want_of_room())
    }

    /// What the store says, if it is the store that says it.
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
