//! The members of a group: transactions that see the stack under the group's lock, and whose steps are written
//! together.

use bstr::{BStr, BString, ByteSlice};
use refdb::{
    Backend, Error, Locked, RejectionReason, Result, Snapshot, Step, TargetView,
    backend::{Claims, LogLine, NewValue, Steps},
};
use refdb_types::{Ident, ObjectId, Scope, is_pseudo};
use std::{
    collections::BTreeSet,
    sync::{Mutex, MutexGuard, PoisonError},
};

/// The backend that members of a group see.
pub(super) struct Group<'g> {
    backend: &'g dyn Backend,
    locked: &'g dyn Locked,
    made: Mutex<Made>,
    deferral: Mutex<Option<Deferral>>,
}

/// Why a transaction cannot be committed in this group.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub(super) enum Deferral {
    /// A name that the transaction claims equals or conflicts with one that an earlier member has claimed, so the next
    /// group takes the transaction.
    #[error("an earlier transaction of the group changes these refs")]
    Next,
    /// The transaction is committed alone, because it needs more than the stack that is locked, for instance because
    /// a symbolic ref leads out of the stack.
    #[error("the transaction needs more than the stack of its group")]
    Alone,
}

/// Returns whether a ref is in the stack that all members share.
pub(super) fn is_in_main(name: &BStr) -> bool {
    !is_pseudo(name) && matches!(Scope::of(name), Scope::Shared | Scope::Worktree)
}

/// The names that the members so far have claimed, and their steps.
#[derive(Default)]
struct Made {
    names: BTreeSet<BString>,
    members: Vec<Vec<OwnStep>>,
}

impl<'g> Group<'g> {
    pub(super) fn new(backend: &'g dyn Backend, locked: &'g dyn Locked) -> Self {
        Group { backend, locked, made: Mutex::default(), deferral: Mutex::default() }
    }

    /// Takes the reason why the last transaction was deferred; `None` if it was not deferred.
    pub(super) fn take_deferral(&self) -> Option<Deferral> {
        self.deferral.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    fn defer(&self, deferral: Deferral) -> Error {
        *self.deferral.lock().unwrap_or_else(PoisonError::into_inner) = Some(deferral);
        Error::Backend(Box::new(deferral))
    }

    /// The steps of each member, in the order of the members.
    pub(super) fn into_members(self) -> Vec<Vec<OwnStep>> {
        self.made.into_inner().unwrap_or_else(PoisonError::into_inner).members
    }

    fn made(&self) -> MutexGuard<'_, Made> {
        self.made.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Made {
    /// Returns whether a name is claimed by an earlier member, or conflicts with such a name as a folder.
    fn is_near(&self, name: &BStr) -> bool {
        if self.names.contains(name) {
            return true;
        }
        let is_parent = |slash: usize| self.names.contains(name[..slash].as_bstr());
        let below = BString::from([name.as_bytes(), b"/"].concat());
        name.find_iter(b"/").any(is_parent)
            || self.names.range(below.clone()..).next().is_some_and(|child| child.starts_with(&below))
    }
}

impl Backend for Group<'_> {
    fn snapshot(&self) -> Result<Box<dyn Snapshot>> {
        self.backend.snapshot()
    }

    fn lock(&self, claims: &dyn Claims) -> Result<Box<dyn Locked + '_>> {
        let made = self.made();
        let names: Vec<BString> = claims.iter().map(|claim| claim.name.to_owned()).collect();
        debug_assert!(names.is_sorted_by(|a, b| a < b), "claims come in order of name, each once");
        if !names.iter().all(|name| is_in_main(name.as_bstr())) {
            return Err(self.defer(Deferral::Alone));
        }
        if names.iter().any(|name| made.is_near(name.as_bstr())) {
            return Err(self.defer(Deferral::Next));
        }
        drop(made);
        let refused = self.backend.unstorable(claims);
        Ok(Box::new(Member { group: self, names, refused, steps: Vec::new() }))
    }

    fn canonical_name<'n>(&self, name: &'n BStr) -> &'n BStr {
        self.backend.canonical_name(name)
    }

    fn keeps_symref_logs(&self) -> bool {
        self.backend.keeps_symref_logs()
    }
}

/// One transaction of the group.
struct Member<'g> {
    group: &'g Group<'g>,
    names: Vec<BString>,
    /// The claims, by position, whose names the format has no room for.
    refused: Vec<(usize, RejectionReason)>,
    steps: Vec<OwnStep>,
}

impl Locked for Member<'_> {
    fn snapshot(&self) -> &dyn Snapshot {
        self.group.locked.snapshot()
    }

    /// The stack is locked as a whole, but single names may be too long for it.
    fn refused(&self) -> &[(usize, RejectionReason)] {
        &self.refused
    }

    fn stage(&mut self, steps: &dyn Steps) -> Result<()> {
        if (0..steps.count()).any(|at| steps.log_source(at).is_some()) {
            return Err(self.group.defer(Deferral::Alone));
        }
        self.group.backend.check(steps)?;
        self.steps = steps.iter().map(OwnStep::of).collect();
        let is_claimed = |step: &OwnStep| self.names.binary_search(&step.name).is_ok();
        debug_assert!(self.steps.iter().all(is_claimed), "a member changes what it has claimed");
        Ok(())
    }

    fn commit(self: Box<Self>, _: &dyn Steps) -> Result<()> {
        let mut made = self.group.made();
        debug_assert!(!self.names.iter().any(|name| made.is_near(name.as_bstr())), "members of a group are apart");
        made.names.extend(self.names);
        made.members.push(self.steps);
        Ok(())
    }
}

/// A [`Step`] that owns its memory.
pub(super) struct OwnStep {
    name: BString,
    old: Option<OwnValue>,
    new: Option<OwnNew>,
    log: Option<OwnLog>,
}

enum OwnValue {
    Direct(ObjectId),
    Symbolic(BString),
}

enum OwnNew {
    Direct(ObjectId, Option<ObjectId>),
    Symbolic(BString),
    Deleted,
}

struct OwnLog {
    old: ObjectId,
    new: ObjectId,
    committer: Ident,
    message: BString,
}

impl OwnStep {
    fn of(step: Step<'_>) -> Self {
        debug_assert!(!step.is_broken, "no file stands for a ref in a table: {}", step.name);
        OwnStep {
            name: step.name.to_owned(),
            old: step.old.map(|old| match old {
                TargetView::Direct(id) => OwnValue::Direct(id),
                TargetView::Symbolic(name) => OwnValue::Symbolic(name.to_owned()),
            }),
            new: step.new.map(|new| match new {
                NewValue::Direct(id, peeled) => OwnNew::Direct(id, peeled),
                NewValue::Symbolic(name) => OwnNew::Symbolic(name.to_owned()),
                NewValue::Deleted => OwnNew::Deleted,
            }),
            log: step.log.map(|log| OwnLog {
                old: log.old,
                new: log.new,
                committer: log.committer.clone(),
                message: log.message.to_owned(),
            }),
        }
    }

    fn step(&self) -> Step<'_> {
        Step {
            name: self.name.as_bstr(),
            old: self.old.as_ref().map(|old| match old {
                OwnValue::Direct(id) => TargetView::Direct(*id),
                OwnValue::Symbolic(name) => TargetView::Symbolic(name.as_bstr()),
            }),
            // Refs in tables have no file that could be broken.
            is_broken: false,
            new: self.new.as_ref().map(|new| match new {
                OwnNew::Direct(id, peeled) => NewValue::Direct(*id, *peeled),
                OwnNew::Symbolic(name) => NewValue::Symbolic(name.as_bstr()),
                OwnNew::Deleted => NewValue::Deleted,
            }),
            log: self.log.as_ref().map(|log| LogLine {
                old: log.old,
                new: log.new,
                committer: &log.committer,
                message: log.message.as_bstr(),
            }),
        }
    }
}

/// The steps of several members, sorted by name, each name once.
pub(super) struct Union<'m> {
    steps: Vec<(u32, &'m OwnStep)>,
    members: u32,
}

impl<'m> Union<'m> {
    pub(super) fn new(members: impl IntoIterator<Item = &'m [OwnStep]>) -> Self {
        let mut count = 0;
        let mut steps = Vec::new();
        for member in members.into_iter().filter(|member| !member.is_empty()) {
            steps.extend(member.iter().map(|step| (count, step)));
            count += 1;
        }
        steps.sort_unstable_by(|(_, a), (_, b)| a.name.cmp(&b.name));
        assert!(steps.is_sorted_by(|(_, a), (_, b)| a.name < b.name), "a group changes each ref once");
        debug_assert!(steps.iter().all(|(member, _)| *member < count), "each step is that of a member");
        Union { steps, members: count }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.steps.is_empty()
    }
}

impl Steps for Union<'_> {
    fn count(&self) -> usize {
        self.steps.len()
    }

    fn step(&self, at: usize) -> Step<'_> {
        self.steps[at].1.step()
    }

    fn name(&self, at: usize) -> &BStr {
        self.steps[at].1.name.as_bstr()
    }

    fn members(&self) -> u32 {
        self.members
    }

    fn member(&self, at: usize) -> u32 {
        self.steps[at].0
    }
}
