//! How a store is opened: which repository, in which environment, and with which options.

use crate::{
    Committer, Reading, Result, Store,
    files::CommitObserver,
    memory::{AnyObject, MemoryBackend, committer},
};
use bstr::{BStr, BString};
use refdb_repo::{Environment, ObjectCheck, Repository};
use refdb_types::{HashKind, Ident};
use refdb_vfs::Fs;
use std::{
    fmt,
    path::{Path, PathBuf},
    sync::Arc,
};

/// The settings to open a [`Store`] with. Nothing is read before [`open`](StoreBuilder::open).
///
/// ```
/// # use refdb_testkit::{Repo, RefFormat};
/// # let repo = Repo::bare(RefFormat::Reftable, refdb::HashKind::Sha1);
/// # let path = repo.git_dir();
/// // As a server opens it: no file is mapped, commits are on stable storage when they return.
/// let store = refdb::Store::builder(path).reading(refdb::Reading::Cached(8 << 20)).sync(true).open()?;
/// assert_eq!(store.refs("refs/")?.count(), 0);
/// # Ok::<_, refdb::Error>(())
/// ```
#[must_use = "nothing is opened before `open`"]
pub struct StoreBuilder {
    place: Place,
    config: Vec<BString>,
    pub(super) fs: Fs,
    pub(super) reading: Reading,
    pub(super) syncing: Syncing,
    pub(super) objects: Option<Arc<dyn ObjectCheck + Send>>,
    pub(super) committer: Option<Committer>,
    pub(super) commit_observer: Option<Arc<dyn CommitObserver>>,
    /// The refs of a store without a repository.
    pub(super) memory: Option<MemoryBackend>,
}

/// What decides whether a commit waits for stable storage.
#[derive(Clone, Copy)]
pub(super) enum Syncing {
    /// `core.fsync`; no if it is not set.
    AsConfigured,
    /// `core.fsync`; yes if it is not set.
    UnlessConfigured,
    /// The caller.
    Given(bool),
}

#[derive(Debug)]
enum Place {
    Folder(PathBuf),
    Discover(Environment),
    Found(Box<Repository>, Environment),
}

impl fmt::Debug for StoreBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StoreBuilder").field("place", &self.place).field("config", &self.config).finish_non_exhaustive()
    }
}

impl StoreBuilder {
    fn new(place: Place) -> Self {
        StoreBuilder {
            place,
            config: Vec::new(),
            fs: Fs::real(),
            reading: Reading::Mapped,
            syncing: Syncing::AsConfigured,
            objects: None,
            committer: None,
            commit_observer: None,
            memory: None,
        }
    }

    /// Sets how tables and packed-refs are read. The default is [`Reading::Mapped`].
    pub fn reading(mut self, reading: Reading) -> Self {
        self.reading = reading;
        self
    }

    /// Sets whether a commit returns only when the refs are on stable storage. By default `core.fsync` decides; if that
    /// is not set, commits are not synced.
    pub fn sync(mut self, sync: bool) -> Self {
        self.syncing = Syncing::Given(sync);
        self
    }

    /// Syncs commits unless `core.fsync` is set, in which case that setting decides. This is meant for servers. If
    /// both this method and [`sync`](StoreBuilder::sync) are called, the last call wins.
    pub fn sync_unless_configured(mut self) -> Self {
        self.syncing = Syncing::UnlessConfigured;
        self
    }

    /// Sets the check that says which objects exist and of what kind they are. By default the repository's objects are
    /// read.
    pub fn objects(mut self, objects: Arc<dyn ObjectCheck + Send>) -> Self {
        self.objects = Some(objects);
        self
    }

    /// Sets the committer for reflogs, which is asked for at most once per transaction. By default it comes from the
    /// environment of the store, in which [`Store::builder`] leaves out all `GIT_*` variables, and the configuration,
    /// as git determines it.
    pub fn committer(mut self, committer: impl Fn() -> Result<Ident> + Send + Sync + 'static) -> Self {
        self.committer = Some(Box::new(committer));
        self
    }

    /// Sets the observer of small batches, by which the readers of this process avoid showing a part of a batch while
    /// its loose files are written.
    #[doc(hidden)]
    pub fn commit_observer(mut self, observer: Arc<dyn CommitObserver>) -> Self {
        self.commit_observer = Some(observer);
        self
    }

    /// Adds a setting `key=value` that outranks the repository's configuration, as `git -c` does.
    pub fn config(mut self, setting: impl AsRef<[u8]>) -> Self {
        self.config.push(setting.as_ref().into());
        self
    }

    /// Sets the file system through which all changes of the disk go. Tests pass one with an I/O hook that observes
    /// changes or makes them fail.
    pub fn fs(mut self, fs: Fs) -> Self {
        self.fs = fs;
        self
    }

    /// Finds the repository and checks its owner and format (which [`Store::builder_of`] leaves to its caller), and
    /// reads its configuration. No ref is looked up, except HEAD and where HEAD leads for an `includeIf.onbranch`.
    ///
    /// # Errors
    ///
    /// [`Error::Repository`](crate::Error::Repository) if there is no repository, if it is not safe to use or if its
    /// format is not known, [`Error::Config`](crate::Error::Config) if its configuration cannot be used, and
    /// [`Error::Io`](crate::Error::Io) if its folder cannot be opened.
    pub fn open(mut self) -> Result<Store> {
        let config = std::mem::take(&mut self.config);
        let with_config = |environment: Environment| {
            config.iter().fold(environment, |environment, setting| environment.with_config(BStr::new(setting)))
        };
        let place = std::mem::replace(&mut self.place, Place::Folder(PathBuf::new()));
        let (repository, environment) = match place {
            Place::Folder(path) => {
                let path = std::path::absolute(&path).unwrap_or(path);
                let environment = with_config(Environment::without_git(&path));
                (Repository::at(&self.fs, &environment, &path)?, environment)
            }
            Place::Discover(environment) => {
                let environment = with_config(environment);
                (Repository::discover(&self.fs, &environment)?, environment)
            }
            Place::Found(repository, environment) => (*repository, with_config(environment)),
        };
        Store::assemble(repository, environment, self)
    }
}

impl Store {
    /// Opens the refs of the repository in this very folder, which is a bare repository, a `.git` folder or a worktree.
    /// Parent folders are not searched.
    ///
    /// `GIT_*` variables are ignored. As in git, the folder must belong to this user or be named in `safe.directory`.
    /// The repository's reference-transaction hook runs in transactions.
    ///
    /// # Errors
    ///
    /// Those of [`StoreBuilder::open`].
    ///
    /// ```
    /// # use refdb_testkit::{Repo, RefFormat};
    /// # let repo = Repo::bare(RefFormat::Files, refdb::HashKind::Sha1);
    /// # let id = repo.commit();
    /// # repo.create_refs([("refs/heads/main", id)]);
    /// # let path = repo.git_dir();
    /// let store = refdb::Store::open(path)?;
    /// assert_eq!(store.find("refs/heads/main")?.and_then(|found| found.id()), Some(id));
    /// # Ok::<_, refdb::Error>(())
    /// ```
    pub fn open(path: impl AsRef<Path>) -> Result<Self> {
        Self::builder(path).open()
    }

    /// Begins to open a store as [`Store::open`] does, but with settings.
    pub fn builder(path: impl AsRef<Path>) -> StoreBuilder {
        StoreBuilder::new(Place::Folder(path.as_ref().to_owned()))
    }

    /// Opens the repository that a git command would use here: `GIT_DIR` and related variables apply, and parent
    /// folders are searched.
    ///
    /// # Errors
    ///
    /// Those of [`StoreBuilder::open`].
    pub fn from_env() -> Result<Self> {
        Self::builder_in(Environment::process()).open()
    }

    /// Begins to open a store as [`Store::from_env`] does, but with settings and in any environment.
    pub fn builder_in(environment: Environment) -> StoreBuilder {
        StoreBuilder::new(Place::Discover(environment))
    }

    /// Makes a store whose refs and reflogs are in memory: for tests, and for refs that need not outlive the process.
    ///
    /// It starts with `HEAD`, which leads to the unborn branch `refs/heads/main`, and behaves as a repository with
    /// reftables does, hooks aside. Ids are SHA-1, every id passes for a commit that exists, `HEAD`, branches,
    /// remote-tracking branches and notes get reflogs, and the committer in these is `refdb`. With
    /// [`Store::builder_in_memory`], the hash function, the check of objects, the refs with reflogs
    /// (`core.logAllRefUpdates`) and the committer can be changed.
    ///
    /// ```
    /// use refdb::{HashKind, ObjectId, Store};
    /// let store = Store::in_memory();
    /// let id = ObjectId::from_hex(HashKind::Sha1, b"89f3a5c1bd1a1c1a1f2ea2f9b8b9e1e6e8d0b6aa").expect("40 digits");
    /// let mut tx = store.transaction();
    /// tx.create("HEAD", id).message("first");
    /// tx.commit()?;
    /// assert_eq!(store.id_of("refs/heads/main")?, Some(id));
    /// # Ok::<_, refdb::Error>(())
    /// ```
    pub fn in_memory() -> Self {
        Self::builder_in_memory(MemoryBackend::new(HashKind::Sha1))
            .open()
            .expect("there is no file that could be broken")
    }

    /// Begins to make a store as [`Store::in_memory`] does, but with settings. Stores that are built with clones of
    /// one backend share its refs.
    pub fn builder_in_memory(memory: MemoryBackend) -> StoreBuilder {
        let repository = Repository::without_folder(memory.hash());
        let environment = Environment::empty("/").with("GIT_CONFIG_NOSYSTEM", "1");
        let builder = Self::builder_of(repository, environment).objects(Arc::new(AnyObject)).committer(committer);
        StoreBuilder { memory: Some(memory), ..builder }
    }

    /// Returns a builder for the store of a repository that has been discovered already.
    pub fn builder_of(repository: Repository, environment: Environment) -> StoreBuilder {
        StoreBuilder::new(Place::Found(Box::new(repository), environment))
    }
}
