//! From edits to staged steps: lock, read, decide, stage, and start over if a symbolic ref was moved meanwhile.

use super::{
    Context, Mode, TransactionOptions,
    conflicts::conflicts,
    decide::{Current, decide},
    edits::{Action, Edits, Value},
    expand::{Links, confirm, expand},
    log_policy::logs,
    names::is_sure_to_be_ref,
    plan::Plan,
    walk::walk,
};
use crate::{
    Error, Limit, Misuse, Precondition, Rejection, RejectionClass, RejectionReason, Result,
    backend::{Claim, ClaimKind, Claims, Locked, Snapshot, Standing},
    error::LOSSES_MAX,
};
use bstr::{BStr, ByteSlice};
use refdb_types::{ObjectId, RefName, SYMREF_DEPTH_MAX, Target};
use refdb_vfs::again_if_lost;

/// How many attempts of a transaction may fail because a symbolic ref did not lead where it was thought to lead. Either
/// another writer changed the ref, or the transaction did not know it yet, because only HEAD is read in advance.
const ATTEMPTS_MAX: usize = 100;

/// A transaction that is being prepared.
pub(super) struct Preparation<'a, 's> {
    pub(super) context: Context<'s>,
    pub(super) options: TransactionOptions,
    /// See [`Claims::joins`].
    pub(super) joins: bool,
    pub(super) plan: &'a mut Plan,
    /// Rejections by the position of their edits.
    pub(super) rejected: &'a mut Vec<(usize, Rejection)>,
}

/// How an attempt ended.
enum Attempt<'s> {
    /// All is locked and decided.
    Ready(Box<dyn Locked + 's>),
    /// A symbolic ref turned out to differ from what was known about it.
    LinksMoved,
    /// Rejected edits block the names of others, which may succeed in an attempt without them.
    RejectedInTheWay,
}

impl<'s> Preparation<'_, 's> {
    /// Locks the refs, checks the edits and stages the new values. In per-edit mode, an attempt that fails because
    /// edits are rejected is followed by one without them.
    pub(super) fn run(mut self) -> Result<Box<dyn Locked + 's>> {
        let added = self.plan.edits.items.len();
        let mut links = self.first_links()?;
        let mut known = self.rejected.len();
        let mut attempts_left = ATTEMPTS_MAX;
        while attempts_left > 0 {
            match self.attempt(added, &mut links)? {
                Attempt::Ready(mut locked) => match locked.stage(self.plan) {
                    Ok(()) => return Ok(locked),
                    Err(error) => {
                        drop(locked);
                        self.reject_blocked(error)?;
                        known = self.leave_out_rejected(known);
                    }
                },
                Attempt::LinksMoved => {
                    attempts_left -= 1;
                    self.rejected.truncate(known);
                }
                Attempt::RejectedInTheWay => known = self.leave_out_rejected(known),
            }
            self.plan.reset(added);
        }
        Err(Limit::Attempts.into())
    }

    /// Rejects, in per-edit mode, the edit of a ref at whose path there is a folder that must stay; such a folder is
    /// noticed only when the ref's file is created. Returns any other error, and in atomic mode this one too.
    fn reject_blocked(&mut self, error: Error) -> Result<()> {
        let edits = &self.plan.edits;
        if let Error::Rejected(rejection) = &error
            && matches!(rejection.reason, RejectionReason::Folder { .. })
            && self.options.mode == Mode::PerEdit
            && let Some(at) = edits.first_of(rejection.resolved.as_bstr())
        {
            self.reject_edit(at, rejection.reason.clone());
            return Ok(());
        }
        Err(self.error_as_given(error))
    }

    /// Leaves the rejected edits out of the next attempt. Returns the number of rejections.
    fn leave_out_rejected(&mut self, known: usize) -> usize {
        assert!(self.rejected.len() > known, "an attempt starts over with fewer edits, or would do so for ever");
        self.plan.edits.items.iter_mut().for_each(|item| item.left_out = item.rejected);
        self.rejected.len()
    }

    /// Reads HEAD in advance without a lock, because nearly every symbolic ref that matters is HEAD.
    fn first_links(&self) -> Result<Links> {
        let mut links = Links::default();
        let edits = &self.plan.edits;
        let head = BStr::new("HEAD");
        let is_edited = edits.find(head).is_some();
        let is_asked_for = || edits.items.iter().any(|item| item.force_log);
        let is_logged = self.context.log_policy.creates_log(head) || is_asked_for();
        let (has_log, found) = again_if_lost(LOSSES_MAX + 1, Error::is_stale, || {
            let snapshot = self.context.backend.snapshot()?;
            let has_log = is_logged || snapshot.has_log(head)?;
            match snapshot.get(head) {
                // The branch of a broken HEAD is not known. Other refs are not affected, and an edit of HEAD itself is
                // judged later.
                Err(error) if error.is_broken_ref() => Ok((has_log, None)),
                found => Ok((has_log, found?)),
            }
        })?;
        if (is_edited || has_log)
            && let Some(target) = found.as_ref().and_then(|target| target.symbolic())
        {
            let target = self.context.backend.canonical_name(target.as_bstr());
            links.learn(head, target);
            // Edits of both HEAD and its branch must be refused, whether or not HEAD has a reflog.
            links.logged_head = Some(target.to_owned());
        }
        Ok(links)
    }

    fn attempt(&mut self, added: usize, links: &mut Links) -> Result<Attempt<'s>> {
        debug_assert_eq!(self.plan.edits.items.len(), added, "each attempt begins with the edits that were added");
        for (at, why) in expand(&mut self.plan.edits, added, links, self.options)? {
            self.reject(at, why)?;
        }
        let locked = self.context.backend.lock(&ClaimsOf {
            edits: &self.plan.edits,
            atomic_visibility: self.options.atomic_visibility,
            joins: self.joins,
        })?;
        let findings = walk(&mut self.plan.edits, locked.snapshot())?;
        if !confirm(&self.plan.edits, links, self.context.backend) {
            return Ok(Attempt::LinksMoved);
        }
        if let Some(source) = self.plan.edits.kept_source(self.options.mode) {
            return Err(Misuse::LogOfOther(source.to_owned()).into());
        }
        // Conflicts of names are reported further below, because git checks the expected value first.
        let is_name = |why: &RejectionReason| why.class() == RejectionClass::NameConflict;
        // A ref in whose place another item needs a folder cannot be locked either, which `conflicts` reports. In
        // per-edit mode, that other item may still be rejected.
        let per_edit = self.options.mode == Mode::PerEdit;
        self.refuse(&*locked, |edits, at, why| {
            let is_above =
                || findings.parent_items.contains(&at) || per_edit && !edits.below(edits.name(at)).is_empty();
            !is_name(why) && !is_above()
        })?;
        for (at, broken) in &findings.broken {
            let is_ref = is_sure_to_be_ref(self.plan.edits.name(*at));
            let item = &mut self.plan.edits.items[*at as usize];
            item.is_broken = true;
            if self.options.allow_broken && is_ref && item.mends_what_is_broken() {
                continue;
            }
            let why = RejectionReason::Broken { why: broken.why.clone() };
            match (self.options.allow_broken, self.options.mode) {
                (true, Mode::PerEdit) => self.reject_edit(*at, why),
                _ => self.reject(*at, why)?,
            }
        }
        self.resolve_symbolic(locked.snapshot())?;
        self.check_values(&*locked)?;
        if self.has_rejected_in_the_way() {
            return Ok(Attempt::RejectedInTheWay);
        }
        self.refuse(&*locked, |_, _, why| is_name(why))?;
        let in_the_way = conflicts(&self.plan.edits, &*locked, &findings, self.options.allow_replacing_parents)?;
        for (at, conflict) in in_the_way {
            self.reject(at, conflict)?;
        }
        // No edit takes effect without its lock, whatever was passed over above.
        self.refuse(&*locked, |_, _, _| true)?;
        self.spread_rejections();
        self.resolve_new(&*locked)?;
        logs(self.plan, locked.snapshot(), self.context)?;
        self.plan.finish(self.context)?;
        Ok(Attempt::Ready(locked))
    }

    /// Returns whether a rejected edit of this attempt has a name above or below that of an edit that is not rejected.
    fn has_rejected_in_the_way(&self) -> bool {
        let edits = &self.plan.edits;
        if self.rejected.is_empty() {
            return false;
        }
        // Two facts about each item: whether it or one above it is rejected, and whether it or one above it goes on. A
        // name comes after those above it.
        let mut chains = vec![(false, false); edits.items.len()];
        edits.order.iter().any(|at| {
            let is_rejected = edits.items[*at as usize].rejected;
            let (rejected, goes_on) = edits.parent(*at).map_or((false, false), |parent| chains[parent as usize]);
            chains[*at as usize] = (rejected || is_rejected, goes_on || !is_rejected);
            if is_rejected { goes_on } else { rejected }
        })
    }

    /// Rejects the items that could not be locked, if they are not rejected yet and `is_meant` returns `true` for them.
    fn refuse(&mut self, locked: &dyn Locked, is_meant: impl Fn(&Edits, u32, &RejectionReason) -> bool) -> Result<()> {
        debug_assert!(self.plan.edits.is_sorted(), "a claim's position is that of its item in the order");
        for (position, why) in locked.refused() {
            let at = self.plan.edits.order[*position];
            let edits = &self.plan.edits;
            if !edits.items[at as usize].rejected && is_meant(edits, at, why) {
                self.reject(at, why.clone())?;
            }
        }
        Ok(())
    }

    /// Replaces the canonical name in a backend's rejection by the name that the caller used.
    fn error_as_given(&self, error: Error) -> Error {
        let Error::Rejected(rejection) = error else { return error };
        let edits = &self.plan.edits;
        match edits.first_of(rejection.resolved.as_bstr()) {
            Some(at) => edits.rejection(at, rejection.reason).into(),
            None => Error::Rejected(rejection),
        }
    }

    /// Finds the objects that symbolic refs will lead to, for their reflogs. In files, git reads the target when it
    /// comes to the edit. By then the edits that were added earlier have taken effect, except for deletions, which
    /// come last.
    fn resolve_new(&mut self, locked: &dyn Locked) -> Result<()> {
        let Plan { edits, resolved, .. } = &mut *self.plan;
        for (at, item) in edits.items.iter().enumerate() {
            let Action::Set(Value::Symbolic(target)) = item.action else { continue };
            let has_files = locked.standing(edits.name(at as u32)) != Standing::NoFiles;
            let happened = |name: &BStr| {
                let before = edits.find(name).filter(|before| has_files && (*before as usize) < at);
                before.map(|before| &edits.items[before as usize]).filter(|item| !item.rejected)
            };
            let get = |name: &BStr| match happened(name).map(|item| item.action) {
                Some(Action::Set(value)) => Ok(edits.view(value).to_target()),
                Some(Action::Delete | Action::Verify | Action::LogOnly(_)) | None => locked.snapshot().get(name),
            };
            if let Leads::To(id) = follow(&get, edits.text(target))? {
                resolved.new.insert(at as u32, id);
            }
        }
        Ok(())
    }

    /// Finds the objects to which the old symbolic values of items lead, except for items that only get a reflog entry.
    fn resolve_symbolic(&mut self, snapshot: &dyn Snapshot) -> Result<()> {
        let Plan { edits, resolved, .. } = &mut *self.plan;
        debug_assert!(resolved.old.is_empty() && resolved.new.is_empty(), "each attempt looks objects up anew");
        for (at, item) in edits.items.iter().enumerate() {
            if matches!(item.action, Action::LogOnly(_)) {
                continue;
            }
            if let Some(Value::Symbolic(target)) = item.old {
                match follow(&|name| snapshot.get(name), edits.text(target))? {
                    Leads::To(id) => drop(resolved.old.insert(at as u32, id)),
                    Leads::Nowhere => {}
                    Leads::Unreadable => drop(resolved.unreadable.insert(at as u32)),
                }
            }
        }
        Ok(())
    }

    /// Checks the refs against the preconditions of their edits, and rejects the deletion of a HEAD that must be kept.
    fn check_values(&mut self, locked: &dyn Locked) -> Result<()> {
        for at in 0..self.plan.edits.items.len() as u32 {
            let Plan { edits, resolved, .. } = &*self.plan;
            let item = &edits.items[at as usize];
            debug_assert!(!item.is_broken || item.old.is_none(), "of a broken ref no value is known");
            // In reftables, git compares a symbolic ref that it follows with the expected target, too.
            let is_held = match (item.action, item.expected) {
                (_, Precondition::Any) => false,
                (Action::LogOnly(_), Precondition::MustMatch(Value::Symbolic(_))) => {
                    locked.standing(edits.name(at)) == Standing::NoFiles
                }
                (Action::LogOnly(_), _) => false,
                _ => true,
            };
            let is_heads_end = self.options.keeps_head && item.action == Action::Delete && edits.name(at) == "HEAD";
            if is_heads_end && !item.rejected {
                self.reject(at, RejectionReason::HeadIsKept)?;
                continue;
            }
            if item.rejected || !is_held {
                continue;
            }
            // A transaction that may replace broken refs compares the value of the ref itself, wherever that value
            // leads.
            if resolved.unreadable.contains(&at) && !self.options.allow_broken {
                self.reject(at, RejectionReason::Unreadable)?;
                continue;
            }
            let current = Current {
                value: item.old.map(|old| edits.view(old)),
                resolved: edits.id(item.old).or_else(|| resolved.old.get(&at).copied()).filter(|id| !id.is_null()),
            };
            let expects = item.expected.try_map(|value| Ok(edits.view(*value)))?;
            if let Some(why) = decide(current, expects) {
                self.reject(at, why)?;
            }
        }
        Ok(())
    }

    /// Rejects an edit. The whole transaction fails if it is atomic, or if git would fail all edits for this reason.
    fn reject(&mut self, at: u32, why: RejectionReason) -> Result<()> {
        if self.options.mode == Mode::Atomic || why.class() == RejectionClass::Generic {
            return Err(self.plan.edits.rejection(at, why).into());
        }
        self.reject_edit(at, why);
        Ok(())
    }

    fn reject_edit(&mut self, at: u32, why: RejectionReason) {
        assert!(self.options.mode == Mode::PerEdit, "an atomic transaction ends with its first rejection");
        let rejection = self.plan.edits.rejection(at, why);
        let root = self.plan.edits.items[at as usize].root;
        let root = &mut self.plan.edits.items[root as usize];
        // An edit that follows a symbolic ref may be rejected for each of the refs; the first reason is reported.
        if !std::mem::replace(&mut root.rejected, true) {
            self.rejected.push((root.position as usize, rejection));
        }
        self.plan.edits.items[at as usize].rejected = true;
    }

    /// Rejects all items of each rejected edit, and sorts the rejections.
    fn spread_rejections(&mut self) {
        if self.rejected.is_empty() {
            return;
        }
        for at in 0..self.plan.edits.items.len() {
            let root = self.plan.edits.items[at].root;
            self.plan.edits.items[at].rejected |= self.plan.edits.items[root as usize].rejected;
        }
        self.rejected.sort_by_key(|(position, _)| *position);
        debug_assert!(self.rejected.is_sorted_by(|a, b| a.0 < b.0), "an edit is rejected once");
        debug_assert!(
            self.plan.edits.items.iter().filter(|item| item.rejected).all(|item| self.is_told(item.position)),
            "no edit fails without a word"
        );
    }
}

impl Preparation<'_, '_> {
    /// Returns whether the edit at this position is among the rejections, which are sorted.
    fn is_told(&self, position: u32) -> bool {
        self.rejected.binary_search_by_key(&(position as usize), |(position, _)| *position).is_ok()
    }
}

/// The claims of a transaction: the refs of all items that are not left out, in order of name.
struct ClaimsOf<'a> {
    edits: &'a Edits,
    atomic_visibility: bool,
    joins: bool,
}

impl Claims for ClaimsOf<'_> {
    fn count(&self) -> usize {
        self.edits.order.len()
    }

    fn atomic_visibility(&self) -> bool {
        self.atomic_visibility
    }

    fn joins(&self) -> bool {
        self.joins
    }

    fn claim(&self, at: usize) -> Claim<'_> {
        let item = &self.edits.items[self.edits.order[at] as usize];
        debug_assert!(item.old.is_none() && !item.is_broken, "no value is known before the ref is locked");
        let kind = match item.action {
            Action::Set(Value::Direct(_)) => ClaimKind::SetDirect,
            Action::Set(Value::Symbolic(_)) => ClaimKind::SetSymbolic,
            Action::Delete => ClaimKind::Delete,
            Action::Verify | Action::LogOnly(_) => ClaimKind::Hold,
        };
        Claim { name: self.edits.text(item.name), kind }
    }
}

/// Where the target of a symbolic ref leads.
enum Leads {
    To(ObjectId),
    Nowhere,
    /// The target leads to a broken ref, in a circle, through too many refs, or to a name that no ref may have. The
    /// symbolic ref can still be created, and changed or deleted by an edit that expects nothing of it, or, if
    /// [`TransactionOptions::allow_broken`] is set, by one whose expectation it meets by itself.
    Unreadable,
}

fn follow(get: &dyn Fn(&BStr) -> Result<Option<Target>>, name: &BStr) -> Result<Leads> {
    let mut name = name.to_owned();
    for _ in 0..SYMREF_DEPTH_MAX {
        match get(name.as_bstr()) {
            // The name came from a ref, which may contain anything, and a write through that ref would create a file
            // of that name.
            Ok(None | Some(Target::Direct(_))) if RefName::new(name.as_bytes()).is_err() => {
                return Ok(Leads::Unreadable);
            }
            Ok(None) => return Ok(Leads::Nowhere),
            Ok(Some(Target::Direct(id))) => return Ok(Leads::To(id)),
            Ok(Some(Target::Symbolic(next))) => name = next.into(),
            Err(error) if error.is_broken_ref() => return Ok(Leads::Unreadable),
            Err(error) => return Err(error),
        }
    }
    Ok(Leads::Unreadable)
}

/// Returns whether an edit of this name may set only commits. As in git, the name in the edit decides, not the name
/// to which a symbolic ref leads.
pub(super) fn is_branch(name: &BStr) -> bool {
    name == "HEAD" || name.starts_with(b"refs/heads/")
}
