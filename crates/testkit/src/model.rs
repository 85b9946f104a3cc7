use crate::{RefFormat, Rng, names};
use refdb_types::{ObjectId, RefName, Target, is_below};
use std::collections::BTreeMap;

/// A ref store in memory with git's rules for transactions, with which both backends are compared.
///
/// Edits apply to the named ref itself (`--no-deref`), and a new direct value below `refs/heads/` is logged.
#[derive(Clone, Debug)]
pub struct Model {
    refs: BTreeMap<RefName, Target>,
    logs: BTreeMap<RefName, Vec<(Option<ObjectId>, ObjectId)>>,
    /// Whether the reflog of a deleted symbolic ref is kept, as in reftables. In files it is deleted, as for every
    /// other ref.
    keeps_symref_logs: bool,
}

/// One edit of a transaction.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ModelEdit {
    /// The ref that is changed or checked.
    pub name: RefName,
    /// The change to make.
    pub change: ModelChange,
    /// The value that the ref must have before.
    pub old: Old,
}

/// The change that an edit makes.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum ModelChange {
    /// The ref gets this value.
    Set(Target),
    /// The ref is deleted.
    Delete,
    /// The ref is not changed; only the old value is checked.
    Verify,
}

/// The value that a ref must have for an edit to be applied.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Old {
    /// Any value, or none.
    Any,
    /// The ref must not exist.
    Missing,
    /// The ref must have this value.
    Is(Target),
}

/// The reason why an edit is refused.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Refusal {
    /// Another edit names the same ref.
    Duplicate,
    /// The ref exists but should not.
    Exists,
    /// The ref does not exist but should.
    Missing,
    /// The ref has another value than expected.
    Mismatch,
    /// An existing ref, or one that another edit names, is a folder of this one or lies below it.
    NameConflict,
}

impl Model {
    /// Creates an empty store of this format.
    pub fn new(format: RefFormat) -> Self {
        let keeps_symref_logs = format == RefFormat::Reftable;
        Model { refs: BTreeMap::new(), logs: BTreeMap::new(), keeps_symref_logs }
    }

    /// Returns the refs, sorted by name.
    pub fn refs(&self) -> &BTreeMap<RefName, Target> {
        &self.refs
    }

    /// Returns a ref's reflog, oldest entry first: the old value, which is `None` if the ref was new or symbolic, and
    /// the new value.
    pub fn log(&self, name: &RefName) -> &[(Option<ObjectId>, ObjectId)] {
        self.logs.get(name).map_or(&[], Vec::as_slice)
    }

    /// Applies all edits, or none of them.
    ///
    /// # Errors
    ///
    /// The index of each edit that is refused, with the reason.
    pub fn apply(&mut self, edits: &[ModelEdit]) -> Result<(), Vec<(usize, Refusal)>> {
        let refused: Vec<_> = (0..edits.len()).filter_map(|at| Some((at, self.refusal(edits, at)?))).collect();
        if !refused.is_empty() {
            return Err(refused);
        }
        edits.iter().for_each(|edit| self.perform(edit));
        Ok(())
    }

    fn refusal(&self, edits: &[ModelEdit], at: usize) -> Option<Refusal> {
        let edit = &edits[at];
        if edits.iter().enumerate().any(|(other, with)| other != at && with.name == edit.name) {
            return Some(Refusal::Duplicate);
        }
        let now = self.refs.get(&edit.name);
        match (&edit.old, now) {
            (Old::Missing, Some(_)) => return Some(Refusal::Exists),
            (Old::Is(_), None) => return Some(Refusal::Missing),
            (Old::Is(old), Some(now)) if old != now => return Some(Refusal::Mismatch),
            _ => {}
        }
        if now.is_some() {
            return None;
        }
        // Git checks for conflicts even if a missing ref is only verified or deleted, and considers every name in the
        // transaction, including those of deleted refs.
        let others = edits.iter().map(|other| &other.name);
        let taken =
            self.refs.keys().chain(others).any(|other| is_below(&edit.name, other) || is_below(other, &edit.name));
        taken.then_some(Refusal::NameConflict)
    }

    fn perform(&mut self, edit: &ModelEdit) {
        match &edit.change {
            ModelChange::Verify => {}
            ModelChange::Delete => {
                let was_symref = matches!(self.refs.remove(&edit.name), Some(Target::Symbolic(_)));
                if !(was_symref && self.keeps_symref_logs) {
                    self.logs.remove(&edit.name);
                }
            }
            ModelChange::Set(new) => {
                let old = self.refs.insert(edit.name.clone(), new.clone());
                let old = old.and_then(|old| old.id());
                let is_logged = edit.name.starts_with(b"refs/heads/") && old != new.id();
                if let Some(id) = new.id().filter(|_| is_logged) {
                    self.logs.entry(edit.name.clone()).or_default().push((old, id));
                }
            }
        }
    }
}

impl ModelEdit {
    /// Generates an edit, valid or not, for the refs of `model`. The ids of new values are taken from `ids`.
    pub fn random(rng: &mut Rng, model: &Model, ids: &[ObjectId]) -> Self {
        let existing = model.refs.keys().nth(rng.below(model.refs.len().max(1)));
        let fresh = RefName::new(names::quarrelsome(rng)).expect("the name is valid");
        let name = existing.filter(|_| rng.one_in(2)).cloned().unwrap_or(fresh);
        let now = model.refs.get(&name).cloned();
        let change = match rng.below(8) {
            0..=3 => ModelChange::Set(random_target(rng, ids)),
            4..=6 => ModelChange::Delete,
            _ => ModelChange::Verify,
        };
        let old = match (rng.below(8), now) {
            (0..=1, _) => Old::Any,
            (2, _) => Old::Missing,
            (3, _) => Old::Is(random_target(rng, ids)),
            (_, Some(now)) => Old::Is(now),
            (_, None) => Old::Missing,
        };
        ModelEdit { name, change, old }
    }

    /// Returns the edit in the form that `git update-ref -z --stdin` reads; `None` if git has no command for it.
    pub fn for_git(&self) -> Option<String> {
        let name = &self.name;
        let text = match (&self.change, &self.old) {
            (ModelChange::Set(Target::Direct(new)), Old::Any) => format!("update {name}\0{new}\0\0"),
            (ModelChange::Set(Target::Direct(new)), Old::Missing) => format!("create {name}\0{new}\0"),
            (ModelChange::Set(Target::Direct(new)), Old::Is(Target::Direct(old))) => {
                format!("update {name}\0{new}\0{old}\0")
            }
            (ModelChange::Set(Target::Symbolic(new)), Old::Any) => format!("symref-update {name}\0{new}\0\0"),
            (ModelChange::Set(Target::Symbolic(new)), Old::Missing) => format!("symref-create {name}\0{new}\0"),
            (ModelChange::Set(Target::Symbolic(new)), Old::Is(Target::Direct(old))) => {
                format!("symref-update {name}\0{new}\0oid\0{old}\0")
            }
            (ModelChange::Set(Target::Symbolic(new)), Old::Is(Target::Symbolic(old))) => {
                format!("symref-update {name}\0{new}\0ref\0{old}\0")
            }
            (ModelChange::Delete, Old::Any) => format!("delete {name}\0\0"),
            (ModelChange::Delete, Old::Is(Target::Direct(old))) => format!("delete {name}\0{old}\0"),
            (ModelChange::Delete, Old::Is(Target::Symbolic(old))) => format!("symref-delete {name}\0{old}\0"),
            (ModelChange::Verify, Old::Missing) => format!("verify {name}\0\0"),
            (ModelChange::Verify, Old::Is(Target::Direct(old))) => format!("verify {name}\0{old}\0"),
            (ModelChange::Verify, Old::Is(Target::Symbolic(old))) => format!("symref-verify {name}\0{old}\0"),
            (ModelChange::Set(Target::Direct(_)), Old::Is(Target::Symbolic(_)))
            | (ModelChange::Delete, Old::Missing)
            | (ModelChange::Verify, Old::Any) => return None,
        };
        Some(format!("option no-deref\0{text}"))
    }
}

fn random_target(rng: &mut Rng, ids: &[ObjectId]) -> Target {
    if rng.one_in(8) {
        // Symbolic refs point into a folder of their own, because git's reftable backend, unlike its files backend,
        // refuses to change a symbolic ref itself if its target could not be created.
        let target = rng.pick(&["refs/targets/a", "refs/targets/b"]);
        Target::Symbolic(RefName::new(*target).expect("the name is valid"))
    } else {
        Target::Direct(*rng.pick(ids))
    }
}
