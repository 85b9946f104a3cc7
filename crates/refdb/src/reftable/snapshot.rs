use super::{
    cursor::ReftableCursor,
    logs,
    probe::probe,
    stacks::{Place, Stacks},
};
use crate::{
    BrokenRef, Cursor, Error, LooseError, Probe, RefView, Result, Snapshot, TargetView,
    backend::{Answers, Peeled},
};
use bstr::{BStr, ByteSlice};
use refdb_types::{HashKind, LogEntry, ObjectId, RefName, Target, is_pseudo, is_root_ref};
use reftable::{Merged, PointingRef, RefRecord, RefValue};
use std::{collections::BTreeMap, ops::ControlFlow, sync::Arc};

/// The stacks at one moment.
///
/// The stacks of this worktree are read when the snapshot is made, those of other worktrees when a name asks for them.
pub(super) struct ReftableSnapshot {
    stacks: Arc<Stacks>,
    merged: BTreeMap<Place, Merged>,
}

impl ReftableSnapshot {
    /// The present state.
    pub(super) fn fresh(stacks: &Arc<Stacks>) -> Result<Self> {
        Self::with(stacks, BTreeMap::new())
    }

    /// The state of the locked stacks as they are under the lock, and the present state of the others.
    pub(super) fn with(stacks: &Arc<Stacks>, mut merged: BTreeMap<Place, Merged>) -> Result<Self> {
        for place in stacks.own_places() {
            if !merged.contains_key(place) {
                merged.insert(place.clone(), stacks.stack(place)?.refresh()?.merged().clone());
            }
        }
        Ok(ReftableSnapshot { stacks: Arc::clone(stacks), merged })
    }

    pub(super) fn hash(&self) -> HashKind {
        self.stacks.options.stack.write.hash
    }

    pub(super) fn stacks(&self) -> &Stacks {
        &self.stacks
    }

    pub(super) fn merged(&self, place: &Place) -> Result<Merged> {
        match self.merged.get(place) {
            Some(merged) => Ok(merged.clone()),
            None => Ok(self.stacks.stack(place)?.refresh()?.merged().clone()),
        }
    }

    /// Reads `FETCH_HEAD` or `MERGE_HEAD`, which are files in every format; the first line's object counts.
    pub(super) fn pseudo(&self, name: &BStr) -> Result<Option<Target>> {
        let path = self.stacks.options.git_dir.join(name.to_path_lossy());
        let hash = self.hash();
        match self.stacks.options.fs.read(&path) {
            Err(error) if error.is_not_found() => Ok(None),
            Err(error) => Err(error.into()),
            Ok(content) => {
                let hex = content.get(..hash.len_hex()).unwrap_or(&content);
                match ObjectId::from_hex(hash, hex) {
                    Ok(id) => Ok(Some(Target::Direct(id))),
                    Err(_) => {
                        let why = LooseError::Content(hash.len_hex());
                        Err(BrokenRef { name: name.to_owned(), path, why }.into())
                    }
                }
            }
        }
    }

    /// Whether a plain name of this stack is visible under it in this worktree.
    pub(super) fn is_visible(&self, place: &Place, name: &BStr) -> bool {
        !self.stacks.is_linked() || self.stacks.route(name) == (place.clone(), name)
    }
}

impl Snapshot for ReftableSnapshot {
    fn get(&self, name: &BStr) -> Result<Option<Target>> {
        if is_pseudo(name) {
            return self.pseudo(name);
        }
        let (place, inner) = self.stacks.route(name);
        let found = self.merged(&place)?.get(inner, |record| owned(name, &record))?;
        found.transpose()
    }

    fn probe(&self, probes: &mut dyn Iterator<Item = Probe<'_>>, answers: &mut dyn Answers) -> Result<()> {
        probe(self, probes, answers)
    }

    fn cursor(&self, root_refs: bool) -> Result<Box<dyn Cursor + '_>> {
        Ok(Box::new(ReftableCursor::new(self, root_refs)?))
    }

    fn pointing_at(&self, id: &ObjectId, found: &mut dyn FnMut(RefView<'_>) -> Result<()>) -> Result<()> {
        let mut refs: Vec<PointingRef> = Vec::new();
        for place in self.stacks.own_places() {
            let pointing = self.merged(place)?.refs_pointing_at(id)?;
            refs.extend(pointing.into_iter().filter(|found| {
                let name = found.name.as_bstr();
                (name.starts_with(b"refs/") || is_root_ref(name)) && self.is_visible(place, name)
            }));
        }
        refs.sort_unstable_by(|a, b| a.name.cmp(&b.name));
        for pointing in &refs {
            found(RefView {
                name: pointing.name.as_bstr(),
                target: TargetView::Direct(pointing.target),
                peeled: pointing.peeled.map_or(Peeled::NotTag, Peeled::To),
            })?;
        }
        Ok(())
    }

    fn has_log(&self, name: &BStr) -> Result<bool> {
        logs::has(self, name)
    }

    fn having_logs(
        &self,
        names: &mut dyn Iterator<Item = &BStr>,
        found: &mut dyn FnMut(usize) -> Result<()>,
    ) -> Result<()> {
        logs::having(self, names, found)
    }

    fn log(&self, name: &BStr, entry: &mut dyn FnMut(&LogEntry) -> ControlFlow<()>) -> Result<bool> {
        logs::read(self, name, entry)
    }

    fn log_names(&self) -> Result<Vec<RefName>> {
        logs::names(self)
    }
}

/// A record as a view; `None` for a tombstone.
#[inline]
pub(super) fn view<'a>(record: &RefRecord<'a>) -> Option<RefView<'a>> {
    let (target, peeled) = match record.value {
        RefValue::Deletion => return None,
        RefValue::Direct(id) => (TargetView::Direct(id), Peeled::NotTag),
        RefValue::Peeled { target, peeled } => (TargetView::Direct(target), Peeled::To(peeled)),
        RefValue::Symbolic(target) => (TargetView::Symbolic(target), Peeled::NotTag),
    };
    Some(RefView { name: record.name, target, peeled })
}

pub(super) fn owned(name: &BStr, record: &RefRecord<'_>) -> Result<Target> {
    match record.value {
        RefValue::Symbolic(target) => match RefName::new_safe(target.to_vec()) {
            Some(target) => Ok(Target::Symbolic(target)),
            None => Err(Error::BadTarget { name: name.to_owned(), target: target.to_owned() }),
        },
        RefValue::Direct(id) | RefValue::Peeled { target: id, .. } => Ok(Target::Direct(id)),
        RefValue::Deletion => unreachable!("'{name}' was read although it is deleted"),
    }
}
