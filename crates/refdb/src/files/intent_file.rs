//! Where the record of a small batch lies: one file, in a folder of ours beside `refs/`.

use super::{
    folders,
    intent::{Intent, LEN_MAX_BYTES},
    store::Store,
};
use crate::{Error, Result};
use refdb_vfs::BatchId;
use std::{
    io,
    path::{Path, PathBuf},
    sync::atomic::Ordering,
};

/// The folder's name.
const FOLDER: &str = "refdb-batches";

/// What a settled record is called of which refs are left for a person to look at.
const LEFT: &str = ".left";

/// A record's file.
pub(super) fn path(store: &Store, id: BatchId) -> PathBuf {
    folder(store).join(id.to_string())
}

fn folder(store: &Store) -> PathBuf {
    store.layout.common_dir.join(FOLDER)
}

fn new_path(store: &Store, id: BatchId) -> PathBuf {
    folder(store).join(format!("{id}.new"))
}

/// Whether the folder is there. One that is a link belongs to somebody else.
fn is_there(store: &Store) -> Result<bool> {
    let folder = folder(store);
    match store.options.fs.find_link(&folder)? {
        None => Ok(false),
        Some(stat) if stat.is_dir() => Ok(true),
        Some(_) => Err(fault(&folder, "it is no folder, so no record can be in it; remove it".to_owned())),
    }
}

pub(super) fn fault(path: &Path, what: String) -> Error {
    Error::Corrupt { path: path.to_owned(), line: 1, what }
}

/// Writes the record. When it returns without an error the record is there, after a loss of power too where it is synced.
/// After an error it may be there or not.
pub(super) fn place(store: &Store, id: BatchId, intent: &Intent) -> Result<()> {
    let options = &store.options;
    let fs = &options.fs;
    let new = new_path(store, id);
    if !is_there(store)? {
        match fs.create_dir(&folder(store), 0o777) {
            Err(error) if !error.is_exists() => return Err(error.into()),
            _ => folders::share(fs, &folder(store), options.sharing, true)?,
        }
    }
    // Another process may have made it that died before it was durable.
    if intent.synced && !store.has_batches_folder.load(Ordering::Acquire) {
        fs.sync_dir(&store.layout.common_dir)?;
        store.has_batches_folder.store(true, Ordering::Release);
    }
    let mut file = fs.create_afresh(&new, 0o666)?;
    file.write_all(&intent.encode())?;
    if intent.synced {
        file.sync()?;
    }
    drop(file);
    folders::share(fs, &new, options.sharing, false)?;
    fs.rename(&new, &path(store, id))?;
    if intent.synced {
        fs.sync_dir(&folder(store))?;
    }
    Ok(())
}

/// The record's bytes; `None` if there is none.
pub(super) fn read(store: &Store, id: BatchId) -> Result<Option<Vec<u8>>> {
    if !is_there(store)? {
        return Ok(None);
    }
    let path = path(store, id);
    let file = match store.options.fs.open_no_follow(&path) {
        Ok(file) => file,
        Err(error) if error.is_not_found() => return Ok(None),
        Err(error) => return Err(error.into()),
    };
    let stat = file.stat()?;
    if !stat.is_file() || stat.len_bytes > LEN_MAX_BYTES as u64 {
        return Err(fault(&path, "it is no record of a batch; look at it and remove it".to_owned()));
    }
    Ok(Some(file.read_len(stat.len_bytes)?))
}

/// What a record's bytes say.
pub(super) fn parse(store: &Store, id: BatchId, bytes: &[u8]) -> Result<Intent> {
    Intent::parse(bytes).map_err(|broken| {
        let what = format!("{broken}; look at the refs it names and at their lock files, then remove it and the locks");
        fault(&path(store, id), what)
    })
}

/// Removes the record, if it is there. When it returns without an error the record does not come back.
pub(super) fn remove(store: &Store, id: BatchId, sync: bool) -> Result<()> {
    let fs = &store.options.fs;
    for path in [new_path(store, id), path(store, id)] {
        match fs.remove_file(&path) {
            Err(error) if !error.is_not_found() => return Err(error.into()),
            _ => {}
        }
    }
    make_durable(store, sync)
}

/// Keeps the record of a batch that is over, since a ref of it needs a person's look.
pub(super) fn leave(store: &Store, id: BatchId, sync: bool) -> Result<()> {
    let left = folder(store).join(format!("{id}{LEFT}"));
    store.options.fs.rename(&path(store, id), &left)?;
    make_durable(store, sync)
}

/// Brings the folder's names to stable storage: a record that was removed does not come back.
pub(super) fn make_durable(store: &Store, sync: bool) -> Result<()> {
    if !sync {
        return Ok(());
    }
    match store.options.fs.sync_dir(&folder(store)) {
        Err(error) if error.source.kind() == io::ErrorKind::NotFound => Ok(()),
        synced => Ok(synced?),
    }
}

/// The batches that have a record, in order, and those whose record was left for a person.
pub(super) fn list(store: &Store) -> Result<(Vec<BatchId>, Vec<PathBuf>)> {
    let (mut open, mut left) = (Vec::new(), Vec::new());
    if !is_there(store)? {
        return Ok((open, left));
    }
    for (name, _) in store.options.fs.read_dir(&folder(store))? {
        let Ok(name) = String::from_utf8(name) else { continue };
        if name.strip_suffix(LEFT).and_then(BatchId::parse).is_some() {
            left.push(folder(store).join(&name));
        }
        open.extend(BatchId::parse(&name));
    }
    open.sort_unstable();
    left.sort_unstable();
    Ok((open, left))
}
