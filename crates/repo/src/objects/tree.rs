//! The entries of a tree, read as strictly as C git reads them. A more lenient reader would accept trees that git's own
//! walks cannot pass.

use super::database::ObjectKind;
use refdb_types::{HashKind, ObjectId};

/// An entry of a tree.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct TreeEntry<'d> {
    /// The kind that the mode claims; `None` for a commit of a submodule, which is in another repository.
    pub(super) kind: Option<ObjectKind>,
    /// The name, which is not empty.
    pub(super) name: &'d [u8],
    pub(super) id: ObjectId,
}

/// Iterates over the entries of a tree. A malformed entry is returned as `None` and ends the iteration.
pub(super) struct TreeEntries<'d> {
    rest: &'d [u8],
    hash: HashKind,
}

impl<'d> TreeEntries<'d> {
    pub(super) fn of(data: &'d [u8], hash: HashKind) -> Self {
        TreeEntries { rest: data, hash }
    }

    fn entry(&mut self) -> Option<TreeEntry<'d>> {
        let (mode, rest) = mode(self.rest)?;
        let name_len = rest.iter().position(|byte| *byte == 0)?;
        let (name, rest) = rest.split_at(name_len);
        let (id, rest) = rest[1..].split_at_checked(self.hash.len_bytes())?;
        if name.is_empty() {
            return None;
        }
        self.rest = rest;
        Some(TreeEntry { kind: kind(mode), name, id: ObjectId::from_bytes(self.hash, id)? })
    }
}

impl<'d> Iterator for TreeEntries<'d> {
    type Item = Option<TreeEntry<'d>>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.rest.is_empty() {
            return None;
        }
        let entry = self.entry();
        if entry.is_none() {
            self.rest = b"";
        }
        Some(entry)
    }
}

/// Parses an octal mode and the space behind it. As in git, a mode can have any number of digits, of which the last 16
/// bits count.
fn mode(data: &[u8]) -> Option<(u16, &[u8])> {
    let len = data.iter().position(|byte| *byte == b' ').filter(|len| *len > 0)?;
    let (digits, rest) = data.split_at(len);
    let mut mode: u16 = 0;
    for digit in digits {
        mode = mode << 3 | u16::from(digit.checked_sub(b'0').filter(|value| *value < 8)?);
    }
    Some((mode, &rest[1..]))
}

/// Returns the kind of object that a mode stands for. Git takes each type that it does not know for a submodule.
fn kind(mode: u16) -> Option<ObjectKind> {
    match mode & 0o170_000 {
        0o040_000 => Some(ObjectKind::Tree),
        0o100_000 | 0o120_000 => Some(ObjectKind::Blob),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(start: &[u8]) -> Vec<u8> {
        [start, &[7; 20]].concat()
    }

    fn kinds(data: &[u8]) -> Option<Vec<Option<ObjectKind>>> {
        TreeEntries::of(data, HashKind::Sha1).map(|entry| entry.map(|entry| entry.kind)).collect()
    }

    #[test]
    fn a_mode_means_what_it_means_to_git() {
        use ObjectKind::{Blob, Tree};
        for (start, kind) in [
            (&b"100644 a\0"[..], Some(Blob)),
            (b"120000 a\0", Some(Blob)),
            (b"40000 a\0", Some(Tree)),
            (b"0000000000000000000000100664 a\0", Some(Blob)),
            (b"4000000100644 a\0", Some(Blob)),
            (b"200000040000 a\0", Some(Tree)),
            (b"160000 a\0", None),
            (b"140000 a\0", None),
            (b"0 a\0", None),
            (b"40000 \xff/.\n\0", Some(Tree)),
        ] {
            assert_eq!(kinds(&entry(start)), Some(vec![kind]), "{}", start.escape_ascii());
        }
        assert_eq!(kinds(b""), Some(vec![]));
    }

    #[test]
    fn what_git_cannot_walk_is_malformed() {
        let good = entry(b"100644 a\0");
        for start in [
            &b" a\0"[..],
            b" 100644 a\0",
            b"100644 \0",
            b"40000 \0",
            b"100648 a\0",
            b"0x1 a\0",
            b"-1 a\0",
            b"+40000 a\0",
            b"40000\t a\0",
            b"100644\0",
            b"100644 a",
            b"\0",
            b"",
        ] {
            let bad = entry(start);
            assert_eq!(kinds(&bad), None, "{}", start.escape_ascii());
            assert_eq!(kinds(&[&good[..], &bad].concat()), None, "{}", start.escape_ascii());
        }
        for len in 1..good.len() {
            assert_eq!(kinds(&good[..len]), None, "{len} bytes");
            assert_eq!(kinds(&[&good[..], &good[..len]].concat()), None, "{len} bytes");
        }
    }
}
