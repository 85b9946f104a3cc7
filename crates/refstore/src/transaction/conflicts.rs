//! Names that cannot exist beside one another, because one would have to be a file and a folder.

use super::{
    edits::{Action, Edits, Item},
    walk::Findings,
};
use crate::{Result, backend::Snapshot};
use bstr::{BStr, BString, ByteSlice};
use std::collections::BTreeMap;

/// The items whose names conflict with refs or with other items, and git's words for it. Old values are known.
///
/// With `allow_replacing`, refs that the transaction deletes are in nobody's way.
pub(super) fn conflicts(
    edits: &Edits,
    snapshot: &dyn Snapshot,
    findings: &Findings,
    allow_replacing: bool,
) -> Result<BTreeMap<u32, String>> {
    let mut found = BTreeMap::new();
    for parent in &findings.parent_refs {
        below_a_ref(edits, parent.as_bstr(), &mut found);
    }
    for &parent in &findings.parent_items {
        let item = &edits.items[parent as usize];
        let goes_away = allow_replacing && item.action == Action::Delete;
        match item.old {
            _ if goes_away => {}
            Some(_) => below_a_ref(edits, edits.name(parent), &mut found),
            None => below_a_new_item(edits, parent, &mut found),
        }
    }
    for child in &findings.children {
        let mut child = child.clone();
        for at in 0..child.len() {
            if child[at] != b'/' {
                continue;
            }
            let Some(parent) =
                edits.find(child[..at].as_bstr()).filter(|parent| edits.items[*parent as usize].is_new())
            else {
                continue;
            };
            if allow_replacing {
                match first_staying(edits, snapshot, edits.name(parent))? {
                    Some(staying) => child = staying,
                    None => continue,
                }
            }
            let name = edits.shown(parent);
            found.entry(parent).or_insert_with(|| format!("'{child}' exists; cannot create '{name}'"));
        }
    }
    Ok(found)
}

impl Item {
    /// Whether the ref does not exist, and will have to if the edit shall happen. Git counts even edits that only
    /// verify or delete.
    fn is_new(&self) -> bool {
        self.old.is_none() && !matches!(self.action, Action::LogOnly(_))
    }
}

fn below_a_ref(edits: &Edits, parent: &BStr, found: &mut BTreeMap<u32, String>) {
    for &at in &edits.order[edits.below(parent)] {
        if edits.items[at as usize].is_new() {
            let name = edits.shown(at);
            found.entry(at).or_insert_with(|| format!("'{parent}' exists; cannot create '{name}'"));
        }
    }
}

/// Of two items that conflict it is the outer one that cannot happen, as with git's loose refs: the inner one's lock
/// lies in its way. Git names first what was added first.
fn below_a_new_item(edits: &Edits, parent: u32, found: &mut BTreeMap<u32, String>) {
    let below = &edits.order[edits.below(edits.name(parent))];
    if let Some(&child) = below.iter().find(|child| edits.items[**child as usize].is_new()) {
        let (first, second) = (parent.min(child), parent.max(child));
        let text = || format!("cannot process '{}' and '{}' at the same time", edits.shown(first), edits.shown(second));
        found.entry(parent).or_insert_with(text);
    }
}

/// The first ref below `parent` that the transaction does not delete.
fn first_staying(edits: &Edits, snapshot: &dyn Snapshot, parent: &BStr) -> Result<Option<BString>> {
    let prefix = [parent.as_bytes(), b"/"].concat();
    let mut cursor = snapshot.cursor(false)?;
    cursor.seek(prefix.as_bstr())?;
    while let Some(view) = cursor.next()? {
        if !view.name.starts_with(&prefix) {
            break;
        }
        let item = edits.find(view.name).map(|at| edits.items[at as usize].action);
        if item != Some(Action::Delete) {
            return Ok(Some(view.name.to_owned()));
        }
    }
    Ok(None)
}
