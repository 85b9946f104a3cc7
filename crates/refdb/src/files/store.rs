//! What the backend, its snapshots and its transactions share.

use super::{
    FilesOptions,
    layout::Layout,
    packed::{
        cache::{Look, PackedCache, PackedFile},
        read::Packed,
    },
};
use crate::{Error, Limit, Result, error::LOSSES_MAX, mount_check::MountCheck};
use refdb_vfs::{BatchId, Mount, again_if_lost};
use std::{
    collections::VecDeque,
    fmt,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, MutexGuard, PoisonError, atomic::AtomicBool},
};

/// A chain of this many symbolic links from packed-refs or a reflog to its file is too long; Linux itself follows 40.
const SYMLINK_DEPTH_MAX: usize = 10;

/// What the backend, its snapshots and its transactions share.
pub(super) struct Store {
    pub(super) options: FilesOptions,
    pub(super) layout: Layout,
    pub(super) cache: PackedCache,
    /// Journal files for small batches.
    pub(super) journal_files: FreeJournalFiles,
    mount_check: MountCheck,
}

impl fmt::Debug for Store {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Store({})", self.options.common_dir.display())
    }
}

impl Store {
    pub(super) fn new(options: FilesOptions) -> Self {
        let layout = Layout { git_dir: options.git_dir.clone(), common_dir: options.common_dir.clone() };
        let cache = PackedCache::new(layout.packed_path());
        let journal_files = FreeJournalFiles::default();
        Store { options, layout, cache, journal_files, mount_check: MountCheck::default() }
    }

    /// Fails if refs must not be written as files on this mount, unless `refdb.unsafeStorage` is set.
    pub(super) fn check_storage(&self) -> Result<()> {
        if self.options.may_be_unsafe {
            return Ok(());
        }
        self.mount_check.check(&self.options.fs, &self.layout.common_dir, Mount::fault_of_files)
    }

    /// Another store for the same repository, which signs its locks and does not recover the batch of an ended process
    /// when it meets one of its locks. Recovery itself works with such a store.
    pub(super) fn without_recovery(&self) -> Self {
        let options = self.options.clone();
        Store::new(FilesOptions { fs: options.fs.without_recovery().signing_locks(), ..options })
    }

    /// The present packed-refs, validated by a `stat`.
    pub(super) fn packed(&self) -> Result<Arc<PackedFile>> {
        self.cache.get(&self.options, Look::Stat)
    }

    /// Reads the present packed-refs, or the one that has replaced it if the server of a network file system loses it
    /// while it is read.
    pub(super) fn read_packed<T>(&self, mut read: impl FnMut(&Packed) -> Result<T>) -> Result<T> {
        again_if_lost(LOSSES_MAX + 1, Error::is_stale, || read(&self.packed()?.packed))
    }

    /// Fails if the refs have been migrated to another format since the repository was opened. Success is certain to
    /// last only while locks are held that a migration needs.
    pub(super) fn check_format(&self) -> Result<()> {
        self.options.format.as_ref().map_or(Ok(()), |format| Ok(format.check(&self.options.fs)?))
    }

    /// The length of packed-refs in bytes, by which a transaction decides how it writes; 0 if it does not exist. On a
    /// network file system, it may be an earlier length.
    pub(super) fn packed_len_bytes(&self) -> Result<u64> {
        Ok(self.options.fs.probable_len(&self.layout.packed_path())?)
    }

    /// The file to which packed-refs leads if it is a symbolic link, otherwise packed-refs itself. This is the file
    /// that writers lock and replace.
    pub(super) fn packed_target(&self) -> Result<PathBuf> {
        self.target_of(&self.layout.packed_path())
    }

    /// The file to which a path leads through symbolic links, or the path itself.
    pub(super) fn target_of(&self, given: &Path) -> Result<PathBuf> {
        let mut path = given.to_owned();
        for _ in 0..SYMLINK_DEPTH_MAX {
            let Some(target) = self.options.fs.find_link_content(&path)? else { return Ok(path) };
            path = path.parent().map_or_else(|| target.clone(), |parent| parent.join(&target));
        }
        Err(Limit::Links(given.to_owned()).into())
    }
}

/// The journal files that a store may use for its next batches, and what it knows of their folder.
#[derive(Default)]
pub(crate) struct FreeJournalFiles {
    /// Files that may be free, each with its [`signed_at`](super::batch::journal_file::JournalFile). Another process may
    /// use one, or leave an entry in it.
    free: Mutex<VecDeque<(BatchId, Option<u64>)>>,
    /// Whether `refdb-batches` was searched for journal files that other processes created.
    pub(crate) is_listed: AtomicBool,
    /// Whether the name of the folder `refdb-batches` is known to be on stable storage.
    pub(crate) has_folder: AtomicBool,
}

impl FreeJournalFiles {
    pub(crate) fn free(&self) -> MutexGuard<'_, VecDeque<(BatchId, Option<u64>)>> {
        self.free.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
