use super::Context;
use crate::{Edit, Rejection, Result};

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
    pub allow_replacing_parents: bool,
}

/// A transaction to which edits are being added. Nothing is locked yet.
pub struct Transaction<'s> {
    context: Context<'s>,
    options: TransactionOptions,
}

impl<'s> Transaction<'s> {
    /// A transaction without edits.
    pub fn new(context: Context<'s>, options: TransactionOptions) -> Self {
        Transaction { context, options }
    }

    /// Adds an edit. Its position is the number of edits added before.
    ///
    /// Fails at once for a name that no ref may have, whatever its state ("refusing to update ref with bad name").
    pub fn add(&mut self, edit: Edit) -> Result<()> {
        let _ = (edit, &self.context, &self.options);
        unimplemented!()
    }

    /// How many edits were added.
    pub fn len(&self) -> usize {
        unimplemented!()
    }

    /// Whether no edit was added.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Locks and checks everything and stages the new values.
    pub fn prepare(self) -> Result<Prepared<'s>> {
        unimplemented!()
    }

    /// Prepares and commits in one go.
    pub fn commit(self) -> Result<Committed> {
        self.prepare()?.commit()
    }

    /// Gives the transaction up, and tells the hook.
    pub fn abort(self) -> Result<()> {
        unimplemented!()
    }
}

/// A transaction whose refs are locked and whose checks have passed.
pub struct Prepared<'s> {
    context: Context<'s>,
    rejected: Vec<(usize, Rejection)>,
}

impl Prepared<'_> {
    /// The edits that will not happen, by position, in that order. None in [`Mode::Atomic`].
    pub fn rejected(&self) -> &[(usize, Rejection)] {
        let _ = &self.context;
        &self.rejected
    }

    /// Makes the new values visible, gives up the locks and tells the hook.
    pub fn commit(self) -> Result<Committed> {
        unimplemented!()
    }

    /// Gives up the locks, leaves all refs as they were and tells the hook.
    pub fn abort(self) -> Result<()> {
        unimplemented!()
    }
}

/// A transaction that was made.
#[derive(Debug)]
pub struct Committed {
    /// The edits that did not happen, by position, in that order. None in [`Mode::Atomic`].
    pub rejected: Vec<(usize, Rejection)>,
}
