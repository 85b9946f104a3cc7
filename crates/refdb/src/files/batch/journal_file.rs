//! A reusable journal file, which holds the entry of one batch at a time. The process that holds its `flock(2)` lock
//! owns it. A file with an entry belongs to a batch in flight, or to one that failed or whose process has ended.

use crate::files::{
    batch::{
        entry::{ENTRY_AT, JournalEntry, entry_in_journal_file},
        journal::{self, FILE_LEN_MAX_BYTES},
    },
    loose::folders,
    store::Store,
};
use crate::{Error, Result};
use refdb_vfs::{BatchId, File, Stat, slot_start};
use std::{
    path::Path,
    sync::{
        Arc,
        atomic::{
            AtomicU64,
            Ordering::{Acquire, Release},
        },
    },
};

/// The length of a new journal file in bytes. A longer entry makes its file longer.
const LEN: usize = 4096;
const _: () = assert!(LEN > ENTRY_AT, "there is room for an entry");

/// How many lines that sign locks this process has written without a sync, or with one that failed, into the journal
/// files of all stores.
static UNSYNCED_LINES: AtomicU64 = AtomicU64::new(0);

/// A journal file that this process owns.
///
/// An entry is written over zeros and wiped with zeros. Unless the entry is long, neither changes the file's length or
/// its folder, so that each costs one write and at most one sync. All locks of the batch are hard links to the file,
/// which begins with the line that signs them. If refs are synced, the line is durable before the first lock exists, so
/// a loss of power cannot leave a lock without it.
pub(crate) struct JournalFile {
    store: Arc<Store>,
    id: BatchId,
    /// `None` only while this value is being dropped.
    file: Option<File>,
    /// The number of [`UNSYNCED_LINES`] when this store last knew that the line is durable in the file, if refs are
    /// synced. If the number has grown since, the line in the file may be an unsynced one of another store.
    signed_at: Option<u64>,
    /// How many bytes from [`ENTRY_AT`] on may differ from zero.
    used: usize,
}

/// The outcome of an attempt to take an existing journal file.
enum Attempt {
    /// This process owns the file now.
    Taken(JournalFile),
    /// Another batch owns the file at present.
    Busy,
    /// The file holds an entry, is also the lock of a ref, is not a journal file, is gone, or cannot be opened.
    Unfit,
}

impl JournalFile {
    /// Takes a journal file without an entry, or creates one. Returns `None` on a network file system, where locks that
    /// are links to the file could not show whether their owner is alive, if the new file cannot be locked, usually
    /// because another process has taken it, or if this user may not list the folder or create a file in it.
    pub(crate) fn take(store: &Arc<Store>) -> Result<Option<Self>> {
        match Self::take_or_make(store) {
            Err(Error::Io(error)) if error.is_forbidden() => Ok(None),
            taken => taken,
        }
    }

    fn take_or_make(store: &Arc<Store>) -> Result<Option<Self>> {
        let journal_files = &store.journal_files;
        if !store.options.fs.is_local(&store.layout.common_dir)? {
            return Ok(None);
        }
        if !journal_files.is_listed.load(Acquire) {
            let listed = journal::files(store)?;
            if !listed.is_empty() {
                make_names_durable(store)?;
            }
            journal_files.free().extend(listed.into_iter().map(|id| (id, None)));
            journal_files.is_listed.store(true, Release);
        }
        let tries = journal_files.free().len();
        for _ in 0..tries {
            let Some((id, signed_at)) = journal_files.free().pop_front() else { break };
            match Self::take_one(store, id, signed_at)? {
                Attempt::Taken(taken) => return Ok(Some(taken)),
                Attempt::Busy => journal_files.free().push_back((id, signed_at)),
                Attempt::Unfit => {}
            }
        }
        Self::make(store)
    }

    fn take_one(store: &Arc<Store>, id: BatchId, signed_at: Option<u64>) -> Result<Attempt> {
        let fs = &store.options.fs;
        // A file that cannot be opened may have been removed, or belong to another user.
        let Ok(file) = fs.open_to_overwrite(&journal::path(store, id)) else { return Ok(Attempt::Unfit) };
        let stat = file.stat()?;
        if !stat.is_file() || stat.len_bytes > FILE_LEN_MAX_BYTES {
            return Ok(Attempt::Unfit);
        }
        if !file.try_lock()? {
            return Ok(Attempt::Busy);
        }
        let bytes = file.read_len(stat.len_bytes)?;
        if !is_alone_in_place(store, &file, &stat)? || entry_in_journal_file(&bytes).is_some() {
            return Ok(Attempt::Unfit);
        }
        let used = bytes.iter().rposition(|byte| *byte != 0).map_or(0, |last| (last + 1).saturating_sub(ENTRY_AT));
        let mut taken = JournalFile { store: Arc::clone(store), id, file: Some(file), signed_at, used };
        taken.wipe()?;
        taken.sign(&bytes)?;
        Ok(Attempt::Taken(taken))
    }

    fn make(store: &Arc<Store>) -> Result<Option<Self>> {
        let (options, id) = (&store.options, BatchId::random_slot());
        let fs = &options.fs;
        if !journal::is_there(store)? {
            let folder = journal::folder(store);
            match fs.create_dir(&folder, 0o777) {
                Err(error) if !error.is_exists() => return Err(error.into()),
                _ => folders::share(fs, &folder, options.sharing, true)?,
            }
            // The folder that was known to be durable may have been removed.
            store.journal_files.has_folder.store(false, Release);
        }
        let path = journal::path(store, id);
        let file = fs.create_new(&path, 0o666)?;
        // Another process may have found the new file at once, and owns it then.
        if !matches!(file.try_lock(), Ok(true)) {
            return Ok(None);
        }
        let shared = folders::share(fs, &path, options.sharing, false).map_err(Error::from);
        if let Err(error) = shared.and_then(|()| make_names_durable(store)) {
            // The file is not used, because nobody would make its name durable then.
            let _ = fs.remove_file(&path);
            return Err(error);
        }
        let mut made = JournalFile { store: Arc::clone(store), id, file: Some(file), signed_at: None, used: 0 };
        made.sign(&[])?;
        Ok(Some(made))
    }

    /// Makes the file begin with this process's line and gives it its full length, while no lock is a link to it yet.
    /// `bytes` is its present content. Another store of this process may have written the line without syncing it.
    fn sign(&mut self, bytes: &[u8]) -> Result<()> {
        let mut start = slot_start(self.id).unwrap_or_default().into_bytes();
        assert!(!start.is_empty() && start.len() <= ENTRY_AT, "a batch needs signed locks");
        start.resize(if bytes.len() < LEN { LEN } else { ENTRY_AT }, 0);
        let (sync, now) = (self.store.options.sync, Some(UNSYNCED_LINES.load(Acquire)));
        if bytes.starts_with(&start) && (!sync || self.signed_at == now) {
            return Ok(());
        }
        self.signed_at = None;
        if !sync {
            UNSYNCED_LINES.fetch_add(1, Release);
        }
        // A line that is there already is written anew before it is synced, because an earlier sync may have failed.
        // The kernel then drops the bytes, and reports success for the next sync unless they are written again.
        self.file().overwrite(&start, 0)?;
        self.sync(sync).inspect_err(|_| {
            UNSYNCED_LINES.fetch_add(1, Release);
        })?;
        self.signed_at = now.filter(|_| sync);
        Ok(())
    }

    /// The id by which the locks of the batch refer to this file.
    pub(crate) fn id(&self) -> BatchId {
        self.id
    }

    /// The file to which the batch's locks are links.
    pub(crate) fn path(&self) -> &Path {
        self.file().path()
    }

    fn file(&self) -> &File {
        self.file.as_ref().expect("it is open until it is dropped")
    }

    /// Writes the entry. On success the entry is in the file, and survives a loss of power if it is `synced`. After an
    /// error it may or may not be in the file.
    pub(crate) fn place(&mut self, entry: &JournalEntry) -> Result<()> {
        assert!(self.used == 0, "a journal file has one entry at a time");
        let bytes = entry.encode();
        self.used = bytes.len();
        self.file().overwrite(&bytes, ENTRY_AT as u64)?;
        self.sync(entry.synced)
    }

    /// Overwrites the entry with zeros. On success the entry does not reappear, not even after a loss of power if refs
    /// are synced.
    pub(crate) fn wipe(&mut self) -> Result<()> {
        if self.used > 0 {
            self.file().overwrite(&vec![0; self.used], ENTRY_AT as u64)?;
            self.sync(self.store.options.sync)?;
            self.used = 0;
        }
        Ok(())
    }

    fn sync(&self, sync: bool) -> Result<()> {
        if sync {
            self.file().sync_data()?;
        } else {
            self.store.options.fs.deliver(self.file())?;
        }
        Ok(())
    }
}

impl Drop for JournalFile {
    fn drop(&mut self) {
        self.file = None;
        // A file with an entry is left to recovery.
        if self.used == 0 {
            self.store.journal_files.free().push_front((self.id, self.signed_at));
        }
    }
}

/// Returns whether the file still has the name under which it was opened, and no other. Recovery may have removed the
/// file. Another name is a lock, left by a process that died before it wrote its entry or back after a loss of power,
/// which would look like a lock of the next batch.
fn is_alone_in_place(store: &Store, file: &File, stat: &Stat) -> Result<bool> {
    let now = store.options.fs.find_link(file.path())?;
    Ok(now.is_some_and(|now| now.file_id() == stat.file_id()) && file.names()? == 1)
}

/// Makes the names of all journal files and of their folder durable, if refs are synced. The process that created a
/// file may have died before it synced the file's name.
fn make_names_durable(store: &Store) -> Result<()> {
    let (fs, journal_files) = (&store.options.fs, &store.journal_files);
    if !store.options.sync {
        return Ok(());
    }
    fs.sync_dir(&journal::folder(store))?;
    if !journal_files.has_folder.load(Acquire) {
        fs.sync_dir(&store.layout.common_dir)?;
        journal_files.has_folder.store(true, Release);
    }
    Ok(())
}

/// Removes the journal files that a batch could take now: no process owns them, and they have no entry.
pub(crate) fn remove_free(store: &Arc<Store>) -> Result<()> {
    for id in journal::files(store)? {
        if let Attempt::Taken(file) = JournalFile::take_one(store, id, Some(UNSYNCED_LINES.load(Acquire)))? {
            store.options.fs.remove_file(file.path())?;
        }
    }
    store.journal_files.free().clear();
    Ok(())
}
