//! Which commits can be reached from which: `--contains`, `--merged` and their negations.

use super::history::History;
use crate::failure::{Result, fatal, message, say};
use refdb_types::ObjectId;
use std::collections::{HashMap, HashSet};

/// Conditions on the commits that can be reached from a ref, and on those from which the ref can be reached.
#[derive(Clone, Debug, Default)]
pub struct Reach {
    /// `--contains`: one of these can be reached from the ref.
    pub contains: Vec<ObjectId>,
    /// `--no-contains`: none of these can be reached from the ref.
    pub no_contains: Vec<ObjectId>,
    /// `--merged`: the ref can be reached from one of these.
    pub merged: Vec<ObjectId>,
    /// `--no-merged`: the ref can be reached from none of these.
    pub no_merged: Vec<ObjectId>,
    contains_known: HashMap<ObjectId, bool>,
    no_contains_known: HashMap<ObjectId, bool>,
    merged_known: Option<HashSet<ObjectId>>,
    no_merged_known: Option<HashSet<ObjectId>>,
}

impl Reach {
    /// Returns whether there is no condition.
    pub fn is_empty(&self) -> bool {
        [&self.contains, &self.no_contains, &self.merged, &self.no_merged].iter().all(|list| list.is_empty())
    }

    /// Returns whether `--merged` or its negation is given.
    pub fn asks_what_is_merged(&self) -> bool {
        !self.merged.is_empty() || !self.no_merged.is_empty()
    }

    /// Returns whether a ref that holds `id` leads to a commit and meets all conditions.
    pub fn holds(&mut self, history: &History<'_>, id: ObjectId) -> Result<bool> {
        let Some(commit) = history.peel_to_commit(id)? else { return Ok(false) };
        if !self.contains.is_empty() && !reaches(history, commit, &self.contains, &mut self.contains_known)? {
            return Ok(false);
        }
        if !self.no_contains.is_empty() && reaches(history, commit, &self.no_contains, &mut self.no_contains_known)? {
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
                None => known.insert(ancestors(history, from)?),
            };
            if set.contains(&commit) != wanted {
                return Ok(false);
            }
        }
        Ok(true)
    }
}

/// Returns `tips` and all commits that can be reached from them.
fn ancestors(history: &History<'_>, tips: &[ObjectId]) -> Result<HashSet<ObjectId>> {
    let mut seen: HashSet<ObjectId> = tips.iter().copied().collect();
    let mut left = tips.to_vec();
    while let Some(id) = left.pop() {
        for parent in history.ancestor(&id)?.parents {
            if seen.insert(parent) {
                left.push(parent);
            }
        }
    }
    Ok(seen)
}

/// Returns the parents of a commit in reverse order, because the walk takes them from the end. A missing commit is an
/// error, as in git 2.56 and later.
fn parents(history: &History<'_>, id: &ObjectId) -> Result<Vec<ObjectId>> {
    let Some(mut commit) = history.find_commit(id)? else {
        say("error: ", &message!["Could not read ", id.to_string()]);
        say("error: ", &message!["could not parse commit ", id.to_string()]);
        return fatal!["failed to check reachability"];
    };
    commit.parents.reverse();
    Ok(commit.parents)
}

/// Returns whether one of `targets` can be reached from `tip`. The results for commits on the way are kept.
fn reaches(
    history: &History<'_>,
    tip: ObjectId,
    targets: &[ObjectId],
    known: &mut HashMap<ObjectId, bool>,
) -> Result<bool> {
    // Depth first, with an explicit stack, because histories are far deeper than any thread's stack.
    let mut path: Vec<(ObjectId, Vec<ObjectId>)> = Vec::new();
    // Because of replacements, a commit may lead to itself.
    let mut on_path = HashSet::new();
    let mut next = Some(tip);
    let mut answer = false;
    loop {
        if let Some(id) = next.take() {
            answer = match known.get(&id) {
                Some(answer) => *answer,
                None if targets.contains(&id) => true,
                None if !on_path.insert(id) => return fatal!["commit ancestry contains a cycle"],
                None => {
                    path.push((id, parents(history, &id)?));
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
                        on_path.remove(&id);
                        known.insert(id, false);
                    }
                }
            },
        }
    }
}
