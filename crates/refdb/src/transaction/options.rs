/// What becomes of the other edits when one cannot happen.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Mode {
    /// Nothing happens at all: the first rejection is the error.
    #[default]
    Atomic,
    /// They happen: git's batch updates. What concerns the whole transaction (a hook that says no, a stack that cannot
    /// be locked) still fails it.
    PerEdit,
}

/// How a transaction goes about its edits.
#[derive(Clone, Copy, Default, Debug)]
pub struct TransactionOptions {
    /// What one impossible edit means for the others.
    pub mode: Mode,
    /// Run no reference-transaction hook.
    pub skip_hook: bool,
    /// Allow to delete `a` and create `a/b` (or the reverse) in one transaction, as JGit's callers expect. Git refuses.
    /// So does the files backend, unless the transaction is [whole](Self::whole) and both are shared refs.
    pub allow_replacing_parents: bool,
    /// Show readers, also after a crash, all changes or none. Reftable does so anyway; with files it means that
    /// packed-refs is rewritten for two refs already.
    pub whole: bool,
    /// Let an edit replace or delete a ref whose file is broken. The edit expects nothing of the ref, or that there is
    /// none. Git refuses; JGit takes such a ref for none. A file outside `refs/` may belong to another program, so it
    /// is replaced only if its name is spelt as a root ref's.
    pub mends: bool,
    /// Write only refs whose names are [safe](refdb_types::is_safe), whether the edit names them or a symbolic ref leads
    /// to them. Git accepts every well-formed name, such as `foo/bar`.
    pub safe_names: bool,
    /// Reject the deletion of HEAD itself, without which git does not recognise the repository. Git deletes it.
    pub keeps_head: bool,
}
