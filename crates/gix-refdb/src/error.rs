use bstr::BString;
use gix_hash::ObjectId;
use gix_ref::file::{
    find::NotFound,
    transaction::prepare::{MustNotExist, ReferenceOutOfDate},
};

/// The result of a call of this crate.
pub type Result<T> = std::result::Result<T, Error>;

/// The reason why a call failed. Where gix-ref has a type for the reason, that type is used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The given name is not a valid refname.
    #[error(transparent)]
    Name(#[from] gix_ref::name::Error),
    /// A name that is stored in the repository is not a valid refname for gix-ref.
    #[error("'{name}' is stored as a refname, but gitoxide allows no such name; refdb itself can read it")]
    StoredName {
        /// The name.
        name: BString,
        /// The rule that the name breaks.
        source: gix_ref::name::Error,
    },
    /// The ref does not exist, or a symbolic ref leads to one that does not exist.
    #[error(transparent)]
    NotFound(NotFound),
    /// The ref has another value than the edit expects.
    #[error(transparent)]
    OutOfDate(ReferenceOutOfDate),
    /// The ref exists with a value other than the new one, although the edit expects that it does not exist.
    #[error(transparent)]
    MustNotExist(MustNotExist),
    /// A chain of symbolic refs is longer than four steps, or circular.
    #[error("'{name}' leads through too many symbolic refs; point it at a ref that holds an object id")]
    Depth {
        /// The ref at which the chain begins.
        name: BString,
    },
    /// The object to which a ref or its tag points does not exist.
    #[error("'{name}' cannot be peeled: there is no object {id}")]
    NoObject {
        /// The ref.
        name: BString,
        /// The object.
        id: ObjectId,
    },
    /// The object to which a ref or its tag points could not be read.
    #[error("'{name}' cannot be peeled: object {id} cannot be read")]
    Object {
        /// The ref.
        name: BString,
        /// The object.
        id: ObjectId,
        /// The error of the object database.
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// The edit would change only the reflog, which refdb does not support.
    #[error("'{name}': an edit of the reflog alone (RefLog::Only) is not supported; use RefLog::AndReference")]
    LogOnly {
        /// The ref.
        name: BString,
    },
    /// A deletion expects that the ref does not exist.
    #[error("'{name}': a deletion cannot expect that there is no ref (PreviousValue::MustNotExist)")]
    DeletesNothing {
        /// The ref.
        name: BString,
    },
    /// The committer's time cannot be stored in a reflog: it is not a number of seconds since 1970 with an offset.
    #[error("the committer's time '{0}' is not 'SECONDS +HHMM' since 1970")]
    Time(String),
    /// Any other error of refdb, such as a lock that another process holds, a name conflict or a missing object.
    #[error(transparent)]
    Refdb(#[from] refdb::Error),
}

impl Error {
    /// Returns whether the server of a network file system has lost a file that was being read.
    pub(crate) fn is_stale(&self) -> bool {
        matches!(self, Error::Refdb(error) if error.is_stale())
    }
}
