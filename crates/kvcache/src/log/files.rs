use crate::{
    log::health::Health,
    sync::{AtomicBool, Held, Lock, Ordering, Rank, holds_log},
};
use refdb_vfs::Fs;
use std::{
    io,
    path::{Path, PathBuf},
};

/// The file whose lock the process has that writes.
pub(crate) const LOCK: &str = "lock";

/// The file that says that a write was promised to survive a power loss.
pub(crate) const PROMISE: &str = "promised";

/// The right to write to segments' files and to delete them, which one thread at a time has.
pub(crate) struct Turn(());

/// The folder of a cache: who may write to its files, what the disk said, and what was promised.
pub(crate) struct Files {
    pub(crate) fs: Fs,
    pub(crate) dir: PathBuf,
    /// Whether readers see the files mapped.
    pub(crate) maps: bool,
    pub(crate) health: Health,
    /// Which file our lock is; `None` for who only reads.
    lock_id: Option<(u64, u64)>,
    turn: Lock<Turn>,
    /// Whether a write was ever promised to survive a power loss, in this process or before.
    promised: AtomicBool,
    /// Whether a segment was deleted and the folder not brought to stable storage since.
    unlinked: AtomicBool,
}

impl Files {
    pub(crate) fn new(fs: Fs, dir: PathBuf, maps: bool, promised: bool, lock_id: Option<(u64, u64)>) -> Self {
        Files {
            fs,
            dir,
            maps,
            health: Health::new(),
            lock_id,
            turn: Lock::new(Rank::Files, Turn(())),
            promised: AtomicBool::new(promised),
            unlinked: AtomicBool::new(false),
        }
    }

    /// Whether the folder says that a write was promised to survive a power loss.
    pub(crate) fn promised_in(fs: &Fs, dir: &Path) -> bool {
        !matches!(fs.stat(&dir.join(PROMISE)), Err(error) if error.is_not_found())
    }

    /// Fails if our lock file is not there. Where it is another's, the folder was deleted and made anew, and the files there are
    /// that process's. Where there is none, the folder is gone, be it for a while. A file that is not found then may be back later.
    pub(crate) fn check_ours(&self) -> refdb_vfs::Result<()> {
        debug_assert!(self.lock_id.is_some(), "who only reads writes nothing");
        debug_assert!(!holds_log(), "the log's lock is held for moments, not for a disk");
        let path = self.dir.join(LOCK);
        let why = match self.fs.find(&path)? {
            Some(now) if Some(now.file_id()) == self.lock_id => return Ok(()),
            Some(_) => "another process has made the cache's folder anew; restart this one",
            None => "somebody has deleted the cache's folder or moved it away; bring it back or restart this process",
        };
        Err(refdb_vfs::Error { operation: "write beside", path, source: io::Error::other(why) })
    }

    /// Waits for the turn to write.
    pub(crate) fn turn(&self) -> Held<'_, Turn> {
        self.turn.lock()
    }

    /// The turn to write, unless another thread has it.
    pub(crate) fn try_turn(&self) -> Option<Held<'_, Turn>> {
        self.turn.try_lock()
    }

    /// Whether synced bytes must stay so when they are moved.
    pub(crate) fn has_promised(&self) -> bool {
        self.promised.load(Ordering::Acquire)
    }

    /// Notes for good that a write is promised to survive a loss of power. The turn keeps others from deleting without
    /// a sync meanwhile.
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

    /// To be told of each deleted segment.
    pub(super) fn note_unlinked(&self) {
        self.unlinked.store(true, Ordering::Release);
    }

    /// Brings the folder to stable storage, if there is something new in it or a segment was deleted.
    pub(super) fn sync_names(&self, is_new: bool) -> refdb_vfs::Result<()> {
        if !self.unlinked.swap(false, Ordering::AcqRel) && !is_new {
            return Ok(());
        }
        self.fs.sync_dir(&self.dir).inspect_err(|_| self.note_unlinked())
    }
}
