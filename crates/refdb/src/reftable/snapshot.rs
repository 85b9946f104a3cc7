//! The [`Snapshot`] of the reftable backend.

use super::{cursor::ReftableCursor, logs, probe::probe, state::ReftableSnapshot, values::owned};
use crate::{
    Cursor, Probe, RefView, Result, Snapshot, TargetView,
    backend::{Answers, Peeled},
};
use bstr::{BStr, ByteSlice};
use refdb_types::{LogEntry, ObjectId, RefName, Target, is_pseudo, is_root_ref};
use reftable::PointingRef;
use std::ops::ControlFlow;

impl Snapshot for ReftableSnapshot {
    fn get(&self, name: &BStr) -> Result<Option<Target>> {
        if is_pseudo(name) {
            return self.pseudo(name);
        }
        let (place, inner) = self.stacks().route(name);
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
        for place in self.stacks().own_places() {
            let pointing = self.merged(place)?.refs_pointing_at(id)?;
            refs.extend(pointing.into_iter().filter(|found| {
                let name = found.name.as_bstr();
                (name.starts_with(b"refs/") || is_root_ref(name)) && self.is_visible(place, name)
            }));
        }
        refs.sort_unstable_by(|a, b| a.name.cmp(&b.name));
        debug_assert!(refs.is_sorted_by(|a, b| a.name < b.name), "each ref is visible in one stack");
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

    fn log_names_elsewhere(&self, worktree: Option<&BStr>) -> Result<Vec<RefName>> {
        logs::names_elsewhere(self, worktree)
    }
}
