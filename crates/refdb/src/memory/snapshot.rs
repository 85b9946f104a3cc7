//! The snapshot and the cursor of refs that are kept in memory. Both read a [`State`], which is one version of all
//! refs.

use super::state::{Entry, State};
use crate::{
    Cursor, Probe, RefView, Result, Snapshot, TargetView,
    backend::{Answers, Peeled},
};
use bstr::{BStr, BString, ByteSlice};
use refdb_types::{LogEntry, ObjectId, RefName, Scope, Target, canonical_name, is_root_ref, qualified_name};
use std::{collections::btree_map::Range, ops::ControlFlow, sync::Arc};

/// A snapshot, which is a state that never changes.
pub(super) struct MemorySnapshot {
    state: Arc<State>,
}

impl MemorySnapshot {
    pub(super) fn new(state: Arc<State>) -> Self {
        MemorySnapshot { state }
    }

    pub(super) fn state(&self) -> &State {
        &self.state
    }
}

impl Snapshot for MemorySnapshot {
    fn get(&self, name: &BStr) -> Result<Option<Target>> {
        Ok(self.state.refs.get(canonical_name(name, None)).map(|entry| entry.target.clone()))
    }

    fn probe(&self, probes: &mut dyn Iterator<Item = Probe<'_>>, answers: &mut dyn Answers) -> Result<()> {
        for (at, Probe { name, below }) in probes.enumerate() {
            let name = canonical_name(name, None);
            answers.value(at, self.state.refs.get(name).map(|entry| TargetView::from(&entry.target)))?;
            if !below {
                continue;
            }
            let prefix = BString::from([name.as_bytes(), b"/"].concat());
            let next = self.state.refs.range::<BString, _>(&prefix..).next();
            if let Some((child, _)) = next.filter(|(child, _)| child.starts_with(&prefix)) {
                answers.below(at, child.as_bstr())?;
            }
        }
        Ok(())
    }

    fn cursor(&self, root_refs: bool) -> Result<Box<dyn Cursor + '_>> {
        let range = self.state.refs.range::<BString, _>(..);
        Ok(Box::new(MemoryCursor { state: &self.state, range, root_refs }))
    }

    fn pointing_at(&self, id: &ObjectId, found: &mut dyn FnMut(RefView<'_>) -> Result<()>) -> Result<()> {
        let mut cursor = self.cursor(true)?;
        while let Some(view) = cursor.next()? {
            if view.target == TargetView::Direct(*id) || view.peeled == Peeled::To(*id) {
                found(view)?;
            }
        }
        Ok(())
    }

    fn has_log(&self, name: &BStr) -> Result<bool> {
        Ok(self.state.logs.contains_key(canonical_name(name, None)))
    }

    fn log(&self, name: &BStr, entry: &mut dyn FnMut(&LogEntry) -> ControlFlow<()>) -> Result<bool> {
        let Some(log) = self.state.logs.get(canonical_name(name, None)) else { return Ok(false) };
        let _ = log.iter().rev().try_for_each(entry);
        Ok(true)
    }

    fn log_names(&self) -> Result<Vec<RefName>> {
        let is_seen = |name: &&BString| matches!(Scope::of(name.as_bstr()), Scope::Shared | Scope::Worktree);
        Ok(self.state.logs.keys().filter(is_seen).filter_map(|name| RefName::new(name.to_vec()).ok()).collect())
    }

    fn log_names_elsewhere(&self, worktree: Option<&BStr>) -> Result<Vec<RefName>> {
        let name_elsewhere = |name: &BString| match (Scope::of(name.as_bstr()), worktree) {
            (Scope::Worktree, None) => Some(BString::from(qualified_name(None, name.as_bstr()))),
            (Scope::Other { id, .. }, Some(wanted)) if id == wanted => Some(name.clone()),
            _ => None,
        };
        let names = self.state.logs.keys().filter_map(name_elsewhere);
        Ok(names.filter_map(|name| RefName::new(name).ok()).collect())
    }
}

/// Walks the refs of a state.
struct MemoryCursor<'s> {
    state: &'s State,
    range: Range<'s, BString, Entry>,
    root_refs: bool,
}

impl Cursor for MemoryCursor<'_> {
    fn seek(&mut self, name: &BStr) -> Result<()> {
        self.range = self.state.refs.range(name.to_owned()..);
        Ok(())
    }

    fn next(&mut self) -> Result<Option<RefView<'_>>> {
        let root_refs = self.root_refs;
        let is_listed = |name: &BString| name.starts_with(b"refs/") || root_refs && is_root_ref(name.as_bstr());
        let found = self.range.find(|(name, _)| is_listed(name));
        Ok(found.map(|(name, entry)| RefView {
            name: name.as_bstr(),
            target: TargetView::from(&entry.target),
            peeled: entry.peeled,
        }))
    }
}
