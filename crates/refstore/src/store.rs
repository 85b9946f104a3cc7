use crate::{
    Result, Snapshot, Target,
    backend::OptimizeOptions,
    transaction::{Transaction, TransactionOptions},
};
use bstr::BStr;
use refdb_types::{HashKind, ObjectId, RefName};

/// A repository's refs, as seen from one worktree.
///
/// Opening it reads nothing that is not needed to know where the refs are.
pub struct Store {
    hash: HashKind,
}

/// Where a refname leads once symbolic refs are followed.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Resolved {
    /// To this object, through the last ref of the chain.
    Object {
        /// The ref that holds the object.
        name: RefName,
        /// The object.
        id: ObjectId,
        /// Whether a symbolic ref was followed.
        through_symref: bool,
    },
    /// To a ref that does not exist: the ref itself, or where a dangling symbolic ref leads (an unborn branch).
    Missing(RefName),
}

impl Store {
    /// The kind of all object ids.
    pub fn hash(&self) -> HashKind {
        self.hash
    }

    /// The present state. Every call looks at the disk again.
    pub fn snapshot(&self) -> Result<Box<dyn Snapshot + '_>> {
        unimplemented!()
    }

    /// One ref, symbolic refs not followed.
    pub fn get(&self, name: &BStr) -> Result<Option<Target>> {
        self.snapshot()?.get(name)
    }

    /// Follows symbolic refs from `name`.
    pub fn resolve(&self, name: &RefName) -> Result<Resolved> {
        let _ = name;
        unimplemented!()
    }

    /// A transaction without edits.
    pub fn transaction(&self, options: TransactionOptions) -> Transaction<'_> {
        let _ = options;
        unimplemented!()
    }

    /// Brings the refs into the form that is read fastest.
    pub fn optimize(&self, options: &OptimizeOptions) -> Result<()> {
        let _ = options;
        unimplemented!()
    }
}
