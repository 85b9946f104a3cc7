//! How a transaction goes: a small file for each ref, or one rewrite of packed-refs for all of them.

use super::FilesOptions;
use crate::backend::{Claim, Claims, Intent};
use refdb_types::Scope;
use refdb_vfs::Lock;
use std::{ffi::OsStr, os::unix::ffi::OsStrExt, path::Path};

/// How the refs that get an object are written.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum WriteStrategy {
    /// Into a loose file each.
    Loose,
    /// Into packed-refs, all at once.
    Bulk,
    /// Into a loose file each, with a record that makes them one change.
    Batch,
}

/// More refs than this a small batch never has.
pub(super) const REFS_MAX: usize = 32;

/// Fewer refs than this are written as loose files, as git would: they may well be updated again soon.
const BULK_FROM: usize = 32;

/// A loose file costs a file creation, a rename and a block on disk. That is about as much as copying this many bytes
/// of packed-refs.
const BYTES_PER_LOOSE_FILE: u64 = 16 << 10;

/// Decides for a transaction that gives `sets` refs, all of them [`packable`], an object.
pub(super) fn choose(sets: usize, packed_len_bytes: u64) -> WriteStrategy {
    if sets >= BULK_FROM && packed_len_bytes / BYTES_PER_LOOSE_FILE <= sets as u64 {
        WriteStrategy::Bulk
    } else {
        WriteStrategy::Loose
    }
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

/// The choice for one transaction.
#[derive(Clone, Copy, Debug)]
pub(crate) struct WritePlan {
    pub(crate) strategy: WriteStrategy,
    /// Whether locks without content are links.
    link: bool,
    /// Whether packed-refs may have to be rewritten.
    pub(crate) packed: bool,
    /// Whether all changes are to appear with packed-refs.
    pub(crate) atomic_visibility: bool,
}

impl WritePlan {
    pub(crate) fn of(claims: &dyn Claims, packed_len_bytes: u64, options: &FilesOptions) -> Self {
        let packable = claims.iter().filter(packable).count();
        let deletes = claims.iter().filter(|claim| claim.intent == Intent::Delete).count();
        let holds = claims.iter().filter(|claim| claim.intent == Intent::Hold).count();
        // One ref's change is whole anyway.
        let atomic_visibility = claims.atomic_visibility() && packable + deletes > 1;
        // Each lock must tell whose it is, and leave room for the name of its ref's new content.
        let sign = || claims.iter().all(|claim| Lock::is_signed(&options.fs, Path::new(OsStr::from_bytes(claim.name))));
        if atomic_visibility
            && packable == claims.count()
            && sign()
            && batch(packable, packed_len_bytes, options.loose_batches_from)
        {
            return WritePlan { strategy: WriteStrategy::Batch, link: true, packed: false, atomic_visibility };
        }
        let strategy = if atomic_visibility { WriteStrategy::Bulk } else { choose(packable, packed_len_bytes) };
        let bulk = strategy == WriteStrategy::Bulk;
        let link = atomic_visibility || worth_linking(deletes + holds + if bulk { packable } else { 0 });
        WritePlan { strategy, link, packed: bulk || deletes > 0, atomic_visibility }
    }

    /// The same transaction through packed-refs.
    pub(crate) fn through_packed_refs(self) -> Self {
        assert!(
            self.atomic_visibility && self.strategy == WriteStrategy::Batch,
            "what was to be a batch of loose files goes there: {self:?}"
        );
        WritePlan { strategy: WriteStrategy::Bulk, packed: true, ..self }
    }

    pub(crate) fn links(&self, claim: &Claim<'_>) -> bool {
        self.link
            && match claim.intent {
                Intent::Delete | Intent::Hold => true,
                Intent::SetDirect => self.strategy != WriteStrategy::Loose && packable(claim),
                Intent::SetSymbolic => false,
            }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn many_refs_go_to_packed_refs_unless_it_is_huge_for_them() {
        for (sets, len, strategy) in [
            (31, 0, WriteStrategy::Loose),
            (32, 0, WriteStrategy::Bulk),
            (10_000, 6_500_000, WriteStrategy::Bulk),
            (100, 99_000_000, WriteStrategy::Loose),
            (10_000, 99_000_000, WriteStrategy::Bulk),
        ] {
            assert_eq!(choose(sets, len), strategy, "{sets} refs into {len} bytes");
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
