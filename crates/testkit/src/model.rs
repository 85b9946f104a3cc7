use crate::{RefFormat, Rng, names};
use refdb_types::{ObjectId, RefName, Target, is_below};
use std::collections::BTreeMap;

/// A ref store in memory with git's rules for transactions: what both backends are compared with.
///
/// Edits are of the named ref itself (`--no-deref`), a new direct value under `refs/heads/` is logged.
#[derive(Clone, Debug)]
pub struct Model {
    refs: BTreeMap<RefName, Target>,
    logs: BTreeMap<RefName, Vec<(Option<ObjectId>, ObjectId)>>,
    /// A deleted symbolic ref's reflog stays in a reftable; in files it goes, as every other ref's does.
    keeps_symref_logs: bool,
}

/// One edit of a transaction.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ModelEdit {
    /// The ref.
    pub name: RefName,
    /// What it becomes.
    pub change: ModelChange,
    /// What it must be before.
    pub old: Old,
}

/// What an edit does.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum ModelChange {
    /// It gets this value.
    Set(Target),
    /// It goes away.
    Delete,
    /// It stays; only the old value is checked.
    Verify,
}

/// What a ref must be for an edit to happen.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Old {
    /// Anything.
    Any,
    /// Not there.
    Missing,
    /// This.
    Is(Target),
}

/// Why an edit is refused.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Refusal {
    /// Two edits of one ref.
    Duplicate,
    /// It should not exist.
    Exists,
    /// It should exist.
    Missing,
    /// It has another value.
    Mismatch,
    /// A ref exists, or another edit names one, that is a folder of this one or lies in it.
    NameConflict,
}

impl Model {
    /// An empty store of this format.
    pub fn new(format: RefFormat) -> Self {
        let keeps_symref_logs = format == RefFormat::Reftable;
        Model { refs: BTreeMap::new(), logs: BTreeMap::new(), keeps_symref_logs }
    }

    /// The refs, sorted by name.
    pub fn refs(&self) -> &BTreeMap<RefName, Target> {
        &self.refs
    }

    /// A ref's reflog, oldest first: old (none where the ref was new) and new value.
    pub fn log(&self, name: &RefName) -> &[(Option<ObjectId>, ObjectId)] {
        self.logs.get(name).map_or(&[], Vec::as_slice)
    }

    /// Does all edits, or none and says what was wrong with each that could not be done.
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
        // Git looks even if a missing ref is only verified or deleted. Every name in the transaction counts, also of a
        // ref that goes away.
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
    /// An edit that is often right and sometimes wrong for the refs of `model`. `ids` are the values it may use.
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

    /// The edit as `git update-ref -z --stdin` reads it; `None` if git has no command for it.
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
        // Into a folder of their own. Git's reftable backend refuses to change a symbolic ref (itself, not its target)
        // whose target could not be created. Its files backend does not.
        let target = rng.pick(&["refs/targets/a", "refs/targets/b"]);
        Target::Symbolic(RefName::new(*target).expect("the name is valid"))
    } else {
        Target::Direct(*rng.pick(ids))
    }
}
