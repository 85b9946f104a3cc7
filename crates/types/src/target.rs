use crate::{ObjectId, RefName};

/// What a ref holds.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum Target {
    /// An object.
    Direct(ObjectId),
    /// Another ref, as `HEAD` names a branch. Kept as a link and resolved when it is read.
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
    /// The object id of a direct target.
    pub fn id(&self) -> Option<ObjectId> {
        match self {
            Target::Direct(id) => Some(*id),
            Target::Symbolic(_) => None,
        }
    }

    /// The refname of a symbolic target.
    pub fn symbolic(&self) -> Option<&RefName> {
        match self {
            Target::Direct(_) => None,
            Target::Symbolic(name) => Some(name),
        }
    }
}
