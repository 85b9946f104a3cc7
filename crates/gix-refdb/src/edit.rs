//! Applies edits in gix-ref's types with refdb's locks, checks and reflogs.

use crate::{
    Error, Result, Store,
    convert::{ident_for_refdb, message_for_refdb, name_for_refdb, target_for_gix, target_for_refdb},
};
use gix_actor::SignatureRef;
use gix_ref::{
    FullNameRef, Target,
    file::{
        find::NotFound,
        transaction::prepare::{MustNotExist, ReferenceOutOfDate},
    },
    transaction::{Change, LogChange, PreviousValue, RefEdit, RefEditsExt, RefLog},
};
use refdb::{Edit, Ident, LogOptions, Precondition, RejectionReason, Snapshot, TargetView, TransactionOptions};
use std::fmt;

/// A transaction that has no edits yet: the store, and the committer for the reflogs.
#[must_use = "it changes nothing before edits are prepared and committed"]
pub struct Transaction<'s> {
    store: &'s Store,
    committer: Box<dyn Fn() -> refdb::Result<Ident> + 's>,
}

/// Edits that are ready to commit: their refs are locked, and their expectations hold. Dropping this value leaves all
/// refs unchanged and releases the locks.
#[derive(Debug)]
#[must_use = "dropping it gives the edits up"]
pub struct Prepared<'t> {
    inner: refdb::Prepared<'t>,
    edits: Vec<RefEdit>,
}

impl fmt::Debug for Transaction<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Transaction").field("store", &self.store).finish_non_exhaustive()
    }
}

impl Store {
    /// Prepares and commits the edits in one transaction. Returns them as gix-ref does: with symbolic refs followed,
    /// and with the previous values filled in.
    ///
    /// If no committer is given, that of the wrapped store is taken (see [`refdb::StoreBuilder::committer`]). The call
    /// waits for locks as [`refdb::Transaction::prepare`] does.
    ///
    /// # Errors
    ///
    /// The errors of [`Store::transaction`] and [`Transaction::prepare`], after which no ref has changed, and those of
    /// [`Prepared::commit`].
    ///
    /// # Atomicity
    ///
    /// See [`Prepared::commit`].
    pub fn edit_references<'a>(
        &self,
        edits: impl IntoIterator<Item = RefEdit>,
        committer: impl Into<Option<SignatureRef<'a>>>,
    ) -> Result<Vec<RefEdit>> {
        self.transaction(committer)?.prepare(edits)?.commit()
    }

    /// Begins a transaction whose edits are prepared and committed in separate calls, so that the caller can decide in
    /// between. See [`Store::edit_references`] for the committer.
    ///
    /// # Errors
    ///
    /// [`Error::Time`] if the time of the committer cannot be stored in a reflog.
    pub fn transaction<'a>(&self, committer: impl Into<Option<SignatureRef<'a>>>) -> Result<Transaction<'_>> {
        let given = committer.into().map(ident_for_refdb).transpose()?;
        let own = self.refdb().context().committer;
        Ok(Transaction { store: self, committer: Box::new(move || given.clone().map_or_else(own, Ok)) })
    }
}

impl Transaction<'_> {
    /// Locks the refs, checks what the edits expect, and stages the new values. On an error, no ref has changed and no
    /// lock is held.
    ///
    /// # Errors
    ///
    /// [`Error::OutOfDate`], [`Error::MustNotExist`] or [`Error::NotFound`] if a ref does not have the value that its
    /// edit expects, [`Error::LogOnly`] or [`Error::DeletesNothing`] if an edit is not supported, [`Error::Depth`] if
    /// an edit would follow more than four symbolic refs, [`Error::StoredName`] if a symbolic ref leads to a name that
    /// gix-ref does not allow, and [`Error::Refdb`] otherwise, for example if the symbolic refs form a circle.
    pub fn prepare(&self, edits: impl IntoIterator<Item = RefEdit>) -> Result<Prepared<'_>> {
        let edits: Vec<RefEdit> = edits.into_iter().collect();
        let inner = self.locked(&edits).map_err(|error| self.in_words_of_gix(&edits, error))?;
        // Because the refs are locked, the values read now are those that the commit will replace.
        let checked = self.store.read(|now| {
            let mut checked = edits.clone();
            check(&mut checked, now).map(|()| checked)
        });
        match checked {
            Ok(edits) => Ok(Prepared { inner, edits }),
            Err(error) => {
                // Which edit was refused matters more than a hook that cannot be told of it.
                inner.abort().ok();
                Err(error)
            }
        }
    }

    fn locked(&self, edits: &[RefEdit]) -> Result<refdb::Prepared<'_>> {
        let context = refdb::transaction::Context { committer: &*self.committer, ..self.store.refdb().context() };
        // As in gix-ref, a ref whose file is corrupt may be replaced.
        let options = TransactionOptions::new().allow_broken(true);
        let mut transaction = refdb::Transaction::new(context, options);
        for edit in edits {
            transaction.add(edit_for_refdb(edit)?)?;
        }
        Ok(transaction.prepare()?)
    }

    /// Converts a rejection to the error that gix-ref has for the edit's expectation and the current value of the ref,
    /// if it has one.
    fn in_words_of_gix(&self, edits: &[RefEdit], error: Error) -> Error {
        let Error::Refdb(refdb::Error::Rejected(rejection)) = &error else { return error };
        let is_value = matches!(
            rejection.reason,
            RejectionReason::Missing | RejectionReason::Exists { .. } | RejectionReason::Mismatch { .. }
        );
        let edit = edits.iter().find(|edit| edit.name.as_bstr() == rejection.given.as_bstr());
        let (Some(edit), true) = (edit, is_value) else { return error };
        let now = self.store.refdb().get(rejection.resolved.as_bstr());
        let actual = now.ok().and_then(|target| target_for_gix(TargetView::from(&target?)).ok());
        let name = rejection.resolved.as_bstr();
        match (expected(edit), actual) {
            (PreviousValue::MustExist | PreviousValue::MustExistAndMatch(_), None) => {
                Error::NotFound(NotFound { name: name.to_owned() })
            }
            (PreviousValue::MustNotExist, Some(actual)) => {
                Error::MustNotExist(MustNotExist { full_name: name.to_owned(), actual })
            }
            (PreviousValue::MustExistAndMatch(_) | PreviousValue::ExistingMustMatch(_), Some(actual)) => {
                Error::OutOfDate(ReferenceOutOfDate { full_name: name.to_owned(), actual })
            }
            _ => error,
        }
    }
}

impl Prepared<'_> {
    /// Returns the edits as they will be committed: with symbolic refs followed, and with the previous values filled
    /// in.
    pub fn edits(&self) -> &[RefEdit] {
        &self.edits
    }

    /// Makes the new values visible and releases the locks. Returns the edits. Where refs are synced (`core.fsync`),
    /// the new values are on stable storage when the call returns.
    ///
    /// # Errors
    ///
    /// [`Error::Refdb`] with the errors of [`refdb::Prepared::commit`], after some of which all refs have changed.
    ///
    /// # Atomicity
    ///
    /// That of [`refdb::Prepared::commit`]: an I/O error, a kill or a loss of power during the commit can leave some
    /// refs changed and others not, in files or in another stack of reftables.
    pub fn commit(self) -> Result<Vec<RefEdit>> {
        self.inner.commit()?;
        Ok(self.edits)
    }

    /// Leaves all refs unchanged, releases the locks, and runs the reference-transaction hook in the state `aborted`.
    ///
    /// # Errors
    ///
    /// [`Error::Refdb`] if the hook cannot be run, or if a signal came while it ran.
    pub fn abort(self) -> Result<()> {
        Ok(self.inner.abort()?)
    }
}

fn expected(edit: &RefEdit) -> &PreviousValue {
    match &edit.change {
        Change::Update { expected, .. } | Change::Delete { expected, .. } => expected,
    }
}

fn edit_for_refdb(edit: &RefEdit) -> Result<Edit> {
    let RefEdit { change, name, deref } = edit;
    let log_mode = match change {
        Change::Update { log, .. } => log.mode,
        Change::Delete { log, .. } => *log,
    };
    if log_mode == RefLog::Only {
        return Err(Error::LogOnly { name: name.as_bstr().to_owned() });
    }
    let (change, expected, log) = match change {
        Change::Update { log: LogChange { force_create_reflog, message, .. }, expected, new } => {
            let expected = match expected {
                // gix-ref accepts a ref that already has the new value.
                PreviousValue::MustNotExist => Precondition::ExistingMustMatch(target_for_refdb(new)?),
                other => precondition(other)?,
            };
            let message = message_for_refdb(message);
            let log = LogOptions::new().message(message).force_create(*force_create_reflog);
            (refdb::Change::Set(target_for_refdb(new)?), expected, log)
        }
        Change::Delete { expected: PreviousValue::MustNotExist, .. } => {
            return Err(Error::DeletesNothing { name: name.as_bstr().to_owned() });
        }
        Change::Delete { expected, .. } => (refdb::Change::Delete, precondition(expected)?, LogOptions::default()),
    };
    Ok(Edit { name: name_for_refdb(name.as_ref())?, change, expected, deref: *deref, log })
}

fn precondition(expected: &PreviousValue) -> Result<Precondition> {
    Ok(match expected {
        PreviousValue::Any => Precondition::Any,
        PreviousValue::MustExist => Precondition::MustExist,
        PreviousValue::MustNotExist => Precondition::MustNotExist,
        PreviousValue::MustExistAndMatch(target) => Precondition::MustMatch(target_for_refdb(target)?),
        PreviousValue::ExistingMustMatch(target) => Precondition::ExistingMustMatch(target_for_refdb(target)?),
    })
}

/// Follows symbolic refs as gix-ref does, and compares the values of the refs with those that the edits expect. Refdb
/// has already compared them, but it compares the object to which a symbolic ref leads, as git does, where gix-ref
/// compares the symbolic ref itself.
fn check(edits: &mut Vec<RefEdit>, now: &dyn Snapshot) -> Result<()> {
    let given = edits.len();
    let mut unread = None;
    let mut find = |name: &FullNameRef| {
        value(now, name).unwrap_or_else(|error| {
            unread.get_or_insert(error);
            None
        })
    };
    // For each edit, the given one from which it follows.
    let mut roots: Vec<usize> = (0..given).collect();
    let split = edits.extend_with_splits_of_symbolic_refs(
        &mut |name| find(name.as_bstr().try_into().ok()?),
        &mut |from, edit| {
            roots.push(roots[from]);
            edit
        },
    );
    if let Some(error) = unread {
        return Err(error);
    }
    if let (Err(_), Some(root)) = (split, roots.last()) {
        return Err(Error::Depth { name: edits[*root].name.as_bstr().to_owned() });
    }
    edits.iter_mut().try_for_each(|edit| check_one(edit, now))
}

fn check_one(edit: &mut RefEdit, now: &dyn Snapshot) -> Result<()> {
    let RefEdit { change, name, .. } = edit;
    let Some(actual) = value(now, name.as_ref())? else { return Ok(()) };
    let full_name = || name.as_bstr().to_owned();
    let (expected, new, mode) = match change {
        Change::Update { expected, new, log } => (expected, Some(&*new), log.mode),
        Change::Delete { expected, log } => (expected, None, *log),
    };
    // When gix-ref follows a symbolic ref, it leaves for that ref an edit of the reflog alone. The ref itself is not
    // changed, and the edit's expectation is one about the ref at the end of the chain.
    if mode == RefLog::AndReference {
        match expected {
            PreviousValue::MustNotExist if new != Some(&actual) => {
                return Err(Error::MustNotExist(MustNotExist { full_name: full_name(), actual }));
            }
            PreviousValue::MustExistAndMatch(value) | PreviousValue::ExistingMustMatch(value) if *value != actual => {
                return Err(Error::OutOfDate(ReferenceOutOfDate { full_name: full_name(), actual }));
            }
            _ => {}
        }
    }
    *expected = PreviousValue::MustExistAndMatch(actual);
    Ok(())
}

/// Returns the value of the ref; `None` if the ref does not exist or is broken.
fn value(now: &dyn Snapshot, name: &FullNameRef) -> Result<Option<Target>> {
    match now.get(name.as_bstr()) {
        Ok(target) => target.as_ref().map(|target| target_for_gix(TargetView::from(target))).transpose(),
        Err(error) if error.is_broken_ref() => Ok(None),
        Err(error) => Err(error.into()),
    }
}
