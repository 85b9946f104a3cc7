//! Served repositories: each with its view (the cache of its refs), and with its settings, which are read again when a
//! configuration file changes.

mod freshness;

use crate::{pieces::Pieces, settings::Limits};
use bstr::{BString, ByteSlice};
use freshness::Seen;
use refdb::{
    Config, Environment, HashKind, Objects, RefFormat, Repository,
    config::{ConfigError, Value},
};
use refdb_receive::HiddenRefs;
use refdb_refcache::{View, ViewSettings, Views, ViewsSettings};
use refdb_vfs::Fs;
use std::{
    collections::HashMap,
    io,
    os::unix::ffi::OsStrExt,
    path::{Path, PathBuf},
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
};
use tokio::runtime::Handle;

/// The open repositories: those that were used most recently.
#[derive(Debug)]
pub(crate) struct Repositories {
    views: Views,
    environment: Environment,
    pieces: Pieces,
    known: Mutex<HashMap<PathBuf, Arc<Served>>>,
    len_max: usize,
    /// A counter of uses, which orders the repositories by their last use.
    clock: AtomicU64,
}

/// An open repository.
#[derive(Debug)]
pub(crate) struct Served {
    folder: PathBuf,
    view: Arc<View>,
    fs: Fs,
    environment: Environment,
    pieces: Pieces,
    facts: Mutex<Arc<Facts>>,
    last_use: AtomicU64,
}

/// What the server knows about a repository besides its refs, as read from its files at one time. The facts are
/// immutable, and replaced as a whole when they are read again.
#[derive(Debug)]
pub(crate) struct Facts {
    seen: Seen,
    folder_id: (u64, u64),
    pub(crate) hash: HashKind,
    pub(crate) objects: Arc<Objects>,
    pub(crate) settings: UploadSettings,
    /// All settings in order, each as the key, NUL, `=value` if there is one, and NUL. With equal texts and the same
    /// hash function, the same git offers the same capabilities.
    pub(crate) config_text: Arc<[u8]>,
    common_dir: PathBuf,
}

/// The settings that decide how a repository is served.
#[derive(Debug, Default)]
pub(crate) struct UploadSettings {
    /// `transfer.hideRefs` and `uploadpack.hideRefs`.
    pub(crate) hidden: HiddenRefs,
    /// Whether `lsrefs.unborn` lets clients ask for the branch that HEAD names even if it does not exist yet; `None` if
    /// the setting is invalid, so that git refuses those that do.
    pub(crate) unborn: Option<bool>,
    /// `transfer.advertiseSID`.
    pub(crate) session_id: bool,
    /// Whether `uploadpack.packObjectsHook` is set anywhere.
    pub(crate) has_pack_hook: bool,
    /// `http.uploadpack`.
    pub(crate) http_upload: Option<bool>,
    /// `http.receivepack`. If it is unset, only clients that a proxy has authenticated may push.
    pub(crate) http_receive: Option<bool>,
}

impl Repositories {
    pub(crate) fn new(limits: &Limits, environment: Environment) -> Self {
        let settings = ViewsSettings::new().memory_bytes(limits.memory_bytes).open_files(limits.open_files);
        Repositories {
            views: Views::new(&settings),
            environment: with_settings_of_process(environment),
            pieces: Pieces::new(Handle::current().metrics().num_workers()),
            known: Mutex::default(),
            len_max: limits.repositories,
            clock: AtomicU64::new(0),
        }
    }

    /// Returns the repository in this folder if it is open, and marks it as used.
    pub(crate) fn known(&self, folder: &Path) -> Option<Arc<Served>> {
        let served = Arc::clone(self.locked().get(folder)?);
        self.use_now(&served);
        Some(served)
    }

    /// Opens the repository in this folder. If as many as `serve.openRepositories` others are open, closes about an
    /// eighth of them, the least recently used ones.
    pub(crate) fn open(&self, folder: &Path) -> io::Result<Arc<Served>> {
        let served = Arc::new(Served::open(folder, self)?);
        self.use_now(&served);
        let mut known = self.locked();
        if known.len() >= self.len_max && !known.contains_key(folder) {
            forget_some(&mut known);
        }
        Ok(Arc::clone(known.entry(folder.to_owned()).or_insert(served)))
    }

    fn use_now(&self, served: &Served) {
        served.last_use.store(self.clock.fetch_add(1, Relaxed), Relaxed);
    }

    /// Closes all repositories, so that the next request to each opens it again.
    pub(crate) fn forget(&self) {
        self.locked().clear();
    }

    /// Returns the number of open repositories, and what the caches of refs hold.
    pub(crate) fn holdings(&self) -> (usize, refdb_refcache::Holdings) {
        (self.locked().len(), self.views.holdings())
    }

    fn locked(&self) -> MutexGuard<'_, HashMap<PathBuf, Arc<Served>>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Adds the variables `GIT_CONFIG*` of this process, which the programs that the server starts inherit and obey.
pub(crate) fn with_settings_of_process(environment: Environment) -> Environment {
    let variables = std::env::vars_os().filter(|(name, _)| name.as_bytes().starts_with(b"GIT_CONFIG"));
    variables.fold(environment, |environment, (name, value)| environment.with(name, value))
}

/// Removes about an eighth of the repositories, the least recently used ones, and at least one. Requests in progress
/// keep using theirs.
fn forget_some(known: &mut HashMap<PathBuf, Arc<Served>>) {
    let mut uses: Vec<u64> = known.values().map(|served| served.last_use.load(Relaxed)).collect();
    if uses.is_empty() {
        return;
    }
    let (_, last, _) = uses.select_nth_unstable(known.len() / 8);
    let last = *last;
    known.retain(|_, served| served.last_use.load(Relaxed) > last);
}

impl Served {
    fn open(folder: &Path, repositories: &Repositories) -> io::Result<Self> {
        let Repositories { views, environment, pieces, .. } = repositories;
        let fs = Fs::real().at(folder).map_err(io::Error::other)?;
        let view = views.open(folder, &ViewSettings::new()).map_err(io::Error::other)?;
        let facts = Mutex::new(Arc::new(Facts::read(&fs, environment, folder, &view, None)?));
        let (environment, pieces) = (environment.clone(), pieces.clone());
        let folder = folder.to_owned();
        Ok(Served { folder, view, fs, environment, pieces, facts, last_use: AtomicU64::new(0) })
    }

    pub(crate) fn folder(&self) -> &Path {
        &self.folder
    }

    pub(crate) fn view(&self) -> &Arc<View> {
        &self.view
    }

    /// Returns what bounds the pieces of long lists in all repositories together.
    pub(crate) fn pieces(&self) -> &Pieces {
        &self.pieces
    }

    /// Returns whether the repository is on a network file system, or on one that is not known to be local, where each
    /// read may block for long.
    pub(crate) fn is_remote(&self) -> bool {
        self.fs.asks_server()
    }

    /// Returns the current facts. Reads them again unless it is certain that neither the configuration nor the
    /// repository's folder is another than before.
    pub(crate) fn facts(&self) -> io::Result<Arc<Facts>> {
        let known = Arc::clone(&self.locked_facts());
        let folder_id = self.fs.stat(&self.folder).map_err(io::Error::other)?.file_id();
        if known.folder_id == folder_id && known.seen.is_current(&self.fs)? {
            return Ok(known);
        }
        let fresh = Arc::new(Facts::read(&self.fs, &self.environment, &self.folder, &self.view, Some(&known))?);
        *self.locked_facts() = Arc::clone(&fresh);
        Ok(fresh)
    }

    /// Returns whether a shallow boundary or grafts may change the parents of commits, or whether that cannot be found
    /// out. Only git takes these into account.
    pub(crate) fn has_grafts(&self, facts: &Facts) -> bool {
        ["shallow", "info/grafts"].iter().any(|name| match self.fs.stat(&facts.common_dir.join(name)) {
            Ok(file) => file.len_bytes > 0,
            Err(error) => !error.is_not_found(),
        })
    }

    fn locked_facts(&self) -> MutexGuard<'_, Arc<Facts>> {
        self.facts.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Maximum number of times that the configuration is read, until its files do not change meanwhile.
const ATTEMPTS_MAX: usize = 10;

impl Facts {
    fn read(
        fs: &Fs,
        environment: &Environment,
        folder: &Path,
        view: &View,
        before: Option<&Facts>,
    ) -> io::Result<Self> {
        let mut files = before.map(|before| before.seen.files()).unwrap_or_default();
        for _ in 0..ATTEMPTS_MAX {
            let seen = Seen::of(fs, files)?;
            let folder_id = fs.stat(folder).map_err(io::Error::other)?.file_id();
            let repository = Repository::entered(fs, environment, folder).map_err(io::Error::other)?;
            let is_in_files = repository.ref_format() == RefFormat::Files;
            let branch = || if is_in_files { repository.branch_in_files(fs) } else { branch_in_table(view) };
            let config = repository.config(fs, environment, &branch).map_err(io::Error::other)?;
            if !seen.is_of(config.files()) || !seen.is_unchanged(fs)? {
                files = config.files().to_vec();
                continue;
            }
            let objects = match before {
                Some(before) if before.folder_id == folder_id && before.hash == repository.hash() => {
                    Arc::clone(&before.objects)
                }
                // As by `git upload-pack`, nothing is fetched for a partial clone: that would run what the repository
                // configures for its remote.
                _ => Arc::new(Objects::in_dir(repository.objects_dir(environment), repository.hash())),
            };
            return Ok(Facts {
                seen: if config.depends_on_branch() { seen.without_proof() } else { seen },
                folder_id,
                hash: repository.hash(),
                objects,
                settings: UploadSettings::of(&config).map_err(io::Error::other)?,
                config_text: text(&config),
                common_dir: repository.common_dir().to_owned(),
            });
        }
        Err(io::Error::other("the configuration changes faster than it can be read"))
    }
}

/// Returns the branch to which HEAD leads in a repository with reftables, without `refs/heads/`.
fn branch_in_table(view: &View) -> Option<BString> {
    let head = view.resolve("HEAD".into()).ok().filter(|head| !head.links.is_empty())?;
    head.name.strip_prefix(b"refs/heads/").map(BString::from)
}

/// Returns the text of [`Facts::config_text`].
fn text(config: &Config) -> Arc<[u8]> {
    let mut text = Vec::new();
    for Value { key, raw, .. } in config.iter() {
        text.extend_from_slice(key);
        text.push(0);
        if let Some(value) = raw {
            text.push(b'=');
            text.extend_from_slice(value);
        }
        text.push(0);
    }
    text.into()
}

impl UploadSettings {
    fn of(config: &Config) -> Result<Self, ConfigError> {
        let mut settings = UploadSettings { unborn: Some(true), ..UploadSettings::default() };
        for value in config.iter() {
            match value.key.as_bytes() {
                b"transfer.hiderefs" | b"uploadpack.hiderefs" => settings.hidden.add(value.text()?),
                b"lsrefs.unborn" => {
                    settings.unborn = match value.text()?.as_bytes() {
                        b"advertise" | b"allow" => Some(true),
                        b"ignore" => Some(false),
                        _ => None,
                    };
                }
                b"transfer.advertisesid" => settings.session_id = value.boolean()?,
                b"uploadpack.packobjectshook" => settings.has_pack_hook = true,
                b"http.uploadpack" => settings.http_upload = Some(value.boolean()?),
                b"http.receivepack" => settings.http_receive = Some(value.boolean()?),
                _ => {}
            }
        }
        Ok(settings)
    }

    /// Returns whether the settings are valid on which the answer to an `ls-refs` with or without `unborn` depends.
    /// Otherwise, git reports the invalid one.
    pub(crate) fn are_valid_for(&self, asks_for_unborn: bool) -> bool {
        !asks_for_unborn || self.unborn.is_some()
    }

    /// Returns the refs to hide: those of the settings, and those that the authorizer adds.
    pub(crate) fn hiding(&self, more: &[BString]) -> HiddenRefs {
        let mut hidden = self.hidden.clone();
        more.iter().for_each(|pattern| hidden.add(pattern.as_bstr()));
        hidden
    }
}
