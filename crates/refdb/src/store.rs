//! A repository's refs behind one handle.
//!
//! Read in this order: `builder` (how it is opened), [`Store`], `read` (what most callers read), `logs`
//! (reflogs by themselves).

mod builder;
mod logs;
mod read;

pub use builder::StoreBuilder;
use builder::Syncing;
pub use read::{Ref, Refs};

use crate::{
    Backend, Environment, Error, Maintenance, Misuse, RefFormat, Repository, Result, Settings, Snapshot, Target,
    backend::{OptimizeOptions, OptimizePlan, Optimized},
    config::{Config, Fsync, SharedRepository},
    error::LOSSES_MAX,
    files::{FilesBackend, FilesOptions, PackedAccess, PageBudget},
    global::{self, GlobalIntents},
    reftable::{ReftableBackend, ReftableOptions},
    transaction::{Context, ObjectCheck, Transaction, TransactionOptions},
};
use bstr::{BStr, BString};
use refdb_repo::{Objects, RepositoryError, hooks::RepositoryHooks};
use refdb_types::{HashKind, Ident, ObjectId, RefName, SYMREF_DEPTH_MAX};
use refdb_vfs::{Fs, again_if_lost};
use reftable::{
    BlockCache, WriteOptions,
    stack::{Access, Durability, StackOptions},
};
use std::{
    fmt,
    path::Path,
    sync::{Arc, atomic::AtomicBool},
};

/// A repository's refs as seen from one worktree, opened with [`Store::open`] or made by [`Store::in_memory`].
///
/// Opening it reads the configuration, and the file HEAD to recognise a repository. It looks up no ref, except HEAD and
/// where HEAD leads if the configuration has an `includeIf.onbranch`: each stack, table or file is opened when it is
/// first needed. Where refs are on disk, every call that reads or writes them checks the disk, and so sees what other
/// processes have written. Several threads may use a store at the same time. Other worktrees' refs have the names that
/// git gives them, such as `main-worktree/HEAD` and `worktrees/ID/HEAD`.
pub struct Store {
    fs: Fs,
    repository: Repository,
    environment: Environment,
    config: Arc<Config>,
    settings: Settings,
    backend: Box<dyn Maintenance>,
    objects: Arc<Objects>,
    is_synced: bool,
    context: StoreContext,
    /// Whether the folder of [`GlobalIntents`] is known to be on stable storage.
    has_durable_intents: Arc<AtomicBool>,
}

/// Names the committer for reflogs. Called at most once per transaction, and only if there is something to log.
pub type Committer = Box<dyn Fn() -> Result<Ident> + Send + Sync>;

/// How tables and packed-refs are read.
#[derive(Clone, Debug)]
pub enum Reading {
    /// By mapping the files into memory. This is the fastest way, but a program that truncates a mapped file ends
    /// this process, so it suits programs that end soon. On a network file system, files are read as by
    /// [`Cached`](Self::Cached) instead, with a cache of 16 MiB.
    Mapped,
    /// Into private memory; blocks of reftables go through a cache of this number of bytes. This suits servers, which
    /// must survive another program truncating a file.
    Cached(usize),
    /// Into private memory that any number of stores share: a cache for blocks of reftables, and pages for packed-refs.
    Shared(Arc<BlockCache>, Arc<PageBudget>),
}

/// The size in bytes of the block cache for reftables that the caller wants mapped but that cannot be mapped.
const UNMAPPED_BYTES: usize = 16 << 20;

impl Reading {
    fn without_mappings(self) -> Self {
        if let Reading::Mapped = self { Reading::Cached(UNMAPPED_BYTES) } else { self }
    }

    /// How blocks of reftables are read.
    fn access(&self) -> Access {
        match self {
            Reading::Mapped => Access::Map,
            Reading::Cached(capacity_bytes) => Access::Page(BlockCache::new(*capacity_bytes)),
            Reading::Shared(cache, _) => Access::Page(Arc::clone(cache)),
        }
    }
}

struct StoreContext {
    objects: Arc<dyn ObjectCheck + Send>,
    committer: Committer,
    hooks: RepositoryHooks,
    forbidden: Option<Misuse>,
}

/// Returns the error for changes of refs if `refdb.global` is set: a global ref database has to decide about them, and
/// a store by itself does not ask one.
fn decided_elsewhere(config: &Config, repository: &Repository) -> Option<Misuse> {
    let value = config.last(global::KEY)?.raw.unwrap_or_default().into();
    Some(Misuse::Global { folder: repository.common_dir().to_owned(), value })
}

/// Where a refname leads once symbolic refs are followed.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Resolved {
    /// An object.
    Object {
        /// The ref that holds the object: the last one of the chain of symbolic refs.
        name: RefName,
        /// The object.
        id: ObjectId,
        /// Whether a symbolic ref was followed.
        through_symref: bool,
    },
    /// A ref that does not exist: the ref itself, or the one that a dangling symbolic ref leads to, such as an unborn
    /// branch. A chain of five or more symbolic refs, or one that leads back to itself, counts as dangling.
    Missing(RefName),
}

impl Store {
    fn assemble(repository: Repository, environment: Environment, builder: StoreBuilder) -> Result<Self> {
        let StoreBuilder { fs, reading, syncing, objects, committer, commit_observer, memory, .. } = builder;
        let fs = if memory.is_some() { fs } else { fs.at(repository.refs_dir())? };
        // Another machine can remove a file that is mapped, which would end this process.
        let reading = if fs.asks_server() { reading.without_mappings() } else { reading };
        let own_objects = Arc::new(Objects::of(&repository, &environment));
        let objects = objects.unwrap_or_else(|| Arc::clone(&own_objects) as Arc<dyn ObjectCheck + Send>);
        let branch = || if memory.is_some() { None } else { branch_of(&fs, &repository, &reading) };
        let config = Arc::new(repository.config(&fs, &environment, &branch)?);
        let settings = repository.settings(&config, &environment)?;
        let is_synced = match syncing {
            Syncing::Given(sync) => sync,
            Syncing::UnlessConfigured if config.last("core.fsync").is_none() => true,
            Syncing::UnlessConfigured | Syncing::AsConfigured => settings.fsync != Fsync::No,
        };
        let backend: Box<dyn Maintenance> = match (memory, repository.ref_format()) {
            (Some(memory), _) => Box::new(memory),
            (None, RefFormat::Reftable) => {
                let stack = stack_options(&fs, &repository, &settings, &environment, &reading, is_synced);
                Box::new(reftable_backend(&fs, &repository, stack, Some(&settings)))
            }
            (None, RefFormat::Files) => {
                let objects = Arc::clone(&objects);
                let options = files_options(&fs, &repository, &settings, &reading, is_synced, objects);
                Box::new(FilesBackend::new(FilesOptions { commit_observer, ..options }))
            }
        };
        let hooks = RepositoryHooks::new(
            fs.clone(),
            &repository,
            &environment,
            Arc::clone(&config),
            settings.hooks_path.clone(),
        );
        let committer = committer.unwrap_or_else(|| {
            let (config, environment) = (Arc::clone(&config), environment.clone());
            Box::new(move || Ok(crate::committer(&config, &environment)?))
        });
        let quarantined = repository.is_quarantined(&environment);
        let quarantine = quarantined.then_some(Misuse::Quarantine);
        let bad = || settings.bad_for_writers.clone().map(Misuse::Setting);
        let forbidden = quarantine.or_else(bad).or_else(|| decided_elsewhere(&config, &repository));
        let context = StoreContext { objects, committer, hooks, forbidden };
        let has_durable_intents = Arc::default();
        let objects = own_objects;
        Ok(Store {
            fs,
            repository,
            environment,
            config,
            settings,
            backend,
            objects,
            is_synced,
            context,
            has_durable_intents,
        })
    }

    /// The file system through which all changes of the disk go.
    pub fn fs(&self) -> &Fs {
        &self.fs
    }

    /// The repository.
    pub fn repository(&self) -> &Repository {
        &self.repository
    }

    /// The environment in which the store was opened.
    pub fn environment(&self) -> &Environment {
        &self.environment
    }

    /// The whole configuration, as read when the store was opened.
    pub fn config(&self) -> &Config {
        &self.config
    }

    /// The engine's settings, as read from the configuration when the store was opened.
    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    /// Returns whether a commit returns only when the refs are on stable storage. The objects that the refs lead to
    /// have to be on stable storage before the commit, which is up to the caller.
    pub fn is_synced(&self) -> bool {
        self.is_synced
    }

    /// The hash function of all object ids.
    pub fn hash(&self) -> HashKind {
        self.repository.hash()
    }

    /// The present state of all refs. Takes no lock file, and waits for none.
    pub fn snapshot(&self) -> Result<Box<dyn Snapshot>> {
        self.backend.snapshot()
    }

    /// One ref; symbolic refs are not followed. Returns `None` if it does not exist.
    ///
    /// # Errors
    ///
    /// Those of [`Snapshot::get`], and [`Error::Repository`] if the ref was not found and the
    /// repository has gone or been migrated since it was opened.
    pub fn get(&self, name: &BStr) -> Result<Option<Target>> {
        let found = self.read(Error::is_stale, |snapshot| snapshot.get(name))?;
        if found.is_none() {
            self.check_is_there()?;
        }
        Ok(found)
    }

    /// Follows symbolic refs from `name` within one snapshot.
    ///
    /// # Errors
    ///
    /// Those of [`Store::get`], for each ref of the chain.
    pub fn resolve(&self, name: &RefName) -> Result<Resolved> {
        let resolved = self.read(Error::is_stale, |snapshot| resolve(snapshot, name))?;
        if matches!(resolved, Resolved::Missing(_)) {
            self.check_is_there()?;
        }
        Ok(resolved)
    }

    /// Calls `read` with the present state of all refs. If the server of a network file system loses a file that is
    /// being read, calls it again with the state at that time, at most 9 times in all.
    ///
    /// `may_repeat` says whether an error is such a loss ([`Error::is_stale`]) and nothing of the attempt has been
    /// shown to anybody, so that no reader sees two states mixed. `read` begins from nothing each time.
    ///
    /// ```
    /// # use refdb_testkit::{Repo, RefFormat};
    /// # let repo = Repo::bare(RefFormat::Reftable, refdb::HashKind::Sha1);
    /// # let store = refdb::Store::open(repo.git_dir())?;
    /// use refdb::{Error, Snapshot};
    /// let count = store.read(Error::is_stale, |snapshot| {
    ///     let (mut cursor, mut count) = (snapshot.cursor(true)?, 0);
    ///     while cursor.next()?.is_some() {
    ///         count += 1;
    ///     }
    ///     Ok::<_, Error>(count)
    /// })?;
    /// assert_eq!(count, 1, "HEAD");
    /// # Ok::<_, Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// Those of the last call of `read`, and of [`Store::snapshot`].
    pub fn read<T, E: From<Error>>(
        &self,
        may_repeat: impl Fn(&E) -> bool,
        mut read: impl FnMut(&dyn Snapshot) -> std::result::Result<T, E>,
    ) -> std::result::Result<T, E> {
        again_if_lost(LOSSES_MAX + 1, may_repeat, || read(&*self.snapshot()?))
    }

    /// Fails if the repository was moved, deleted or migrated, because then a ref that was not found may still exist.
    fn check_is_there(&self) -> Result<()> {
        if !self.backend.is_on_disk() {
            return Ok(());
        }
        if let Some(format) = self.repository.format_watch() {
            format.check(&self.fs)?;
        }
        match self.fs.find(self.repository.refs_dir())? {
            Some(_) => Ok(()),
            None => Err(RepositoryError::NotARepository(self.repository.git_dir().to_owned()).into()),
        }
    }

    /// Fails if the mount of this repository is one on which updates could be lost, unless `refdb.unsafeStorage` is
    /// set. Writers check this by themselves and then refuse to write refs.
    ///
    /// # Errors
    ///
    /// [`Misuse::UnsafeStorage`] says what is wrong with the mount.
    pub fn check_storage(&self) -> Result<()> {
        self.backend.check_storage()
    }

    /// The backend that stores the refs.
    #[doc(hidden)]
    pub fn backend(&self) -> &dyn Maintenance {
        &*self.backend
    }

    /// Returns the backend as `B`; `None` if it has another type. This is for code that is about one format, such as
    /// a cache of its files.
    #[doc(hidden)]
    pub fn backend_as<B: Maintenance + 'static>(&self) -> Option<&B> {
        self.backend.as_any().downcast_ref()
    }

    /// The parts of this store that a [`Transaction`] needs, for callers that replace some of them.
    #[doc(hidden)]
    pub fn context(&self) -> Context<'_> {
        Context {
            backend: &*self.backend,
            objects: &*self.context.objects,
            hooks: &self.context.hooks,
            committer: &*self.context.committer,
            log_policy: self.settings.log_policy,
            hash: self.hash(),
            forbidden: self.context.forbidden.as_ref(),
        }
    }

    /// The intents that transactions recorded before they asked the global ref database.
    #[doc(hidden)]
    pub fn global_intents(&self) -> GlobalIntents {
        let common_dir = self.repository.common_dir().to_owned();
        let is_durable = Arc::clone(&self.has_durable_intents);
        GlobalIntents::new(self.fs.clone(), common_dir, self.settings.shared_repository, self.hash(), is_durable)
    }

    /// The repository's hooks.
    pub fn hooks(&self) -> &RepositoryHooks {
        &self.context.hooks
    }

    /// The repository's objects. No object file is opened before the first query.
    pub fn objects(&self) -> &Arc<Objects> {
        &self.objects
    }

    /// Returns the check of objects that transactions use.
    pub(crate) fn object_check(&self) -> Arc<dyn ObjectCheck + Send> {
        Arc::clone(&self.context.objects)
    }

    /// Begins a transaction without edits. Nothing is locked before [`Transaction::prepare`] or
    /// [`Transaction::commit`].
    ///
    /// By default a transaction is [atomic](crate::Mode::Atomic): a rejected edit rejects all others before anything
    /// changes. A commit that fails half-way, by an I/O error for example, may leave earlier refs changed, in files or
    /// in another stack of reftables, and readers may see them during the commit: see
    /// [Atomicity](Transaction#atomicity) and [`Prepared::commit`](crate::Prepared::commit).
    ///
    /// ```
    /// # use refdb_testkit::{Repo, RefFormat};
    /// # let repo = Repo::bare(RefFormat::Files, refdb::HashKind::Sha1);
    /// # let id = repo.commit();
    /// # let store = refdb::Store::open(repo.git_dir())?;
    /// use refdb::{Error, RejectionReason, was};
    /// let mut tx = store.transaction();
    /// tx.create("refs/heads/new", id).create("refs/heads/gone", id).message("made by hand");
    /// tx.commit()?;
    ///
    /// let mut tx = store.transaction();
    /// tx.delete("refs/heads/gone", was(id)).create("refs/heads/new", id);
    /// match tx.commit() {
    ///     Err(Error::Rejected(rejection)) => assert!(matches!(rejection.reason, RejectionReason::Exists { .. })),
    ///     other => panic!("{other:?}"),
    /// }
    /// assert!(store.find("refs/heads/gone")?.is_some(), "a rejected edit rejects the transaction");
    /// # Ok::<_, Error>(())
    /// ```
    pub fn transaction(&self) -> Transaction<'_> {
        Transaction::new(self.context(), TransactionOptions::default())
    }

    /// Packs refs so that they are faster to read: moves loose refs that `options` selects into packed-refs, or
    /// compacts the tables of a stack, in a linked worktree only those of its own. Does nothing in memory. No ref
    /// changes its value. Blocks while another writer holds the lock of packed-refs or of the stack, or while another
    /// packing by refdb or, in reftables, a compaction by any program runs, each time at most for the lock timeout.
    ///
    /// # Errors
    ///
    /// [`Limit::StackLocked`](crate::Limit::StackLocked) if the lock of the stack or of one of its tables is not free
    /// in time, [`Error::Lock`] if that of packed-refs is not or if another packing by refdb does not end in time,
    /// [`Limit::Packing`](crate::Limit::Packing) if other programs pack the same refs again and again,
    /// [`Misuse::Setting`] if a setting that writers need is bad, [`Misuse::UnsafeStorage`] as from
    /// [`Store::check_storage`], [`Error::Repository`] if the refs have been migrated since the store was opened,
    /// [`Error::Interrupted`] if a signal came, and others for files that cannot be read or written.
    pub fn optimize(&self, options: &OptimizeOptions) -> Result<Optimized> {
        self.check_settings()?;
        self.backend.optimize(options)
    }

    /// What [`Store::optimize`] would do at this moment. Locks and changes nothing.
    pub fn plan_optimize(&self, options: &OptimizeOptions) -> Result<OptimizePlan> {
        self.backend.plan_optimize(options)
    }

    /// Fails if a setting that writers need has a value that cannot be used. A quarantine, in which transactions are
    /// refused, forbids neither packing nor the pruning of reflogs, as in git.
    fn check_settings(&self) -> Result<()> {
        match &self.settings.bad_for_writers {
            Some(what) => Err(Misuse::Setting(what.clone()).into()),
            None => Ok(()),
        }
    }
}

impl fmt::Debug for Store {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = f.debug_struct("Store");
        if self.backend.is_on_disk() {
            shown.field("git_dir", &self.repository.git_dir()).field("format", &self.repository.ref_format());
        } else {
            shown.field("in_memory", &true);
        }
        shown.field("hash", &self.hash()).field("is_synced", &self.is_synced).finish_non_exhaustive()
    }
}

/// Follows symbolic refs from `name` within one snapshot.
///
/// # Errors
///
/// Those of [`Snapshot::get`], for each ref of the chain.
pub fn resolve(snapshot: &dyn Snapshot, name: &RefName) -> Result<Resolved> {
    let mut name = name.clone();
    for followed in 0..SYMREF_DEPTH_MAX {
        match snapshot.get(&name)? {
            None => break,
            Some(Target::Direct(id)) => return Ok(Resolved::Object { name, id, through_symref: followed > 0 }),
            Some(Target::Symbolic(next)) => name = next,
        }
    }
    Ok(Resolved::Missing(name))
}

/// The size in bytes that packed-refs must have for each ref of a batch so that writing loose files is quicker than
/// rewriting packed-refs, as measured with syncs on ext4.
const LOOSE_BATCHES_FROM: u64 = 512 << 10;

pub(crate) fn files_options(
    fs: &Fs,
    repository: &Repository,
    settings: &Settings,
    reading: &Reading,
    sync: bool,
    objects: Arc<dyn ObjectCheck + Send>,
) -> FilesOptions {
    FilesOptions {
        fs: fs.clone(),
        git_dir: repository.worktree_refs_dir(),
        common_dir: repository.refs_dir().to_owned(),
        worktree: repository.worktree_id().map(ToOwned::to_owned),
        hash: repository.hash(),
        access: match reading {
            Reading::Mapped => PackedAccess::Mapped,
            Reading::Cached(_) => PackedAccess::Paged(Arc::default()),
            Reading::Shared(_, pages) => PackedAccess::Paged(Arc::clone(pages)),
        },
        sharing: settings.shared_repository,
        ref_lock_timeout: settings.files_ref_lock_timeout,
        packed_lock_timeout: settings.packed_refs_timeout,
        loose_batches_from: settings.loose_batches.then_some(LOOSE_BATCHES_FROM),
        loose_max: settings.loose_batches.then_some(settings.loose_refs).flatten(),
        commit_observer: None,
        may_be_unsafe: settings.may_be_unsafe,
        sync,
        format: repository.format_watch().cloned(),
        objects,
    }
}

fn reftable_backend(
    fs: &Fs,
    repository: &Repository,
    stack: StackOptions,
    settings: Option<&Settings>,
) -> ReftableBackend {
    ReftableBackend::new(ReftableOptions {
        fs: fs.clone(),
        git_dir: repository.worktree_refs_dir(),
        common_dir: repository.refs_dir().to_owned(),
        worktree: repository.worktree_id().map(ToOwned::to_owned),
        stack,
        lock_timeout: settings.and_then(|settings| settings.reftable.lock_timeout),
        may_be_unsafe: settings.is_some_and(|settings| settings.may_be_unsafe),
        format: repository.format_watch().cloned(),
    })
}

pub(crate) fn stack_options(
    fs: &Fs,
    repository: &Repository,
    settings: &Settings,
    environment: &Environment,
    reading: &Reading,
    sync: bool,
) -> StackOptions {
    let defaults = WriteOptions::default();
    let write = WriteOptions::new(repository.hash())
        .block_size(settings.reftable.block_size.unwrap_or(defaults.block_size))
        // A block size given with `-c` does not decide which names fit, because git may later rewrite the tables
        // without it.
        .name_block_size(Some(settings.reftable.lasting_block_size.unwrap_or(defaults.block_size)))
        .restart_interval(settings.reftable.restart_interval.unwrap_or(defaults.restart_interval))
        .index_objects(settings.reftable.index_objects);
    let mut stack = StackOptions::new(write).access(reading.access());
    if sync {
        stack.durability = Durability::Sync;
    }
    stack.file_mode = match settings.shared_repository {
        SharedRepository::Umask => None,
        SharedRepository::AtLeast(extra) => Some(0o666 & !umask(fs) | extra),
        SharedRepository::Exactly(mode) => Some(mode),
    };
    if let Some(factor) = settings.reftable.geometric_factor {
        stack.geometric_factor = factor.into();
    }
    // git's tests switch compaction off to see single tables.
    stack.auto_compact = environment.get("GIT_TEST_REFTABLE_AUTOCOMPACTION").is_none_or(|value| value != "false");
    stack
}

/// Returns the process's umask from `/proc`, or 022 if it cannot be read there. umask(2) can read it only by changing
/// it, which other threads would notice.
fn umask(fs: &Fs) -> u32 {
    const USUAL: u32 = 0o022;
    let status = fs.read(Path::new("/proc/self/status")).unwrap_or_default();
    let line = status.split(|byte| *byte == b'\n').find_map(|line| line.strip_prefix(b"Umask:"));
    let digits = line.and_then(|line| std::str::from_utf8(line).ok()).map(str::trim);
    digits.and_then(|digits| u32::from_str_radix(digits, 8).ok()).unwrap_or(USUAL)
}

/// Returns the branch that is checked out, for conditions in the configuration. HEAD is read without any settings,
/// because the configuration has not been read yet.
fn branch_of(fs: &Fs, repository: &Repository, reading: &Reading) -> Option<BString> {
    if repository.ref_format() == RefFormat::Files {
        return repository.branch_in_files(fs);
    }
    let stack = StackOptions::new(WriteOptions::new(repository.hash())).access(reading.access());
    let backend = reftable_backend(fs, repository, stack, None);
    let snapshot = backend.snapshot().ok()?;
    let mut name = snapshot.get(BStr::new("HEAD")).ok()??.symbolic()?.to_owned();
    for _ in 1..SYMREF_DEPTH_MAX {
        match snapshot.get(&name).ok()? {
            Some(Target::Symbolic(next)) => name = next,
            _ => return name.strip_prefix(b"refs/heads/").map(BString::from),
        }
    }
    None
}
