use super::PageBudget;
use bstr::BString;
use refdb_repo::{FormatWatch, ObjectCheck, config::SharedRepository};
use refdb_types::{HashKind, ObjectId};
use refdb_vfs::{Fs, LockTimeout};
use std::{
    fmt,
    path::{Path, PathBuf},
    sync::Arc,
};

/// What the files backend must know about a repository.
#[derive(Clone)]
pub struct FilesOptions {
    /// The file system through which all files are read and written.
    pub fs: Fs,
    /// The worktree's own folder, with `HEAD` and `refs/bisect/`.
    pub git_dir: PathBuf,
    /// The repository's common folder, with `packed-refs` and `refs/`. The same as `git_dir` in the main worktree.
    pub common_dir: PathBuf,
    /// The id of the linked worktree, by which other worktrees refer to it; `None` for the main one.
    pub worktree: Option<BString>,
    /// The repository's hash function.
    pub hash: HashKind,
    /// How packed-refs is read.
    pub access: PackedAccess,
    /// `core.sharedRepository`.
    pub sharing: SharedRepository,
    /// How long to wait for the lock of a loose ref (`core.filesRefLockTimeout`); 10 seconds if `None`.
    pub ref_lock_timeout: Option<LockTimeout>,
    /// How long to wait for the lock of packed-refs (`core.packedRefsTimeout`); 10 seconds if `None`, or 2 seconds for
    /// background pack-refs.
    pub packed_lock_timeout: Option<LockTimeout>,
    /// The number of bytes that packed-refs must have for each ref of a small atomic batch, so that the batch is
    /// written as loose files; `None` for never, as where `refdb.smallBatches` does not allow such batches.
    pub loose_batches_from: Option<u64>,
    /// The number of loose refs at which, by its estimate, a server packs them in the background (`refdb.looseRefs`);
    /// `None` for never.
    pub loose_max: Option<usize>,
    /// Notified when small batches begin and end, so that the readers of this process do not show a part of one.
    pub commit_observer: Option<Arc<dyn CommitObserver>>,
    /// Whether refs may be written on a network file system on which updates can be lost (`refdb.unsafeStorage`).
    pub may_be_unsafe: bool,
    /// Whether refs are synced to stable storage (`core.fsync`).
    pub sync: bool,
    /// Notices that the refs were migrated to another format.
    pub format: Option<FormatWatch>,
    /// Checks that objects exist, and peels annotated tags for packed-refs.
    pub objects: Arc<dyn ObjectCheck + Send>,
}

impl fmt::Debug for FilesOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FilesOptions")
            .field("git_dir", &self.git_dir)
            .field("common_dir", &self.common_dir)
            .field("access", &self.access)
            .finish_non_exhaustive()
    }
}

impl FilesOptions {
    /// The options for the main worktree of a repository without settings: packed-refs is mapped, nothing is synced.
    pub fn new(fs: Fs, git_dir: PathBuf, hash: HashKind, objects: Arc<dyn ObjectCheck + Send>) -> Self {
        FilesOptions {
            fs,
            common_dir: git_dir.clone(),
            git_dir,
            worktree: None,
            hash,
            access: PackedAccess::Mapped,
            sharing: SharedRepository::Umask,
            ref_lock_timeout: None,
            packed_lock_timeout: None,
            loose_batches_from: None,
            loose_max: None,
            commit_observer: None,
            may_be_unsafe: false,
            sync: false,
            format: None,
            objects,
        }
    }
}

/// How packed-refs is read.
#[derive(Clone, Debug)]
pub enum PackedAccess {
    /// Mapped into memory, or read completely unless the file system is known to be local: the fastest way, for
    /// short-lived processes. If somebody truncates a mapped file, a signal (`SIGBUS`) ends the process.
    Mapped,
    /// Read into private memory, for servers: a sorted file of more than 64 KiB page by page, as far as needed. The
    /// memory is charged to the budget, except for the first names of pages.
    Paged(Arc<PageBudget>),
}

/// Observes the small batches of this process, so that its readers can show all of a batch or nothing.
pub trait CommitObserver: Send + Sync {
    /// A batch begins: from now on the files may show a part of it. `refs` are its refs, whose locks are held, and
    /// their old values. Returns a number that identifies the batch to [`end`](Self::end).
    fn begin(&self, refs: Vec<(BString, Option<ObjectId>)>) -> u64;

    /// The batch has ended. Its journal entry is gone or was renamed for an administrator, unless the batch could not
    /// be recovered: then `unrecovered` is the file of the entry, which exists until this process or another one
    /// recovers the batch.
    fn end(&self, batch: u64, unrecovered: Option<&Path>);
}
