//! Walks the history of a push, from the new ids through its commits and tags, to the first that are not in the push.

use super::incoming::Incoming;
use refdb::objects::ObjectKind;
use refdb_types::ObjectId;
use std::collections::{HashMap, HashSet};

/// The result of the walk.
#[derive(Debug, Default)]
pub(super) struct Reached {
    /// Commits and tags that are not in the push, each with the kind that it must have. New ids that are not in the
    /// push are here too, whatever they are, and without a kind unless something in the push names them as a commit or
    /// tag.
    pub(super) edges: HashMap<ObjectId, Option<ObjectKind>>,
    /// The trees of the pushed commits and those to which pushed tags point, whether or not they are in the push, and
    /// the new ids that are trees in the push, with the trees that these name.
    pub(super) roots: Vec<ObjectId>,
    /// Blobs that are not in the push, and that are named by a pushed tag, or by a pushed tree whose id is a new id.
    pub(super) blobs: Vec<ObjectId>,
    /// All objects other than trees that were found, with their known or assumed kinds.
    pub(super) met: HashMap<ObjectId, ObjectKind>,
}

/// Walks from the new ids. Returns `None` if an object cannot be read, is malformed, or is of another kind than the
/// object that names it claims, so that git must be asked.
pub(super) fn history(incoming: &Incoming, new: &HashSet<ObjectId>) -> Option<Reached> {
    let mut walk = Walk { incoming, reached: Reached::default(), seen: HashMap::new(), to_do: Vec::new() };
    walk.to_do.extend(new.iter().map(|id| (*id, None)));
    while let Some((id, expected)) = walk.to_do.pop() {
        if incoming.has(&id) { walk.came(id, expected)? } else { walk.did_not_come(id, expected)? }
    }
    let Walk { mut reached, seen, .. } = walk;
    // A new id whose object is not in the push is assumed to be a commit if its kind is unknown. This does no harm if
    // it is a tag, tree or blob: the boundary classifies each object, and accepts neither trees nor blobs.
    let edges = reached.edges.iter().map(|(id, kind)| (*id, kind.unwrap_or(ObjectKind::Commit)));
    let blobs = reached.blobs.iter().map(|id| (*id, ObjectKind::Blob));
    let came = seen.into_iter().filter(|(_, kind)| *kind != ObjectKind::Tree);
    reached.met = came.chain(edges).chain(blobs).collect();
    Some(reached)
}

struct Walk<'i> {
    incoming: &'i Incoming,
    reached: Reached,
    /// The objects of the push that were found, with their kinds.
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
