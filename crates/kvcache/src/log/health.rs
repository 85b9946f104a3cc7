use crate::{
    error::Error,
    sync::{AtomicBool, AtomicU64, Lock, Ordering, Rank},
};
use std::time::{Duration, Instant};

/// Health of the disk, as the last operations showed it.
pub(crate) struct Health {
    last_error: Lock<Option<String>>,
    /// The moment since which every write to a segment has failed; `None` if the last write succeeded or none was
    /// tried.
    failing_since: Lock<Option<Instant>>,
    /// Whether the last [`Store::sync_through`](super::store::Store::sync_through) failed, in a write or in a sync.
    sync_fails: AtomicBool,
    /// Whether a segment is lost, because its sync failed.
    lost: AtomicBool,
    /// How often a lost segment has emptied the cache.
    losses: AtomicU64,
}

impl Health {
    pub(crate) fn new() -> Self {
        Health {
            last_error: Lock::new(Rank::Leaf, None),
            failing_since: Lock::new(Rank::Leaf, None),
            sync_fails: AtomicBool::new(false),
            lost: AtomicBool::new(false),
            losses: AtomicU64::new(0),
        }
    }

    /// Notes whether a write to a segment succeeded.
    pub(crate) fn wrote(&self, is_done: bool) {
        let mut since = self.failing_since.lock();
        *since = (!is_done).then(|| since.unwrap_or_else(Instant::now));
    }

    /// Returns whether every write has failed for at least `time`.
    pub(crate) fn writes_fail_for(&self, time: Duration) -> bool {
        self.failing_since.lock().is_some_and(|since| since.elapsed() >= time)
    }

    /// Notes whether a [`Store::sync_through`](super::store::Store::sync_through) succeeded.
    pub(crate) fn synced(&self, is_done: bool) {
        self.sync_fails.store(!is_done, Ordering::Relaxed);
    }

    /// Returns whether the last [`Store::sync_through`](super::store::Store::sync_through) failed.
    pub(crate) fn sync_fails(&self) -> bool {
        self.sync_fails.load(Ordering::Relaxed)
    }

    /// Notes that a segment is lost; see [`Segment::sync`](super::segment::Segment::sync).
    pub(crate) fn lose(&self) {
        self.lost.store(true, Ordering::Release);
    }

    /// Returns whether a segment is lost, so that nothing can be durable before all existing segments are void.
    pub(crate) fn has_lost(&self) -> bool {
        self.lost.load(Ordering::Acquire)
    }

    /// Notes that all earlier segments are void, the lost one included.
    pub(crate) fn begin_anew(&self) {
        if self.lost.swap(false, Ordering::AcqRel) {
            self.losses.fetch_add(1, Ordering::AcqRel);
        }
    }

    /// How often a lost segment has emptied the cache.
    pub(crate) fn losses(&self) -> u64 {
        self.losses.load(Ordering::Acquire)
    }

    pub(crate) fn failed(&self, error: &refdb_vfs::Error) {
        *self.last_error.lock() = Some(error.to_string());
    }

    pub(crate) fn last_error(&self) -> Option<String> {
        self.last_error.lock().clone()
    }

    /// The error for a writer that waited for the disk in vain.
    pub(crate) fn error(&self) -> Error {
        Error::WriteFailed { last_error: self.last_error() }
    }
}
