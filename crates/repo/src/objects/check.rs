use super::ObjectError;
use refdb_types::ObjectId;

/// What an object is, as far as a ref that points at it is concerned.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ObjectClass {
    /// There is none of that id, or it cannot be read.
    Missing,
    /// A commit: branches and HEAD may hold it.
    Commit,
    /// An annotated tag, and the object that it, or a chain of tags, leads to, if that exists.
    Tag(Option<ObjectId>),
    /// A tree or a blob.
    Other,
}

impl ObjectClass {
    /// What a tag leads to. `None` for any other object, and for a tag that leads nowhere.
    pub fn behind_tag(self) -> Option<ObjectId> {
        match self {
            ObjectClass::Tag(to) => to,
            ObjectClass::Missing | ObjectClass::Commit | ObjectClass::Other => None,
        }
    }
}

/// Reads and verifies the objects that refs shall point at. Each distinct id is asked for once a transaction.
pub trait ObjectCheck: Sync {
    /// Reads the object, verifies that its content has this id, and parses it.
    fn classify(&self, id: &ObjectId) -> Result<ObjectClass, ObjectError>;

    /// What an annotated tag leads to. `None` for any other object, and for a tag that leads nowhere.
    fn peel_tag(&self, id: &ObjectId) -> Result<Option<ObjectId>, ObjectError> {
        Ok(self.classify(id)?.behind_tag())
    }

    /// Whether there is such an object, whatever its content.
    fn exists(&self, id: &ObjectId) -> Result<bool, ObjectError> {
        Ok(self.classify(id)? != ObjectClass::Missing)
    }
}
