//! Finds the objects to which refs point, as the server reads the refs now, because claims of the client about refs
//! prove nothing.

use crate::{serve::session::Session, wire::Commands};
use bstr::BStr;
use refdb::{RefFormat, Snapshot, Target, TargetView};
use refdb_types::ObjectId;
use std::{collections::HashSet, ops::ControlFlow};

/// Maximum number of changed refs that are read individually, and of commits at the boundary against which git checks
/// first.
pub(super) const NEAR_MAX: usize = 64;

/// Maximum number of ids that are looked up in the object index of a reftable. For more ids, and with packed-refs,
/// which has no such index, all refs are read once.
const SEARCHED_MAX: usize = 16;

impl Session<'_, '_> {
    /// Removes from `wanted` the objects to which refs point.
    pub(super) fn remove_held(&self, snapshot: &dyn Snapshot, wanted: &mut HashSet<ObjectId>) -> refdb::Result<()> {
        let has_index = self.store.repository().ref_format() == RefFormat::Reftable;
        if has_index && wanted.len() <= SEARCHED_MAX {
            remove_found(snapshot, wanted)
        } else {
            remove_held_by_any(snapshot, wanted)
        }
    }

    /// Returns the current values of the first [`NEAR_MAX`] refs that the push changes or deletes, and of the branch
    /// that HEAD names.
    pub(super) fn near_tips(&self, snapshot: &dyn Snapshot) -> refdb::Result<HashSet<ObjectId>> {
        let mut tips = HashSet::new();
        let commands: &Commands = &self.request.commands;
        let changed =
            commands.iter().filter(|command| !command.old.is_null()).take(NEAR_MAX).map(|command| command.name);
        for name in changed {
            tips.extend(held(snapshot, name)?);
        }
        match snapshot.get("HEAD".into()) {
            Ok(Some(Target::Symbolic(branch))) => tips.extend(held(snapshot, branch.as_bstr())?),
            Ok(_) => {}
            Err(error) if error.is_broken_ref() => {}
            Err(error) => return Err(error),
        }
        Ok(tips)
    }
}

fn remove_found(snapshot: &dyn Snapshot, wanted: &mut HashSet<ObjectId>) -> refdb::Result<()> {
    for id in wanted.iter().copied().collect::<Vec<_>>() {
        let mut is_held = false;
        snapshot.pointing_at(&id, &mut |view| {
            is_held |= view.target == TargetView::Direct(id);
            Ok(())
        })?;
        if is_held {
            wanted.remove(&id);
        }
    }
    Ok(())
}

fn remove_held_by_any(snapshot: &dyn Snapshot, wanted: &mut HashSet<ObjectId>) -> refdb::Result<()> {
    if wanted.is_empty() {
        return Ok(());
    }
    let mut cursor = snapshot.cursor(false)?;
    loop {
        let walked = cursor.for_each(&mut |view| {
            if let TargetView::Direct(id) = view.target {
                wanted.remove(&id);
            }
            if wanted.is_empty() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        });
        match walked {
            Ok(_) => return Ok(()),
            // A broken ref points to nothing.
            Err(refdb::Error::BrokenRef(_)) => {}
            Err(error) => return Err(error),
        }
    }
}

fn held(snapshot: &dyn Snapshot, name: &BStr) -> refdb::Result<Option<ObjectId>> {
    match snapshot.get(name) {
        Ok(Some(Target::Direct(id))) => Ok(Some(id)),
        Ok(_) => Ok(None),
        Err(error) if error.is_broken_ref() => Ok(None),
        Err(error) => Err(error),
    }
}
