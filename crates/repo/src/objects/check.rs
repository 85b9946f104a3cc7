use super::ObjectError;
use refdb_types::ObjectId;

/// The class of an object, as far as a ref to it is concerned.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ObjectClass {
    /// There is no object of that id, or its content is broken.
    Missing,
    /// A commit, which branches and `HEAD` may hold.
    Commit,
    /// An annotated tag, with the object at the end of its chain of tags, or `None` if the tag leads nowhere: the tag
    /// is too large to be read, a further tag is too large, missing or broken, or the object at the end is missing or
    /// of another kind than its tag says.
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

/// Verifies the objects that new values of refs point at.
///
/// # Errors
///
/// The methods fail if the object database cannot answer, for example because the id is of another hash. That an
/// object is missing or broken is an answer.
pub trait ObjectCheck: Sync {
    /// Returns the class of an object after verifying that its content has this id and parsing it. An implementation
    /// may trust the header of an object that is too large to be read.
    fn classify(&self, id: &ObjectId) -> Result<ObjectClass, ObjectError>;

    /// Returns the object that an annotated tag leads to, or `None` for any other object and for a tag that leads
    /// nowhere.
    fn peel_tag(&self, id: &ObjectId) -> Result<Option<ObjectId>, ObjectError> {
        Ok(self.classify(id)?.behind_tag())
    }

    /// Returns whether an object of this id exists. An implementation need not read the content; the default one counts
    /// an object whose content is broken as missing.
    fn exists(&self, id: &ObjectId) -> Result<bool, ObjectError> {
        Ok(self.classify(id)? != ObjectClass::Missing)
    }
}
