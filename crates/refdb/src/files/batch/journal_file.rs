//! A file for the record of one batch after the other, written over zeros. Who has the file locked by `flock(2)` has the slot. One
//! that holds a record has no owner any more, or its batch is under way.

use crate::Result;
use crate::files::{
    batch::{
        entry::{ENTRY_AT, JournalEntry, entry_in_journal_file},
        journal::{self, FILE_LEN_MAX_BYTES},
    },
    loose::folders,
    store::Store,
};
use refdb_vfs::{BatchId, File, Stat, slot_line};
use std::{
    path::Path,
    sync::{
        Arc,
        atomic::Ordering::{Acquire, Release},
    },
};

/// Most slots stay as long as this. A longer record makes its slot longer.
const LEN: usize = 4096;
const _: () = assert!(LEN > ENTRY_AT, "there is room for a record");

/// A slot that is ours. Its record comes and goes, and neither changes a folder or a length. So each waits for the disk once. The
/// batch's locks are names of the file. It begins with the line that signs them, so no lock has a content that could be lost.
pub(crate) struct JournalFile {
    store: Arc<Store>,
    id: BatchId,
    /// `None` at the end.
    file: Option<File>,
    /// How many bytes of the record's place are not zeros.
    used: usize,
}

/// Why a slot that is there was not had.
enum Missed {
    /// Another process has it for now.
    Busy,
    /// It holds a record, has a lock or is none.
    Unfit,
}

impl JournalFile {
    /// Takes a slot that has no record, or makes one. `None` where locks cannot be signed by one.
    pub(crate) fn take(store: &Arc<Store>) -> Result<Option<Self>> {
        let journal_files = &store.journal_files;
        if !store.options.fs.is_local(&store.layout.common_dir)? {
            return Ok(None);
        }
        if !journal_files.is_listed.load(Acquire) {
            let listed = journal::slots(store)?;
            if !listed.is_empty() {
                make_names_durable(store)?;
            }
            journal_files.free().extend(listed);
            journal_files.is_listed.store(true, Release);
        }
        let tries = journal_files.free().len();
        for _ in 0..tries {
            let Some(id) = journal_files.free().pop_front() else { break };
            match Self::take_one(store, id)? {
                Ok(slot) => return Ok(Some(slot)),
                Err(Missed::Busy) => journal_files.free().push_back(id),
                Err(Missed::Unfit) => {}
            }
        }
        Self::make(store)
    }

    fn take_one(store: &Arc<Store>, id: BatchId) -> Result<std::result::Result<Self, Missed>> {
        let fs = &store.options.fs;
        // One that went, or that belongs to another user.
        let Ok(file) = fs.open_to_overwrite(&journal::path(store, id)) else { return Ok(Err(Missed::Unfit)) };
        let stat = file.stat()?;
        if !stat.is_file() || stat.len_bytes > FILE_LEN_MAX_BYTES {
            return Ok(Err(Missed::Unfit));
        }
        if !file.try_lock()? {
            return Ok(Err(Missed::Busy));
        }
        let bytes = file.read_len(stat.len_bytes)?;
        if !is_alone_in_place(store, &file, &stat)? || entry_in_journal_file(&bytes).is_some() {
            return Ok(Err(Missed::Unfit));
        }
        let used = bytes.iter().rposition(|byte| *byte != 0).map_or(0, |last| (last + 1).saturating_sub(ENTRY_AT));
        let mut slot = JournalFile { store: Arc::clone(store), id, file: Some(file), used };
        slot.wipe()?;
        slot.sign(&bytes)?;
        Ok(Ok(slot))
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
            // Somebody may have removed the one whose name was durable.
            store.journal_files.has_folder.store(false, Release);
        }
        let path = journal::path(store, id);
        let file = fs.create_new(&path, 0o666)?;
        // Another process may have found it at once. It has it then.
        if !matches!(file.try_lock(), Ok(true)) {
            return Ok(None);
        }
        folders::share(fs, &path, options.sharing, false)?;
        let slot = JournalFile { store: Arc::clone(store), id, file: Some(file), used: 0 };
        slot.sign(&[])?;
        if options.sync {
            make_names_durable(store)?;
        }
        Ok(Some(slot))
    }

    /// Has the slot begin with this process's line, and be as long as it shall be. No lock rests on it meanwhile.
    fn sign(&self, bytes: &[u8]) -> Result<()> {
        let mut start = slot_line(self.id).unwrap_or_default().into_bytes();
        assert!(!start.is_empty() && start.len() <= ENTRY_AT, "where no lock can be signed there is no batch");
        start.resize(if bytes.len() < LEN { LEN } else { ENTRY_AT }, 0);
        if !bytes.starts_with(&start) {
            self.file().overwrite(&start, 0)?;
            self.sync(self.store.options.sync)?;
        }
        Ok(())
    }

    /// What its locks call it.
    pub(crate) fn id(&self) -> BatchId {
        self.id
    }

    /// The file, of which its locks are names.
    pub(crate) fn path(&self) -> &Path {
        self.file().path()
    }

    fn file(&self) -> &File {
        self.file.as_ref().expect("it is open until it is dropped")
    }

    /// Writes the record. When it returns without an error the record is there, after a loss of power too where it is synced.
    /// After an error it may be there or not.
    pub(crate) fn place(&mut self, intent: &JournalEntry) -> Result<()> {
        assert!(self.used == 0, "a slot has one record at a time");
        let bytes = intent.encode();
        self.used = bytes.len();
        self.file().overwrite(&bytes, ENTRY_AT as u64)?;
        self.sync(intent.synced)
    }

    /// Removes the record. When it returns without an error the record does not come back.
    pub(crate) fn wipe(&mut self) -> Result<()> {
        if self.used > 0 {
            self.file().overwrite(&vec![0; self.used], ENTRY_AT as u64)?;
            self.sync(self.store.options.sync)?;
            self.used = 0;
        }
        Ok(())
    }

    fn sync(&self, sync: bool) -> Result<()> {
        if sync { Ok(self.file().sync_data()?) } else { Ok(()) }
    }
}

impl Drop for JournalFile {
    fn drop(&mut self) {
        self.file = None;
        // One with a record is left to who settles it.
        if self.used == 0 {
            self.store.journal_files.free().push_front(self.id);
        }
    }
}

/// Whether the file is where it was opened, since who settles removes slots, and is no lock. A lock that came back after a loss of
/// power would look as if it were ours.
fn is_alone_in_place(store: &Store, file: &File, stat: &Stat) -> Result<bool> {
    let now = store.options.fs.find_link(file.path())?;
    Ok(now.is_some_and(|now| now.file_id() == stat.file_id()) && file.names()? == 1)
}

/// Brings the names of slots to stable storage, and that of their folder. Another process may have made them that died before.
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

/// Removes the slots without a record that no process has.
pub(crate) fn remove_free(store: &Arc<Store>) -> Result<()> {
    for id in journal::slots(store)? {
        if let Ok(slot) = JournalFile::take_one(store, id)? {
            store.options.fs.remove_file(slot.path())?;
        }
    }
    store.journal_files.free().clear();
    Ok(())
}
