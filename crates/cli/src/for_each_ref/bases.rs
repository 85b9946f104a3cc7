//! `%(is-base:...)`: from which of the listed refs a commit's branch began. See git-for-each-ref(1).

use super::history::History;
use crate::failure::Result;
use bstr::{BStr, BString};
use refdb_types::ObjectId;
use std::collections::HashMap;

/// The first parents of a commit, and the listed ref that leaves the fewest of them out.
#[derive(Debug)]
pub struct Base {
    commit: ObjectId,
    /// How many commits lie between the commit and this one.
    distances: HashMap<ObjectId, usize>,
    /// For commits that were met on the way from refs: how far from the commit they meet its history.
    met: HashMap<ObjectId, Option<usize>>,
    best: Option<(usize, BString)>,
}

impl Base {
    /// The history of a commit.
    pub fn of(history: &History<'_>, commit: ObjectId) -> Result<Self> {
        let mut distances = HashMap::new();
        let mut next = Some(commit);
        while let Some(id) = next {
            if distances.insert(id, distances.len()).is_some() {
                break;
            }
            next = history.commit(&id)?.parents.first().copied();
        }
        Ok(Base { commit, distances, met: HashMap::new(), best: None })
    }

    /// Hears of a ref that is listed. Of several that are equally near the first one counts. A ref at the commit itself is
    /// nearer than one ahead of it.
    pub fn hear(&mut self, history: &History<'_>, name: &BStr, commit: ObjectId) -> Result<()> {
        let is_there = commit == self.commit;
        let Some(distance) = self.meet(history, commit)?.map(|met| met + usize::from(!is_there)) else { return Ok(()) };
        if self.best.as_ref().is_none_or(|(best, _)| distance < *best) {
            self.best = Some((distance, name.to_owned()));
        }
        Ok(())
    }

    /// How far from the commit the first parents of another one meet its history.
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
            // Replacements may have a commit lead to itself, and then nowhere else.
            self.met.insert(id, None);
            next = history.commit(&id)?.parents.first().copied();
        };
        self.met.extend(path.into_iter().map(|id| (id, found)));
        Ok(found)
    }

    /// Whether it is this ref.
    pub fn is(&self, name: &BStr) -> bool {
        self.best.as_ref().is_some_and(|(_, best)| best == name)
    }
}
