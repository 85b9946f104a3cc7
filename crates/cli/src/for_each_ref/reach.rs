//! Which commits lead to which: `--contains`, `--merged` and their opposites.

use crate::failure::{Result, fatal};
use bstr::ByteSlice;
use refdb::{Objects, objects::ObjectKind};
use refdb_types::ObjectId;
use std::collections::{HashMap, HashSet};

/// Conditions on what can be reached from a ref, or from where the ref can be reached.
#[derive(Debug, Default)]
pub struct Reach {
    /// `--contains`: one of them can be reached.
    pub contains: Vec<ObjectId>,
    /// `--no-contains`: none of them can be reached.
    pub no_contains: Vec<ObjectId>,
    /// `--merged`: the ref can be reached from one of them.
    pub merged: Vec<ObjectId>,
    /// `--no-merged`: the ref can be reached from none of them.
    pub no_merged: Vec<ObjectId>,
    contains_known: HashMap<ObjectId, bool>,
    no_contains_known: HashMap<ObjectId, bool>,
    merged_known: Option<HashSet<ObjectId>>,
    no_merged_known: Option<HashSet<ObjectId>>,
}

impl Reach {
    /// Whether there is no condition.
    pub fn is_empty(&self) -> bool {
        [&self.contains, &self.no_contains, &self.merged, &self.no_merged].iter().all(|list| list.is_empty())
    }

    /// Whether a ref that holds `id` meets all conditions. Only refs that lead to commits can.
    pub fn holds(&mut self, objects: &Objects, id: ObjectId) -> Result<bool> {
        let Some(commit) = peel_to_commit(objects, id)? else { return Ok(false) };
        if !self.contains.is_empty() && !reaches(objects, commit, &self.contains, &mut self.contains_known)? {
            return Ok(false);
        }
        if !self.no_contains.is_empty() && reaches(objects, commit, &self.no_contains, &mut self.no_contains_known)? {
            return Ok(false);
        }
        for (from, known, wanted) in
            [(&self.merged, &mut self.merged_known, true), (&self.no_merged, &mut self.no_merged_known, false)]
        {
            if from.is_empty() {
                continue;
            }
            let set = match known {
                Some(set) => set,
                None => known.insert(ancestors(objects, from)?),
            };
            if set.contains(&commit) != wanted {
                return Ok(false);
            }
        }
        Ok(true)
    }
}

/// The commit that an object is or that a tag leads to.
pub fn peel_to_commit(objects: &Objects, mut id: ObjectId) -> Result<Option<ObjectId>> {
    let mut data = Vec::new();
    loop {
        match objects.kind(&id)? {
            Some(ObjectKind::Commit) => return Ok(Some(id)),
            Some(ObjectKind::Tag) => {}
            Some(_) => return Ok(None),
            None => return fatal!["missing object ", id.to_string()],
        }
        objects.content(&id, &mut data)?;
        let target = data.lines().find_map(|line| line.strip_prefix(b"object "));
        match target.and_then(|hex| ObjectId::from_hex(id.kind(), hex).ok()) {
            Some(target) => id = target,
            None => return Ok(None),
        }
    }
}

fn parents(objects: &Objects, id: &ObjectId, data: &mut Vec<u8>) -> Result<Vec<ObjectId>> {
    match objects.content(id, data)? {
        Some(ObjectKind::Commit) => {}
        _ => return fatal!["missing commit ", id.to_string()],
    }
    let header = data.lines().take_while(|line| !line.is_empty());
    Ok(header.filter_map(|line| ObjectId::from_hex(id.kind(), line.strip_prefix(b"parent ")?).ok()).collect())
}

/// Everything that can be reached from `tips`.
fn ancestors(objects: &Objects, tips: &[ObjectId]) -> Result<HashSet<ObjectId>> {
    let mut seen: HashSet<ObjectId> = tips.iter().copied().collect();
    let mut left = tips.to_vec();
    let mut data = Vec::new();
    while let Some(id) = left.pop() {
        for parent in parents(objects, &id, &mut data)? {
            if seen.insert(parent) {
                left.push(parent);
            }
        }
    }
    Ok(seen)
}

/// Whether one of `targets` can be reached from `tip`. What was found out about commits on the way is kept.
fn reaches(
    objects: &Objects,
    tip: ObjectId,
    targets: &[ObjectId],
    known: &mut HashMap<ObjectId, bool>,
) -> Result<bool> {
    let mut data = Vec::new();
    // Depth first with a stack of our own: histories are far deeper than any thread's stack.
    let mut path: Vec<(ObjectId, Vec<ObjectId>)> = Vec::new();
    let mut next = Some(tip);
    let mut answer = false;
    loop {
        if let Some(id) = next.take() {
            answer = match known.get(&id) {
                Some(answer) => *answer,
                None if targets.contains(&id) => true,
                None => {
                    path.push((id, parents(objects, &id, &mut data)?));
                    false
                }
            };
            if answer {
                known.insert(id, true);
            }
        }
        if answer {
            known.extend(path.iter().map(|(id, _)| (*id, true)));
            return Ok(true);
        }
        match path.last_mut() {
            None => return Ok(false),
            Some((_, parents)) => match parents.pop() {
                Some(parent) => next = Some(parent),
                None => {
                    if let Some((id, _)) = path.pop() {
                        known.insert(id, false);
                    }
                }
            },
        }
    }
}
