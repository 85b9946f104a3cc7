use crate::{
    error::Error,
    sync::{AtomicBool, Lock, Ordering, Rank},
};
use std::time::{Duration, Instant};

/// What the disk said last.
pub(crate) struct Health {
    last_error: Lock<Option<String>>,
    /// Since when every write to a segment fails.
    failing_since: Lock<Option<Instant>>,
    /// Whether the last attempt to bring something to stable storage failed.
    sync_fails: AtomicBool,
    /// Whether a segment is lost.
    lost: AtomicBool,
}

impl Health {
    pub(crate) fn new() -> Self {
        Health {
            last_error: Lock::new(Rank::Leaf, None),
            failing_since: Lock::new(Rank::Leaf, None),
            sync_fails: AtomicBool::new(false),
            lost: AtomicBool::new(false),
        }
    }

    /// A segment was written, or not.
    pub(crate) fn wrote(&self, is_done: bool) {
        let mut since = self.failing_since.lock();
        *since = (!is_done).then(|| since.unwrap_or_else(Instant::now));
    }

    /// Whether the disk has taken nothing for so long, and was asked.
    pub(crate) fn writes_fail_for(&self, time: Duration) -> bool {
        self.failing_since.lock().is_some_and(|since| since.elapsed() >= time)
    }

    /// Something was brought to stable storage, or not.
    pub(crate) fn synced(&self, is_done: bool) {
        self.sync_fails.store(!is_done, Ordering::Relaxed);
    }

    /// Whether nothing reached stable storage when that was last tried.
    pub(crate) fn sync_fails(&self) -> bool {
        self.sync_fails.load(Ordering::Relaxed)
    }

    /// A segment is lost: see [`Segment::sync`](super::segment::Segment::sync).
    pub(crate) fn lose(&self) {
        self.lost.store(true, Ordering::Release);
    }

    /// Whether a segment is lost, so that nothing is durable any more before all of them are void.
    pub(crate) fn has_lost(&self) -> bool {
        self.lost.load(Ordering::Acquire)
    }

    /// All segments of before are void.
    pub(crate) fn begin_anew(&self) {
        self.lost.store(false, Ordering::Release);
    }

    pub(crate) fn failed(&self, error: &refdb_vfs::Error) {
        *self.last_error.lock() = Some(error.to_string());
    }

    pub(crate) fn last_error(&self) -> Option<String> {
        self.last_error.lock().clone()
    }

    /// The error for a writer that waited and the disk does not take what it wrote.
    pub(crate) fn error(&self) -> Error {
        Error::Disk(self.last_error().unwrap_or_else(|| "it is too slow".into()))
    }
}
