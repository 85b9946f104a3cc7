//! The history of a push. It goes from the new ids over every commit and tag that came, to those that did not come.

use super::incoming::Incoming;
use refdb::objects::ObjectKind;
use refdb_types::ObjectId;
use std::collections::{HashMap, HashSet};

/// Where the walk ended.
#[derive(Debug, Default)]
pub(super) struct Reached {
    /// Commits and tags that did not come, and what they must be, where one says so.
    pub(super) edges: HashMap<ObjectId, Option<ObjectKind>>,
    /// The trees of the commits that came, and those that a new id or a tag leads to. They came, or not.
    pub(super) roots: Vec<ObjectId>,
    /// Blobs that did not come, though a tag that came leads to them.
    pub(super) blobs: Vec<ObjectId>,
    /// What was met but trees, and what it is, or was taken for.
    pub(super) met: HashMap<ObjectId, ObjectKind>,
}

/// Walks. `None`: something is not as it should be, and git is to say what.
pub(super) fn history(incoming: &Incoming, new: &HashSet<ObjectId>) -> Option<Reached> {
    let mut walk = Walk { incoming, reached: Reached::default(), seen: HashMap::new(), to_do: Vec::new() };
    walk.to_do.extend(new.iter().map(|id| (*id, None)));
    while let Some((id, expected)) = walk.to_do.pop() {
        if incoming.has(&id) { walk.came(id, expected)? } else { walk.did_not_come(id, expected)? }
    }
    let Walk { mut reached, seen, .. } = walk;
    // A new id whose object did not come counts as a commit, because its kind is unknown. If it is a tree or blob, the
    // boundary will refuse it.
    let edges = reached.edges.iter().map(|(id, kind)| (*id, kind.unwrap_or(ObjectKind::Commit)));
    let blobs = reached.blobs.iter().map(|id| (*id, ObjectKind::Blob));
    let came = seen.into_iter().filter(|(_, kind)| *kind != ObjectKind::Tree);
    reached.met = came.chain(edges).chain(blobs).collect();
    Some(reached)
}

struct Walk<'i> {
    incoming: &'i Incoming,
    reached: Reached,
    /// What came and was met, with its kind.
    seen: HashMap<ObjectId, ObjectKind>,
    to_do: Vec<(ObjectId, Option<ObjectKind>)>,
}

impl Walk<'_> {
    fn came(&mut self, id: ObjectId, expected: Option<ObjectKind>) -> Option<()> {
        let is = |kind| expected.is_none_or(|expected| expected == kind).then_some(());
        if let Some(kind) = self.seen.get(&id) {
            return is(*kind);
        }
        let Walk { incoming, reached, seen, to_do } = self;
        let kind = incoming.links(&id, &mut |link| match link.kind {
            ObjectKind::Tree => reached.roots.push(link.id),
            kind => to_do.push((link.id, Some(kind))),
        })?;
        is(kind)?;
        seen.insert(id, kind);
        if kind == ObjectKind::Tree {
            reached.roots.push(id);
        }
        Some(())
    }

    fn did_not_come(&mut self, id: ObjectId, expected: Option<ObjectKind>) -> Option<()> {
        match expected {
            Some(ObjectKind::Tree) => self.reached.roots.push(id),
            Some(ObjectKind::Blob) => self.reached.blobs.push(id),
            _ => {
                let known = self.reached.edges.entry(id).or_insert(expected);
                if known.is_some() && expected.is_some() && *known != expected {
                    return None;
                }
                *known = known.or(expected);
            }
        }
        Some(())
    }
}
