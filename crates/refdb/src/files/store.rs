//! What the backend, its snapshots and its transactions share.

use super::{
    FilesOptions,
    layout::Layout,
    packed::cache::{Look, PackedCache, PackedFile},
};
use crate::{Limit, Result};
use refdb_vfs::BatchId;
use std::{
    collections::VecDeque,
    fmt,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, MutexGuard, PoisonError, atomic::AtomicBool},
};

/// As the system allows when it follows links (Linux: 40), or fewer.
const SYMLINK_DEPTH_MAX: usize = 10;

/// What the backend, its snapshots and its transactions share.
pub(super) struct Store {
    pub(super) options: FilesOptions,
    pub(super) layout: Layout,
    pub(super) cache: PackedCache,
    /// For the records of small batches.
    pub(super) journal_files: FreeJournalFiles,
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
        Store { options, layout, cache, journal_files: FreeJournalFiles::default() }
    }

    /// Another one of the same repository, on which dead batches are left alone.
    pub(super) fn without_heir(&self) -> Self {
        let options = self.options.clone();
        Store::new(FilesOptions { fs: options.fs.without_heir().signing_locks(), ..options })
    }

    /// The present packed-refs, validated now.
    pub(super) fn packed(&self) -> Result<Arc<PackedFile>> {
        self.cache.get(&self.options, Look::Stat)
    }

    /// For a writer that has its locks: fails if the refs have been migrated since the repository was opened.
    pub(super) fn check_format(&self) -> Result<()> {
        self.options.format.as_ref().map_or(Ok(()), |format| Ok(format.check(&self.options.fs)?))
    }

    /// How long packed-refs is; 0 if there is none.
    pub(super) fn packed_len_bytes(&self) -> Result<u64> {
        match self.options.fs.stat(&self.layout.packed_path()) {
            Ok(stat) => Ok(stat.len_bytes),
            Err(error) if error.is_not_found() => Ok(0),
            Err(error) => Err(error.into()),
        }
    }

    /// The file that packed-refs really is, if someone made it a symbolic link: that is locked and replaced.
    pub(super) fn packed_target(&self) -> Result<PathBuf> {
        self.target_of(&self.layout.packed_path())
    }

    /// The file that symbolic links lead to, or the path itself.
    pub(super) fn target_of(&self, given: &Path) -> Result<PathBuf> {
        let mut path = given.to_owned();
        for _ in 0..SYMLINK_DEPTH_MAX {
            match self.options.fs.read_link(&path) {
                Ok(target) => path = path.parent().map_or_else(|| target.clone(), |parent| parent.join(&target)),
                Err(_) => return Ok(path),
            }
        }
        Err(Limit::Links(given.to_owned()).into())
    }
}

/// The slots of one store.
#[derive(Default)]
pub(crate) struct FreeJournalFiles {
    /// Those that may have no record, and that no batch of this store has.
    free: Mutex<VecDeque<BatchId>>,
    /// Whether those were looked for that other processes made.
    pub(crate) is_listed: AtomicBool,
    /// Whether the folder is known to outlast a loss of power.
    pub(crate) has_folder: AtomicBool,
}

impl FreeJournalFiles {
    pub(crate) fn free(&self) -> MutexGuard<'_, VecDeque<BatchId>> {
        self.free.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
