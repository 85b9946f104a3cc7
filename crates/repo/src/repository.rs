//! Finds the repository that is meant, and how its refs are stored.
//!
//! Start with [`Repository`]. `discover` finds it, `ownership` decides whether it is safe to use, `format` whether its
//! format is supported, and `storage` where its refs are.

mod discover;
mod enter;
mod error;
mod format;
mod format_watch;
mod gitfile;
mod ownership;
mod storage;
mod worktrees;

pub use error::RepositoryError;
pub use format::with_ref_format;
pub use format_watch::FormatWatch;
pub use storage::{RefFormat, RefStorage};
pub use worktrees::Worktree;

use crate::{
    config::{Config, ConfigError, Loader, Outer, Settings},
    environment::Environment,
};
use bstr::{BStr, BString, ByteSlice};
use refdb_types::{FormatOptions, HashKind, RefName, SYMREF_DEPTH_MAX, Scope, check_format, space::trim};
use refdb_vfs::Fs;
use std::{
    os::unix::ffi::{OsStrExt, OsStringExt},
    path::{Path, PathBuf},
};

/// A repository that was found and has a supported format. Whether its owner was checked depends on the function that
/// returned it. The only files that have been read are `config`, `config.worktree`, those that identify a repository,
/// such as `HEAD`, and the configuration above the repository if it decides whether the repository is safe.
#[derive(Clone, Debug)]
pub struct Repository {
    git_dir: PathBuf,
    common_dir: PathBuf,
    work_tree: Option<PathBuf>,
    shown_git_dir: PathBuf,
    /// The folder in which git would work unless `is_entered` is set, and to which `shown_git_dir` is relative.
    standing: PathBuf,
    /// Whether git would change into `git_dir` and call it `.`, as its servers do.
    is_entered: bool,
    worktree_id: Option<BString>,
    hash: HashKind,
    storage: RefStorage,
    /// `None` if the environment determines the format, or if there is no folder.
    format_watch: Option<FormatWatch>,
    is_bare: bool,
    is_partial_clone: bool,
    config_text: Vec<u8>,
    worktree_config_text: Option<Vec<u8>>,
    /// The configuration files above the repository, if `safe.bareRepository` was looked up in them.
    outer: Option<Outer>,
    /// What git warns about when it finds the repository.
    warnings: Vec<String>,
}

/// The folder of a repository that a server's client named.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Served {
    /// The path of the repository.
    pub folder: PathBuf,
    /// Git's warnings about settings that decided whether the repository is trusted, without `warning: `.
    pub warnings: Vec<String>,
}

impl Repository {
    /// Finds the repository as git does: the one that `GIT_DIR` names, or else the nearest one from the environment's
    /// folder upwards.
    ///
    /// # Errors
    ///
    /// Fails if there is no repository, if a file or folder cannot be read or has a content that git refuses, if git
    /// refuses the value of an environment variable, or if the repository's format is not supported. Unless `GIT_DIR`
    /// names the repository, also fails if it belongs to someone else and is not in `safe.directory`, or if
    /// `safe.bareRepository` forbids it.
    pub fn discover(fs: &Fs, environment: &Environment) -> Result<Self, RepositoryError> {
        discover::discover(fs, environment)
    }

    /// Returns the folder of the repository that a server's client names. `~` and `~user` at the start of `given` are
    /// expanded, and an ending (`.git`, `/.git`) that is missing is added.
    ///
    /// # Errors
    ///
    /// Fails if no repository is there, if one of the files that identify it or the configuration above it cannot be
    /// read or is malformed, or if it belongs to someone else and is not in `safe.directory`.
    pub fn served_folder(fs: &Fs, environment: &Environment, given: &Path) -> Result<Served, RepositoryError> {
        enter::folder(fs, environment, given)
    }

    /// Returns the folder of the repository that a client of `git upload-pack` names, whoever owns it. With `is_strict`
    /// the path is taken as it is, and otherwise as by [`Repository::served_folder`].
    ///
    /// # Errors
    ///
    /// Fails if no repository is there, or if one of the files that identify it cannot be read or is malformed.
    pub fn folder_to_fetch_from(
        fs: &Fs,
        environment: &Environment,
        given: &Path,
        is_strict: bool,
    ) -> Result<PathBuf, RepositoryError> {
        enter::folder_of_anyone(fs, environment, given, is_strict)
    }

    /// Opens the repository `folder` for a server that was given its path. Its owner is not checked.
    ///
    /// Its configuration is read as by `git receive-pack`, which enters the folder: a condition
    /// `includeIf "gitdir:/srv/x.git/"` holds for `/srv/x.git` itself.
    ///
    /// # Errors
    ///
    /// Fails if the folder is no repository, if its configuration or another of its files cannot be read or parsed, or
    /// if its format is not supported.
    pub fn entered(fs: &Fs, environment: &Environment, folder: &Path) -> Result<Self, RepositoryError> {
        discover::entered(fs, environment, folder)
    }

    /// Opens the repository in this very folder: a bare one, a `.git` folder, or a worktree. Its owner is checked as by
    /// [`Repository::discover`].
    ///
    /// # Errors
    ///
    /// Fails if the folder is no repository, or for one of the reasons of [`Repository::discover`] other than
    /// `safe.bareRepository`.
    pub fn at(fs: &Fs, environment: &Environment, folder: &Path) -> Result<Self, RepositoryError> {
        discover::at(fs, environment, folder, false)
    }

    /// Opens the repository in this very folder once more, for a process that already works on it. The owner is not
    /// checked again: either it was checked the first time, or it did not matter because `GIT_DIR` named the
    /// repository.
    ///
    /// # Errors
    ///
    /// Fails if the folder is no repository any more, if its configuration or another of its files cannot be read or
    /// parsed, or if its format is not supported.
    pub fn at_again(fs: &Fs, environment: &Environment, folder: &Path) -> Result<Self, RepositoryError> {
        discover::at(fs, environment, folder, true)
    }

    /// Returns the content of the repository's own configuration file as it was when its format was read from it. Empty
    /// if there was no such file.
    pub fn config_text(&self) -> &[u8] {
        &self.config_text
    }

    /// Returns git's warnings about settings that decided whether the repository is trusted, without `warning: `.
    pub fn warnings(&self) -> &[String] {
        &self.warnings
    }

    /// Returns a repository that has no folder, for refs that are not on disk. It has the defaults of a repository with
    /// a working tree, no configuration file, and the behaviour of the reftable format. Its paths lead nowhere, so that
    /// nothing is read or written there.
    pub fn without_folder(hash: HashKind) -> Self {
        // Nothing can be below a device.
        let nowhere = PathBuf::from("/dev/null/without-folder");
        Repository {
            git_dir: nowhere.clone(),
            common_dir: nowhere.clone(),
            work_tree: None,
            shown_git_dir: nowhere.clone(),
            standing: nowhere,
            worktree_id: None,
            hash,
            storage: RefStorage { format: RefFormat::Reftable, location: None },
            format_watch: None,
            is_bare: false,
            is_partial_clone: false,
            config_text: Vec::new(),
            worktree_config_text: None,
            outer: None,
            warnings: Vec::new(),
            is_entered: false,
        }
    }

    /// Returns the repository's own folder, or the folder of the linked worktree below `worktrees/`.
    pub fn git_dir(&self) -> &Path {
        &self.git_dir
    }

    /// Returns the folder that all worktrees share.
    pub fn common_dir(&self) -> &Path {
        &self.common_dir
    }

    /// Returns the top of the working tree, or `None` if there is none.
    pub fn work_tree(&self) -> Option<&Path> {
        self.work_tree.as_deref()
    }

    /// Returns the id of the linked worktree, or `None` for the main worktree and for one whose folder is not
    /// `worktrees/ID`.
    pub fn worktree_id(&self) -> Option<&BStr> {
        self.worktree_id.as_ref().map(|id| id.as_bstr())
    }

    /// Returns the hash function of the repository's objects.
    pub fn hash(&self) -> HashKind {
        self.hash
    }

    /// Returns the format of the repository's refs.
    pub fn ref_format(&self) -> RefFormat {
        self.storage.format
    }

    /// Returns a watch that notices when the refs are migrated to another format, or `None` if `GIT_REFERENCE_BACKEND`
    /// determines the format or the repository has no folder.
    pub fn format_watch(&self) -> Option<&FormatWatch> {
        self.format_watch.as_ref()
    }

    /// Returns the present text of `config` with its ref format changed to this one.
    ///
    /// # Errors
    ///
    /// Fails if the file cannot be read or parsed, has a value that git refuses, or has an extension that the resulting
    /// version of the repository's format does not allow.
    pub fn config_with_ref_format(&self, fs: &Fs, to: RefFormat) -> Result<Vec<u8>, RepositoryError> {
        let file = self.common_dir.join("config");
        let text = match fs.read(&file) {
            Err(error) if error.is_not_found() => Vec::new(),
            text => text?,
        };
        format::with_ref_format(&text, to, &self.common_dir, &file)
    }

    /// Returns the folder of the shared refs: the common folder, unless `extensions.refStorage` or
    /// `GIT_REFERENCE_BACKEND` names another one.
    pub fn refs_dir(&self) -> &Path {
        self.storage.location.as_deref().unwrap_or(&self.common_dir)
    }

    /// Returns the folder of the current worktree's refs.
    pub fn worktree_refs_dir(&self) -> PathBuf {
        match &self.storage.location {
            None => self.git_dir.clone(),
            Some(_) => self.refs_dir_of(self.worktree_id()),
        }
    }

    /// Returns the folder of a worktree's refs. `None` stands for the main worktree.
    pub fn refs_dir_of(&self, worktree_id: Option<&BStr>) -> PathBuf {
        match worktree_id {
            None => self.refs_dir().to_owned(),
            Some(id) => {
                debug_assert!(!id.is_empty() && !id.contains(&b'/'), "a worktree's id names a folder: {id}");
                self.refs_dir().join("worktrees").join(id.to_path_lossy())
            }
        }
    }

    /// Returns whether the repository is bare: it has no working tree, and `core.bare` is not false.
    pub fn is_bare(&self) -> bool {
        self.is_bare
    }

    /// Returns whether the repository is a partial clone, whose remote has promised to send missing objects.
    pub fn is_partial_clone(&self) -> bool {
        self.is_partial_clone
    }

    /// Returns the prefix of all refs that are visible in `GIT_NAMESPACE` (gitnamespaces(7)):
    /// `refs/namespaces/a/refs/namespaces/b/` for `a/b`, or an empty one.
    ///
    /// # Errors
    ///
    /// Returns [`RepositoryError::BadNamespace`] if no ref can have a name with this prefix.
    pub fn namespace(&self, environment: &Environment) -> Result<BString, RepositoryError> {
        let given = environment.get("GIT_NAMESPACE").unwrap_or_default();
        let mut prefix = BString::default();
        for component in given.as_bytes().split(|byte| *byte == b'/').filter(|component| !component.is_empty()) {
            prefix.extend_from_slice(b"refs/namespaces/");
            prefix.extend_from_slice(component);
            prefix.push(b'/');
        }
        debug_assert!(prefix.is_empty() || prefix.ends_with(b"/"), "a namespace is a folder of refs: {prefix}");
        let name = prefix.strip_suffix(b"/").unwrap_or(&prefix);
        if name.is_empty() || check_format(name, FormatOptions::default()).is_ok() {
            Ok(prefix)
        } else {
            Err(RepositoryError::BadNamespace(given.as_bytes().into()))
        }
    }

    /// Returns whether new objects are in quarantine (git-receive-pack(1)), during which no ref may be changed.
    pub fn is_quarantined(&self, environment: &Environment) -> bool {
        environment.get("GIT_QUARANTINE_PATH").is_some()
    }

    /// Returns the object folder: `GIT_OBJECT_DIRECTORY`, or else `objects` in the common folder.
    pub fn objects_dir(&self, environment: &Environment) -> PathBuf {
        match environment.get("GIT_OBJECT_DIRECTORY") {
            Some(path) => environment.resolve(path.as_ref()),
            None => self.common_dir.join("objects"),
        }
    }

    /// Returns the folder in which git would work, and against which it resolves relative paths.
    pub(crate) fn standing(&self) -> &Path {
        if self.is_entered { &self.git_dir } else { &self.standing }
    }

    /// Returns the linked worktrees whose folders have the file `gitdir`, ordered by id.
    ///
    /// # Errors
    ///
    /// Fails if `worktrees/` exists and cannot be listed.
    pub fn worktrees(&self, fs: &Fs) -> Result<Vec<Worktree>, refdb_vfs::Error> {
        worktrees::list(fs, &self.common_dir)
    }

    /// Reads the whole configuration.
    ///
    /// `branch` returns the branch that is checked out, for `includeIf.onbranch:`, and is called only if there is such
    /// a condition. If refs are stored as files, [`Repository::branch_in_files`] returns it.
    ///
    /// # Errors
    ///
    /// Fails if a file cannot be read or parsed, if an include is invalid or nested too deeply, or if a setting of the
    /// command line or of the environment is malformed.
    pub fn config(
        &self,
        fs: &Fs,
        environment: &Environment,
        branch: &dyn Fn() -> Option<BString>,
    ) -> Result<Config, ConfigError> {
        let file = self.common_dir.join("config");
        let worktree_file = self.git_dir.join("config.worktree");
        let shown = self.shown_common_dir().join("config");
        let shown_worktree = self.shown_git_dir.join("config.worktree");
        let local = crate::config::Local {
            git_dir: &self.git_dir,
            spelled: match self.is_entered {
                true => (&self.git_dir, Path::new(".")),
                false => (&self.standing, &self.shown_git_dir),
            },
            file: (&self.config_text, &file, &shown),
            worktree_file: self.worktree_config_text.as_deref().map(|text| (text, &*worktree_file, &*shown_worktree)),
            branch,
        };
        let outer = match &self.outer {
            Some(outer) => outer,
            None => &Outer::read(fs, environment)?,
        };
        let mut config = Loader::new(fs, environment, outer, Some(&local)).load()?;
        config.files.push(worktree_file);
        Ok(config)
    }

    /// Reads the settings that refdb heeds from the configuration.
    ///
    /// # Errors
    ///
    /// Fails as [`Settings::load`] does.
    pub fn settings(&self, config: &Config, environment: &Environment) -> Result<Settings, ConfigError> {
        Settings::load(config, environment, self.is_bare, self.storage.format == RefFormat::Reftable)
    }

    /// Returns the branch, without `refs/heads/`, at the end of the chain of symbolic refs that starts at HEAD, if refs
    /// are stored as files. The branch need not exist. Returns `None` if HEAD cannot be read, is detached or leads
    /// elsewhere, or if the chain is longer than git follows.
    pub fn branch_in_files(&self, fs: &Fs) -> Option<BString> {
        debug_assert!(self.ref_format() == RefFormat::Files, "in a reftable the file HEAD names no branch");
        let target = |path: PathBuf| {
            // A link into `refs/` is an old form of a symbolic ref.
            let link = fs.find_link_content(&path).ok()?.map(|link| link.into_os_string().into_vec());
            if let Some(link) = link.filter(|link| link.starts_with(b"refs/")) {
                return RefName::new(link).ok();
            }
            let text = fs.read(&path).ok()?;
            RefName::new(trim(text.strip_prefix(b"ref:")?).to_vec()).ok()
        };
        let mut name = target(self.worktree_refs_dir().join("HEAD"))?;
        for _ in 1..SYMREF_DEPTH_MAX {
            let (dir, below) = match Scope::of(name.as_bstr()) {
                Scope::Shared => (self.refs_dir().to_owned(), name.as_bstr()),
                Scope::Worktree => (self.worktree_refs_dir(), name.as_bstr()),
                Scope::Main(name) => (self.refs_dir_of(None), name),
                Scope::Other { id, name } => (self.refs_dir_of(Some(id)), name),
            };
            match target(dir.join(below.to_path_lossy())) {
                Some(next) => name = next,
                None => return name.strip_prefix(b"refs/heads/").map(BString::from),
            }
        }
        None
    }

    /// Returns the folder that all worktrees share, by the path that git would show when it runs at the top of the
    /// worktree.
    pub fn shown_common_dir(&self) -> &Path {
        if self.git_dir == self.common_dir { &self.shown_git_dir } else { &self.common_dir }
    }
}
