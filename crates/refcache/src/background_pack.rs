//! The thread of a process that moves loose refs to packed-refs. It ends once no job and no retry is left, and the next
//! job starts another one. It also ends when the views are dropped.

use crate::{in_flight::InFlightBatches, opened::Opened};
use refdb::files::{BackgroundPackOptions, BackgroundPacked, FilesBackend};
use std::{
    cell::Cell,
    collections::VecDeque,
    fmt::Display,
    sync::{
        Arc, Condvar, Mutex, MutexGuard, PoisonError, Weak,
        atomic::{AtomicBool, AtomicU64, Ordering::Relaxed, Ordering::SeqCst},
    },
    thread::{self, JoinHandle},
    time::Instant,
};

/// Packs loose refs for all views of a process, one repository after the other.
#[derive(Default)]
pub(crate) struct BackgroundPacker {
    work: Mutex<Work>,
    /// Signalled when a job is added and when the views are dropped.
    news: Condvar,
    /// Whether the views were dropped.
    is_over: AtomicBool,
    made: AtomicU64,
    failed: AtomicU64,
}

#[derive(Default)]
struct Work {
    waiting: VecDeque<Job>,
    /// Repositories for which it is checked again, at once or after a pause, whether packing is due.
    retries: Vec<Retry>,
    /// The latest thread.
    thread: Option<JoinHandle<()>>,
    /// Whether the latest thread will take jobs that are added.
    is_running: bool,
}

/// A repository whose loose refs are to be packed. There is at most one job for a repository at a time.
struct Job {
    opened: Weak<Opened>,
    in_flight: Arc<InFlightBatches>,
    /// The number of loose refs below which nothing is packed.
    from: usize,
    max: usize,
}

/// A repository for which it is to be checked at a given time whether packing is due, because it may get no further
/// batch that would add a job.
struct Retry {
    at: Instant,
    opened: Weak<Opened>,
    in_flight: Arc<InFlightBatches>,
    max: usize,
}

impl Retry {
    /// The job, unless the repository is closed, has a job already, has too few loose refs, or could not be packed a
    /// short time ago.
    fn into_job(self) -> Option<Job> {
        let is_due = self.opened.strong_count() > 0 && self.in_flight.loose.wrote(0);
        is_due.then(|| Job { opened: self.opened, in_flight: self.in_flight, from: self.max / 2, max: self.max })
    }
}

impl Drop for Job {
    fn drop(&mut self) {
        self.in_flight.loose.release();
    }
}

impl BackgroundPacker {
    /// How often refs were packed in the background, and how often that failed.
    pub(crate) fn counts(&self) -> (u64, u64) {
        (self.made.load(Relaxed), self.failed.load(Relaxed))
    }

    /// Counts the refs that a batch wrote, and adds a job if packing is due. A writer that is far ahead of the thread
    /// is held up for a second at most.
    pub(crate) fn wrote(self: &Arc<Self>, opened: &Arc<Opened>, refs: usize) {
        let Some((in_flight, max)) = opened.loose_refs() else { return };
        if in_flight.loose.wrote(refs) {
            self.add(Job { opened: Arc::downgrade(opened), in_flight: Arc::clone(in_flight), from: max / 2, max });
        } else {
            in_flight.loose.wait_if_far_ahead(max);
        }
    }

    /// Adds a job after a batch found no room on the disk, unless there is a job or packing failed a short time ago.
    /// Packing frees room, because each loose ref takes a file and often a folder. A batch that fails is not counted,
    /// so it makes no job due.
    pub(crate) fn make_room(self: &Arc<Self>, opened: &Arc<Opened>) {
        let Some((in_flight, max)) = opened.loose_refs() else { return };
        if in_flight.loose.claim() {
            self.add(Job { opened: Arc::downgrade(opened), in_flight: Arc::clone(in_flight), from: 1, max });
        }
    }

    /// Adds a job for the running thread, or for a new one.
    fn add(self: &Arc<Self>, job: Job) {
        let mut work = self.work();
        work.waiting.push_back(job);
        self.news.notify_all();
        if !work.is_running {
            let folds = Arc::clone(self);
            let thread = thread::Builder::new().name("refdb-fold".into()).spawn(move || folds.run());
            work.is_running = thread.is_ok();
            work.thread = thread.ok();
        }
        if !work.is_running {
            // No thread could be started. A later batch tries again.
            work.waiting.drain(..).for_each(|job| self.fail(&job));
        }
    }

    /// Stops the thread at the next step of its present job, and waits until it has ended.
    pub(crate) fn end(&self) {
        let thread = {
            let mut work = self.work();
            self.is_over.store(true, SeqCst);
            self.news.notify_all();
            work.thread.take()
        };
        if let Some(thread) = thread {
            // A thread that panicked has ended, too.
            let _ = thread.join();
        }
    }

    fn run(self: &Arc<Self>) {
        let _running = Running(self);
        while let Some(job) = self.next() {
            self.fold(&job);
            let (opened, in_flight, max) = (Weak::clone(&job.opened), Arc::clone(&job.in_flight), job.max);
            drop(job);
            // No other job could be added while this one existed, and perhaps no later batch comes that would add one.
            // So the repository is checked again, also after a failure.
            let at = in_flight.loose.retry_at().unwrap_or_else(Instant::now);
            self.work().retries.push(Retry { at, opened, in_flight, max });
        }
    }

    /// Waits for the next job, and makes one of each retry whose time has come. `None`, with which the thread ends, if
    /// neither is left or the views were dropped.
    fn next(&self) -> Option<Job> {
        let mut work = self.work();
        let next = loop {
            if self.is_over.load(SeqCst) {
                break None;
            }
            let now = Instant::now();
            let due: Vec<Retry> = work.retries.extract_if(.., |retry| retry.at <= now).collect();
            work.waiting.extend(due.into_iter().filter_map(Retry::into_job));
            if let Some(job) = work.waiting.pop_front() {
                break Some(job);
            }
            let Some(first) = work.retries.iter().map(|retry| retry.at).min() else { break None };
            let pause = first.saturating_duration_since(now);
            work = self.news.wait_timeout(work, pause).unwrap_or_else(PoisonError::into_inner).0;
        };
        work.is_running = next.is_some();
        next
    }

    fn fold(&self, job: &Job) {
        let (loose, max) = (&job.in_flight.loose, job.max);
        let Some(opened) = job.opened.upgrade() else { return };
        let Some(files) = opened.store.backend_as::<FilesBackend>() else { return };
        let written = loose.written();
        // The thread itself holds one reference; a view that is closed meanwhile is not kept open for packing.
        let goes_on = || !self.is_over.load(SeqCst) && Arc::strong_count(&opened) > 1;
        let told = Cell::new(0);
        let tell = |folded: &BackgroundPacked| {
            loose.removed(folded.removed - told.replace(folded.removed));
            goes_on()
        };
        match files.pack_in_background(&BackgroundPackOptions { from: job.from, goes_on: &tell }) {
            // Nothing was freed. The next batch for which the disk is full must not start another attempt at once.
            Ok(Some(BackgroundPacked { removed: 0, .. })) if goes_on() && job.from < max / 2 => {
                loose.failed();
            }
            Ok(Some(folded)) if goes_on() => {
                self.made.fetch_add(u64::from(folded.removed > 0), Relaxed);
                loose.folded(written, folded.loose - folded.removed, max);
                opened.counters.failing_pack.note(None);
            }
            // The job was stopped.
            Ok(Some(_)) => {}
            // Another process packs. If that state lasts, the process may have died and left its lock.
            Ok(None) => {
                if loose.failed() {
                    self.failed.fetch_add(1, Relaxed);
                    note_failing(&opened, &HELD);
                }
            }
            Err(error) => {
                self.failed.fetch_add(1, Relaxed);
                if loose.failed() {
                    note_failing(&opened, &error);
                }
            }
        }
    }

    fn fail(&self, job: &Job) {
        self.failed.fetch_add(1, Relaxed);
        job.in_flight.loose.failed();
    }

    fn work(&self) -> MutexGuard<'_, Work> {
        self.work.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

const HELD: &str = "another process has packed-refs.refdb-fold.lock; if no process packs refs, remove that file";

/// Records why a repository could not be packed, unless an earlier failure is recorded, so that a series of failures is
/// reported once.
fn note_failing(opened: &Opened, why: &dyn Display) {
    let failing = &opened.counters.failing_pack;
    if failing.found().is_none() {
        failing.note(Some(why.to_string()));
        debug_assert_eq!(failing.count(), 1, "the reason stays until refs are packed again");
    }
}

/// Held by the thread while it runs. If the thread panics, its waiting jobs count as failed.
struct Running<'f>(&'f BackgroundPacker);

impl Drop for Running<'_> {
    fn drop(&mut self) {
        if thread::panicking() {
            let mut work = self.0.work();
            work.is_running = false;
            // The next writer starts another thread.
            let left: Vec<Job> = work.waiting.drain(..).collect();
            drop(work);
            left.iter().for_each(|job| self.0.fail(job));
        }
    }
}
