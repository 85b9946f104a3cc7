use bstr::BString;
use gix_hash::ObjectId;
use gix_ref::file::{
    find::NotFound,
    transaction::prepare::{MustNotExist, ReferenceOutOfDate},
};

/// What the calls of this crate return.
pub type Result<T> = std::result::Result<T, Error>;

/// Why a call failed. Where gix-ref has a type for the reason, it is that type.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The given name is no refname.
    #[error(transparent)]
    Name(#[from] gix_ref::name::Error),
    /// A name that is stored is no refname for gix-ref.
    #[error("'{name}' is stored as a refname, but gitoxide allows no such name; refdb itself can read it")]
    StoredName {
        /// The name.
        name: BString,
        /// Its fault.
        source: gix_ref::name::Error,
    },
    /// There is no such ref, or a symbolic ref leads to none.
    #[error(transparent)]
    NotFound(NotFound),
    /// The ref has another value than the edit expects.
    #[error(transparent)]
    OutOfDate(ReferenceOutOfDate),
    /// The ref exists with another value, and the edit expects that it does not exist.
    #[error(transparent)]
    MustNotExist(MustNotExist),
    /// Symbolic refs lead on for more than four steps, or in a circle.
    #[error("'{name}' leads through too many symbolic refs; point it at its object's ref")]
    Depth {
        /// The ref where the chain began.
        name: BString,
    },
    /// The object that a ref holds, or that its tag names, is not there.
    #[error("'{name}' cannot be peeled: there is no object {id}")]
    NoObject {
        /// The ref.
        name: BString,
        /// The object.
        id: ObjectId,
    },
    /// The object could not be read.
    #[error("'{name}' cannot be peeled: object {id} cannot be read")]
    Object {
        /// The ref.
        name: BString,
        /// The object.
        id: ObjectId,
        /// What the object database says.
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// The edit asks for a change of the reflog alone, which refdb does not make.
    #[error("'{name}': an edit of the reflog alone (RefLog::Only) is not supported; use RefLog::AndReference")]
    LogOnly {
        /// The ref.
        name: BString,
    },
    /// A deletion expects that there is no ref.
    #[error("'{name}': a deletion cannot expect that there is no ref (PreviousValue::MustNotExist)")]
    DeletesNothing {
        /// The ref.
        name: BString,
    },
    /// The committer's time is no time that a reflog can hold.
    #[error("the committer's time '{0}' is not 'SECONDS +HHMM' since 1970")]
    Time(String),
    /// Anything else that refdb says: a lock that is held, a name conflict, an object that is missing.
    #[error(transparent)]
    Refdb(#[from] refdb::Error),
}
