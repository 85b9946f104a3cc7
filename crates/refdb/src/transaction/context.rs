use super::{HookSource, LogPolicy};
use crate::{Backend, Result};
use refdb_types::{HashKind, Ident, ObjectId};

/// What a transaction needs of the repository around it. A [`Store`](crate::Store) fills it in.
#[derive(Clone, Copy)]
pub struct Context<'s> {
    /// Where refs are kept.
    pub backend: &'s dyn Backend,
    /// Answers what new ids are.
    pub objects: &'s dyn ObjectCheck,
    /// Whoever may forbid the transaction, or wants to hear of it.
    pub hooks: &'s dyn HookSource,
    /// Who the reflog says it was. Asked once a transaction, and only if there is something to log.
    pub committer: &'s dyn Fn() -> Result<Ident>,
    /// Which refs get reflogs.
    pub log_policy: LogPolicy,
    /// The kind of all object ids.
    pub hash: HashKind,
    /// Why no ref may be changed. `GIT_QUARANTINE_PATH` may be set: a pre-receive hook must not update refs, since the
    /// objects it sees may still be thrown away. Or a setting may be bad.
    pub forbidden: Option<&'s str>,
}

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

/// Reads and verifies the objects that refs shall point at. Each distinct id is asked for once a transaction.
pub trait ObjectCheck: Sync {
    /// Reads the object, verifies that its content has this id, and parses it.
    fn classify(&self, id: &ObjectId) -> Result<ObjectClass>;

    /// Whether there is such an object, whatever its content.
    fn exists(&self, id: &ObjectId) -> Result<bool> {
        Ok(self.classify(id)? != ObjectClass::Missing)
    }
}
