use super::{
    FilesOptions,
    disorder::Disorder,
    layout::Layout,
    listing::{self, Rivals, unreadable},
    locks, log_edit, optimize,
    packed_cache::{Look, PackedCache, PackedFile},
    reflog,
    snapshot::FilesSnapshot,
    store::Store,
    transaction::FilesLocked,
};
use crate::{
    Backend, Error, Locked, LogJudge, PruneLogs, Result, Snapshot,
    backend::{Claims, OptimizeOptions, OptimizePlan, Optimized},
};
use bstr::{BStr, BString, ByteSlice};
use refdb_types::{RefName, plain_name};
use std::{ffi::OsStr, os::unix::ffi::OsStrExt, path::PathBuf, sync::Arc};

/// Refs in loose files and packed-refs.
#[derive(Clone, Debug)]
pub struct FilesBackend {
    pub(super) store: Arc<Store>,
}

impl FilesBackend {
    /// The refs of a repository as one of its worktrees sees them. Touches no file.
    pub fn new(options: FilesOptions) -> Self {
        let layout = Layout { git_dir: options.git_dir.clone(), common_dir: options.common_dir.clone() };
        let cache = PackedCache::new(layout.packed_path());
        FilesBackend { store: Arc::new(Store { options, layout, cache }) }
    }

    /// The present packed-refs. For readers: call it after the loose refs were looked at.
    pub fn packed(&self, look: Look) -> Result<Arc<PackedFile>> {
        self.store.cache.get(&self.store.options, look)
    }

    /// Where it was noticed that packed-refs is not sorted although it says so. It is read as a whole since.
    pub fn disorder(&self) -> Option<Disorder> {
        self.store.cache.disorder()
    }

    /// The packed-refs that was read last, if one was. Nobody has looked whether it is still the present one.
    pub fn packed_in_memory(&self) -> Option<Arc<PackedFile>> {
        self.store.cache.latest_file()
    }

    /// Gives up the memory that holds parts of packed-refs.
    pub fn shed(&self) {
        self.store.cache.shed(false);
    }

    /// The same, but for the pages in which names are looked up ([`Packed::look_up`](super::Packed::look_up)).
    pub fn shed_text(&self) {
        self.store.cache.shed(true);
    }

    /// How much of packed-refs is in private memory.
    pub fn loaded_bytes(&self) -> usize {
        self.store.cache.loaded_bytes()
    }

    /// The entries of a folder, sorted, folders with a slash at their end. The folder lies below `refs/`, and its name
    /// ends with a slash; without a name it is the repository's own. Names that are locked are among them. A folder
    /// that may not be read is an error as a broken ref is.
    pub fn list_folder(&self, name: &BStr) -> Result<Vec<BString>> {
        let path = self.folder_path(name);
        let entries = match listing::list(&self.store.options.fs, &path, usize::MAX, Rivals::Possible) {
            Err(Error::Io(error)) if !name.is_empty() => return Err(unreadable(name, error)?.into()),
            entries => entries?.unwrap_or_default(),
        };
        Ok(entries.into_iter().map(|entry| entry.name.into()).collect())
    }

    /// The path of such a folder.
    pub fn folder_path(&self, name: &BStr) -> PathBuf {
        self.store.layout.base_path(name).join(OsStr::from_bytes(name))
    }

    /// Puts the path of a loose ref's file into `path`, which is working memory. Returns `false` for a name that cannot
    /// be a path inside the repository.
    pub fn ref_path_into(&self, name: &BStr, path: &mut Vec<u8>) -> bool {
        self.store.layout.ref_path_into(name, path)
    }
}

impl Backend for FilesBackend {
    fn snapshot(&self) -> Result<Box<dyn Snapshot>> {
        Ok(Box::new(FilesSnapshot::new(Arc::clone(&self.store), Rivals::Possible)))
    }

    fn lock(&self, claims: &dyn Claims) -> Result<Box<dyn Locked + '_>> {
        Ok(Box::new(FilesLocked::lock(&self.store, claims)?))
    }

    fn plain_name<'n>(&self, name: &'n BStr) -> &'n BStr {
        plain_name(name, self.store.options.worktree.as_ref().map(|id| id.as_bstr()))
    }

    fn keeps_symref_logs(&self) -> bool {
        false
    }

    fn optimize(&self, options: &OptimizeOptions) -> Result<Optimized> {
        optimize::optimize(&self.store, options)
    }

    fn prune_logs(&self, names: &[RefName], how: PruneLogs, judge: &mut dyn LogJudge) -> Result<()> {
        log_edit::prune(&self.store, names, how, judge)
    }

    fn drop_logs(&self, names: &[RefName], failed: &mut dyn FnMut(&RefName, Error)) -> Result<()> {
        self.store.check_format()?;
        for name in names {
            locks::heed_signals()?;
            if let Err(error) = reflog::remove_with_folders(&self.store, name.as_bstr()) {
                failed(name, error);
            }
        }
        Ok(())
    }

    fn plan_optimize(&self, options: &OptimizeOptions) -> Result<OptimizePlan> {
        optimize::plan(&self.store, options)
    }
}
