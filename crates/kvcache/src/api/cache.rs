use crate::{
    error::{Error, Result},
    format::seal::Sealer,
    log::{space::record_cost, store::Store},
    reclaim::{report, steps::Reclaim},
    stats::Stats,
    sync::{Lock, holds_log},
};
use refdb_vfs::{File, Fs};
use std::{path::Path, sync::Arc, thread::JoinHandle, time::Duration};

/// An open cache. All methods may be called from any number of threads. Dropping it closes it.
pub struct Cache {
    pub(crate) store: Arc<Store>,
    pub(crate) reclaim: Arc<Reclaim>,
    pub(crate) sealer: Sealer,
    /// How long a put waits for room in memory.
    pub(crate) patience: Duration,
    pub(crate) workers: Lock<Vec<JoinHandle<()>>>,
    /// Held as long as the cache is open for writing.
    pub(crate) lock_file: Lock<Option<File>>,
    pub(crate) read_only: bool,
    pub(crate) notices: Vec<Error>,
}
impl Cache {
    /// Does what the threads would do by now. For tests that need to know what happens when.
    #[doc(hidden)]
    pub fn work(&self) -> Result<()> {
        while crate::reclaim::worker::round(&self.reclaim)? | self.reclaim.delete_condemned()? {}
        Ok(())
    }

    /// Lets go of everything as a killed process does. For tests.
    #[doc(hidden)]
    pub fn abandon(self) {
        self.reclaim.calls.close();
    }

    /// What it has and did. Costs the same however many entries there are.
    pub fn stats(&self) -> Stats {
        self.store.view.counters.read()
    }

    /// The last word, at most some seconds old, of the process that writes to the cache in a folder. None if it never
    /// gave one.
    pub fn reported_stats(dir: impl AsRef<Path>) -> Result<Option<Stats>> {
        report::read(&Fs::real(), dir.as_ref())
    }

    /// Changes the age at which entries become misses.
    pub fn set_max_age(&self, max_age: Option<Duration>) {
        self.store.ages.set_max(max_age);
    }

    /// What was wrong with the files when it was opened: each is worth one line in a log.
    pub fn notices(&self) -> &[Error] {
        &self.notices
    }

    /// What the disk said when it last failed.
    pub fn last_disk_error(&self) -> Option<String> {
        self.store.files.health.last_error()
    }

    /// The largest key and value together, in bytes.
    pub fn largest_entry_bytes(&self) -> usize {
        self.store.space.largest_entry()
    }

    /// Bytes that an entry takes on disk.
    pub fn cost_bytes(&self, key_len: usize, value_len: usize) -> u64 {
        record_cost(crate::format::record::record_len(key_len.saturating_add(value_len)))
    }

    pub(crate) fn check_writable(&self) -> Result<()> {
        match () {
            () if self.read_only => Err(Error::ReadOnly),
            () if self.reclaim.calls.is_closed() => Err(Error::Closed),
            () => Ok(()),
        }
    }

    /// Stops the threads, writes its memory to disk and lets go of the lock. Reads still work. Closing again does nothing.
    pub fn close(&self) -> Result<()> {
        if self.read_only || self.reclaim.calls.close() {
            return Ok(());
        }
        debug_assert!(!holds_log(), "the threads need the log's lock to end");
        // Who has the lock or the turn may end; who comes later is told. So nothing is written behind the last write,
        // when the files may be another handle's.
        drop(self.store.log());
        self.reclaim.finish_compaction();
        for worker in self.workers.lock().drain(..) {
            let _ = worker.join();
        }
        // A process that lives for a moment only leaves this to nobody else.
        let _ = self.reclaim.merge_if_crowded();
        let written = self.reclaim.begin_anew_if_lost().and_then(|_| self.write_last());
        let _ = self.reclaim.report();
        *self.lock_file.lock() = None;
        written
    }
}

impl Drop for Cache {
    fn drop(&mut self) {
        // A caller that wants to know calls close.
        let _ = self.close();
    }
}

impl std::fmt::Debug for Cache {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Cache({})", self.store.files.dir.display())
    }
}
