//! The folder beside `refs/` with the journal files of small batches. Entries of older versions of refdb, which did not
//! reuse journal files, have one file each in the same folder.

use crate::files::{
    batch::entry::{ENTRY_AT, JournalEntry, LEN_MAX_BYTES, entry_in_journal_file},
    store::Store,
};
use crate::{Error, Result};
use refdb_vfs::BatchId;
use std::{
    io,
    path::{Path, PathBuf},
};

/// The name of the folder, in the repository's common folder.
const FOLDER: &str = "refdb-batches";

/// The longest journal file: the line that signs locks, then the longest entry. A longer file is not refdb's.
pub(crate) const FILE_LEN_MAX_BYTES: u64 = (ENTRY_AT + LEN_MAX_BYTES) as u64;

/// The suffix of an entry that was recovered only in part and is kept for an administrator.
const LEFT: &str = ".left";

/// The file with the entry of this batch.
pub(crate) fn path(store: &Store, id: BatchId) -> PathBuf {
    folder(store).join(id.to_string())
}

pub(crate) fn folder(store: &Store) -> PathBuf {
    store.layout.common_dir.join(FOLDER)
}

fn new_path(store: &Store, id: BatchId) -> PathBuf {
    folder(store).join(format!("{id}.new"))
}

/// Returns whether the folder exists. Anything else in its place is an error, above all a symbolic link, which may lead
/// anywhere.
pub(crate) fn is_there(store: &Store) -> Result<bool> {
    let folder = folder(store);
    match store.options.fs.find_link(&folder)? {
        None => Ok(false),
        Some(stat) if stat.is_dir() => Ok(true),
        Some(_) => Err(fault(&folder, "it is not a folder, so it cannot hold journal entries; remove it".to_owned())),
    }
}

pub(crate) fn fault(path: &Path, what: String) -> Error {
    Error::Corrupt { path: path.to_owned(), line: 1, what }
}

/// Reads the entry of a batch; `None` if there is none.
pub(crate) fn read(store: &Store, id: BatchId) -> Result<Option<Vec<u8>>> {
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
    if !stat.is_file() || stat.len_bytes > FILE_LEN_MAX_BYTES {
        return Err(fault(&path, "it is not a journal entry of a batch; look at it and remove it".to_owned()));
    }
    let bytes = file.read_len(stat.len_bytes)?;
    Ok(if id.is_slot() { entry_in_journal_file(&bytes).map(<[u8]>::to_owned) } else { Some(bytes) })
}

/// Parses an entry, naming its file in the error.
pub(crate) fn parse(store: &Store, id: BatchId, bytes: &[u8]) -> Result<JournalEntry> {
    JournalEntry::parse(bytes).map_err(|broken| {
        let what = format!("{broken}; look at the refs it names and at their lock files, then remove it and the locks");
        fault(&path(store, id), what)
    })
}

/// Removes an entry together with its file, if it exists. With `sync` the entry cannot reappear once this has returned
/// without an error.
pub(crate) fn remove(store: &Store, id: BatchId, sync: bool) -> Result<()> {
    let fs = &store.options.fs;
    for path in [new_path(store, id), path(store, id)] {
        match fs.remove_file(&path) {
            Err(error) if !error.is_not_found() => return Err(error.into()),
            _ => {}
        }
    }
    make_durable(store, sync)
}

/// Renames the entry of a batch that has ended, to keep it, because an administrator has to look at one of the batch's
/// refs.
pub(crate) fn leave(store: &Store, id: BatchId, sync: bool) -> Result<()> {
    // A random name, so that no other entry that is kept is replaced.
    let left = folder(store).join(format!("{}{LEFT}", BatchId::random()));
    store.options.fs.rename(&path(store, id), &left)?;
    make_durable(store, sync)
}

/// Makes sure that an entry which is gone does not reappear after a loss of power.
pub(crate) fn make_absence_durable(store: &Store, id: BatchId) -> Result<()> {
    if !id.is_slot() {
        // An older refdb may have left an incomplete entry.
        return remove(store, id, true);
    }
    // The file stays, because another batch may use it by now.
    match store.options.fs.open_no_follow(&path(store, id)) {
        Ok(file) => Ok(file.sync_data()?),
        Err(error) if error.is_not_found() => make_durable(store, true),
        Err(error) => Err(error.into()),
    }
}

/// Syncs the folder if `sync` is set, so that its names are on stable storage.
fn make_durable(store: &Store, sync: bool) -> Result<()> {
    if !sync {
        return Ok(());
    }
    match store.options.fs.sync_dir(&folder(store)) {
        Err(error) if error.source.kind() == io::ErrorKind::NotFound => Ok(()),
        synced => Ok(synced?),
    }
}

/// The journal files in the folder, with an entry or without.
pub(crate) fn files(store: &Store) -> Result<Vec<BatchId>> {
    if !is_there(store)? {
        return Ok(Vec::new());
    }
    let names = store.options.fs.read_dir(&folder(store))?.into_iter();
    let ids = names.filter_map(|(name, _)| BatchId::parse(&String::from_utf8(name).ok()?));
    Ok(ids.filter(|id| id.is_slot()).collect())
}

/// The batches that have an entry, in ascending order, and the files of entries that are kept for an administrator.
pub(crate) fn list(store: &Store) -> Result<(Vec<BatchId>, Vec<PathBuf>)> {
    let (mut open, mut left) = (Vec::new(), Vec::new());
    if !is_there(store)? {
        return Ok((open, left));
    }
    for (name, _) in store.options.fs.read_dir(&folder(store))? {
        let Ok(name) = String::from_utf8(name) else { continue };
        if name.strip_suffix(LEFT).and_then(BatchId::parse).is_some() {
            left.push(folder(store).join(&name));
        }
        // A file that cannot be read is listed, too.
        let has_entry = |id: &BatchId| !id.is_slot() || !matches!(read(store, *id), Ok(None));
        open.extend(BatchId::parse(&name).filter(has_entry));
    }
    open.sort_unstable();
    left.sort_unstable();
    Ok((open, left))
}
