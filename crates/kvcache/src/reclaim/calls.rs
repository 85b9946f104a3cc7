use crate::sync::{AtomicBool, Ordering};
use std::{sync::OnceLock, thread::Thread};

/// How the background threads are called, and told to end.
pub(crate) struct Calls {
    /// The worker needs no wake-up call.
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

    pub(super) fn worker_is(&self, thread: Thread) {
        let is_new = self.worker.set(thread).is_ok();
        debug_assert!(is_new, "a cache starts its threads once");
    }

    pub(super) fn syncer_is(&self, thread: Thread) {
        let is_new = self.syncer.set(thread).is_ok();
        debug_assert!(is_new, "a cache starts its threads once");
    }

    /// Tells the worker that there is something to do, unless it is at work.
    pub(crate) fn nudge(&self) {
        if !self.awake.load(Ordering::Relaxed) {
            self.wake();
        }
    }

    /// Calls the worker even if it is only resting for a moment.
    pub(crate) fn wake(&self) {
        self.awake.store(true, Ordering::Relaxed);
        if let Some(worker) = self.worker.get() {
            worker.unpark();
        }
    }

    /// From now on calls are heard, or there is nothing to call for.
    pub(super) fn set_awake(&self, awake: bool) {
        self.awake.store(awake, Ordering::SeqCst);
    }

    /// Tells the syncer that a segment is condemned.
    pub(crate) fn wake_syncer(&self) {
        if let Some(syncer) = self.syncer.get() {
            syncer.unpark();
        }
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.closed.load(Ordering::Acquire)
    }

    /// Tells both threads to end; true if they were told before.
    pub(crate) fn close(&self) -> bool {
        let before = self.closed.swap(true, Ordering::AcqRel);
        self.wake();
        self.wake_syncer();
        before
    }
}
