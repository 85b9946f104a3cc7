//! How a transaction goes: a small file for each ref, or one rewrite of packed-refs for all of them.

use super::intent::REFS_MAX;
use crate::backend::{Claim, Intent};
use refdb_types::Scope;

/// How the refs that get an object are written.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Way {
    /// Into a loose file each.
    Loose,
    /// Into packed-refs, all at once.
    Bulk,
    /// Into a loose file each, with a record that makes them one change.
    Batch,
}

/// Fewer refs than this are written as loose files, as git would: they may well be updated again soon.
const BULK_FROM: usize = 32;

/// A loose file costs a file creation, a rename and a block on disk. That is about as much as copying this many bytes
/// of packed-refs.
const BYTES_PER_LOOSE_FILE: u64 = 16 << 10;

/// Decides for a transaction that gives `sets` refs, all of them [`packable`], an object.
pub(super) fn choose(sets: usize, packed_len_bytes: u64) -> Way {
    if sets >= BULK_FROM && packed_len_bytes / BYTES_PER_LOOSE_FILE <= sets as u64 { Way::Bulk } else { Way::Loose }
}

/// Whether a whole transaction of `sets` refs, all of them [`packable`], goes as loose files. Packed-refs must be so long
/// that it costs more to write anew.
pub(super) fn batch(sets: usize, packed_len_bytes: u64, from: Option<u64>) -> bool {
    sets <= REFS_MAX && from.is_some_and(|from| packed_len_bytes >= from * sets as u64)
}

/// Whether a claimed ref may be written to packed-refs: it is shared, below `refs/`, and gets an object.
pub(super) fn packable(claim: &Claim<'_>) -> bool {
    claim.intent == Intent::SetDirect && claim.name.starts_with(b"refs/") && Scope::of(claim.name) == Scope::Shared
}

/// From this number of locks on that hold no content, they are names of one empty file.
const LINK_FROM: usize = 8;

/// Whether this number of locks without content are made as links.
pub(super) fn worth_linking(locks: usize) -> bool {
    locks >= LINK_FROM
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn many_refs_go_to_packed_refs_unless_it_is_huge_for_them() {
        for (sets, len, way) in [
            (31, 0, Way::Loose),
            (32, 0, Way::Bulk),
            (10_000, 6_500_000, Way::Bulk),
            (100, 99_000_000, Way::Loose),
            (10_000, 99_000_000, Way::Bulk),
        ] {
            assert_eq!(choose(sets, len), way, "{sets} refs into {len} bytes");
        }
    }

    #[test]
    fn only_shared_refs_with_objects_are_packable() {
        let claim = |name: &'static str, intent| Claim { name: name.into(), intent };
        assert!(packable(&claim("refs/heads/a", Intent::SetDirect)));
        for other in [
            claim("refs/heads/a", Intent::SetSymbolic),
            claim("refs/heads/a", Intent::Delete),
            claim("HEAD", Intent::SetDirect),
            claim("refs/bisect/a", Intent::SetDirect),
        ] {
            assert!(!packable(&other), "{other:?}");
        }
    }
}
