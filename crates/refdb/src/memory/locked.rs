//! The writer's lock, and a transaction that holds it.

use super::{snapshot::MemorySnapshot, state::State};
use crate::{Error, Locked, Misuse, RejectionReason, Result, Snapshot, backend::Steps};
use refdb_types::HashKind;
use refdb_vfs::{LockError, effective_user};
use std::{
    mem,
    sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError},
    thread::{self, ThreadId},
    time::{Duration, Instant},
};

/// The name that stands in error messages for the path of the lock, which has none.
const PLACE: &str = "refs in memory";

/// What all clones of a backend share.
#[derive(Debug)]
pub(super) struct Shared {
    pub(super) hash: HashKind,
    state: Mutex<Arc<State>>,
    writer: Mutex<Option<Writer>>,
    writer_left: Condvar,
}

/// The thread that holds the writer's lock, and since when.
#[derive(Debug)]
struct Writer {
    thread: ThreadId,
    since: Instant,
}

impl Shared {
    pub(super) fn new(hash: HashKind, state: State) -> Self {
        Shared { hash, state: Mutex::new(Arc::new(state)), writer: Mutex::default(), writer_left: Condvar::new() }
    }

    /// The present state. A state is never changed, only replaced.
    pub(super) fn state(&self) -> Arc<State> {
        Arc::clone(&self.state.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn writer(&self) -> MutexGuard<'_, Option<Writer>> {
        self.writer.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The lock of the only writer, released on drop.
pub(super) struct WriterLock {
    shared: Arc<Shared>,
}

impl WriterLock {
    /// Waits for the lock at most for the timeout. A thread that holds it already is refused at once, because it would
    /// wait for itself.
    pub(super) fn take(shared: &Arc<Shared>, timeout: Duration) -> Result<Self> {
        let begun = Instant::now();
        let mut writer = shared.writer();
        while let Some(holder) = &*writer {
            if holder.thread == thread::current().id() {
                return Err(Misuse::OwnLock { folder: PLACE.into() }.into());
            }
            let left = timeout.saturating_sub(begun.elapsed());
            if left.is_zero() {
                let age_seconds = holder.since.elapsed().as_secs();
                let held = LockError::Held { path: PLACE.into(), age_seconds, uid: effective_user(), by_us: true };
                return Err(Error::StackLocked(held));
            }
            let woken = shared.writer_left.wait_timeout(writer, left);
            writer = woken.unwrap_or_else(PoisonError::into_inner).0;
        }
        *writer = Some(Writer { thread: thread::current().id(), since: Instant::now() });
        drop(writer);
        Ok(WriterLock { shared: Arc::clone(shared) })
    }

    pub(super) fn into_locked(self) -> MemoryLocked {
        MemoryLocked { snapshot: MemorySnapshot::new(self.shared.state()), staged: State::default(), writer: self }
    }

    /// Makes this state the present one and releases the lock.
    pub(super) fn publish(self, state: State) {
        *self.shared.state.lock().unwrap_or_else(PoisonError::into_inner) = Arc::new(state);
    }
}

impl Drop for WriterLock {
    fn drop(&mut self) {
        *self.shared.writer() = None;
        self.shared.writer_left.notify_one();
    }
}

/// A transaction that holds the writer's lock, under which all refs stay as they are.
pub(super) struct MemoryLocked {
    snapshot: MemorySnapshot,
    staged: State,
    writer: WriterLock,
}

impl Locked for MemoryLocked {
    fn snapshot(&self) -> &dyn Snapshot {
        &self.snapshot
    }

    fn refused(&self) -> &[(usize, RejectionReason)] {
        &[]
    }

    fn stage(&mut self, steps: &dyn Steps) -> Result<()> {
        self.staged = self.snapshot.state().with(steps)?;
        Ok(())
    }

    fn commit(mut self: Box<Self>, _: &dyn Steps) -> Result<()> {
        let staged = mem::take(&mut self.staged);
        self.writer.publish(staged);
        Ok(())
    }
}
