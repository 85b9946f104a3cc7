use super::{
    FilesOptions,
    batch::{
        journal, journal_file,
        recover::{self, TakenOver},
    },
    lock::{set, stale},
    log_edit,
    loose::listing::{self, Rivals, unreadable},
    packed::{
        cache::{Look, PackedFile},
        disorder::Disorder,
        pages::Shed,
    },
    packing::{
        background::{self, BackgroundPackOptions, BackgroundPacked},
        optimize,
    },
    reflog,
    snapshot::FilesSnapshot,
    store::Store,
    transaction::FilesLocked,
};
use crate::{
    Backend, Error, Limit, Locked, LogJudge, PruneLogs, Result, Snapshot,
    backend::{Claims, Maintenance, OptimizeOptions, OptimizePlan, Optimized},
};
use bstr::{BStr, BString, ByteSlice};
use refdb_repo::ObjectCheck;
use refdb_types::{RefName, plain_name};
use refdb_vfs::Heir;
use std::{
    any::Any,
    ffi::OsStr,
    os::unix::ffi::OsStrExt,
    path::PathBuf,
    sync::{Arc, Weak},
};

/// Refs in loose files and packed-refs.
#[derive(Clone, Debug)]
pub struct FilesBackend {
    pub(super) store: Arc<Store>,
}

/// Records of small batches.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct JournalEntries {
    /// Not finished: under way, or left by a process that is gone.
    pub open: Vec<PathBuf>,
    /// Over, with refs that have neither their old nor their new value.
    pub left: Vec<PathBuf>,
}

impl FilesBackend {
    /// The refs of a repository as one of its worktrees sees them. Touches no file.
    pub fn new(options: FilesOptions) -> Self {
        let store = Arc::new_cyclic(|store: &Weak<Store>| {
            // A lock that is met leads to the record of its batch.
            let heir: Weak<dyn Heir> = Weak::<Store>::clone(store);
            Store::new(FilesOptions { fs: options.fs.clone().with_heir(heir), ..options })
        });
        FilesBackend { store }
    }

    /// The present packed-refs. For readers: call it after the loose refs were looked at.
    pub fn packed(&self, look: Look) -> Result<Arc<PackedFile>> {
        self.store.cache.get(&self.store.options, look)
    }

    /// The records of small batches that are there.
    pub fn journal_entries(&self) -> Result<JournalEntries> {
        let (open, left) = journal::list(&self.store)?;
        Ok(JournalEntries { open: open.into_iter().map(|id| journal::path(&self.store, id)).collect(), left })
    }

    /// Settles the batches whose processes are gone, and removes the locks that dead processes left. Returns what became of each
    /// record.
    pub fn recover(&self) -> Result<Vec<(PathBuf, Result<TakenOver>)>> {
        self.store.check_format()?;
        let alone = Arc::new(self.store.without_heir());
        let (open, _) = journal::list(&alone)?;
        let recover = |id| (journal::path(&alone, id), recover::take_over(&alone, id, None));
        let recovered = open.into_iter().map(recover).collect();
        // A batch that ended before its record was there has left its locks, and nothing else. Git and JGit would wait for them.
        let (fs, layout) = (&self.store.options.fs, &self.store.layout);
        stale::clear_of(fs, &self.store.packed_target()?);
        stale::clear(fs, &layout.common_dir.join("refs"))?;
        journal_file::remove_free(&alone)?;
        Ok(recovered)
    }

    /// Settles all batches whose processes are gone. Fails if one is left.
    pub(crate) fn recover_all(&self) -> Result<()> {
        for (record, taken_over) in self.recover()? {
            if taken_over? == TakenOver::Busy {
                return Err(Limit::Unrecovered(record).into());
            }
        }
        Ok(())
    }

    /// Folds loose refs into packed-refs beside writers. `None` if another fold of this repository is under way.
    pub fn pack_in_background(&self, options: &BackgroundPackOptions<'_>) -> Result<Option<BackgroundPacked>> {
        background::pack(&self.store, options)
    }

    /// How many loose refs there may be before they are folded, if they are.
    pub fn loose_max(&self) -> Option<usize> {
        self.store.options.loose_max
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
        self.store.cache.shed(Shed::All);
    }

    /// The same, but for the pages in which names are looked up ([`Packed::look_up`](super::Packed::look_up)).
    pub fn shed_text(&self) {
        self.store.cache.shed(Shed::Text);
    }

    /// The same, and that number of bytes of those pages. Pages in which nothing was looked up since the last time go first.
    pub fn shed_pages(&self, bytes: usize) {
        self.store.cache.shed(Shed::Blocks(bytes));
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
}

impl Maintenance for FilesBackend {
    fn as_any(&self) -> &dyn Any {
        self
    }

    fn optimize(&self, options: &OptimizeOptions) -> Result<Optimized> {
        optimize::optimize(&self.store, options)
    }

    fn prune_logs(
        &self,
        names: &[RefName],
        how: PruneLogs,
        _: &dyn ObjectCheck,
        judge: &mut dyn LogJudge,
    ) -> Result<()> {
        log_edit::prune(&self.store, names, how, judge)
    }

    fn drop_logs(&self, names: &[RefName], failed: &mut dyn FnMut(&RefName, Error)) -> Result<()> {
        self.store.check_format()?;
        for name in names {
            set::heed_signals()?;
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
