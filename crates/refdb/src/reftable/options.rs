use crate::Result;
use bstr::BString;
use refdb_repo::FormatWatch;
use refdb_vfs::{Fs, LockTimeout};
use reftable::stack::StackOptions;
use std::{path::PathBuf, time::Duration};

/// What the reftable backend must know about a repository.
#[derive(Clone, Debug)]
pub struct ReftableOptions {
    /// The file system through which files are read and changed.
    pub fs: Fs,
    /// The folder of the worktree, with `FETCH_HEAD` and the worktree's own `reftable/`.
    pub git_dir: PathBuf,
    /// The folder of the repository, with the `reftable/` of the shared refs and of the main worktree's. In the main
    /// worktree it is the same as `git_dir`.
    pub common_dir: PathBuf,
    /// The id of the linked worktree, by which other worktrees refer to it; `None` in the main worktree.
    pub worktree: Option<BString>,
    /// How tables are read and written, including the hash function.
    pub stack: StackOptions,
    /// How long to wait for the lock of a stack (`reftable.lockTimeout`); `None` for the default of 15 seconds.
    pub lock_timeout: Option<LockTimeout>,
    /// Whether tables are written even on a network file system on which updates can be lost (`refdb.unsafeStorage`).
    pub may_be_unsafe: bool,
    /// Detects that the refs have been migrated to another format.
    pub format: Option<FormatWatch>,
}

impl ReftableOptions {
    /// Fails if the refs have been migrated to another format since the repository was opened. Success is certain to
    /// last only while the stacks are locked.
    pub(super) fn check_format(&self) -> Result<()> {
        self.format.as_ref().map_or(Ok(()), |format| Ok(format.check(&self.fs)?))
    }

    /// How long to wait for the lock of a stack, unless that of another stack is held. The default is 15 seconds,
    /// because git's default of 100 ms fails under ordinary load.
    pub(super) fn lock_timeout(&self) -> LockTimeout {
        self.lock_timeout.unwrap_or(LockTimeout::For(Duration::from_secs(15)))
    }
}
