//! Which commits can be reached from a ref. A commit is read once for all refs.

use crate::{for_each_ref::history::History, session::Session};
use bstr::BStr;
use refdb::{Objects, RefView, Result, Snapshot, TargetView};
use refdb_types::{FormatOptions, ObjectId, check_format};
use std::{
    collections::{BinaryHeap, HashMap, HashSet},
    ops::ControlFlow,
};

/// The number of commits that are visited, newest first, before the heights of all ancestors are computed. The commit
/// in question is usually near.
const NEAR: usize = 64;

/// A commit, by its index in the list of commits that were read.
type At = u32;

struct Commit {
    parents: Box<[At]>,
    seconds: i64,
    /// The number of commits on the longest path to a commit without parents, computed when it is needed; 0 before.
    height: u32,
}

/// The history as far as it has been read.
pub(super) struct Reach<'a> {
    session: &'a Session,
    history: &'a History<'a>,
    places: HashMap<ObjectId, At>,
    ids: Vec<ObjectId>,
    commits: Vec<Option<Commit>>,
    peeled: HashMap<ObjectId, Option<ObjectId>>,
    below_refs: Option<Vec<bool>>,
}

impl<'a> Reach<'a> {
    pub(super) fn new(session: &'a Session, history: &'a History<'a>) -> Self {
        Reach {
            session,
            history,
            places: HashMap::new(),
            ids: Vec::new(),
            commits: Vec::new(),
            peeled: HashMap::new(),
            below_refs: None,
        }
    }

    /// Returns the commit that an object is or that a tag leads to, or `None` if there is none. An object that a commit
    /// was found to have as a parent counts as a commit, even if it is missing.
    pub(super) fn commit_of(&mut self, id: ObjectId) -> Result<Option<ObjectId>> {
        if self.places.contains_key(&id) {
            return Ok(Some(id));
        }
        if let Some(known) = self.peeled.get(&id) {
            return Ok(*known);
        }
        let peeled = self.history.peel_to_commit(id)?;
        match peeled {
            Some(commit) if commit == id => drop(self.place(id)),
            peeled => drop(self.peeled.insert(id, peeled)),
        }
        Ok(peeled)
    }

    /// Returns whether `to` is `from` or one of its ancestors. Both are commits.
    pub(super) fn leads_to(&mut self, from: ObjectId, to: ObjectId) -> Result<bool> {
        let (from, to) = (self.place(from), self.place(to));
        match self.is_near(from, to)? {
            Some(found) => Ok(found),
            None => self.is_above(from, to),
        }
    }

    /// Returns whether a commit can be reached from any ref below `refs/` that this worktree sees and that is not
    /// symbolic.
    pub(super) fn is_below_refs(&mut self, commit: ObjectId) -> Result<bool> {
        let at = self.place(commit) as usize;
        if self.below_refs.is_none() {
            let tips = self.tips()?;
            self.below_refs = Some(self.ancestors(tips)?);
        }
        Ok(self.below_refs.as_ref().is_some_and(|below| below.get(at).copied().unwrap_or(false)))
    }

    /// Returns the commits that refs hold or lead to through tags.
    fn tips(&mut self) -> Result<Vec<ObjectId>> {
        let mut ids = HashSet::new();
        self.for_each_ref(&mut |_, id| ids.extend(id))?;
        let mut tips = Vec::new();
        for id in ids {
            tips.extend(self.commit_of(id)?);
        }
        Ok(tips)
    }

    /// Visits the refs below `refs/` with the objects that they hold, except for symbolic refs. A broken ref, or one
    /// with an invalid name, is visited without an object. If a file is lost on a network file system, refs are visited
    /// again.
    pub(super) fn for_each_ref(&self, act: &mut dyn FnMut(&BStr, Option<ObjectId>)) -> Result<()> {
        self.session.store.read(refdb::Error::is_stale, |snapshot| Self::visit_refs(snapshot, act))
    }

    fn visit_refs(snapshot: &dyn Snapshot, act: &mut dyn FnMut(&BStr, Option<ObjectId>)) -> Result<()> {
        let mut cursor = snapshot.cursor(false)?;
        loop {
            let mut take = |view: &RefView<'_>| {
                let is_bad = check_format(view.name, FormatOptions::default()).is_err();
                match view.target {
                    _ if is_bad => act(view.name, None),
                    TargetView::Direct(id) => act(view.name, Some(id)),
                    TargetView::Symbolic(_) => {}
                }
                ControlFlow::Continue(())
            };
            match cursor.for_each(&mut take) {
                Ok(_) => return Ok(()),
                Err(refdb::Error::BrokenRef(broken)) => act(broken.name.as_ref(), None),
                Err(error) => return Err(error),
            }
        }
    }

    fn place(&mut self, id: ObjectId) -> At {
        let next = self.ids.len() as At;
        let at = *self.places.entry(id).or_insert(next);
        if at == next {
            self.ids.push(id);
            self.commits.push(None);
        }
        at
    }

    /// Reads a commit unless it was read already. A missing commit has no parents.
    fn read(&mut self, at: At) -> Result<&Commit> {
        if self.commits[at as usize].is_none() {
            let found = self.history.find_commit(&self.ids[at as usize])?;
            let (parents, seconds) = found.map_or((Vec::new(), 0), |found| (found.parents, found.seconds));
            let parents = parents.into_iter().map(|id| self.place(id)).collect();
            self.commits[at as usize] = Some(Commit { parents, seconds, height: 0 });
        }
        Ok(self.commits[at as usize].as_ref().expect("it was read or was known"))
    }

    /// Looks for `to` among the first [`NEAR`] commits of a walk back from `from` that takes the newest known commit
    /// first. Returns `None` if `to` may be farther away.
    fn is_near(&mut self, from: At, to: At) -> Result<Option<bool>> {
        let mut queue = BinaryHeap::from([(self.read(from)?.seconds, from)]);
        let mut seen = HashSet::from([from]);
        for _ in 0..NEAR {
            let Some((_, at)) = queue.pop() else { return Ok(Some(false)) };
            if at == to {
                return Ok(Some(true));
            }
            for parent in self.read(at)?.parents.clone() {
                if seen.insert(parent) {
                    queue.push((self.read(parent)?.seconds, parent));
                }
            }
        }
        Ok(None)
    }

    /// Looks for `to` among the ancestors of `from` that have at least the height of `to`.
    fn is_above(&mut self, from: At, to: At) -> Result<bool> {
        self.count_heights(from)?;
        self.count_heights(to)?;
        let height = |reach: &Self, at: At| reach.commits[at as usize].as_ref().map_or(0, |commit| commit.height);
        let lowest = height(self, to);
        let mut left = vec![from];
        let mut seen = HashSet::from([from]);
        while let Some(at) = left.pop() {
            if at == to {
                return Ok(true);
            }
            for &parent in &self.read(at)?.parents.clone() {
                if height(self, parent) >= lowest && seen.insert(parent) {
                    left.push(parent);
                }
            }
        }
        Ok(false)
    }

    /// Computes the heights of a commit and all its ancestors, with an explicit stack, because histories are deep.
    fn count_heights(&mut self, from: At) -> Result<()> {
        let mut path = vec![from];
        // Commits whose ancestors are being visited. Replacements may make a commit lead to itself, and such an edge is
        // ignored.
        let mut begun = HashSet::new();
        while let Some(&at) = path.last() {
            let commit = self.read(at)?;
            if commit.height > 0 {
                path.pop();
                continue;
            }
            begun.insert(at);
            let parents = commit.parents.clone();
            let mut highest = 0;
            let before = path.len();
            for &parent in &parents {
                match self.read(parent)?.height {
                    0 if begun.contains(&parent) => {}
                    0 => path.push(parent),
                    height => highest = highest.max(height),
                }
            }
            if path.len() == before {
                path.pop();
                self.commits[at as usize].as_mut().expect("it was read above").height = highest + 1;
            }
        }
        Ok(())
    }

    /// Returns, by index, which of the known commits are among `tips` or their ancestors.
    fn ancestors(&mut self, tips: Vec<ObjectId>) -> Result<Vec<bool>> {
        let mut left: Vec<At> = tips.into_iter().map(|id| self.place(id)).collect();
        let mut found = Vec::new();
        while let Some(at) = left.pop() {
            if found.len() < self.ids.len() {
                found.resize(self.ids.len(), false);
            }
            if !std::mem::replace(&mut found[at as usize], true) {
                left.extend_from_slice(&self.read(at)?.parents);
            }
        }
        Ok(found)
    }

    pub(super) fn objects(&self) -> Result<&'a Objects> {
        self.history.objects()
    }
}
