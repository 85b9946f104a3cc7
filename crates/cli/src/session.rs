//! A command's repository: found, opened, and ready to be asked.

use crate::{
    Invocation,
    failure::{Failure, Result, fatal, say},
    globals::Globals,
    revision::Revisions,
};
use bstr::{BString, ByteSlice};
use refdb::{Objects, Reading, Repository, Store, StoreOptions, transaction::ObjectCheck};
use refdb_vfs::Fs;
use std::{os::unix::ffi::OsStrExt, path::PathBuf, sync::Arc};

/// An open repository.
pub struct Session {
    /// Its refs.
    pub store: Store,
    /// Its objects.
    pub objects: Arc<Objects>,
    /// Its folders.
    pub paths: Paths,
    /// `core.warnAmbiguousRefs`.
    pub strict_names: bool,
}

impl Session {
    /// Opens the repository and reads a command's words: in git's order, which reports that there is no repository
    /// before it looks at options, but answers `-h` anywhere.
    pub fn begin<O>(invocation: &Invocation<'_>, parse: impl Fn(&Invocation<'_>) -> Result<O>) -> Result<(Session, O)> {
        if matches!(invocation.words, [word] if word == "-h") {
            parse(invocation)?;
        }
        let session = Session::open(invocation.globals)?;
        let options = parse(invocation)?;
        Ok((session, options))
    }

    /// Finds and opens the repository that the global options and the environment mean.
    pub fn open(globals: &Globals) -> Result<Self> {
        let environment = globals.environment();
        let fs = Fs::real();
        let repository = Repository::discover(&fs, &environment).map_err(|error| Failure::Lines(error.report()))?;
        let objects = Arc::new(Objects::of(&repository, &environment));
        let paths = Paths { git_dir: repository.git_dir().to_owned(), common_dir: repository.common_dir().to_owned() };
        let options = StoreOptions {
            fs,
            reading: Reading::Mapped,
            sync: None,
            objects: Arc::clone(&objects) as Arc<dyn ObjectCheck + Send>,
            committer: None,
        };
        let store = Store::open(repository, environment, options)?;
        for warning in &store.settings().warnings {
            say("warning: ", warning.as_bytes());
        }
        let strict_names = store.settings().warn_ambiguous_refs;
        Ok(Session { store, objects, paths, strict_names })
    }

    /// Says if it was noticed that packed-refs is not sorted although it says so.
    pub fn warn_of_disorder(&self) {
        if let Some(disorder) = self.store.files().and_then(|files| files.disorder()) {
            say("warning: ", disorder.to_string().as_bytes());
        }
    }

    /// Answers questions about names of objects.
    pub fn revisions(&self) -> Revisions<'_> {
        Revisions { store: &self.store, objects: &self.objects }
    }
}

/// From here on there may be locks, which a signal must not leave behind.
pub fn before_locks() -> Result<()> {
    match refdb_vfs::interrupt::catch_signals() {
        Ok(()) => Ok(()),
        Err(error) => fatal!["cannot catch signals: ", error.to_string()],
    }
}

/// Where a repository's refs are files.
#[derive(Clone, Debug)]
pub struct Paths {
    /// The worktree's own folder.
    pub git_dir: PathBuf,
    /// The folder all worktrees share.
    pub common_dir: PathBuf,
}

impl Paths {
    /// The name of the loose ref whose content an error is about.
    pub fn broken_ref(&self, error: &refdb::Error) -> Option<BString> {
        let refdb::Error::Corrupt { path, .. } = error else { return None };
        let name = path.strip_prefix(&self.git_dir).or_else(|_| path.strip_prefix(&self.common_dir)).ok()?;
        let name = name.as_os_str().as_bytes().as_bstr();
        (name != "packed-refs" && !name.starts_with(b"logs/")).then(|| name.to_owned())
    }
}
