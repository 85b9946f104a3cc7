//! The contract between transactions and readers above and the places where refs are kept below.
//!
//! [`Backend`] is everything a transaction or a reader needs: a [`Snapshot`], a lock, staging and a commit.
//! [`Maintenance`] adds packing and the editing of reflogs.

mod maintenance;
mod read;
mod write;

pub use maintenance::{Maintenance, OptimizeOptions, OptimizePlan, Optimized};
pub use read::{Answers, Cursor, Lines, Peeled, Probe, RefView, Snapshot, TargetView};
pub use write::{Claim, ClaimKind, Claims, Locked, LogLine, NewValue, Standing, Step, Steps};

use crate::{RejectionReason, Result};
use bstr::BStr;

/// A repository's refs in one storage format, as seen from one worktree.
///
/// A backend knows how refs are stored and how to lock them. It takes no decision about old values, name conflicts,
/// symbolic refs, reflog policy or hooks: the transaction takes those once for all backends and hands the backend
/// [`Step`]s. Names are full refnames as the worktree sees them; the backend routes each by its
/// [`Scope`](refdb_types::Scope).
///
/// A transaction uses a backend in this order, and dropping [`Locked`] before the commit undoes and unlocks everything:
///
/// ```text
/// Backend::lock(claims) -> Locked      every claimed ref is locked, or listed in Locked::refused
/// Locked::snapshot().probe(..)         the state under the lock, in one sorted walk
/// Locked::stage(steps)                 everything that is likely to fail is done where no reader sees it
/// Locked::commit(steps)                the changes become visible, in the order docs/crash-model.md promises
/// ```
pub trait Backend: Send + Sync {
    /// The present state, for reading.
    fn snapshot(&self) -> Result<Box<dyn Snapshot>>;

    /// Locks every claimed ref. Blocks while others hold locks, each time at most for the configured lock timeout.
    ///
    /// # Errors
    ///
    /// A single ref that cannot be locked is no error, but is listed in [`Locked::refused`].
    fn lock(&self, claims: &dyn Claims) -> Result<Box<dyn Locked + '_>>;

    /// The canonical form of a name. A worktree's own refs have two names, for instance `HEAD` and
    /// `main-worktree/HEAD`. Claims and steps have the canonical one.
    fn canonical_name<'n>(&self, name: &'n BStr) -> &'n BStr;

    /// Returns whether deleting a symbolic ref keeps its reflog and adds an entry about the deletion, as git does in
    /// the reftable format.
    fn keeps_symref_logs(&self) -> bool;

    /// Returns the positions of the claims whose refnames the format has no room for, and the reasons.
    /// [`Locked::refused`] lists these claims as well once the others are locked.
    fn unstorable(&self, _claims: &dyn Claims) -> Vec<(usize, RejectionReason)> {
        Vec::new()
    }

    /// Fails if the format has no room for one of the steps. [`Locked::stage`] makes the same check; a group commit
    /// calls this method for each transaction, so that a transaction that does not fit cannot fail the others of its
    /// group.
    fn check(&self, _steps: &dyn Steps) -> Result<()> {
        Ok(())
    }
}
