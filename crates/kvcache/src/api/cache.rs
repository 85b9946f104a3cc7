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

/// An open cache, usable from any number of threads at once.
///
/// Dropping the handle closes the cache but loses the error of the last write; call [`Cache::close`] to see it.
pub struct Cache {
    pub(crate) store: Arc<Store>,
    pub(crate) reclaim: Arc<Reclaim>,
    pub(crate) sealer: Sealer,
    /// How long a buffered put waits for room.
    pub(crate) put_timeout: Duration,
    pub(crate) workers: Lock<Vec<JoinHandle<()>>>,
    /// Held as long as the cache is open for writing.
    pub(crate) lock_file: Lock<Option<File>>,
    pub(crate) read_only: bool,
    pub(crate) notices: Vec<Error>,
}
impl Cache {
    /// Does the work that the background threads would do, for tests that must know what happens when.
    #[doc(hidden)]
    pub fn work(&self) -> Result<()> {
        while crate::reclaim::worker::round(&self.reclaim)? | self.reclaim.delete_emptied()? {}
        Ok(())
    }

    /// Reads the next part of the index of a cache that [`Cache::open_unread`] opened, for tests. Returns false if none
    /// is left afterwards.
    #[doc(hidden)]
    pub fn read_on(&self) -> bool {
        self.reclaim.load_step()
    }

    /// Ends without the work of [`Cache::close`], as a killed process does, for tests.
    #[doc(hidden)]
    pub fn abandon(self) {
        self.reclaim.calls.close();
    }

    /// Returns numbers about the entries and about the operations since the cache was opened, in constant time.
    pub fn stats(&self) -> Stats {
        self.store.view.counters.read()
    }

    /// Returns the statistics that a process with the cache in `dir` open for writing last published. While such a
    /// process runs, its disk takes writes and it frees space as fast as puts take it, they are at most about five
    /// seconds old, because the process publishes changes every four seconds. A process that has just opened the cache
    /// may publish nothing before its first operation, so the numbers may still be those of the process before. Returns
    /// `None` if there are none.
    ///
    /// # Errors
    ///
    /// [`Error::File`] if the file cannot be read.
    pub fn reported_stats(dir: impl AsRef<Path>) -> Result<Option<Stats>> {
        report::read(&Fs::real(), dir.as_ref())
    }

    /// What was wrong with the files when the cache was opened; each is worth one line in a log.
    pub fn notices(&self) -> &[Error] {
        &self.notices
    }

    /// The last error of a write or sync since the cache was opened, as text; `None` if there was none.
    pub fn last_disk_error(&self) -> Option<String> {
        self.store.files.health.last_error()
    }

    /// The largest length of a key and its value together, in bytes: an eighth of the limit or less.
    pub fn largest_entry_bytes(&self) -> usize {
        self.store.space.largest_entry()
    }

    /// Bytes that an entry of this key and value length takes on disk, without encryption.
    pub fn cost_bytes(&self, key_len: usize, value_len: usize) -> u64 {
        record_cost(crate::format::record::record_len(key_len.saturating_add(value_len)))
    }

    pub(crate) fn check_writable(&self) -> Result<()> {
        if self.read_only {
            Err(Error::ReadOnly)
        } else if self.reclaim.calls.is_closed() {
            Err(Error::Closed)
        } else {
            Ok(())
        }
    }

    /// Stops the background threads, writes what is in memory to the files, saves the index for the next start if
    /// possible, and releases the lock of the folder. A saved index takes 14 bytes an entry, for which the limit must
    /// have room. Reads still work afterwards. The call blocks until the operating system has taken everything. Closing
    /// a cache that was opened read-only does nothing, nor does a second call, which may return before the first one
    /// does.
    ///
    /// # Errors
    ///
    /// [`Error::File`] and [`Error::WriteFailed`] if the disk fails. The cache then deletes all its entries, unless the
    /// disk fails at that too, so that no value comes back that was replaced or removed. On a full disk it deletes
    /// older entries, all of them if need be, and returns no error.
    pub fn close(&self) -> Result<()> {
        if self.read_only || self.reclaim.calls.is_closed() {
            return Ok(());
        }
        self.reclaim.finish_loading();
        let losses = self.store.files.health.losses();
        if self.reclaim.calls.close() {
            return Ok(());
        }
        debug_assert!(!holds_log(), "the threads need the log's lock to end");
        // A thread that holds the log's lock finishes first, and later changes fail, so that nothing is appended after
        // the last write below. The files may then belong to another handle.
        drop(self.store.log());
        self.reclaim.finish_compaction();
        for worker in self.workers.lock().drain(..) {
            let _ = worker.join();
        }
        // A failing disk may have left removals to the next run.
        let _ = self.reclaim.keep_removals();
        // Short-lived processes would otherwise never merge their small segments.
        let _ = self.reclaim.merge_if_crowded();
        let written = self.reclaim.begin_anew_if_lost().and_then(|_| self.write_last());
        // A background thread or the merge may have met the failed sync, after which there was nothing left to write.
        let health = &self.store.files.health;
        let written = if health.losses() == losses { written } else { written.and(Err(health.error())) };
        let _ = self.reclaim.report();
        if written.is_ok() {
            // Without a saved index the next start takes longer, which is no reason to fail.
            let _ = self.store.save_index();
        }
        self.reclaim.end();
        *self.lock_file.lock() = None;
        written
    }
}

impl Drop for Cache {
    fn drop(&mut self) {
        // A caller that wants to see the error calls `close`.
        let _ = self.close();
    }
}

impl std::fmt::Debug for Cache {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Cache({})", self.store.files.dir.display())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Options;

    #[test]
    fn a_call_that_waited_for_its_turn_until_the_cache_was_closed_changes_no_file() {
        let dir = tempfile::tempdir().expect("there is room");
        let open = || Cache::open(dir.path().join("cache"), Options::new(Options::SMALLEST_LIMIT_BYTES));
        let cache = open().expect("it is new");
        cache.put(b"key", b"value").expect("there is room");
        cache.close().expect("there is room");
        let next = open().expect("it was closed");
        assert!(matches!(cache.reclaim.free_one(), Err(Error::Closed)));
        assert!(matches!(cache.reclaim.wipe(), Err(Error::Closed)));
        assert!(matches!(cache.store.write_step(&mut cache.store.files.turn()), Err(Error::Closed)));
        let end = cache.store.log().end();
        assert!(matches!(cache.store.promise(end), Err(Error::Closed)));
        next.close().expect("there is room");
        assert!(open().expect("it was closed").get(b"key").is_some());
    }
}
