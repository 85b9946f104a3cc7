//! Reads and replaces whole reflog files.

use crate::files::{lock::set, loose::folders, store::Store};
use crate::{Error, Result};
use bstr::BStr;
use refdb_vfs::{File, Lock, LockError, LockTimeout, Stat, now_nanos};
use std::path::{Path, PathBuf};

/// Reads a reflog's bytes; `None` if there is none.
pub(crate) fn read(store: &Store, path: &Path) -> Result<Option<Vec<u8>>> {
    match store.options.fs.read(path) {
        Ok(bytes) => Ok(Some(bytes)),
        Err(error) if error.is_not_found() || error.is_folder() => Ok(None),
        Err(error) => Err(error.into()),
    }
}

/// Identifies a reflog that was read, to find out later whether it has changed.
pub(crate) struct Proof {
    path: PathBuf,
    stat: Stat,
    /// Whether the reflog was written so recently that another write may not show in its `stat`.
    is_racy: bool,
    /// Kept open, so that no other file gets the same inode number.
    _file: File,
}

impl Proof {
    /// Returns whether the reflog is known to be unchanged; `false` for one that was read too soon after a write to be
    /// sure, and for a symbolic link, whose target may change without the link.
    pub(crate) fn holds(&self, store: &Store) -> Result<bool> {
        Ok(!self.is_racy && store.options.fs.find_link(&self.path)? == Some(self.stat))
    }
}

/// Reads a reflog's bytes, with a proof by which a later change can be noticed; `None` if there is no such reflog.
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

/// Reads a ref's reflog, which is to be written under another name.
pub(crate) fn taken(store: &Store, source: &BStr) -> Result<Option<Vec<u8>>> {
    store.layout.log_path(source).map_or(Ok(None), |path| read(store, &path))
}

/// Writes `content`, another ref's reflog, as the reflog of a locked ref in place of any that it has. Writes nothing if
/// the ref's name can have no file.
pub(crate) fn put(store: &Store, name: &BStr, content: &[u8]) -> Result<()> {
    let options = &store.options;
    let Some(path) = store.layout.log_path(name) else { return Ok(()) };
    options.fs.remove_empty_tree(&path)?;
    let is_missing =
        |error: &Error| matches!(error, Error::Io(error) | Error::Lock(LockError::Io(error)) if error.is_not_found());
    folders::with_parents(&options.fs, &path, options.sharing, &mut Vec::new(), is_missing, || {
        replace(store, &path, content)
    })
}

/// Replaces a reflog. If it is a symbolic link, the file to which it leads is replaced.
pub(crate) fn replace(store: &Store, path: &Path, content: &[u8]) -> Result<()> {
    replace_file(store, &store.target_of(path)?, content)
}

/// Replaces a reflog that is not a symbolic link.
pub(crate) fn replace_file(store: &Store, path: &Path, content: &[u8]) -> Result<()> {
    let options = &store.options;
    debug_assert!(content.is_empty() || content.ends_with(b"\n"), "a log is whole lines");
    // This lock is normally free, because a writer of the reflog holds the ref's lock.
    let mut lock = Lock::acquire(&options.fs, path, 0o666, LockTimeout::None)?;
    let file = lock.content()?;
    file.write_all(content)?;
    if options.sync {
        file.sync()?
    } else {
        options.fs.deliver(file)?
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
