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

/// Where a transaction begins: the store, and who commits.
#[must_use = "it changes nothing before edits are prepared and committed"]
pub struct Transaction<'s> {
    store: &'s Store,
    committer: Box<dyn Fn() -> refdb::Result<Ident> + 's>,
}

/// Edits whose refs are locked and whose expectations hold. Dropping it leaves all refs as they were.
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
    /// Makes all edits or none. Returns them as gix-ref does: symbolic refs followed, and the values that were there
    /// filled in.
    ///
    /// Without a committer, environment and configuration name one, as for git.
    pub fn edit_references<'a>(
        &self,
        edits: impl IntoIterator<Item = RefEdit>,
        committer: impl Into<Option<SignatureRef<'a>>>,
    ) -> Result<Vec<RefEdit>> {
        self.transaction(committer)?.prepare(edits)?.commit()
    }

    /// For edits between whose preparation and commit the caller decides. See [`Store::edit_references`].
    pub fn transaction<'a>(&self, committer: impl Into<Option<SignatureRef<'a>>>) -> Result<Transaction<'_>> {
        let given = committer.into().map(ident_for_refdb).transpose()?;
        let own = self.refdb().context().committer;
        Ok(Transaction { store: self, committer: Box::new(move || given.clone().map_or_else(own, Ok)) })
    }
}

impl Transaction<'_> {
    /// Locks the refs, checks what the edits expect, and stages the new values.
    pub fn prepare(&self, edits: impl IntoIterator<Item = RefEdit>) -> Result<Prepared<'_>> {
        let mut edits: Vec<RefEdit> = edits.into_iter().collect();
        let inner = self.locked(&edits).map_err(|error| self.in_words_of_gix(&edits, error))?;
        // The refs are locked: the values read now are those that the commit will replace.
        let checked = self.store.refdb().snapshot().map_err(Error::from).and_then(|now| check(&mut edits, &*now));
        match checked {
            Ok(()) => Ok(Prepared { inner, edits }),
            Err(error) => {
                inner.abort()?;
                Err(error)
            }
        }
    }

    fn locked(&self, edits: &[RefEdit]) -> Result<refdb::Prepared<'_>> {
        let context = refdb::transaction::Context { committer: &*self.committer, ..self.store.refdb().context() };
        // As in gix-ref, a ref whose file is no good may be replaced.
        let options = TransactionOptions::new().allow_broken(true);
        let mut transaction = refdb::Transaction::new(context, options);
        for edit in edits {
            transaction.add(edit_for_refdb(edit)?)?;
        }
        Ok(transaction.prepare()?)
    }

    /// gix-ref's error where it has one, with the value that the ref holds now.
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
    /// The edits as they will happen.
    pub fn edits(&self) -> &[RefEdit] {
        &self.edits
    }

    /// Makes the new values visible and gives up the locks. Returns the edits.
    pub fn commit(self) -> Result<Vec<RefEdit>> {
        self.inner.commit()?;
        Ok(self.edits)
    }

    /// Gives up the locks, leaves all refs as they were and tells the hook.
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
                // gix-ref lets a ref pass that holds the new value already.
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
/// has checked that too, but unlike gix-ref it takes a symbolic ref for its object, as git does.
fn check(edits: &mut Vec<RefEdit>, now: &dyn Snapshot) -> Result<()> {
    let given = edits.len();
    let mut unread = None;
    let mut find = |name: &FullNameRef| {
        value(now, name).unwrap_or_else(|error| {
            unread.get_or_insert(error);
            None
        })
    };
    let split = edits
        .extend_with_splits_of_symbolic_refs(&mut |name| find(name.as_bstr().try_into().ok()?), &mut |_, edit| edit);
    if let Some(error) = unread {
        return Err(error);
    }
    split.map_err(|_| Error::Depth { name: edits[given - 1].name.as_bstr().to_owned() })?;
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
    // A symbolic ref that was followed is left as it is; the expected value concerns the last ref.
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

/// What the ref holds; nothing if its file is no good.
fn value(now: &dyn Snapshot, name: &FullNameRef) -> Result<Option<Target>> {
    match now.get(name.as_bstr()) {
        Ok(target) => target.as_ref().map(|target| target_for_gix(TargetView::from(target))).transpose(),
        Err(refdb::Error::BrokenRef(_)) => Ok(None),
        Err(error) => Err(error.into()),
    }
}
