use crate::Result;
use bstr::BString;
use refdb_repo::FormatWatch;
use refdb_vfs::{Fs, Patience};
use reftable::stack::StackOptions;
use std::{path::PathBuf, time::Duration};

/// What the reftable backend has to know of a repository. All of it is context: nothing has a default.
#[derive(Clone, Debug)]
pub struct ReftableOptions {
    /// Where changes go through.
    pub fs: Fs,
    /// The worktree's own folder: `FETCH_HEAD`, and `reftable/` with its own refs.
    pub git_dir: PathBuf,
    /// The repository's folder: `reftable/` with all other refs. The same as `git_dir` in the main worktree.
    pub common_dir: PathBuf,
    /// The linked worktree's id, by which other worktrees call it; `None` for the main one.
    pub worktree: Option<BString>,
    /// How tables are read and written, and the hash function.
    pub stack: StackOptions,
    /// `reftable.lockTimeout`, if set.
    pub lock_patience: Option<Patience>,
    /// Notices, under a lock, that the refs are in reftables no more.
    pub format: Option<FormatWatch>,
}

impl ReftableOptions {
    /// For a writer that has its locks, or could not have them. Fails if the refs have been migrated since the repository
    /// was opened.
    pub(super) fn check_format(&self) -> Result<()> {
        self.format.as_ref().map_or(Ok(()), |format| Ok(format.check(&self.fs)?))
    }

    /// How long to wait for the lock of a stack while no other is held. A holder writes one table, so one that keeps
    /// the lock this long has most likely died. Git's default of 100 ms fails under everyday load.
    pub(super) fn patience(&self) -> Patience {
        self.lock_patience.unwrap_or(Patience::For(Duration::from_secs(15)))
    }
}
