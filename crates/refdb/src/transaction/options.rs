/// What a rejected edit means for the other edits of its transaction.
///
/// The mode is about edits that are rejected before anything changes, not about failures of a commit that has begun;
/// [`Transaction`](crate::Transaction#atomicity) says what those leave.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Mode {
    /// The first rejection is the transaction's error, and no ref changes.
    #[default]
    Atomic,
    /// The other edits are made, as by `git update-ref --batch-updates`. A failure that concerns the transaction
    /// itself (a hook that refuses it, a stack that cannot be locked) still fails the transaction, and so does, as in
    /// git, a rejection of the class [`Generic`](crate::RejectionClass::Generic), such as a lock file that cannot be
    /// made. Only a broken ref does not, if [`allow_broken`](TransactionOptions::allow_broken) is set.
    PerEdit,
}

/// How a transaction treats its edits.
#[derive(Clone, Copy, Default, Debug)]
#[non_exhaustive]
pub struct TransactionOptions {
    /// What a rejected edit means for the other edits.
    pub mode: Mode,
    /// Do not run the reference-transaction hook.
    pub skip_hook: bool,
    /// Allow a transaction to delete `a` and create `a/b`, or the reverse, as JGit's callers expect. Git refuses such a
    /// transaction. The files backend refuses it, too, where a loose ref or a lock is in the way, unless
    /// [`atomic_visibility`](Self::atomic_visibility) is set and both are shared refs that hold objects. Outside of
    /// `refs/` no format lets `a` replace `a/b`.
    pub allow_replacing_parents: bool,
    /// Make the changes of shared refs below `refs/` visible together: readers see all of them or none, after a crash
    /// too, with the exceptions below.
    ///
    /// # Atomicity
    ///
    /// Reftable makes all changes of one stack visible together anyway; a linked worktree's own refs are in another
    /// stack. The files backend makes changes visible together by rewriting packed-refs, whose rename is the one
    /// moment at which everything changes, or, where `refdb.smallBatches` allows it, by a journalled batch of loose
    /// files. Neither way can include symbolic or broken refs, refs outside `refs/`, refs of a worktree's own and refs
    /// below a symbolic link to a folder; these change one after the other after the rename. Readers may see a part of
    /// a journalled batch while it is committed, unless they use a view of the process that commits it, and after a
    /// kill until the batch is recovered. `docs/crash-model.md` has the table of all cases.
    pub atomic_visibility: bool,
    /// Let an edit replace or delete a ref whose file is broken, if the edit expects nothing of the ref or expects that
    /// it does not exist. Git refuses such an edit; JGit treats a broken ref as missing. A file outside `refs/` may
    /// belong to another program, so it is replaced only if its name in its worktree consists of upper-case letters and
    /// underscores. In [`Mode::PerEdit`], an edit that a broken ref prevents nevertheless is rejected alone.
    pub allow_broken: bool,
    /// Write only refs whose names are [safe](refdb_types::is_safe), whether the edit names them or a symbolic ref
    /// leads to them. Other names that an edit mentions must be safe, too, such as that of a ref that is only verified.
    /// Git accepts every well-formed name, such as `foo/bar`.
    pub safe_names: bool,
    /// Reject the deletion of the current worktree's HEAD itself, without which git does not recognise the repository.
    /// Git deletes it.
    pub keeps_head: bool,
}

impl TransactionOptions {
    /// The defaults.
    pub fn new() -> Self {
        TransactionOptions::default()
    }

    /// Sets [`TransactionOptions::mode`](#structfield.mode).
    #[must_use]
    pub fn mode(mut self, mode: Mode) -> Self {
        self.mode = mode;
        self
    }

    /// Sets [`TransactionOptions::skip_hook`](#structfield.skip_hook).
    #[must_use]
    pub fn skip_hook(mut self, skip_hook: bool) -> Self {
        self.skip_hook = skip_hook;
        self
    }

    /// Sets [`TransactionOptions::allow_replacing_parents`](#structfield.allow_replacing_parents).
    #[must_use]
    pub fn allow_replacing_parents(mut self, allow_replacing_parents: bool) -> Self {
        self.allow_replacing_parents = allow_replacing_parents;
        self
    }

    /// Sets [`TransactionOptions::atomic_visibility`](#structfield.atomic_visibility).
    #[must_use]
    pub fn atomic_visibility(mut self, atomic_visibility: bool) -> Self {
        self.atomic_visibility = atomic_visibility;
        self
    }

    /// Sets [`TransactionOptions::allow_broken`](#structfield.allow_broken).
    #[must_use]
    pub fn allow_broken(mut self, allow_broken: bool) -> Self {
        self.allow_broken = allow_broken;
        self
    }

    /// Sets [`TransactionOptions::safe_names`](#structfield.safe_names).
    #[must_use]
    pub fn safe_names(mut self, safe_names: bool) -> Self {
        self.safe_names = safe_names;
        self
    }

    /// Sets [`TransactionOptions::keeps_head`](#structfield.keeps_head).
    #[must_use]
    pub fn keeps_head(mut self, keeps_head: bool) -> Self {
        self.keeps_head = keeps_head;
        self
    }
}
