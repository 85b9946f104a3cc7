//! Where the record of a small batch lies: in a slot, in a folder of ours beside `refs/`. Those of an older refdb lie in a file
//! each.

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

/// The folder's name.
const FOLDER: &str = "refdb-batches";

/// A longer file is none of ours. A slot has a line before its record.
pub(crate) const FILE_LEN_MAX_BYTES: u64 = (ENTRY_AT + LEN_MAX_BYTES) as u64;

/// What a settled record is called of which refs are left for a person to look at.
const LEFT: &str = ".left";

/// A record's file.
pub(crate) fn path(store: &Store, id: BatchId) -> PathBuf {
    folder(store).join(id.to_string())
}

pub(crate) fn folder(store: &Store) -> PathBuf {
    store.layout.common_dir.join(FOLDER)
}

fn new_path(store: &Store, id: BatchId) -> PathBuf {
    folder(store).join(format!("{id}.new"))
}

/// Whether the folder is there. One that is a link belongs to somebody else.
pub(crate) fn is_there(store: &Store) -> Result<bool> {
    let folder = folder(store);
    match store.options.fs.find_link(&folder)? {
        None => Ok(false),
        Some(stat) if stat.is_dir() => Ok(true),
        Some(_) => Err(fault(&folder, "it is no folder, so no record can be in it; remove it".to_owned())),
    }
}

pub(crate) fn fault(path: &Path, what: String) -> Error {
    Error::Corrupt { path: path.to_owned(), line: 1, what }
}

/// The record's bytes; `None` if there is none.
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
        return Err(fault(&path, "it is no record of a batch; look at it and remove it".to_owned()));
    }
    let bytes = file.read_len(stat.len_bytes)?;
    Ok(if id.is_slot() { entry_in_journal_file(&bytes).map(<[u8]>::to_owned) } else { Some(bytes) })
}

/// What a record's bytes say.
pub(crate) fn parse(store: &Store, id: BatchId, bytes: &[u8]) -> Result<JournalEntry> {
    JournalEntry::parse(bytes).map_err(|broken| {
        let what = format!("{broken}; look at the refs it names and at their lock files, then remove it and the locks");
        fault(&path(store, id), what)
    })
}

/// Removes the record, if it is there. When it returns without an error the record does not come back.
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

/// Keeps the record of a batch that is over, since a ref of it needs a person's look.
pub(crate) fn leave(store: &Store, id: BatchId, sync: bool) -> Result<()> {
    // Another name each time: of a slot's records several may be left.
    let left = folder(store).join(format!("{}{LEFT}", BatchId::random()));
    store.options.fs.rename(&path(store, id), &left)?;
    make_durable(store, sync)
}

/// A record that was removed does not come back.
pub(crate) fn make_absence_durable(store: &Store, id: BatchId) -> Result<()> {
    if !id.is_slot() {
        // An older refdb may have left one that is not whole.
        return remove(store, id, true);
    }
    // Another batch may have the slot by now, so it stays.
    match store.options.fs.open_no_follow(&path(store, id)) {
        Ok(slot) => Ok(slot.sync_data()?),
        Err(error) if error.is_not_found() => make_durable(store, true),
        Err(error) => Err(error.into()),
    }
}

/// Brings the folder's names to stable storage.
fn make_durable(store: &Store, sync: bool) -> Result<()> {
    if !sync {
        return Ok(());
    }
    match store.options.fs.sync_dir(&folder(store)) {
        Err(error) if error.source.kind() == io::ErrorKind::NotFound => Ok(()),
        synced => Ok(synced?),
    }
}

/// The slots that are there, with a record or without.
pub(crate) fn slots(store: &Store) -> Result<Vec<BatchId>> {
    if !is_there(store)? {
        return Ok(Vec::new());
    }
    let names = store.options.fs.read_dir(&folder(store))?.into_iter();
    let ids = names.filter_map(|(name, _)| BatchId::parse(&String::from_utf8(name).ok()?));
    Ok(ids.filter(|id| id.is_slot()).collect())
}

/// The batches that have a record, in order, and those whose record was left for a person.
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
        // What cannot be read is named, too.
        let is_record = |id: &BatchId| !id.is_slot() || !matches!(read(store, *id), Ok(None));
        open.extend(BatchId::parse(&name).filter(is_record));
    }
    open.sort_unstable();
    left.sort_unstable();
    Ok((open, left))
}
