use super::ObjectError;
use refdb_types::ObjectId;

/// The class of an object, as far as a ref to it is concerned.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ObjectClass {
    /// There is no object of that id, or it cannot be read.
    Missing,
    /// A commit, which branches and `HEAD` may hold.
    Commit,
    /// An annotated tag, with the object at the end of the chain of tags if that object exists.
    Tag(Option<ObjectId>),
    /// A tree or a blob.
    Other,
}

impl ObjectClass {
    /// Returns the object that a tag leads to, or `None` for any other object and for a tag that leads nowhere.
    pub fn behind_tag(self) -> Option<ObjectId> {
        match self {
            ObjectClass::Tag(to) => to,
            ObjectClass::Missing | ObjectClass::Commit | ObjectClass::Other => None,
        }
    }
}

/// Verifies the objects that new values of refs point at. A transaction classifies each distinct id once.
///
/// # Errors
///
/// The methods fail if the object database cannot answer. That an object is missing or broken is an answer.
pub trait ObjectCheck: Sync {
    /// Reads the object, verifies that its content has this id, and parses it.
    fn classify(&self, id: &ObjectId) -> Result<ObjectClass, ObjectError>;

    /// Returns the object that an annotated tag leads to, or `None` for any other object and for a tag that leads
    /// nowhere.
    fn peel_tag(&self, id: &ObjectId) -> Result<Option<ObjectId>, ObjectError> {
        Ok(self.classify(id)?.behind_tag())
    }

    /// Returns whether an object of this id exists, whatever its content is.
    fn exists(&self, id: &ObjectId) -> Result<bool, ObjectError> {
        Ok(self.classify(id)? != ObjectClass::Missing)
    }
}
