//! `%(is-base:...)`: finds the listed ref from which a commit's branch started. See git-for-each-ref(1).

use super::history::History;
use crate::failure::Result;
use bstr::{BStr, BString};
use refdb_types::ObjectId;
use std::collections::HashMap;

/// The first-parent history of a commit, and the listed ref that leaves the fewest of these commits out.
#[derive(Debug)]
pub struct Base {
    commit: ObjectId,
    /// The number of first-parent steps from the commit to each commit of its history.
    distances: HashMap<ObjectId, usize>,
    /// For each commit that was visited on the way from a ref, the distance at which its first parents meet the
    /// history, or `None` if they do not meet it.
    met: HashMap<ObjectId, Option<usize>>,
    best: Option<(usize, BString)>,
}

impl Base {
    /// Reads the history of a commit.
    pub fn of(history: &History<'_>, commit: ObjectId) -> Result<Self> {
        let mut distances = HashMap::new();
        let mut next = Some(commit);
        while let Some(id) = next {
            if distances.contains_key(&id) {
                break; // replacements and grafts can make a cycle
            }
            distances.insert(id, distances.len());
            next = history.commit(&id)?.parents.first().copied();
        }
        Ok(Base { commit, distances, met: HashMap::new(), best: None })
    }

    /// Considers a listed ref, which points at `commit`. If several refs are equally near, the first one is chosen. A
    /// ref that points at the commit of this value itself is nearer than one that is ahead of that commit.
    pub fn hear(&mut self, history: &History<'_>, name: &BStr, commit: ObjectId) -> Result<()> {
        let is_there = commit == self.commit;
        let Some(distance) = self.meet(history, commit)?.map(|met| met + usize::from(!is_there)) else { return Ok(()) };
        if self.best.as_ref().is_none_or(|(best, _)| distance < *best) {
            self.best = Some((distance, name.to_owned()));
        }
        Ok(())
    }

    /// Follows the first parents of `commit` until they reach the history of this value's commit. Returns the distance
    /// of that meeting point from this value's commit; `None` if they never reach the history.
    fn meet(&mut self, history: &History<'_>, commit: ObjectId) -> Result<Option<usize>> {
        let mut path = Vec::new();
        let mut next = Some(commit);
        let found = loop {
            let Some(id) = next else { break None };
            if let Some(distance) = self.distances.get(&id) {
                break Some(*distance);
            }
            if let Some(known) = self.met.get(&id) {
                break *known;
            }
            path.push(id);
            // Because of replacements, a commit may lead to itself. A walk from such a commit meets nothing.
            self.met.insert(id, None);
            next = history.commit(&id)?.parents.first().copied();
        };
        self.met.extend(path.into_iter().map(|id| (id, found)));
        Ok(found)
    }

    /// Returns whether the ref `name` was chosen.
    pub fn is(&self, name: &BStr) -> bool {
        self.best.as_ref().is_some_and(|(_, best)| best == name)
    }
}
