use refdb_types::{HashKind, ObjectId};
use std::path::PathBuf;

/// The reason why the object database could not answer. A missing object is not an error.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ObjectError {
    /// The caller asked for an id of another hash than the repository's.
    #[error("'{id}' is no object id of this repository, whose ids are of {}", hash.name())]
    OtherHash {
        /// The id that the caller asked for.
        id: ObjectId,
        /// The repository's hash.
        hash: HashKind,
    },
    /// The object database cannot be opened.
    #[error("cannot open the object database '{}': {source}", dir.display())]
    Open {
        /// The folder of the objects.
        dir: PathBuf,
        /// The cause.
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// The indexes of the packs cannot be read.
    #[error("cannot count the objects in packs")]
    Count,
    /// The objects cannot be listed.
    #[error("cannot list the objects in '{}'", .0.display())]
    List(PathBuf),
    /// An id cannot be abbreviated.
    #[error("cannot shorten {id}: {source}")]
    Shorten {
        /// The id that cannot be abbreviated.
        id: ObjectId,
        /// The cause.
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// The ids that begin like this one cannot be looked up.
    #[error("cannot look for objects that begin like {0}")]
    Like(ObjectId),
    /// An object is replaced by another one more times in a row than git follows.
    #[error("replace depth too high for object {0}")]
    ReplacedTooOften(ObjectId),
    /// Two replace refs replace the same object. This is the second, without `refs/replace/`.
    #[error("duplicate replace ref: {0}")]
    ReplacedTwice(String),
    /// The ids that begin with these digits cannot be looked up.
    #[error("cannot look for objects that begin with {0}")]
    Prefix(String),
}
