//! An estimate of how many loose refs a repository has, by which packing them is scheduled.

use std::{
    sync::{
        Condvar, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst},
    },
    time::{Duration, Instant},
};

/// The pause before the next attempt after packing has failed once. Each further failure doubles it, up to
/// [`PAUSE_MAX`].
const PAUSE_MIN: Duration = Duration::from_millis(100);
const PAUSE_MAX: Duration = Duration::from_secs(60);
/// The pause after the third failure in a row, from which on failures are reported.
const PAUSE_LONG: Duration = Duration::from_millis(400);
const _: () = assert!(
    PAUSE_MIN.as_nanos() < PAUSE_LONG.as_nanos() && PAUSE_LONG.as_nanos() < PAUSE_MAX.as_nanos(),
    "pauses grow"
);

/// The estimate for one repository.
#[derive(Default)]
pub(crate) struct LooseCount {
    /// The number of refs that were written; a ref that was written twice counts twice.
    written: AtomicUsize,
    /// Packing is due once `written` has reached this number. It is 0 at first, because nobody knows how many loose
    /// refs there are.
    due_at: AtomicUsize,
    /// Whether a job that packs this repository's loose refs exists.
    is_claimed: AtomicBool,
    pause: Mutex<Option<Pause>>,
    over: Condvar,
}

/// One part in this many of the limit is reserved for refs that other writers add before they are held up.
const ROOM: usize = 8;

/// The longest time for which a writer is held up by packing.
const WAIT_MAX: Duration = Duration::from_secs(1);

#[derive(Clone, Copy)]
struct Pause {
    until: Instant,
    length: Duration,
}

impl LooseCount {
    /// Counts refs that were written. Returns whether the caller has now claimed the job that packs them, and must
    /// therefore queue that job.
    pub(crate) fn wrote(&self, refs: usize) -> bool {
        let written = self.written.fetch_add(refs, SeqCst) + refs;
        written >= self.due_at.load(SeqCst) && self.claim()
    }

    /// Claims the job of packing, however few loose refs there are. Returns `false` if the job is claimed already, or
    /// if packing failed a short time ago.
    pub(crate) fn claim(&self) -> bool {
        !self.is_paused() && !self.is_claimed.swap(true, SeqCst)
    }

    /// When packing may be tried again after a failure; `None` if packing has not failed since it last succeeded, or if
    /// it is not due.
    pub(crate) fn retry_at(&self) -> Option<Instant> {
        let is_due = self.written() >= self.due_at.load(SeqCst);
        self.pause().filter(|_| is_due).map(|pause| pause.until)
    }

    /// The number of refs that were written. It must be read before loose refs are listed, so that no ref is counted
    /// as packed too early.
    pub(crate) fn written(&self) -> usize {
        self.written.load(SeqCst)
    }

    /// Ends the claim.
    pub(crate) fn release(&self) {
        let before = self.is_claimed.swap(false, SeqCst);
        assert!(before, "only a claim that exists is ended");
        // The lock is taken so that a writer that has just decided to wait is woken.
        drop(self.pause());
        self.over.notify_all();
    }

    /// Counts loose files that the job has removed, so that as many more can be written.
    pub(crate) fn removed(&self, refs: usize) {
        debug_assert!(self.is_claimed.load(SeqCst), "only the job that was claimed removes files");
        if refs > 0 {
            self.due_at.fetch_add(refs, SeqCst);
            drop(self.pause());
            self.over.notify_all();
        }
    }

    /// Waits for the job, for a second at most, if nearly as many refs as the limit were written since the job became
    /// due. Returns at once if there is no job or the last packing failed.
    pub(crate) fn wait_if_far_ahead(&self, max: usize) {
        let is_far_ahead = |pause: &mut Option<Pause>| {
            let is_folded = pause.is_none() && self.is_claimed.load(SeqCst);
            is_folded && self.written() >= self.due_at.load(SeqCst) + max - max / ROOM
        };
        drop(self.over.wait_timeout_while(self.pause(), WAIT_MAX, is_far_ahead));
    }

    fn is_paused(&self) -> bool {
        self.pause().is_some_and(|pause| Instant::now() < pause.until)
    }

    /// Records that packing succeeded. `written` is the number of refs that had been written when it began, and
    /// `left` the number of loose refs that it left. Refs that cannot be packed stay each time and must not cause a
    /// job after every batch.
    pub(crate) fn folded(&self, written: usize, left: usize, max: usize) {
        debug_assert!(self.is_claimed.load(SeqCst), "one fold at a time");
        *self.pause() = None;
        self.due_at.store(written + max - left.min(max / 2), SeqCst);
    }

    /// Records a failure. Returns whether it is at least the third in a row, so that its cause is not just a lock
    /// that somebody held for a moment.
    pub(crate) fn failed(&self) -> bool {
        let mut pause = self.pause();
        let length = pause.map_or(PAUSE_MIN, |pause| (pause.length * 2).min(PAUSE_MAX));
        *pause = Some(Pause { until: Instant::now() + length, length });
        length >= PAUSE_LONG
    }

    fn pause(&self) -> MutexGuard<'_, Option<Pause>> {
        self.pause.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fold_is_due_at_first_and_after_as_many_refs_as_there_is_room_for() {
        let count = LooseCount::default();
        assert!(count.wrote(2) && !count.wrote(2), "one at a time");
        // One of the four loose refs stays.
        count.folded(4, 1, 10);
        count.release();
        assert!(!count.wrote(8));
        assert!(count.wrote(1), "those nine and the one make ten");
        // All of the loose refs stay.
        count.folded(13, 100, 10);
        count.release();
        assert!(!count.wrote(4) && count.wrote(1));
    }

    #[test]
    fn each_failure_makes_the_pause_before_the_next_fold_longer() {
        let count = LooseCount::default();
        let lengths: Vec<u128> = (0..12)
            .map(|at| {
                assert_eq!(count.failed(), at >= 2, "the third in a row is told of");
                assert!(!count.wrote(1), "not at once");
                count.pause().unwrap().length.as_millis()
            })
            .collect();
        assert_eq!(lengths[..4], [100, 200, 400, 800]);
        assert_eq!(lengths[10..], [60_000, 60_000]);
        count.pause().as_mut().unwrap().until = Instant::now();
        assert!(count.wrote(1));
        count.folded(13, 0, 1);
        assert!(count.pause().is_none());
    }

    #[test]
    fn who_writes_faster_than_a_fold_removes_waits_for_it() {
        let count = LooseCount::default();
        assert!(count.wrote(4));
        let took = |count: &LooseCount| {
            let begun = Instant::now();
            count.wait_if_far_ahead(10);
            begun.elapsed()
        };
        assert!(took(&count) < WAIT_MAX, "not yet");
        assert!(!count.wrote(5));
        assert!(took(&count) >= WAIT_MAX, "no longer than this");
        std::thread::scope(|scope| {
            let waiting = scope.spawn(|| took(&count));
            count.removed(3);
            assert!(waiting.join().unwrap() < WAIT_MAX, "there is room again");
        });
        assert!(!count.wrote(3));
        std::thread::scope(|scope| {
            let waiting = scope.spawn(|| took(&count));
            count.folded(12, 0, 10);
            count.release();
            assert!(waiting.join().unwrap() < WAIT_MAX, "it is over");
        });
        assert!(count.wrote(100));
        count.failed();
        assert!(took(&count) < WAIT_MAX, "it failed before");
    }
}
