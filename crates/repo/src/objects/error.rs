use refdb_types::{HashKind, ObjectId};
use std::path::PathBuf;

/// Why the object database gave no answer. A missing object is no error.
#[derive(Debug, thiserror::Error)]
pub enum ObjectError {
    /// The caller's mistake: the repository has ids of another hash.
    #[error("'{id}' is no object id of this repository, whose ids are of {}", hash.name())]
    OtherHash {
        /// The id.
        id: ObjectId,
        /// The repository's hash.
        hash: HashKind,
    },
    /// It cannot be opened.
    #[error("cannot open the object database '{}': {source}", dir.display())]
    Open {
        /// The folder of the objects.
        dir: PathBuf,
        /// Why.
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// The indexes of the packs cannot be read.
    #[error("cannot count the objects in packs")]
    Count,
    /// The objects cannot be listed.
    #[error("cannot list the objects in '{}'", .0.display())]
    List(PathBuf),
    /// An id cannot be shortened.
    #[error("cannot shorten {id}: {source}")]
    Shorten {
        /// The id.
        id: ObjectId,
        /// Why.
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// The ids that begin like this one cannot be found.
    #[error("cannot look for objects that begin like {0}")]
    Like(ObjectId),
    /// Objects stand for it one after the other, more than git follows.
    #[error("replace depth too high for object {0}")]
    ReplacedTooOften(ObjectId),
    /// The ids that begin with these digits cannot be found.
    #[error("cannot look for objects that begin with {0}")]
    Prefix(String),
}
