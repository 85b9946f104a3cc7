use super::{
    Context, Hook, HookState, Mode, ObjectClass, TransactionOptions,
    hook::{ask, tell},
    names,
    plan::Plan,
    prepare::{Preparation, is_branch},
};
use crate::{
    Change, Edit, Error, Limit, Misuse, Rejection, RejectionReason, Result, Target,
    backend::{Locked, Steps},
    own_locks::OwnLocks,
};
use bstr::{BStr, BString, ByteSlice};
use refdb_types::ObjectId;
use refdb_vfs::AskingOnce;
use std::fmt;

/// A transaction to which edits are being added. Nothing is locked yet.
///
/// [`prepare`](Self::prepare) locks every ref, checks every edit and stages the new values;
/// [`commit`](Prepared::commit) makes them visible. Dropping a transaction before its commit leaves all refs as they
/// were.
///
/// # Atomicity
///
/// Until the commit begins no ref changes: a rejection, a lock that cannot be taken, a hook that refuses, or a full
/// disk while values are staged leaves every ref as it was. What a commit that fails, is killed or loses power half-way
/// leaves behind depends on the backend:
///
/// - *reftable*: all changes of one stack appear at once. Each linked worktree has a stack for its own refs; a
///   transaction on several stacks changes one after the other, the shared one first.
/// - *files*: packed-refs is replaced first, then loose files are renamed into place one by one, then the loose files
///   of deleted refs are removed. After an I/O error, a kill or a loss of power **earlier refs of the transaction can
///   be changed and later ones not**, as with git. Changes that go to packed-refs together appear at once: often those
///   of many refs, and those of a transaction with [`atomic_visibility`](TransactionOptions::atomic_visibility), whose
///   documentation lists the exceptions.
///
/// Readers see the same intermediate states while a commit runs. Where commits are not synced, a loss of power can also
/// leave files that are torn or missing.
#[must_use = "edits that are not committed change nothing"]
pub struct Transaction<'s> {
    context: Context<'s>,
    options: TransactionOptions,
    plan: Plan,
    added: usize,
    rejected: Vec<(usize, Rejection)>,
    /// The first error of a call that could not return one; [`prepare`](Self::prepare) and [`commit`](Self::commit)
    /// return it.
    failed: Option<Error>,
}

impl<'s> Transaction<'s> {
    /// A transaction without edits.
    #[doc(hidden)]
    pub fn new(context: Context<'s>, options: TransactionOptions) -> Self {
        Transaction { plan: Plan::new(context.hash), context, options, added: 0, rejected: Vec::new(), failed: None }
    }

    /// Adds an edit. The position of an edit, by which rejections name it, is the number of edits added before it.
    ///
    /// # Errors
    ///
    /// Some faults are reported at once: an object that does not exist, or is no commit for a branch or HEAD
    /// ([`Error::Rejected`](crate::Error::Rejected), in [`Mode::PerEdit`] an entry of [`rejected`](Self::rejected)),
    /// and in either mode a name that may not be written, an id of another hash function, an object database that
    /// cannot be read, or more edits or longer names than a transaction has room for
    /// ([`Error::Limit`](crate::Error::Limit)).
    pub fn add(&mut self, edit: Edit) -> Result<()> {
        let position = u32::try_from(self.added).map_err(|_| Limit::Edits)?;
        names::check(&edit, self.options)?;
        self.check_ids(&edit)?;
        let plain = self.context.backend.canonical_name(edit.name.as_bstr());
        if let Change::Set(Target::Direct(id)) = &edit.change
            && let Some(why) = self.check_object(id, plain)?
        {
            let rejection = Rejection::of(edit.name, why);
            if self.options.mode == Mode::Atomic {
                return Err(rejection.into());
            }
            self.rejected.push((self.added, rejection));
        } else {
            let source =
                edit.log.take_over.as_ref().map(|source| self.context.backend.canonical_name(source.as_bstr()));
            self.plan.edits.add(&edit, plain, source, position)?;
        }
        self.added += 1;
        let known = self.plan.edits.items.len() + self.rejected.len();
        debug_assert_eq!(known, self.added, "each edit is an item or rejected");
        Ok(())
    }

    /// Refuses ids of another hash function, which no ref of this repository can hold.
    fn check_ids(&self, edit: &Edit) -> Result<()> {
        let new = match &edit.change {
            Change::Set(target) => target.id(),
            Change::Delete | Change::Verify => None,
        };
        let old = edit.expected.value().and_then(Target::id);
        match new.into_iter().chain(old).find(|id| id.kind() != self.context.hash) {
            Some(id) => Err(Misuse::BadId(id.to_string()).into()),
            None => Ok(()),
        }
    }

    /// The fault of the object that the edit of this ref would set, if it has one. Each distinct object is read once.
    fn check_object(&mut self, id: &ObjectId, plain: &BStr) -> Result<Option<RejectionReason>> {
        debug_assert!(id.kind() == self.context.hash, "an id of another hash was refused: {id}");
        let ids = &mut self.plan.edits.ids;
        let at = ids.intern(id);
        let class = match ids.class(at) {
            Some(class) => class,
            None => {
                let class = self.context.objects.classify(id)?;
                ids.set_class(at, class);
                class
            }
        };
        Ok(match class {
            ObjectClass::Missing => Some(RejectionReason::NoObject { id: *id }),
            ObjectClass::Tag(_) | ObjectClass::Other if is_branch(plain) => {
                Some(RejectionReason::NotACommit { id: *id })
            }
            _ => None,
        })
    }

    /// Adds an edit, or keeps the error for [`prepare`](Self::prepare) unless there was one before.
    pub(super) fn add_or_fail(&mut self, edit: Result<Edit>) -> &mut Self {
        if let Err(error) = edit.and_then(|edit| self.add(edit)) {
            self.failed.get_or_insert(error);
        }
        self
    }

    pub(super) fn set_options(&mut self, options: TransactionOptions) {
        debug_assert!(self.added == 0, "edits were added under other options");
        self.options = options;
    }

    pub(super) fn set_message(&mut self, message: BString) {
        self.plan.edits.set_message(message.as_bstr());
    }

    /// The edits that have been rejected so far, with their positions, in ascending order. Empty in [`Mode::Atomic`].
    pub fn rejected(&self) -> &[(usize, Rejection)] {
        &self.rejected
    }

    /// The number of edits added.
    pub fn len(&self) -> usize {
        self.added
    }

    /// Returns whether no edit was added.
    pub fn is_empty(&self) -> bool {
        self.added == 0
    }

    /// Locks every ref, checks every edit and stages the new values beside the old ones.
    ///
    /// Waits for locks that others hold: in files for `core.filesRefLockTimeout` (each ref, but once the lock of one
    /// ref has been waited for in vain, at most 0.1 seconds for each of the others) and `core.packedRefsTimeout`, or 10
    /// seconds if they are not set, in reftables for `reftable.lockTimeout`, or 15 seconds if that is not set, and in
    /// memory for 10 seconds, unless [`lock_timeout`](crate::memory::MemoryBackend::lock_timeout) was called. In files
    /// and reftables each new holder of a lock is waited for anew, up to the limit that
    /// [`LockTimeout::For`](refdb_vfs::LockTimeout::For) gives.
    ///
    /// # Errors
    ///
    /// In [`Mode::Atomic`] the first rejection, and in either mode what prevents the transaction as a whole, such as
    /// the hook, a quarantine or a setting that forbids changes, a ref that is edited twice, a stack or packed-refs
    /// that cannot be locked in time, or an I/O error. No ref has changed, and all locks are released. An error that
    /// [`create`](Self::create) or a similar call could not return comes first.
    pub fn prepare(mut self) -> Result<Prepared<'s>> {
        self.sort()?;
        let hook = self.hook()?;
        self.prepare_sorted(hook)
    }

    /// Prepares a transaction whose edits are sorted.
    fn prepare_sorted(mut self, mut hook: Option<Box<dyn Hook>>) -> Result<Prepared<'s>> {
        ask(&mut hook, &|| self.plan.hook_lines(), HookState::Preparing, ())?;
        let locked = self.lock_and_stage(false)?;
        let own = OwnLocks::note(locked.stacks());
        let (locked, own) = ask(&mut hook, &|| self.plan.hook_lines(), HookState::Prepared, (locked, own))?;
        Ok(Prepared { locked, own, plan: self.plan, hook, rejected: self.rejected })
    }

    /// Sorts the edits by name, unless the transaction cannot be made for a reason that needs no look at the refs.
    fn sort(&mut self) -> Result<()> {
        if let Some(error) = self.failed.take() {
            return Err(error);
        }
        if let Some(why) = self.context.forbidden {
            return Err(why.clone().into());
        }
        if let Some((one, other)) = self.plan.edits.sort() {
            let edits = &self.plan.edits;
            let (one, other) = (edits.shown(one).to_owned(), edits.shown(other).to_owned());
            return Err(Misuse::Twice { one, other }.into());
        }
        Ok(())
    }

    fn lock_and_stage(&mut self, joins: bool) -> Result<Box<dyn Locked + 's>> {
        let (plan, rejected) = (&mut self.plan, &mut self.rejected);
        // The values that are checked are read while the locks are held, so it is enough to ask the server of a network
        // file system once about each folder.
        let _asking = AskingOnce::new();
        let locked = Preparation { context: self.context, options: self.options, joins, plan, rejected }.run()?;
        assert!(self.options.mode != Mode::Atomic || self.rejected.is_empty(), "an atomic transaction is made whole");
        debug_assert!(self.rejected.is_sorted_by(|a, b| a.0 < b.0), "each rejection is told once, in turn");
        Ok(locked)
    }

    fn hook(&self) -> Result<Option<Box<dyn Hook>>> {
        if self.options.skip_hook { Ok(None) } else { self.context.hooks.find() }
    }

    /// Prepares and commits in one call.
    ///
    /// # Errors
    ///
    /// Those of [`prepare`](Self::prepare), after which no ref has changed, and those of [`Prepared::commit`], after
    /// which some may have. With reftables also
    /// [`StackError::OutcomeUnknown`](crate::StackError::OutcomeUnknown), if another process was to write the changes.
    pub fn commit(mut self) -> Result<Committed> {
        let _asking = AskingOnce::new();
        self.sort()?;
        let hook = self.hook()?;
        if hook.is_none() {
            let (added, known) = (self.plan.edits.items.len(), self.rejected.clone());
            match self.commit_jointly() {
                // Nothing has changed. The second attempt does not depend on another process.
                Err(error) if error.is_group_given_up() => {
                    self.rejected = known;
                    self.plan.start_over(added);
                }
                done => return done.map(|()| Committed { rejected: self.rejected }),
            }
        }
        self.prepare_sorted(hook)?.commit()
    }

    /// Prepares and commits without a hook. Another process may write the changes together with its own.
    fn commit_jointly(&mut self) -> Result<()> {
        let locked = self.lock_and_stage(true)?;
        locked.commit(&self.plan)
    }

    /// Gives the transaction up and runs the hook in the state `aborted`. No ref changes.
    ///
    /// # Errors
    ///
    /// The hook cannot be found or run, or a signal came while it ran.
    pub fn abort(self) -> Result<()> {
        tell(&mut self.hook()?, &|| self.plan.hook_lines(), HookState::Aborted)
    }
}

/// A transaction whose refs are locked and whose checks have passed. Dropping it releases the locks and leaves all refs
/// as they were.
///
/// The locks are held until it is committed, aborted or dropped. It cannot be sent to another thread. In reftables and
/// in memory a second transaction of the same thread that needs the same lock would wait for this one in vain, so the
/// second one is refused at once ([`Misuse::OwnLock`]).
///
/// ```compile_fail,E0277
/// fn goes_to_another_thread<T: Send>() {}
/// goes_to_another_thread::<refdb::Prepared<'static>>();
/// ```
#[must_use = "dropping it gives the transaction up"]
pub struct Prepared<'s> {
    locked: Box<dyn Locked + 's>,
    own: OwnLocks,
    plan: Plan,
    hook: Option<Box<dyn Hook>>,
    rejected: Vec<(usize, Rejection)>,
}

impl Prepared<'_> {
    /// The edits that will not be made, with their positions, in ascending order. Empty in [`Mode::Atomic`].
    pub fn rejected(&self) -> &[(usize, Rejection)] {
        &self.rejected
    }

    /// The changes that the commit will make, ref by ref.
    #[doc(hidden)]
    pub fn steps(&self) -> &dyn Steps {
        &self.plan
    }

    /// Makes the new values visible, releases the locks and runs the hook in the state `committed`.
    ///
    /// Where refs are synced (`core.fsync`, or [`StoreBuilder::sync`](crate::StoreBuilder::sync)) the new values are on
    /// stable storage when it returns. Entries that are added to reflogs in files are not synced.
    ///
    /// # Errors
    ///
    /// An I/O error while values become visible, and in files also [`Error::Rejected`](crate::Error::Rejected) if a ref
    /// that another writer made meanwhile conflicts with a new one, or if something is in the way of a ref's file or
    /// reflog. Earlier refs of the transaction may have their new values by then, in files or in another stack of
    /// reftables; see [Atomicity](Transaction#atomicity). A journalled batch that failed half-way is completed or
    /// undone where that is possible; [`Error::Unrecovered`](crate::Error::Unrecovered) and
    /// [`Error::HalfDone`](crate::Error::HalfDone) say that it was not. With reftables,
    /// [`StackError::NotDurable`](crate::StackError::NotDurable) says that all changes are made, but may not survive a
    /// loss of power; the hook is not run then. [`Error::Hook`](crate::Error::Hook) says that all refs are changed, but
    /// the hook could not be run, and so does [`Error::Interrupted`](crate::Error::Interrupted) if a signal came while
    /// the hook ran.
    pub fn commit(self) -> Result<Committed> {
        self.commit_then(|| {})
    }

    /// As [`commit`](Self::commit), and calls `then` once all refs are changed, before the hook runs.
    pub(crate) fn commit_then(mut self, then: impl FnOnce()) -> Result<Committed> {
        let asking = AskingOnce::new();
        self.locked.commit(&self.plan)?;
        drop(asking);
        then();
        // This comes before the hook, which may begin another transaction in this thread.
        drop(self.own);
        tell(&mut self.hook, &|| self.plan.hook_lines(), HookState::Committed)?;
        Ok(Committed { rejected: self.rejected })
    }

    /// Releases the locks, leaves all refs as they were and runs the hook in the state `aborted`.
    ///
    /// # Errors
    ///
    /// The hook cannot be run, or a signal came while it ran.
    pub fn abort(mut self) -> Result<()> {
        drop(self.locked);
        drop(self.own);
        tell(&mut self.hook, &|| self.plan.hook_lines(), HookState::Aborted)
    }
}

impl fmt::Debug for Transaction<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Transaction")
            .field("options", &self.options)
            .field("edits", &self.added)
            .field("rejected", &self.rejected)
            .finish_non_exhaustive()
    }
}

impl fmt::Debug for Prepared<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Prepared")
            .field("steps", &self.steps().iter().collect::<Vec<_>>())
            .field("rejected", &self.rejected)
            .finish_non_exhaustive()
    }
}

/// The result of a commit.
#[derive(Debug)]
pub struct Committed {
    /// The edits that were not made, with their positions, in ascending order. Empty in [`Mode::Atomic`].
    pub rejected: Vec<(usize, Rejection)>,
}
