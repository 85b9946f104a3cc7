//! The objects that an object names.

use super::{
    content::{Content, parse_commit},
    database::ObjectKind,
    tree::TreeEntries,
};
use refdb_types::{HashKind, ObjectId};

/// An object that another one names.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Link<'d> {
    /// The id of the named object.
    pub id: ObjectId,
    /// The kind that the naming object claims for the named one.
    pub kind: ObjectKind,
    /// The name of the tree entry; empty outside of trees.
    pub name: &'d [u8],
}

/// Calls `found` for every object that an object of this kind and content names, except for the commits of submodules,
/// which are in other repositories. Returns `None` if the content is malformed, possibly after some calls of `found`.
pub fn links<'d>(kind: ObjectKind, data: &'d [u8], hash: HashKind, found: &mut dyn FnMut(Link<'d>)) -> Option<()> {
    let mut plain = |id, kind| found(Link { id, kind, name: b"" });
    match kind {
        ObjectKind::Blob => {}
        ObjectKind::Tag => match Content::parse_tag(data, hash)? {
            Content::Tag { target, kind } => plain(target, kind),
            Content::Commit | Content::Tree | Content::Blob | Content::Unread(_) => return None,
        },
        ObjectKind::Commit => {
            let tree = parse_commit(data, hash, |parent| plain(parent, ObjectKind::Commit))?;
            plain(tree, ObjectKind::Tree);
        }
        ObjectKind::Tree => {
            for entry in TreeEntries::of(data, hash) {
                let entry = entry?;
                if let Some(kind) = entry.kind {
                    found(Link { id: entry.id, kind, name: entry.name });
                }
            }
        }
    }
    Some(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(kind: ObjectKind, data: &[u8]) -> Option<Vec<(u8, ObjectKind, Vec<u8>)>> {
        let mut all = Vec::new();
        links(kind, data, HashKind::Sha1, &mut |link| {
            all.push((link.id.as_bytes()[0], link.kind, link.name.to_vec()));
        })?;
        Some(all)
    }

    #[test]
    fn every_link_is_shown_but_a_submodules() {
        let id = |byte: u8| format!("{byte:02x}").repeat(20);
        let commit = format!("tree {}\nparent {}\nparent {}\nauthor", id(1), id(2), id(3));
        let expected = [(2, ObjectKind::Commit), (3, ObjectKind::Commit), (1, ObjectKind::Tree)];
        let expected: Vec<_> = expected.into_iter().map(|(byte, kind)| (byte, kind, Vec::new())).collect();
        assert_eq!(found(ObjectKind::Commit, commit.as_bytes()), Some(expected));
        let tag = format!("object {}\ntype tree\ntag x\n\nx", id(4));
        assert_eq!(found(ObjectKind::Tag, tag.as_bytes()), Some(vec![(4, ObjectKind::Tree, Vec::new())]));
        let entry = |mode: &str, name: &str, byte: u8| [format!("{mode} {name}\0").as_bytes(), &[byte; 20]].concat();
        let tree = [entry("40000", "d", 5), entry("100644", "f", 6), entry("160000", "m", 7), entry("120000", "s", 8)]
            .concat();
        let expected = vec![
            (5, ObjectKind::Tree, b"d".to_vec()),
            (6, ObjectKind::Blob, b"f".to_vec()),
            (8, ObjectKind::Blob, b"s".to_vec()),
        ];
        assert_eq!(found(ObjectKind::Tree, &tree), Some(expected));
        assert_eq!(found(ObjectKind::Blob, b"anything"), Some(vec![]));
    }

    #[test]
    fn what_cannot_be_read_is_no_end_of_the_links() {
        for (kind, data) in [
            (ObjectKind::Commit, &b"tree 12\n"[..]),
            (ObjectKind::Tag, b"object 12\n"),
            (ObjectKind::Tree, b"40000 d\0short"),
            (ObjectKind::Tree, b"100644 \x0011112222333344445555"),
            (ObjectKind::Tree, b" name\x0011112222333344445555"),
            (ObjectKind::Tree, b" 100644 name\x0011112222333344445555"),
        ] {
            assert_eq!(found(kind, data), None, "{kind:?}");
        }
    }
}
