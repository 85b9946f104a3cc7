use crate::sync::{AtomicBool, Ordering};
use std::{sync::OnceLock, thread::Thread};

/// Wakes the background threads and tells them to end.
pub(crate) struct Calls {
    /// Whether the worker runs or takes a short rest, after which it looks for work by itself, so that it need not be
    /// woken.
    awake: AtomicBool,
    worker: OnceLock<Thread>,
    syncer: OnceLock<Thread>,
    closed: AtomicBool,
}

impl Calls {
    pub(super) fn new() -> Self {
        Calls {
            awake: AtomicBool::new(true),
            worker: OnceLock::new(),
            syncer: OnceLock::new(),
            closed: AtomicBool::new(false),
        }
    }

    pub(super) fn set_worker(&self, thread: Thread) {
        let is_new = self.worker.set(thread).is_ok();
        debug_assert!(is_new, "a cache starts its threads once");
    }

    pub(super) fn set_syncer(&self, thread: Thread) {
        let is_new = self.syncer.set(thread).is_ok();
        debug_assert!(is_new, "a cache starts its threads once");
    }

    /// Wakes the worker from a long rest, because there is something to do. A short rest is not cut short.
    pub(crate) fn nudge(&self) {
        if !self.awake.load(Ordering::Relaxed) {
            self.wake();
        }
    }

    /// Wakes the worker even from a short rest.
    pub(crate) fn wake(&self) {
        self.awake.store(true, Ordering::Relaxed);
        if let Some(worker) = self.worker.get() {
            worker.unpark();
        }
    }

    /// Notes whether the worker runs or takes a short rest, as opposed to a long one.
    pub(super) fn set_awake(&self, awake: bool) {
        self.awake.store(awake, Ordering::SeqCst);
    }

    /// Wakes the syncer, which deletes emptied segments.
    pub(crate) fn wake_syncer(&self) {
        if let Some(syncer) = self.syncer.get() {
            syncer.unpark();
        }
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.closed.load(Ordering::Acquire)
    }

    /// Tells the threads to end; returns whether that was done before.
    pub(crate) fn close(&self) -> bool {
        let before = self.closed.swap(true, Ordering::AcqRel);
        self.wake();
        self.wake_syncer();
        before
    }
}
