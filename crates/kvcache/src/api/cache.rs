use crate::{
    api::report,
    error::{Error, Result},
    log::space::record_cost,
    shared::Handle,
    stats::Stats,
    sync::{Mutex, Ordering, lock},
};
use refdb_vfs::{File, Fs};
use std::{path::Path, thread::JoinHandle, time::Duration};

/// An open cache. All methods may be called from any number of threads. Dropping it closes it.
pub struct Cache {
    pub(crate) shared: Handle,
    pub(crate) workers: Mutex<Vec<JoinHandle<()>>>,
    /// Held as long as the cache is open for writing.
    pub(crate) lock_file: Mutex<Option<File>>,
    pub(crate) read_only: bool,
    pub(crate) notices: Vec<Error>,
}
impl Cache {
    /// Does what the threads would do by now. For tests that need to know what happens when.
    #[doc(hidden)]
    pub fn work(&self) -> Result<()> {
        while crate::reclaim::worker::round(&self.shared)? | self.shared.delete_condemned()? {}
        Ok(())
    }

    /// Lets go of everything as a killed process does. For tests.
    #[doc(hidden)]
    pub fn abandon(self) {
        self.shared.closed.store(true, Ordering::Release);
    }

    /// What it has and did. Costs the same however many entries there are.
    pub fn stats(&self) -> Stats {
        self.shared.counters.read()
    }

    /// What the process that writes to the cache in a folder said last, at most some seconds ago; None if it never did.
    pub fn reported_stats(dir: &Path) -> Result<Option<Stats>> {
        report::read(&Fs::real(), dir)
    }

    /// Changes the age at which entries become misses.
    pub fn set_max_age(&self, max_age: Option<Duration>) {
        self.shared.ages.set_max(max_age);
    }

    /// What was wrong with the files when it was opened: each is worth one line in a log.
    pub fn notices(&self) -> &[Error] {
        &self.notices
    }

    /// What the disk said when it last failed.
    pub fn last_disk_error(&self) -> Option<String> {
        lock(&self.shared.disk_error).clone()
    }

    /// The largest key and value together, in bytes.
    pub fn largest_entry_bytes(&self) -> usize {
        self.shared.space.largest_entry()
    }

    /// Bytes that an entry takes on disk.
    pub fn cost_bytes(&self, key_len: usize, value_len: usize) -> u64 {
        record_cost(crate::format::record::record_len(key_len.saturating_add(value_len)))
    }

    pub(crate) fn check_writable(&self) -> Result<()> {
        match () {
            () if self.read_only => Err(Error::ReadOnly),
            () if self.shared.closed.load(Ordering::Acquire) => Err(Error::Closed),
            () => Ok(()),
        }
    }

    /// Stops the threads, writes what is in memory and lets go of the lock. Reads still work. Closing again does nothing.
    pub fn close(&self) -> Result<()> {
        if self.read_only || self.shared.closed.swap(true, Ordering::AcqRel) {
            return Ok(());
        }
        self.shared.wake();
        self.shared.wake_syncer();
        for worker in lock(&self.workers).drain(..) {
            let _ = worker.join();
        }
        // A process that lives for a moment only leaves this to nobody else.
        let _ = self.shared.merge_if_crowded();
        let end = {
            let mut log = lock(&self.shared.log);
            let _ = log.pay_at(&self.shared.view(), self.shared.ages.now_ms());
            // So that the next start reads a footer and not the records.
            let _ = log.seal_active(&self.shared.view());
            log.end()
        };
        let written = self.shared.write_through(end);
        let _ = self.shared.report();
        *lock(&self.lock_file) = None;
        written
    }
}

impl Drop for Cache {
    fn drop(&mut self) {
        // Whoever wants to know calls close.
        let _ = self.close();
    }
}

impl std::fmt::Debug for Cache {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Cache({})", self.shared.dir.display())
    }
}
