use crate::{ObjectId, RefName};

/// The value of a ref.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum Target {
    /// The object that the ref points at.
    Direct(ObjectId),
    /// The name of another ref, which is how `HEAD` points at a branch.
    Symbolic(RefName),
}

impl From<ObjectId> for Target {
    fn from(id: ObjectId) -> Self {
        Target::Direct(id)
    }
}

impl From<RefName> for Target {
    fn from(name: RefName) -> Self {
        Target::Symbolic(name)
    }
}

impl Target {
    /// Returns the object id of a direct target.
    pub fn id(&self) -> Option<ObjectId> {
        match self {
            Target::Direct(id) => Some(*id),
            Target::Symbolic(_) => None,
        }
    }

    /// Returns the refname of a symbolic target.
    pub fn symbolic(&self) -> Option<&RefName> {
        match self {
            Target::Direct(_) => None,
            Target::Symbolic(name) => Some(name),
        }
    }
}
