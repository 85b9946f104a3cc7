//! A command's repository: found, opened, and ready to be asked.

use crate::{failure::Result, globals::Globals, objects::Objects, revision::Revisions};
use bstr::{BString, ByteSlice};
use refdb::{Environment, Store};
use refdb_vfs::Fs;
use std::{os::unix::ffi::OsStrExt, path::PathBuf};

/// An open repository.
pub struct Session {
    /// Its refs.
    pub store: Store,
    /// Its objects.
    pub objects: Objects,
    /// Its folders.
    pub paths: Paths,
    /// `core.warnAmbiguousRefs`.
    pub strict_names: bool,
}

impl Session {
    /// Finds and opens the repository that the global options and the environment mean.
    pub fn open(globals: &Globals) -> Result<Self> {
        let environment = globals.environment();
        let fs = Fs::real();
        let _ = (environment, fs);
        unimplemented!()
    }

    /// Answers questions about names of objects.
    pub fn revisions(&mut self) -> Revisions<'_> {
        Revisions { store: &self.store, objects: &mut self.objects }
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
