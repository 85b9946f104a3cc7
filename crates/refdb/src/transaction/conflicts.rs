//! Names that cannot exist beside one another, because one would have to be a file and a folder.

use super::{
    edits::{Action, Edits, Item},
    walk::Findings,
};
use crate::{
    BrokenRef, Error, RejectionReason, Result, TargetView,
    backend::{Answers, Locked, Probe, Snapshot, Standing},
};
use bstr::{BStr, BString, ByteSlice};
use std::collections::BTreeMap;

/// Returns the items to refuse because their names conflict with refs or with other items, and the name with which each
/// conflicts. Where two new items conflict with each other, one of them is refused. Old values must be known.
///
/// With `allow_replacing`, refs that the transaction deletes cause no conflict, except outside of `refs/` those below a
/// new name.
pub(super) fn conflicts(
    edits: &Edits,
    locked: &dyn Locked,
    findings: &Findings,
    allow_replacing: bool,
) -> Result<BTreeMap<u32, RejectionReason>> {
    let mut found = BTreeMap::new();
    for parent in &findings.parent_refs {
        below_a_ref(edits, parent.as_bstr(), &mut found);
    }
    // This comes before the conflicts between items, so that a conflict with an existing ref below an item is reported
    // rather than one with a new item.
    above_refs(edits, locked, findings, allow_replacing, &mut found)?;
    for &parent in &findings.parent_items {
        let item = &edits.items[parent as usize];
        let goes_away = allow_replacing && item.action == Action::Delete;
        match item.old {
            _ if goes_away => {}
            Some(_) => below_a_ref(edits, edits.name(parent), &mut found),
            None => below_a_new_item(edits, parent, locked, &mut found),
        }
    }
    Ok(found)
}

/// Finds new items for which a file is needed where existing refs below them need a folder.
fn above_refs(
    edits: &Edits,
    locked: &dyn Locked,
    findings: &Findings,
    allow_replacing: bool,
    found: &mut BTreeMap<u32, RejectionReason>,
) -> Result<()> {
    for child in &findings.children {
        for at in child.find_iter(b"/") {
            let Some(parent) =
                edits.find(child[..at].as_bstr()).filter(|parent| edits.items[*parent as usize].is_new())
            else {
                continue;
            };
            let name = edits.name(parent);
            let staying = if allow_replacing {
                first_staying(edits, locked.snapshot(), name, child.as_bstr())?
            } else {
                Some(child.clone())
            };
            let Some(with) = staying else { continue };
            found.entry(parent).or_insert_with(|| {
                // Git locks refs in the order of the edits, and the lock of a ref below this one makes a folder, too.
                let below = &edits.order[edits.below(name)];
                let is_folder = match locked.standing(name) {
                    Standing::NoFiles => false,
                    Standing::NoFolder => below.iter().any(|at| *at < parent),
                    Standing::Folder => true,
                };
                RejectionReason::Conflict { with, is_new: false, prevents_lock: is_folder }
            });
        }
    }
    Ok(())
}

impl Item {
    /// Returns whether the item can conflict as a new ref: the ref does not exist or is broken, and the item is about
    /// more than its reflog. As in git, an edit that only verifies or deletes can conflict as well.
    fn is_new(&self) -> bool {
        self.old.is_none() && !matches!(self.action, Action::LogOnly(_))
    }
}

fn below_a_ref(edits: &Edits, parent: &BStr, found: &mut BTreeMap<u32, RejectionReason>) {
    for &at in &edits.order[edits.below(parent)] {
        if edits.items[at as usize].is_new() {
            let conflict =
                || RejectionReason::Conflict { with: parent.to_owned(), is_new: false, prevents_lock: false };
            found.entry(at).or_insert_with(conflict);
        }
    }
}

/// Refuses one of two new items that conflict: in files the outer one; in reftables and in memory the one that was
/// added first. If there are several inner items in reftables or in memory, each that was added before the outer one is
/// refused.
fn below_a_new_item(edits: &Edits, parent: u32, locked: &dyn Locked, found: &mut BTreeMap<u32, RejectionReason>) {
    let below = &edits.order[edits.below(edits.name(parent))];
    let mut inner = below.iter().copied().filter(|child| edits.items[*child as usize].is_new());
    let mut refuse = |item: u32, other: u32, is_folder: bool| {
        let with = || edits.shown(other).to_owned();
        found.entry(item).or_insert_with(|| RejectionReason::Conflict {
            with: with(),
            is_new: true,
            prevents_lock: is_folder,
        });
    };
    match locked.standing(edits.name(parent)) {
        Standing::NoFiles => inner.for_each(|child| {
            let [outer_at, inner_at] = [parent, child].map(|at| edits.items[at as usize].position);
            let (first, second) = if inner_at < outer_at { (child, parent) } else { (parent, child) };
            refuse(first, second, false);
        }),
        Standing::NoFolder | Standing::Folder => {
            if let Some(child) = inner.next() {
                refuse(parent, child, child < parent);
            }
        }
    }
}

/// The first ref below `parent` that the transaction does not delete. `child` is any ref below `parent`. A cursor lists
/// only what is below `refs/`, so that `child` counts as staying if it is elsewhere, such as in another worktree.
fn first_staying(edits: &Edits, snapshot: &dyn Snapshot, parent: &BStr, child: &BStr) -> Result<Option<BString>> {
    if !child.starts_with(b"refs/") {
        return Ok(Some(child.to_owned()));
    }
    let stays = |name: &BStr| edits.find(name).map(|at| edits.items[at as usize].action) != Some(Action::Delete);
    let prefix = [parent.as_bytes(), b"/"].concat();
    let mut cursor = snapshot.cursor(false)?;
    cursor.seek(prefix.as_bstr())?;
    loop {
        let found = match cursor.next() {
            Ok(None) => return Ok(None),
            Ok(Some(view)) => view.name.to_owned(),
            Err(Error::BrokenRef(broken)) => broken.name,
            Err(error) => return Err(error),
        };
        if found.starts_with(&prefix) {
            if stays(found.as_bstr()) {
                return Ok(Some(found));
            }
        } else if found.as_slice() > prefix.as_slice() {
            return Ok(None);
        } // A folder that may not be read is returned although it comes before the prefix.
    }
}

/// Returns a ref with which the name of a new ref would conflict: one above it or below it.
pub(super) fn in_the_way(snapshot: &dyn Snapshot, name: &BStr) -> Result<Option<BString>> {
    let slashes = name.find_iter(b"/");
    for parent in slashes.map(|at| name[..at].as_bstr()) {
        if snapshot.get(parent)?.is_some() {
            return Ok(Some(parent.to_owned()));
        }
    }
    let mut below = Below(None);
    snapshot.probe(&mut std::iter::once(Probe { name, below: true }), &mut below)?;
    Ok(below.0)
}

/// Takes the first ref below the name of a single probe. As in git, it may be one that cannot be read.
struct Below(Option<BString>);

impl Answers for Below {
    fn value(&mut self, _: usize, _: Option<TargetView<'_>>) -> Result<()> {
        Ok(())
    }

    fn broken(&mut self, _: usize, _: BrokenRef) -> Result<()> {
        Ok(())
    }

    fn below(&mut self, _: usize, child: &BStr) -> Result<()> {
        self.0 = Some(child.to_owned());
        Ok(())
    }
}
