//! Checks the trees of a push: every object that they name must be in the push, or in the tree of a commit at the
//! boundary, where the walk through the history ended.

use super::incoming::Incoming;
use crate::serve::deadline::Deadline;
use refdb::{
    Objects,
    objects::{ObjectKind, links},
};
use refdb_types::ObjectId;
use std::{
    collections::{HashMap, HashSet},
    rc::Rc,
};

/// Maximum number of trees of the boundary that are searched for objects that have moved. If that is not enough, git
/// is asked.
const SEARCHED_MAX: usize = 2_000;

/// Maximum number of commits of the boundary whose trees are compared tree by tree. The trees of further commits are
/// only searched.
const COMPARED_MAX: usize = 16;

/// A tree of the boundary.
#[derive(Debug, Default)]
struct Old {
    kinds: HashMap<ObjectId, ObjectKind>,
    folders: HashMap<Vec<u8>, ObjectId>,
}

/// The check of the trees of a push against those of its boundary.
pub(super) struct Trees<'a> {
    incoming: &'a Incoming,
    /// The objects of the server.
    objects: &'a Objects,
    /// The trees of the commits at the boundary.
    boundary: Vec<ObjectId>,
    old: HashMap<ObjectId, Option<Rc<Old>>>,
    /// The objects that were found, and the kind that each was assumed to have.
    seen: HashMap<ObjectId, ObjectKind>,
    /// Objects that a pushed commit, tag or tree names, that are not in the push, and that have not been found in a
    /// tree of the boundary yet.
    open: HashMap<ObjectId, ObjectKind>,
    /// The pushed trees that were found, each with the pushed trees that it names.
    nested: HashMap<ObjectId, Vec<ObjectId>>,
    bounds: Bounds,
}

/// The limits of the check of trees, beyond which git is asked.
#[derive(Clone, Copy, Debug)]
pub(super) struct Bounds {
    /// Maximum depth of a tree below another: `core.maxTreeDepth`.
    pub(super) depth: i32,
    /// Maximum size in bytes of a tree of the boundary that is read.
    pub(super) read_bytes: u64,
    /// When the walk ends.
    pub(super) deadline: Deadline,
}

impl<'a> Trees<'a> {
    /// Creates the check. `met` has the objects other than trees that the walk through the history found; no tree may
    /// name one of them as another kind of object.
    pub(super) fn new(
        incoming: &'a Incoming,
        objects: &'a Objects,
        boundary: Vec<ObjectId>,
        met: HashMap<ObjectId, ObjectKind>,
        bounds: Bounds,
    ) -> Self {
        let (old, open, nested) = (HashMap::new(), HashMap::new(), HashMap::new());
        Trees { incoming, objects, boundary, old, seen: met, open, nested, bounds }
    }

    /// Returns whether these trees, everything below them, and these blobs exist, because each object is in the push or
    /// was found in the trees of the boundary. `false` proves nothing, because the search is bounded.
    pub(super) fn are_whole(mut self, roots: &[ObjectId], blobs: &[ObjectId]) -> bool {
        self.open.extend(blobs.iter().map(|id| (*id, ObjectKind::Blob)));
        let beside: Vec<_> = self.boundary.iter().take(COMPARED_MAX).copied().collect();
        let of_boundary: HashSet<_> = self.boundary.iter().copied().collect();
        let is_good = roots.iter().all(|root| self.compare(*root, &beside, &of_boundary).is_some());
        let is_within = |depth| i32::try_from(depth).is_ok_and(|depth| depth <= self.bounds.depth);
        is_good && is_within(depth(&self.nested)) && self.search()
    }

    /// Compares a root tree, and the pushed trees below it, with the trees at the same paths in the boundary. Returns
    /// `None` if a pushed tree cannot be read or is malformed, or an object is of another kind than the object that
    /// names it claims. A tree of the boundary that cannot be read is passed over.
    fn compare(&mut self, root: ObjectId, beside: &[ObjectId], of_boundary: &HashSet<ObjectId>) -> Option<()> {
        if !self.meet(root, ObjectKind::Tree)? {
            return Some(());
        }
        if !self.incoming.has(&root) {
            if !of_boundary.contains(&root) {
                self.open.insert(root, ObjectKind::Tree);
            }
            return Some(());
        }
        let mut to_do = vec![(root, beside.to_vec())];
        while let Some((tree, beside)) = to_do.pop() {
            let beside: Vec<Rc<Old>> = beside.iter().filter_map(|old| self.old(old)).collect();
            let mut entries = Vec::new();
            let kind =
                self.incoming.links(&tree, &mut |link| entries.push((link.id, link.kind, link.name.to_vec())))?;
            if kind != ObjectKind::Tree {
                return None;
            }
            let is_nested =
                |(id, kind, _): &&(ObjectId, ObjectKind, Vec<u8>)| *kind == ObjectKind::Tree && self.incoming.has(id);
            self.nested.insert(tree, entries.iter().filter(is_nested).map(|(id, ..)| *id).collect());
            for (id, kind, name) in entries {
                if !self.meet(id, kind)? {
                    continue;
                }
                if !self.incoming.has(&id) {
                    if !beside.iter().any(|old| old.kinds.get(&id) == Some(&kind)) {
                        self.open.insert(id, kind);
                    }
                } else if kind == ObjectKind::Tree {
                    let below = beside.iter().filter_map(|old| old.folders.get(&name).copied()).collect();
                    to_do.push((id, below));
                } else if self.incoming.kind(&id) != Some(kind) {
                    return None;
                }
            }
        }
        Some(())
    }

    /// Records an object. Returns whether it is found for the first time, or `None` if it was found as another kind
    /// before.
    fn meet(&mut self, id: ObjectId, kind: ObjectKind) -> Option<bool> {
        match self.seen.insert(id, kind) {
            None => Some(true),
            Some(known) => (known == kind).then_some(false),
        }
    }

    /// Returns a tree of the server; `None` if it does not exist, is corrupt or cannot be read within the [`Bounds`].
    fn old(&mut self, id: &ObjectId) -> Option<Rc<Old>> {
        if let Some(known) = self.old.get(id) {
            return known.clone();
        }
        let old = self.read_old(id).map(Rc::new);
        self.old.insert(*id, old.clone());
        old
    }

    fn read_old(&self, id: &ObjectId) -> Option<Old> {
        self.bounds.deadline.check()?;
        let header = self.objects.header(id).ok().flatten()?;
        if header.kind != ObjectKind::Tree || header.size_bytes > self.bounds.read_bytes {
            return None;
        }
        let mut data = Vec::new();
        let kind = self.objects.verified_content(id, &mut data).ok().flatten()?;
        let mut old = Old::default();
        links(kind, &data, id.kind(), &mut |link| {
            old.kinds.insert(link.id, link.kind);
            if link.kind == ObjectKind::Tree {
                old.folders.insert(link.name.to_vec(), link.id);
            }
        })?;
        (kind == ObjectKind::Tree).then_some(old)
    }

    /// Searches up to [`SEARCHED_MAX`] trees of the boundary for the `open` objects, for example a file that was moved.
    /// Returns whether all of them were found.
    fn search(mut self) -> bool {
        let mut to_do = self.boundary.clone();
        let mut searched = HashSet::new();
        while !self.open.is_empty() {
            let Some(tree) = to_do.pop() else { return false };
            if !searched.insert(tree) {
                continue;
            }
            if searched.len() > SEARCHED_MAX {
                return false;
            }
            let Some(old) = self.old(&tree) else { continue };
            for (id, kind) in &old.kinds {
                if self.open.get(id) == Some(kind) {
                    self.open.remove(id);
                }
            }
            to_do.extend(old.folders.values());
        }
        true
    }
}

/// Returns the depth of the deepest tree, along the longest path from a tree that no other names.
fn depth(nested: &HashMap<ObjectId, Vec<ObjectId>>) -> usize {
    let mut above: HashMap<ObjectId, usize> = HashMap::new();
    nested.values().flatten().for_each(|tree| *above.entry(*tree).or_default() += 1);
    let mut level: Vec<_> = nested.keys().filter(|tree| !above.contains_key(*tree)).copied().collect();
    let mut depth = 0;
    // A tree is one level below the deepest of the trees that name it.
    loop {
        let mut below = Vec::new();
        for tree in level.iter().filter_map(|tree| nested.get(tree)).flatten() {
            let left = above.entry(*tree).or_default();
            *left = left.saturating_sub(1);
            if *left == 0 {
                below.push(*tree);
            }
        }
        if below.is_empty() {
            return depth;
        }
        depth += 1;
        level = below;
    }
}
