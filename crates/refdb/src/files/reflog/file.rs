//! A reflog's file as a whole: read, replaced, put under another name.

use crate::files::{lock::set, loose::folders, store::Store};
use crate::{Error, Result};
use bstr::BStr;
use refdb_vfs::{File, Lock, LockError, Patience, Stat, now_nanos};
use std::path::{Path, PathBuf};

/// A log's bytes; `None` if there is none.
pub(crate) fn read(store: &Store, path: &Path) -> Result<Option<Vec<u8>>> {
    match store.options.fs.read(path) {
        Ok(bytes) => Ok(Some(bytes)),
        Err(error) if error.is_not_found() || error.is_folder() => Ok(None),
        Err(error) => Err(error.into()),
    }
}

/// That a log is still the one that was read.
pub(crate) struct Proof {
    path: PathBuf,
    stat: Stat,
    /// Whether it was written so late that it may have been written again without looking different.
    is_racy: bool,
    /// As long as it is open no other file can look like it.
    _file: File,
}

impl Proof {
    /// Says no to a symbolic link, too: what it leads to may change without it.
    pub(crate) fn holds(&self, store: &Store) -> Result<bool> {
        Ok(!self.is_racy && store.options.fs.find_link(&self.path)? == Some(self.stat))
    }
}

/// A log's bytes, and how to tell later whether they are still the same; `None` if there is none.
pub(crate) fn read_with_proof(store: &Store, path: &Path) -> Result<Option<(Vec<u8>, Proof)>> {
    let file = match store.options.fs.open(path) {
        Ok(file) => file,
        Err(error) if error.is_not_found() => return Ok(None),
        Err(error) => return Err(error.into()),
    };
    let (now, stat) = (now_nanos(), file.stat()?);
    if stat.is_dir() {
        return Ok(None);
    }
    let bytes = file.read_len(stat.len_bytes)?;
    Ok(Some((bytes, Proof { path: path.to_owned(), stat, is_racy: stat.is_racy(now), _file: file })))
}

/// A ref's log, to be put under another name.
pub(crate) fn taken(store: &Store, source: &BStr) -> Result<Option<Vec<u8>>> {
    store.layout.log_path(source).map_or(Ok(None), |path| read(store, &path))
}

/// Puts a log that was taken from another ref in the place of this ref's, which is locked. Returns its path.
pub(crate) fn put(store: &Store, name: &BStr, content: &[u8]) -> Result<Option<PathBuf>> {
    let options = &store.options;
    let Some(path) = store.layout.log_path(name) else { return Ok(None) };
    options.fs.remove_empty_tree(&path)?;
    let is_missing =
        |error: &Error| matches!(error, Error::Io(error) | Error::Lock(LockError::Io(error)) if error.is_not_found());
    folders::with_parents(&options.fs, &path, options.sharing, &mut Vec::new(), is_missing, || {
        replace(store, &path, content)
    })?;
    Ok(Some(path))
}

/// Replaces a log. If it is a symbolic link, the file that it leads to is replaced.
pub(crate) fn replace(store: &Store, path: &Path, content: &[u8]) -> Result<()> {
    replace_file(store, &store.target_of(path)?, content)
}

/// The same of a log that is no symbolic link.
pub(crate) fn replace_file(store: &Store, path: &Path, content: &[u8]) -> Result<()> {
    let options = &store.options;
    debug_assert!(content.is_empty() || content.ends_with(b"\n"), "a log is whole lines");
    // Nobody else has it: the ref is locked.
    let mut lock = Lock::acquire(&options.fs, path, 0o666, Patience::None)?;
    let file = lock.content()?;
    file.write_all(content)?;
    if options.sync {
        file.sync()?;
    }
    lock.close();
    folders::share(&options.fs, &lock.content_path(), options.sharing, false)?;
    set::heed_signals()?;
    lock.publish()?;
    match path.parent() {
        Some(folder) if options.sync => Ok(options.fs.sync_dir(folder)?),
        _ => Ok(()),
    }
}
