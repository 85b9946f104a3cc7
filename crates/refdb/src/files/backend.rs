use super::{
    FilesOptions,
    batch::{
        ended::EndedBatches,
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
        background::{self, BackgroundPackOptions},
        job::BackgroundPacked,
        optimize, write,
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
use refdb_types::{RefName, canonical_name};
use refdb_vfs::{EndedBoot, RecoveryHandler};
use std::{
    any::Any,
    ffi::OsStr,
    os::unix::ffi::OsStrExt,
    path::PathBuf,
    sync::{Arc, Weak},
};

/// Refs in loose files and packed-refs, as git stores them by default.
#[derive(Clone, Debug)]
pub struct FilesBackend {
    pub(super) store: Arc<Store>,
}

/// The journal entries of small batches that exist in a repository.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct JournalEntries {
    /// Files with the entry of a batch that is in flight, could not be recovered yet, or whose process has ended, and
    /// journal files that cannot be read.
    pub open: Vec<PathBuf>,
    /// Entries of batches that were recovered only in part and are kept for an administrator.
    pub left: Vec<PathBuf>,
}

impl FilesBackend {
    /// Opens the refs of a repository as one of its worktrees sees them. Touches no file.
    pub fn new(options: FilesOptions) -> Self {
        let store = Arc::new_cyclic(|store: &Weak<Store>| {
            // A writer that meets the lock of a dead batch recovers that batch.
            let heir: Weak<dyn RecoveryHandler> = Weak::<Store>::clone(store);
            Store::new(FilesOptions { fs: options.fs.clone().with_recovery(heir), ..options })
        });
        FilesBackend { store }
    }

    /// The present packed-refs. Readers must read loose refs first, because a packer writes packed-refs before it
    /// removes a loose file.
    pub fn packed(&self, look: Look) -> Result<Arc<PackedFile>> {
        self.store.cache.get(&self.store.options, look)
    }

    /// Lists the journal entries of small batches.
    pub fn journal_entries(&self) -> Result<JournalEntries> {
        let (open, left) = journal::list(&self.store)?;
        Ok(JournalEntries { open: open.into_iter().map(|id| journal::path(&self.store, id)).collect(), left })
    }

    /// Recovers the batches whose processes have ended, and removes unused journal files and the signed locks of
    /// packed-refs and below `refs/` whose owners have died. Returns the result for each journal entry. Unused journal
    /// files and folders below `refs/` that cannot be opened are skipped, and a stale lock that cannot be removed
    /// stays. Any other error of the removals ends them and is the last result, with the path of `refs/`.
    ///
    /// # Errors
    ///
    /// Fails if the refs have another format by now or the folder of the journal cannot be read. The result for each
    /// entry has the entry's own error.
    pub fn recover(&self) -> Result<Vec<(PathBuf, Result<TakenOver>)>> {
        self.store.check_format()?;
        let alone = Arc::new(self.store.without_recovery());
        let (open, _) = journal::list(&alone)?;
        let recover = |id| (journal::path(&alone, id), recover::take_over(&alone, id, None));
        let mut recovered: Vec<_> = open.into_iter().map(recover).collect();
        // A batch that ended before it wrote its entry has left its locks, for which git and JGit would wait.
        let (fs, refs) = (&self.store.options.fs, self.store.layout.common_dir.join("refs"));
        let clear = || {
            stale::clear_of(fs, &self.store.packed_target()?);
            stale::clear(fs, &refs)?;
            journal_file::remove_free(&alone)
        };
        // What has been recovered is told even if this fails.
        if let Err(error) = clear() {
            recovered.push((refs.clone(), Err(error)));
        }
        Ok(recovered)
    }

    /// Prepares to recover the batches of a boot that has ended.
    pub(crate) fn ended_batches(&self, boot: &EndedBoot) -> Result<EndedBatches> {
        EndedBatches::new(&self.store, boot)
    }

    /// The files that writers of packed-refs lock: packed-refs itself, or its target if it is a symbolic link, and the
    /// file in which pack-refs makes a new packed-refs without that lock.
    pub(crate) fn packed_targets(&self) -> Result<[PathBuf; 2]> {
        let target = self.store.packed_target()?;
        let aside = write::aside(&target);
        Ok([target, aside])
    }

    /// Recovers all batches. Fails if [`recover`](Self::recover) fails or one of its results is an error, and with
    /// [`Limit::Unrecovered`] if the process of a batch is alive or somebody else holds one of the batch's locks. A
    /// batch that could be recovered only in part is not an error.
    pub(crate) fn recover_all(&self) -> Result<()> {
        for (record, taken_over) in self.recover()? {
            if taken_over? == TakenOver::Busy {
                return Err(Limit::Unrecovered(record).into());
            }
        }
        Ok(())
    }

    /// Moves loose refs into packed-refs while writers continue, if there are at least `options.from`. The new
    /// packed-refs is made without the lock of packed-refs, unless other writers spoil three attempts, and loose files
    /// are removed in portions, each under that lock. Returns `None` if another pack-refs of refdb is running in this
    /// repository.
    ///
    /// # Errors
    ///
    /// Fails with [`Limit::Packing`] if other writers spoiled all attempts, so that nothing is packed, and with other
    /// errors if refs must not be written as files here, if they have another format by now, or if a file cannot be
    /// read, locked, replaced or removed. What was packed until then stays packed.
    pub fn pack_in_background(&self, options: &BackgroundPackOptions<'_>) -> Result<Option<BackgroundPacked>> {
        background::pack(&self.store, options)
    }

    /// The number of loose refs at which, by its estimate, a server packs them in the background; `None` for never.
    pub fn loose_max(&self) -> Option<usize> {
        self.store.options.loose_max
    }

    /// Where packed-refs was found to be unsorted although its header says that it is sorted. After that, the whole
    /// file is read and sorted in memory.
    pub fn disorder(&self) -> Option<Disorder> {
        self.store.cache.disorder()
    }

    /// The packed-refs that was opened last, if any, without checking whether it is still current.
    pub fn packed_in_memory(&self) -> Option<Arc<PackedFile>> {
        self.store.cache.latest_file()
    }

    /// Releases the pages of packed-refs. A file that was read completely, because it is short or had to be sorted,
    /// stays in memory.
    pub fn shed(&self) {
        self.store.cache.shed(Shed::All);
    }

    /// Releases the memory that holds text of packed-refs, but keeps the pages in which names are looked up
    /// ([`Packed::look_up`](super::Packed::look_up)).
    pub fn shed_text(&self) {
        self.store.cache.shed(Shed::Text);
    }

    /// Releases the text of packed-refs, and as many of the pages in which names are looked up as have `bytes` bytes
    /// together. Pages without a look-up since the last call, not counting the one for which they were made, are
    /// released first.
    pub fn shed_pages(&self, bytes: usize) {
        self.store.cache.shed(Shed::Blocks(bytes));
    }

    /// How many bytes of private memory packed-refs takes; 0 for a file that is mapped, or read in place of being
    /// mapped.
    pub fn loaded_bytes(&self) -> usize {
        self.store.cache.loaded_bytes()
    }

    /// Lists `refs/` or a folder below it; its name ends with a slash. The empty name means the repository's common
    /// folder. The entries are sorted, and names of folders end with a slash; a missing folder has none. A name whose
    /// lock file exists is listed even if its own file is missing, because the file may be about to appear.
    ///
    /// # Errors
    ///
    /// Fails if the folder cannot be read. If it is a folder below `refs/` that this user may not read, the error is
    /// that of a broken ref.
    pub fn list_folder(&self, name: &BStr) -> Result<Vec<BString>> {
        let path = self.folder_path(name);
        let entries = match listing::list(&self.store.options.fs, &path, usize::MAX, Rivals::Possible) {
            Err(Error::Io(error)) if !name.is_empty() => return Err(unreadable(name, error)?.into()),
            entries => entries?.unwrap_or_default(),
        };
        Ok(entries.into_iter().map(|entry| entry.name.into()).collect())
    }

    /// The path of a folder, whose name has the form that [`list_folder`](Self::list_folder) expects.
    pub fn folder_path(&self, name: &BStr) -> PathBuf {
        self.store.layout.base_path(name).join(OsStr::from_bytes(name))
    }

    /// Replaces the content of `path` by the path of a loose ref's file. Returns `false` for a name that cannot be a
    /// path inside the repository.
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

    fn canonical_name<'n>(&self, name: &'n BStr) -> &'n BStr {
        canonical_name(name, self.store.options.worktree.as_ref().map(|id| id.as_bstr()))
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

    fn check_storage(&self) -> Result<()> {
        self.store.check_storage()
    }

    fn drop_logs(&self, names: &[RefName], failed: &mut dyn FnMut(&RefName, Error)) -> Result<()> {
        self.store.check_storage()?;
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
