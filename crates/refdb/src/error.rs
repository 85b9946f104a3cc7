//! Why an operation on a store fails.
//!
//! [`Error`] says which part failed, and its variant carries the details as values: callers never have to parse a
//! message. A [`Rejection`] is about one edit of a transaction, a [`BrokenRef`] about one ref or one folder of refs.

mod broken;
mod hook;
mod migrate;
mod refusal;
mod rejection;

pub use broken::{BrokenRef, LooseError};
pub use hook::{HookFailure, HookState};
pub use migrate::{MigrateError, Unfit};
pub use refusal::{Limit, Misuse, Undecided};
pub use rejection::{Rejection, RejectionClass, RejectionReason};

use bstr::{BString, ByteSlice};
use refdb_vfs::LockError;
use reftable::stack::StackError;
use std::path::PathBuf;

/// What operations on a store return.
pub type Result<T> = std::result::Result<T, Error>;

/// How many times a query is repeated because the server of a network file system has lost a file that was being read.
pub(crate) const LOSSES_MAX: usize = 8;

/// Why an operation on a store failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// An operation on a file failed.
    #[error(transparent)]
    Io(refdb_vfs::Error),
    /// A lock file could not be created: someone else held it too long, or a file operation failed.
    #[error(transparent)]
    Lock(LockError),
    /// A stack of reftables, or the refs in memory, could not be locked: someone else held the lock too long, or a file
    /// operation failed.
    #[error("cannot lock references: {0}")]
    StackLocked(#[source] LockError),
    /// An operation on a stack of reftables failed, for instance because the stack is broken. The changes were made
    /// nevertheless if the error is [`StackError::NotDurable`], and perhaps if it is [`StackError::OutcomeUnknown`].
    #[error(transparent)]
    Stack(StackError),
    /// A reftable is broken, or cannot hold a record.
    #[error(transparent)]
    Table(reftable::Error),
    /// A ref's own file is corrupt or cannot be read, or a folder of refs may not be read. Other refs are not affected:
    /// a listing continues after it.
    #[error(transparent)]
    BrokenRef(Box<BrokenRef>),
    /// packed-refs, a journal entry or another text file of the store is corrupt, or something else is in its place.
    #[error("{}:{line}: {what}", path.display())]
    Corrupt {
        /// The file.
        path: PathBuf,
        /// The line, counted from 1; also 1 if the fault is in the file as a whole, or if `what` names a byte instead.
        line: u64,
        /// What is wrong, and in some cases the remedy.
        what: String,
    },
    /// An edit was rejected, and its transaction fails with it. No ref has changed, unless the edit was rejected during
    /// [`Prepared::commit`](crate::Prepared::commit): where refs are files, earlier refs may have changed by then.
    #[error("{0}")]
    Rejected(Box<Rejection>),
    /// The repository cannot be opened: for instance, there is none here, its owner is not trusted, or its format is
    /// unknown.
    #[error(transparent)]
    Repository(#[from] refdb_repo::RepositoryError),
    /// The configuration cannot be used.
    #[error(transparent)]
    Config(#[from] refdb_repo::ConfigError),
    /// The committer for reflogs cannot be determined.
    #[error(transparent)]
    Ident(#[from] refdb_repo::IdentError),
    /// The object database could not be read.
    #[error(transparent)]
    Objects(refdb_repo::ObjectError),
    /// The reference-transaction hook refused, or could not be run.
    #[error(transparent)]
    Hook(#[from] HookFailure),
    /// The caller asked for something impossible or forbidden. No ref has changed.
    #[error(transparent)]
    Misuse(#[from] Misuse),
    /// A limit was reached. No ref has changed; trying again, or with less, may help.
    #[error(transparent)]
    Limit(#[from] Limit),
    /// A batch could be neither completed nor undone. Its refs stay locked until one of the two is done.
    #[error(
        "{source}; the batch is not finished: once the cause is gone, the next writer of its refs or `refdb refs settle` \
         finishes or undoes it ('{}')",
        record.display()
    )]
    Unrecovered {
        /// The journal entry of the batch.
        record: PathBuf,
        /// The failure that interrupted the batch.
        source: Box<Error>,
    },
    /// A batch has taken effect only in part: `refs` do not have their new values, for instance because a ref that
    /// conflicts with their names was created meanwhile, or because another program changed them without a lock.
    #[error("{source}; other refs of the batch are changed, these are not: {}", bstr::join(", ", refs).as_bstr())]
    HalfDone {
        /// The refs that do not have their new values.
        refs: Vec<BString>,
        /// The failure that interrupted the batch.
        source: Box<Error>,
    },
    /// The global ref database did not agree to the transaction, gave no answer, or could not be asked.
    #[error(transparent)]
    Undecided(#[from] Undecided),
    /// A [`Backend`](crate::Backend) that is not one of this crate's failed for a reason of its own.
    #[error("{0}")]
    Backend(#[source] Box<dyn std::error::Error + Send + Sync>),
    /// A signal asked the process to end. Everything that was not committed has been undone, except that an interrupted
    /// migration is finished or undone by the next one.
    #[error("{0}")]
    Interrupted(#[source] std::io::Error),
    /// A symbolic ref leads to a name that no ref can have, or a ref that is listed has such a name itself, which is
    /// then in both fields.
    #[error(
        "'{name}'{} is no refname",
        if name == target { String::new() } else { format!(" leads to '{target}', which") }
    )]
    BadTarget {
        /// The symbolic ref.
        name: BString,
        /// The name that it leads to.
        target: BString,
    },
}

impl Error {
    /// Returns whether another process was to write the changes together with its own and gave up, so that nothing has
    /// changed and the transaction can begin anew.
    pub(crate) fn is_group_given_up(&self) -> bool {
        matches!(self, Error::Stack(StackError::GroupGivenUp))
    }

    /// The operation on a file that failed, if the error is [`Error::Io`]. Returns `None` for all other errors, even
    /// for those that contain such a failure, as [`Error::Lock`] may.
    pub fn io(&self) -> Option<&refdb_vfs::Error> {
        match self {
            Error::Io(error) => Some(error),
            _ => None,
        }
    }

    /// Returns whether the error is about a single ref or a folder of refs: a file that cannot be read or parsed, a
    /// folder that may not be read, or a ref that has or leads to a name that no ref can have.
    pub fn is_broken_ref(&self) -> bool {
        matches!(self, Error::BrokenRef(_) | Error::BadTarget { .. })
    }

    /// Returns whether the server of a network file system no longer has a file that was being read, usually because
    /// another machine has replaced or removed it. The query can then be repeated.
    pub fn is_stale(&self) -> bool {
        self.io().is_some_and(refdb_vfs::Error::is_stale)
    }
}

/// A wait that a signal ended is [`Error::Interrupted`].
impl From<refdb_vfs::Error> for Error {
    fn from(error: refdb_vfs::Error) -> Self {
        if error.is_signal() { Error::Interrupted(error.source) } else { Error::Io(error) }
    }
}

/// A wait that a signal ended is [`Error::Interrupted`].
impl From<LockError> for Error {
    fn from(error: LockError) -> Self {
        match error {
            LockError::Io(error) if error.is_signal() => error.into(),
            error => Error::Lock(error),
        }
    }
}

/// A failed file operation in a table is [`Error::Io`], as it is in other files.
impl From<reftable::Error> for Error {
    fn from(error: reftable::Error) -> Self {
        match error {
            reftable::Error::Io(error) => (*error).into(),
            error => Error::Table(error),
        }
    }
}

/// [`StackError::Io`] and [`StackError::Table`] become the errors that they contain, and [`StackError::Interrupted`]
/// and a wait for a lock that a signal ended become [`Error::Interrupted`].
impl From<StackError> for Error {
    fn from(error: StackError) -> Self {
        match error {
            StackError::Io(error) => error.into(),
            StackError::Lock(LockError::Io(error)) if error.is_signal() => error.into(),
            StackError::Table(error) => error.into(),
            StackError::Interrupted(error) => Error::Interrupted(error),
            error => Error::Stack(error),
        }
    }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_signal_is_one_error_wherever_it_is_noticed() {
        let signal = StackError::Interrupted(std::io::ErrorKind::Interrupted.into());
        assert!(matches!(Error::from(signal), Error::Interrupted(_)));
        let wait = || refdb_vfs::Error {
            operation: "lock",
            path: PathBuf::from("x"),
            source: std::io::Error::new(std::io::ErrorKind::Interrupted, "stopped by signal 15"),
        };
        for error in [
            Error::from(wait()),
            LockError::Io(wait()).into(),
            StackError::Io(wait()).into(),
            StackError::Lock(LockError::Io(wait())).into(),
        ] {
            assert!(matches!(error, Error::Interrupted(_)), "{error:?}");
        }
    }

    #[test]
    fn a_name_that_is_none_is_named_once() {
        let text = |name: &str, target: &str| Error::BadTarget { name: name.into(), target: target.into() }.to_string();
        assert_eq!(text("a b", "a b"), "'a b' is no refname");
        assert_eq!(text("s", "a b"), "'s' leads to 'a b', which is no refname");
    }
}
