//! Decides whether an object is valid: its content has its id, and a commit or tag parses as far as git parses it.

use super::{
    database::{ObjectKind, gix_kind},
    tree::TreeEntries,
};
use bstr::ByteSlice;
use refdb_types::{HashKind, ObjectId};

/// What refs need to know of an object: of one that was verified, or of one that is too large to be read.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Content {
    Commit,
    Tag {
        target: ObjectId,
        /// The kind that the tag claims for its target.
        kind: ObjectKind,
    },
    Tree,
    Blob,
    /// An object of this kind that exceeds the limit on reads and is therefore not verified.
    Unread(ObjectKind),
}

/// The objects that a commit names.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Commit {
    /// The commit's tree.
    pub tree: ObjectId,
    /// The commit's parents, in their order.
    pub parents: Vec<ObjectId>,
}

impl Content {
    pub(super) fn check(id: &ObjectId, kind: ObjectKind, data: &[u8]) -> Option<Self> {
        // For SHA-1, this implementation detects collision attacks.
        let actual = gix_object::compute_hash(gix_kind(id.kind()), kind.into(), data).ok()?;
        if actual.as_bytes() != id.as_bytes() {
            return None;
        }
        match kind {
            ObjectKind::Commit => parse_commit(data, id.kind(), |_| ()).map(|_| Content::Commit),
            ObjectKind::Tag => Self::parse_tag(data, id.kind()),
            ObjectKind::Tree => Some(Content::Tree),
            ObjectKind::Blob => Some(Content::Blob),
        }
    }

    /// Parses the three lines that git requires of a tag: the id and the kind of the target, and the tag's name, which
    /// may be empty or anything else. The tagger and the message are not checked.
    pub(super) fn parse_tag(data: &[u8], hash: HashKind) -> Option<Self> {
        const LEAST_BESIDES_ID: usize = 24;
        let digits = hash.len_hex();
        if data.len() < digits + LEAST_BESIDES_ID {
            return None;
        }
        let rest = data.strip_prefix(b"object ")?;
        let target = ObjectId::from_hex(hash, rest.get(..digits)?).ok()?;
        let rest = rest[digits..].strip_prefix(b"\ntype ")?;
        let (kind, rest) = rest.split_at(rest.find_byte(b'\n')?);
        let kind = gix_object::Kind::from_bytes(kind).ok()?;
        rest.strip_prefix(b"\ntag ")?.find_byte(b'\n')?;
        Some(Content::Tag { target, kind: kind.into() })
    }
}

impl Commit {
    pub(super) fn parse(data: &[u8], hash: HashKind) -> Option<Self> {
        let mut parents = Vec::new();
        let tree = parse_commit(data, hash, |parent| parents.push(parent))?;
        Some(Commit { tree, parents })
    }
}

/// Parses the part of a commit that git requires: a tree, parents that are ids, and at least one byte after them.
/// Returns the tree.
pub(super) fn parse_commit(data: &[u8], hash: HashKind, mut parent: impl FnMut(ObjectId)) -> Option<ObjectId> {
    let digits = hash.len_hex();
    let line = |rest: &[u8]| {
        let id = ObjectId::from_hex(hash, rest.get(..digits)?).ok()?;
        (rest.get(digits) == Some(&b'\n')).then_some(id)
    };
    let rest = data.strip_prefix(b"tree ")?;
    let tree = line(rest)?;
    let mut rest = &rest[digits + 1..];
    // As in git, a line is not taken for a parent if nothing follows its id, not even a newline.
    while let Some(after) = rest.strip_prefix(b"parent ").filter(|after| after.len() > digits) {
        parent(line(after)?);
        rest = &after[digits + 1..];
    }
    (!rest.is_empty()).then_some(tree)
}

/// Returns the id of a tree's entry, and the kind that its mode claims, which a submodule does not have; `None` if no
/// entry before the first malformed one has this name.
pub(super) fn tree_entry(data: &[u8], hash: HashKind, name: &[u8]) -> Option<(ObjectId, Option<ObjectKind>)> {
    let found = TreeEntries::of(data, hash).map_while(|entry| entry).find(|entry| entry.name == name)?;
    Some((found.id, found.kind))
}
