//! Decides how a transaction writes: one loose file for each ref, with or without a journal entry, or one rewrite of
//! packed-refs.

use super::FilesOptions;
use crate::backend::{Claim, ClaimKind, Claims};
use bstr::BStr;
use refdb_types::Scope;
use refdb_vfs::Lock;
use std::{ffi::OsStr, os::unix::ffi::OsStrExt, path::Path};

/// How the refs that are set to an object are written.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum WriteStrategy {
    /// One loose file for each ref.
    Loose,
    /// All [`packable`] ones into packed-refs at once, except those whose loose file would hide the packed value and
    /// those to which a symbolic link gives a second name. The others become loose files.
    Bulk,
    /// One loose file for each ref, with a journal entry that makes the change atomic: a small batch.
    Batch,
}

/// The most refs in a small batch.
pub(super) const REFS_MAX: usize = 32;

/// The fewest refs that a transaction writes to packed-refs if its changes need not become visible together. Fewer
/// refs are written as loose files, as git does, because they are likely to be updated again soon.
const BULK_FROM: usize = 32;

/// The bytes of packed-refs whose copying costs about as much as one loose file (its creation, its rename and a block
/// on disk).
const BYTES_PER_LOOSE_FILE: u64 = 16 << 10;

/// Chooses how to write a transaction that sets `sets` [`packable`] refs, if its changes need not become visible
/// together.
pub(super) fn choose(sets: usize, packed_len_bytes: u64) -> WriteStrategy {
    if sets >= BULK_FROM && packed_len_bytes / BYTES_PER_LOOSE_FILE <= sets as u64 {
        WriteStrategy::Bulk
    } else {
        WriteStrategy::Loose
    }
}

/// Returns whether an atomic transaction that sets `sets` refs, all of them [`packable`], is of the right size for a
/// small batch. Packed-refs must be at least `from` bytes long for each of them, so that rewriting it costs more; with
/// `None` there are no small batches.
pub(super) fn batch(sets: usize, packed_len_bytes: u64, from: Option<u64>) -> bool {
    sets <= REFS_MAX && from.is_some_and(|from| packed_len_bytes >= from.saturating_mul(sets as u64))
}

/// Returns whether a claimed ref may be written to packed-refs: its [name allows it](is_packed_name), and the ref is
/// set to an object.
pub(super) fn packable(claim: &Claim<'_>) -> bool {
    claim.kind == ClaimKind::SetDirect && is_packed_name(claim.name)
}

/// Returns whether packed-refs may have a ref of this name: it is below `refs/` and shared, because all worktrees see
/// what is packed.
pub(super) fn is_packed_name(name: &BStr) -> bool {
    name.starts_with(b"refs/") && Scope::of(name) == Scope::Shared
}

/// The fewest locks without content for which links to one file are worthwhile.
const LINK_FROM: usize = 8;

/// Returns whether it is worthwhile to make this number of locks without content as links to one file.
pub(super) fn worth_linking(locks: usize) -> bool {
    locks >= LINK_FROM
}

/// What one transaction locks, and how it writes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct WritePlan {
    pub(crate) strategy: WriteStrategy,
    /// Whether the locks of refs that are deleted or only held, and in bulk or a small batch those of [`packable`]
    /// ones, are made as links to one file.
    link: bool,
    /// Whether packed-refs is locked, because it may have to be rewritten.
    pub(crate) packed: bool,
    /// Whether more than one ref is deleted or [`packable`], and these changes must become visible together.
    pub(crate) atomic_visibility: bool,
}

impl WritePlan {
    pub(crate) fn of(claims: &dyn Claims, packed_len_bytes: u64, options: &FilesOptions) -> Self {
        let packable = claims.iter().filter(packable).count();
        let deletes = claims.iter().filter(|claim| claim.kind == ClaimKind::Delete).count();
        let holds = claims.iter().filter(|claim| claim.kind == ClaimKind::Hold).count();
        // The change of a single ref is atomic anyway.
        let atomic_visibility = claims.atomic_visibility() && packable + deletes > 1;
        // Each lock must reveal whether its owner is alive, and leave room for the name of the new content's file.
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

    /// The plan of a transaction that cannot be a small batch after all and goes to packed-refs.
    pub(crate) fn through_packed_refs(self) -> Self {
        assert!(
            self.atomic_visibility && self.strategy == WriteStrategy::Batch,
            "only a small batch changes its strategy: {self:?}"
        );
        WritePlan { strategy: WriteStrategy::Bulk, packed: true, ..self }
    }

    pub(crate) fn links(&self, claim: &Claim<'_>) -> bool {
        self.link
            && match claim.kind {
                ClaimKind::Delete | ClaimKind::Hold => true,
                ClaimKind::SetDirect => self.strategy != WriteStrategy::Loose && packable(claim),
                ClaimKind::SetSymbolic => false,
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

    /// Previously, the multiplication overflowed.
    #[test]
    fn a_boundary_that_no_file_reaches_is_allowed() {
        assert!(!batch(2, 1 << 40, Some(u64::MAX)) && batch(2, 1 << 20, Some(1 << 19)));
    }

    #[test]
    fn only_shared_refs_with_objects_are_packable() {
        let claim = |name: &'static str, kind| Claim { name: name.into(), kind };
        assert!(packable(&claim("refs/heads/a", ClaimKind::SetDirect)));
        for other in [
            claim("refs/heads/a", ClaimKind::SetSymbolic),
            claim("refs/heads/a", ClaimKind::Delete),
            claim("HEAD", ClaimKind::SetDirect),
            claim("refs/bisect/a", ClaimKind::SetDirect),
        ] {
            assert!(!packable(&other), "{other:?}");
        }
    }
}
