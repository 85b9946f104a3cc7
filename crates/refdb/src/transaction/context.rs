use super::HookSource;
use crate::{Backend, Misuse, Result};
use refdb_repo::{LogPolicy, ObjectCheck};
use refdb_types::{HashKind, Ident};
use std::fmt;

/// What a transaction needs to know about its repository. A [`Store`](crate::Store) fills it in.
#[derive(Clone, Copy)]
pub struct Context<'s> {
    /// Where refs are kept.
    pub backend: &'s dyn Backend,
    /// Looks up the objects to which new values point.
    pub objects: &'s dyn ObjectCheck,
    /// The hooks, which may forbid the transaction.
    pub hooks: &'s dyn HookSource,
    /// Returns the committer for reflog entries. It is called at most once for each transaction, and only if there is
    /// something to log.
    pub committer: &'s dyn Fn() -> Result<Ident>,
    /// Which refs get reflogs.
    pub log_policy: LogPolicy,
    /// The hash function of all object ids.
    pub hash: HashKind,
    /// Why no ref may be changed: a quarantine, a bad setting, or a global ref database that decides about the refs.
    pub forbidden: Option<&'s Misuse>,
}

impl fmt::Debug for Context<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Context")
            .field("log_policy", &self.log_policy)
            .field("hash", &self.hash)
            .field("forbidden", &self.forbidden)
            .finish_non_exhaustive()
    }
}
