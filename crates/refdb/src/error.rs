use crate::{BrokenRef, Limit, MigrateError, Misuse, Rejection, Undecided};
use bstr::{BString, ByteSlice};
use refdb_vfs::LockError;
use std::path::PathBuf;

/// What operations on a store return.
pub type Result<T> = std::result::Result<T, Error>;

/// Why an operation on a store failed as a whole.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The operating system refused.
    #[error(transparent)]
    Io(#[from] refdb_vfs::Error),
    /// A lock was not had in time.
    #[error(transparent)]
    Lock(#[from] LockError),
    /// A stack of reftables could not be locked in time.
    #[error("cannot lock references: {0}")]
    StackLocked(#[source] LockError),
    /// A stack of reftables is broken, or cannot be read or written.
    #[error(transparent)]
    Stack(#[from] reftable::stack::StackError),
    /// A reftable is broken.
    #[error(transparent)]
    Table(#[from] reftable::Error),
    /// A ref's own file is no good. Others are not concerned: a list goes on behind it.
    #[error(transparent)]
    BrokenRef(Box<BrokenRef>),
    /// packed-refs or a reflog is broken.
    #[error("{}:{line}: {what}", path.display())]
    Corrupt {
        /// The file.
        path: PathBuf,
        /// The line, counted from 1.
        line: u64,
        /// Its fault, and the remedy.
        what: String,
    },
    /// An edit of an atomic transaction is rejected. No ref has changed.
    #[error("{0}")]
    Rejected(Box<Rejection>),
    /// There is no repository, or none that is safe to use and understood.
    #[error(transparent)]
    Repository(#[from] refdb_repo::RepositoryError),
    /// The configuration cannot be used.
    #[error(transparent)]
    Config(#[from] refdb_repo::ConfigError),
    /// Nobody can be named as the committer.
    #[error(transparent)]
    Ident(#[from] refdb_repo::IdentError),
    /// The object database gave no answer.
    #[error(transparent)]
    Objects(refdb_repo::ObjectError),
    /// The reference-transaction hook said no, or could not be run.
    #[error("{0}")]
    Hook(String),
    /// The caller asks for something that cannot be. Nothing has happened.
    #[error(transparent)]
    Misuse(#[from] Misuse),
    /// A bound was met. Nothing has happened; trying again, or with less, may help.
    #[error(transparent)]
    Limit(#[from] Limit),
    /// The refs cannot be brought into the other format. Nothing has happened.
    #[error(transparent)]
    Migrate(#[from] MigrateError),
    /// A batch could neither be finished nor undone. Its refs stay locked until that is done.
    #[error(
        "{source}; the batch is not finished: once the cause is gone, the next writer of its refs or `refdb refs settle` \
         finishes or undoes it ('{}')",
        record.display()
    )]
    Unrecovered {
        /// Its record.
        record: PathBuf,
        /// What went wrong.
        source: Box<Error>,
    },
    /// Of a batch these refs do not have their new values, and others do. A ref stands in their way that was made
    /// meanwhile, or someone changed them without a lock.
    #[error("{source}; other refs of the batch are changed, these are not: {}", bstr::join(", ", refs).as_bstr())]
    HalfDone {
        /// The refs that are as they were.
        refs: Vec<BString>,
        /// What went wrong.
        source: Box<Error>,
    },
    /// The global ref database did not let it happen.
    #[error(transparent)]
    Undecided(#[from] Undecided),
    /// A [`Backend`](crate::Backend) that is not one of this crate's failed for a reason of its own.
    #[error("{0}")]
    Backend(#[source] Box<dyn std::error::Error + Send + Sync>),
    /// A signal asks the process to end. What was not committed is undone.
    #[error("{0}")]
    Interrupted(#[source] std::io::Error),
    /// A symbolic ref in a reftable leads to a name that no ref can have.
    #[error("'{name}' leads to '{target}', which is no refname")]
    BadTarget {
        /// The symbolic ref.
        name: BString,
        /// Where it leads.
        target: BString,
    },
}

impl From<refdb_repo::ObjectError> for Error {
    fn from(error: refdb_repo::ObjectError) -> Self {
        match error {
            refdb_repo::ObjectError::OtherHash { id, .. } => Misuse::BadId(id.to_string()).into(),
            error => Error::Objects(error),
        }
    }
}

impl From<BrokenRef> for Error {
    fn from(broken: BrokenRef) -> Self {
        Error::BrokenRef(Box::new(broken))
    }
}

impl From<Rejection> for Error {
    fn from(rejection: Rejection) -> Self {
        Error::Rejected(Box::new(rejection))
    }
}
