use crate::{
    error::{Error, Result},
    log::health::Health,
    sync::{AtomicBool, Held, Lock, Ordering, Rank, holds_log},
};
use refdb_vfs::Fs;
use std::{
    io,
    path::{Path, PathBuf},
};

/// Name of the file whose lock the writing process holds.
pub(crate) const LOCK: &str = "lock";

/// Name of the file whose existence says that some write was synced or was to be, so that durable bytes must stay
/// durable when they are moved.
pub(crate) const PROMISE: &str = "promised";

/// The right to write to the files of segments and to delete them, which one thread has at a time.
#[derive(Default)]
pub(crate) struct Turn {
    /// Whether the cache was closed to its end, so that the files may belong to another handle.
    pub(crate) has_ended: bool,
}

impl Turn {
    /// Fails if the cache was closed to its end while the caller waited for its turn.
    pub(super) fn check_open(&self) -> Result<()> {
        if self.has_ended { Err(Error::Closed) } else { Ok(()) }
    }
}

/// The folder of a cache: the right to write to its files, the health of the disk, and whether synced writes were ever
/// made.
pub(crate) struct Files {
    pub(crate) fs: Fs,
    pub(crate) dir: PathBuf,
    /// Whether readers map the files.
    pub(crate) maps: bool,
    pub(crate) health: Health,
    /// Identity of our lock file; `None` in a process that only reads.
    lock_id: Option<(u64, u64)>,
    turn: Lock<Turn>,
    /// Whether a write was ever synced or was to be, in this process or before.
    promised: AtomicBool,
    /// Whether the folder may have names of new segments, or lack those of deleted ones, that are not durable.
    names_changed: AtomicBool,
    /// The right to sync the folder, so that no thread relies on another's sync before that sync has ended.
    syncing_names: Lock<()>,
}

impl Files {
    pub(crate) fn new(fs: Fs, dir: PathBuf, maps: bool, promised: bool, lock_id: Option<(u64, u64)>) -> Self {
        Files {
            fs,
            dir,
            maps,
            health: Health::new(),
            lock_id,
            turn: Lock::new(Rank::Files, Turn::default()),
            promised: AtomicBool::new(promised),
            // A process that ended before may have left changes.
            names_changed: AtomicBool::new(true),
            syncing_names: Lock::new(Rank::Names, ()),
        }
    }

    /// Returns whether the folder says that a write was ever synced; true also if that cannot be found out.
    pub(crate) fn promised_in(fs: &Fs, dir: &Path) -> bool {
        !matches!(fs.stat(&dir.join(PROMISE)), Err(error) if error.is_not_found())
    }

    /// Fails unless our lock file is in the folder. If another lock file is there, another process has deleted and
    /// recreated the folder, and its files belong to that process. If there is none, the folder was deleted or moved
    /// away, perhaps for a while, so a file that is missing now may be back later.
    pub(crate) fn check_ours(&self) -> refdb_vfs::Result<()> {
        debug_assert!(self.lock_id.is_some(), "a process that only reads writes nothing");
        debug_assert!(!holds_log(), "no disk access happens under the log's lock");
        let path = self.dir.join(LOCK);
        let why = match self.fs.find(&path)? {
            Some(now) if Some(now.file_id()) == self.lock_id => return Ok(()),
            Some(_) => "another process has recreated the cache's folder; restart this one",
            None => "the cache's folder was deleted or moved away; bring it back or restart this process",
        };
        Err(refdb_vfs::Error { operation: "write beside", path, source: io::Error::other(why) })
    }

    /// Waits for the right to write.
    pub(crate) fn turn(&self) -> Held<'_, Turn> {
        self.turn.lock()
    }

    /// The right to write, unless another thread has it.
    pub(crate) fn try_turn(&self) -> Option<Held<'_, Turn>> {
        self.turn.try_lock()
    }

    /// Returns whether durable bytes must stay durable when they are moved.
    pub(crate) fn has_promised(&self) -> bool {
        self.promised.load(Ordering::Acquire)
    }

    /// Records in the folder that a write is about to be synced. The caller's right to write keeps other threads from
    /// deleting segments without a sync meanwhile.
    pub(super) fn promise(&self, _turn: &Turn) -> refdb_vfs::Result<()> {
        if self.has_promised() {
            return Ok(());
        }
        match self.fs.create_new(&self.dir.join(PROMISE), 0o600) {
            Err(error) if !error.is_exists() => return Err(error),
            _ => self.fs.sync_dir(&self.dir)?,
        }
        self.promised.store(true, Ordering::Release);
        Ok(())
    }

    /// Notes that a segment was created or deleted.
    pub(super) fn note_names(&self) {
        self.names_changed.store(true, Ordering::Release);
    }

    /// Syncs the folder if segments were created or deleted, or waits for another thread that does.
    pub(super) fn sync_names(&self) -> refdb_vfs::Result<()> {
        let _alone = self.syncing_names.lock();
        if !self.names_changed.swap(false, Ordering::AcqRel) {
            return Ok(());
        }
        self.fs.sync_dir(&self.dir).inspect_err(|_| self.note_names())
    }
}
