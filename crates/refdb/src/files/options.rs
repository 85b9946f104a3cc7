use super::PageBudget;
use bstr::BString;
use refdb_repo::{FormatWatch, ObjectCheck};
use refdb_types::{HashKind, ObjectId};
use refdb_vfs::{Fs, Patience};
use std::{
    path::{Path, PathBuf},
    sync::Arc,
};

/// All that the files backend has to know of a repository.
#[derive(Clone)]
pub struct FilesOptions {
    /// Where changes go through.
    pub fs: Fs,
    /// The worktree's own folder: `HEAD`, `refs/bisect/`.
    pub git_dir: PathBuf,
    /// The repository's folder: `packed-refs`, `refs/`. The same as `git_dir` in the main worktree.
    pub common_dir: PathBuf,
    /// The linked worktree's id, by which other worktrees call it; `None` for the main one.
    pub worktree: Option<BString>,
    /// The repository's hash function.
    pub hash: HashKind,
    /// How packed-refs is read.
    pub access: PackedAccess,
    /// `core.sharedRepository`.
    pub sharing: Sharing,
    /// `core.filesRefLockTimeout`, if set.
    pub ref_patience: Option<Patience>,
    /// `core.packedRefsTimeout`, if set.
    pub packed_patience: Option<Patience>,
    /// `refdb.smallBatches`: atomic batches of a few refs become loose files where packed-refs has this length for each of
    /// their refs. `None` for never.
    pub loose_batches_from: Option<u64>,
    /// `refdb.looseRefs`: with this many loose refs a server folds them into packed-refs. `None` for never.
    pub loose_max: Option<usize>,
    /// The readers of this process, who are not to see a small batch in part.
    pub commit_observer: Option<Arc<dyn CommitObserver>>,
    /// Whether refs are synced to stable storage (`core.fsync`).
    pub sync: bool,
    /// Notices, under a lock, that the refs are files no more.
    pub format: Option<FormatWatch>,
    /// Tells what the objects behind annotated tags are: packed-refs records it.
    pub objects: Arc<dyn ObjectCheck + Send>,
}

impl FilesOptions {
    /// Those of the main worktree of a repository without settings.
    pub fn new(fs: Fs, git_dir: PathBuf, hash: HashKind, objects: Arc<dyn ObjectCheck + Send>) -> Self {
        FilesOptions {
            fs,
            common_dir: git_dir.clone(),
            git_dir,
            worktree: None,
            hash,
            access: PackedAccess::Mapped,
            sharing: Sharing::Umask,
            ref_patience: None,
            packed_patience: None,
            loose_batches_from: None,
            loose_max: None,
            commit_observer: None,
            sync: false,
            format: None,
            objects,
        }
    }
}

/// How packed-refs is read.
#[derive(Clone, Debug)]
pub enum PackedAccess {
    /// Mapped: the quickest, for short-lived processes.
    Mapped,
    /// Into private memory, which nobody can truncate, as far as it is needed: for servers.
    Paged(Arc<PageBudget>),
}

/// Who may read and write created files (`core.sharedRepository`).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Sharing {
    /// All whom the umask allows.
    Umask,
    /// These permissions besides what the umask allows.
    AtLeast(u32),
    /// Exactly these permissions.
    Exactly(u32),
}

impl Sharing {
    /// The permission bits for a file or folder that was created with `mode`; `None` where they need not change.
    /// Users who may read a folder may enter it, and new files in it belong to its group.
    pub(super) fn adjust(self, mode: u32, is_folder: bool) -> Option<u32> {
        let bits = match self {
            Sharing::Umask => return None,
            Sharing::AtLeast(bits) => mode & 0o777 | bits,
            Sharing::Exactly(bits) => bits,
        };
        let wanted = match is_folder {
            // Where the group has no permission, it is no matter which one that is.
            true if bits & 0o060 == 0 => bits | (bits & 0o444) >> 2,
            true => bits | (bits & 0o444) >> 2 | 0o2000,
            false => bits,
        };
        (wanted != mode & 0o7777).then_some(wanted)
    }
}

/// The readers of a process. Of its own small batches they are to see all or nothing.
pub trait CommitObserver: Send + Sync {
    /// From now on a batch may show in part. `refs` are its refs and their old values; their locks are held. Returns a
    /// number for [`end`](Self::end).
    fn begin(&self, refs: Vec<(BString, Option<ObjectId>)>) -> u64;

    /// The batch is over, and its record is gone. Or it could not be settled: then its record, `unsettled`, is there until
    /// someone does.
    fn end(&self, batch: u64, unsettled: Option<&Path>);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shared_folders_can_be_entered_by_all_who_may_read_them() {
        assert_eq!(Sharing::Umask.adjust(0o600, true), None);
        assert_eq!(Sharing::AtLeast(0o660).adjust(0o100_644, false), Some(0o664));
        assert_eq!(Sharing::AtLeast(0o664).adjust(0o700, true), Some(0o2775));
        assert_eq!(Sharing::Exactly(0o640).adjust(0o777, true), Some(0o2750));
        assert_eq!(Sharing::Exactly(0o600).adjust(0o777, true), Some(0o700));
        assert_eq!(Sharing::AtLeast(0o660).adjust(0o100_664, false), None);
    }
}
