//! Waits for a lock that someone else holds.

use super::{LockError, LockTimeout, look::age_seconds, signing};
use crate::{
    Error, Fs, Stat, asked, interrupt,
    queue::{self, ALONE, Channel, Crowd, Entered, Queue, QueueHead, Told, Turn},
};
use std::{
    os::unix::fs::MetadataExt,
    path::Path,
    time::{Duration, Instant, SystemTime, UNIX_EPOCH},
};

/// A waiter that finds the lock free this many times in a row, each after at most [`Wait::SLICE`], leaves the queue and
/// polls itself.
const FREE_SLICES_MAX: u32 = 2;

/// Repeats `attempt` while it fails because someone holds the lock at `path`, until [`lock_timeout`](LockTimeout) has
/// passed or a signal was caught. A lock whose owner is certainly dead is removed, or passed to the recovery handler if
/// it is that of a batch.
pub(super) fn wait_for<T>(
    fs: &Fs,
    path: &Path,
    lock_timeout: LockTimeout,
    attempt: impl FnMut() -> Result<T, Error>,
) -> Result<T, LockError> {
    match wait_in_line(fs, path, lock_timeout, &mut Line::none(), attempt)? {
        Got::Lock(done) => Ok(done),
        Got::Turn(_) => unreachable!("only a waiter in a queue gets a turn"),
    }
}

/// How a writer waits in the queue for a lock.
pub(super) struct Line<'a> {
    /// The file to be locked, and the terms on which the writers of one queue agree; `None` if the lock file is only
    /// polled for.
    queue_of: Option<(&'a Path, &'a str)>,
    kind: u8,
    /// What is known of other writers that want the lock. If this is set, a writer that may wait enters the queue
    /// before its first attempt.
    pub(super) crowd: Option<Crowd>,
    /// The channel to the head of the queue, while that is another writer.
    ahead: Option<Channel>,
    /// Set once this writer is the head of the queue.
    pub(super) head: Option<QueueHead>,
}

impl<'a> Line<'a> {
    /// Returns a line without a queue: the writer only polls for the lock file.
    pub(super) fn none() -> Self {
        Line { queue_of: None, kind: ALONE, crowd: None, ahead: None, head: None }
    }

    /// Returns a line in the queue for the lock of `target`, which writers that agree on `terms` share.
    pub(super) fn of(target: &'a Path, terms: &'a str, kind: u8) -> Self {
        Line { queue_of: Some((target, terms)), kind, crowd: None, ahead: None, head: None }
    }

    /// Enters the queue, if there is one.
    fn enter(&mut self, fs: &Fs) {
        let Some((target, terms)) = self.queue_of else { return };
        match Queue::of(fs, target, terms).map_or(Entered::Unavailable, |queue| queue.enter(self.kind)) {
            Entered::First(mut head) => {
                head.relay = self.crowd.map_or(head.relay, |crowd| crowd.relay);
                self.lead(head);
            }
            Entered::Behind(channel) => self.ahead = Some(channel),
            Entered::Unavailable => self.queue_of = None,
        }
    }

    /// Waits for `pause` at most behind the head of the queue. A writer that is not in the queue enters it first, and
    /// one that becomes the head waits a moment for others. Returns at once if this writer is the head already, or if
    /// there is no queue.
    fn wait_behind(&mut self, fs: &Fs, pause: Duration) -> Queued {
        if self.head.is_some() {
            return Queued::Polls;
        }
        if self.ahead.is_none() {
            self.enter(fs);
        }
        let Some(channel) = self.ahead.take() else {
            return if self.head.is_some() { Queued::Moved } else { Queued::Polls };
        };
        match queue::wait_behind(&channel, pause) {
            Told::Lead(head) => self.lead(head),
            Told::Turn(content) => return Queued::Turn(Turn { channel, content }),
            Told::Gone => {}
            Told::Nothing => {
                self.ahead = Some(channel);
                return Queued::Behind;
            }
        }
        Queued::Moved
    }

    /// Leaves the queue for good, and polls.
    fn leave(&mut self) {
        (self.ahead, self.queue_of) = (None, None);
    }

    /// Makes this writer the head of the queue, and waits a moment for those that are known to come.
    fn lead(&mut self, mut head: QueueHead) {
        let (others, pause) = self.crowd.take().map_or((0, Duration::ZERO), |crowd| (crowd.others, crowd.pause));
        head.gather(others, pause);
        self.head = Some(head);
    }
}

/// What came of waiting in a queue for a moment.
enum Queued {
    /// The writer has to poll for the lock file.
    Polls,
    /// The head of the queue has changed, so that the lock is tried at once.
    Moved,
    /// Others are still ahead.
    Behind,
    Turn(Turn),
}

/// What a writer in a queue gets.
pub(super) enum Got<T> {
    /// The lock.
    Lock(T),
    /// A turn under the lock of another writer.
    Turn(Turn),
}

impl<T> Got<T> {
    /// Applies `change` to the lock, if that is what the writer got.
    pub(super) fn map<U>(self, change: impl FnOnce(T) -> U) -> Got<U> {
        match self {
            Got::Lock(lock) => Got::Lock(change(lock)),
            Got::Turn(turn) => Got::Turn(turn),
        }
    }
}

/// Waits as [`wait_for`] does, but in a queue with other writers if there is one.
pub(super) fn wait_in_line<T>(
    fs: &Fs,
    path: &Path,
    lock_timeout: LockTimeout,
    line: &mut Line<'_>,
    mut attempt: impl FnMut() -> Result<T, Error>,
) -> Result<Got<T>, LockError> {
    let mut wait: Option<Wait> = None;
    let mut begun: Option<Instant> = None;
    let mut looks = Looks::default();
    let mut free_slices = 0;
    let mut freed = None;
    // A writer that must not wait does not enter the queue.
    if line.crowd.is_some() && lock_timeout != LockTimeout::None {
        line.enter(fs);
    }
    loop {
        if line.ahead.is_none() {
            let attempted = attempt();
            // What is looked up from now on, under the lock or while somebody else has it, must be newer than the
            // attempt, so the file server is asked again.
            asked::forget();
            match attempted {
                Ok(done) => return Ok(Got::Lock(done)),
                Err(error) if !error.is_exists() => return Err(error.into()),
                Err(_) => {}
            }
        }
        let begun = *begun.get_or_insert_with(Instant::now);
        interrupt::check().map_err(|source| Error::new("lock", path, source))?;
        if lock_timeout != LockTimeout::None {
            match line.wait_behind(fs, Wait::slice(wait.as_ref(), begun, lock_timeout)) {
                Queued::Turn(turn) => return Ok(Got::Turn(turn)),
                Queued::Moved => continue,
                Queued::Polls | Queued::Behind => {}
            }
        }
        let polls = line.ahead.is_none();
        if polls && looks.is_due() && signing::remove_if_dead(fs, path) {
            continue;
        }
        let holder = || fs.stat_link(path).ok();
        if lock_timeout == LockTimeout::None {
            return Err(held(fs, path, holder()));
        }
        let wait = wait.get_or_insert_with(|| Wait::new(holder(), begun));
        if !polls {
            // A head that was stopped, or that waits for something else, does not take a lock that is free.
            free_slices = if holder().is_none() { free_slices + 1 } else { 0 };
            if free_slices == FREE_SLICES_MAX {
                line.leave();
                continue;
            }
        }
        // The holder is determined only when it matters, because the attempts alone keep the file system busy.
        match lock_timeout {
            LockTimeout::For(limit) if wait.since.elapsed() >= limit => {
                let holder = holder();
                if wait.is_over(holder, limit, Instant::now()) {
                    // This is tried once for each holder, or it would not end if recovery wrongly says that the lock
                    // can be tried again.
                    let again = Some(identity(holder));
                    if freed != again && signing::remove_if_dead(fs, path) {
                        freed = again;
                        continue;
                    }
                    return Err(held(fs, path, holder));
                }
            }
            _ => {}
        }
        if polls {
            wait.pause(line.head.is_some());
        }
    }
}

fn held(fs: &Fs, path: &Path, holder: Option<Stat>) -> LockError {
    LockError::Held {
        path: path.to_owned(),
        age_seconds: holder.map_or(0, |stat| age_seconds(fs, stat)),
        uid: holder.map_or(0, |stat| stat.uid),
        by_us: holder.is_some_and(is_open_here),
    }
}

/// Returns whether this process has the file open. Only checked if a lock could not be taken.
fn is_open_here(file: Stat) -> bool {
    let open = std::fs::read_dir("/proc/self/fd").into_iter().flatten().flatten();
    let mut files = open.filter_map(|entry| std::fs::metadata(entry.path()).ok());
    files.any(|open| (open.dev(), open.ino()) == file.file_id())
}

/// Decides when to examine a lock's owner: at the first attempt, and now and then, because the owner may die while we
/// wait.
#[derive(Default)]
struct Looks(u32);

impl Looks {
    /// The owner is examined once in this many attempts: with pauses of 1.5 ms, some ten times a second.
    const EVERY: u32 = 64;

    fn is_due(&mut self) -> bool {
        let due = self.0 % Self::EVERY == 0;
        self.0 = self.0.wrapping_add(1);
        due
    }
}

/// How long a writer has waited, and for whom. Its pauses between attempts are short at first, grow, and are
/// randomized, so that waiters do not retry at the same moments; those of the head of a queue are all equal.
struct Wait {
    holder: Option<(u64, u64, i128)>,
    /// Whether the lock was free when the time had passed.
    was_free: bool,
    /// When waiting began.
    begun: Instant,
    /// When waiting for the current holder began.
    since: Instant,
    pause: Duration,
    random: u64,
}

impl Wait {
    const FIRST_PAUSE: Duration = Duration::from_micros(200);
    /// The longest mean pause between two attempts; chance makes a pause up to half as long again. With longer pauses,
    /// writers share the lock less evenly.
    const LONGEST_PAUSE: Duration = Duration::from_micros(1500);
    /// The pause between two attempts of the head of a queue, which polls for all that wait behind it.
    const PAUSE_OF_HEAD: Duration = Duration::from_micros(100);
    /// The longest time that a waiter in a queue sleeps before it checks for signals and timeouts.
    const SLICE: Duration = Duration::from_millis(50);

    fn new(holder: Option<Stat>, begun: Instant) -> Self {
        let seed = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |now| now.subsec_nanos());
        let random = u64::from(seed) << 32 | u64::from(std::process::id()) | 1;
        Wait { holder: identity(holder), was_free: false, begun, since: begun, pause: Self::FIRST_PAUSE, random }
    }

    /// Returns whether to give up, for callers that have seen `limit` pass: because the holder is still the same, or
    /// because all holders together have taken too long. A different holder restarts the time. A lock that is free
    /// whenever it is looked at does so once, because the next attempt may take it.
    fn is_over(&mut self, holder: Option<Stat>, limit: Duration, now: Instant) -> bool {
        let holder = identity(holder);
        let is_endless = LockTimeout::For(limit).of_all_holders().is_some_and(|limit| now - self.begun >= limit);
        let is_same = holder == self.holder && (holder.is_some() || std::mem::replace(&mut self.was_free, true));
        if is_same || is_endless {
            return true;
        }
        (self.holder, self.since) = (holder, now);
        false
    }

    /// How long to wait in a queue before the timeout is checked again.
    fn slice(wait: Option<&Self>, begun: Instant, lock_timeout: LockTimeout) -> Duration {
        let waited = wait.map_or(begun, |wait| wait.since).elapsed();
        match lock_timeout {
            LockTimeout::For(limit) => limit.saturating_sub(waited).clamp(Self::FIRST_PAUSE, Self::SLICE),
            LockTimeout::None | LockTimeout::Forever => Self::SLICE,
        }
    }

    fn pause(&mut self, is_head: bool) {
        if is_head {
            std::thread::sleep(Self::PAUSE_OF_HEAD);
            return;
        }
        // xorshift64 is good enough to spread the pauses.
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        std::thread::sleep(self.pause.mul_f64(0.5 + (self.random % 1024) as f64 / 1024.0));
        self.pause = (self.pause * 3 / 2).min(Self::LONGEST_PAUSE);
    }
}

/// Returns what identifies the holder of a lock. It includes the time of the inode's last change, which is usually the
/// lock's creation, because some file systems reuse inodes at once.
fn identity(holder: Option<Stat>) -> Option<(u64, u64, i128)> {
    holder.map(|stat| (stat.device, stat.inode, stat.changed_nanos))
}

#[cfg(test)]
mod tests {
    use super::{super::Lock, *};
    use crate::{BatchId, File, RecoveryHandler, queue::Relay, signature::Signature};
    use std::{
        io,
        sync::{
            Arc, Weak,
            atomic::{AtomicU32, Ordering},
        },
    };

    #[test]
    fn holders_that_follow_each_other_without_end_are_not_waited_for_without_end() {
        let dir = tempfile::tempdir().unwrap();
        let other = Fs::real().stat_link(dir.path()).ok();
        for (limit, last_second) in [(Duration::from_millis(1), 60), (Duration::from_secs(10), 600)] {
            let mut wait = Wait::new(None, Instant::now());
            let begun = wait.begun;
            for second in 1..last_second {
                let holder = other.filter(|_| second % 2 == 1);
                assert!(!wait.is_over(holder, limit, begun + Duration::from_secs(second)), "{second}");
            }
            assert!(wait.is_over(None, limit, begun + Duration::from_secs(last_second)));
        }
    }

    #[test]
    fn nobody_is_no_holder_that_was_seen_before() {
        let mut wait = Wait::new(None, Instant::now());
        let later = wait.begun + Duration::from_secs(1);
        let is_over = |wait: &mut Wait| wait.is_over(None, Duration::from_millis(1), later);
        assert!(!is_over(&mut wait), "the lock is free");
        assert!(is_over(&mut wait), "it is free each time, and yet cannot be taken");
    }

    #[test]
    fn a_head_that_takes_no_lock_keeps_nobody_from_a_free_one() {
        let dir = tempfile::tempdir().unwrap();
        let (fs, target) = (Fs::real(), dir.path().join("x"));
        let Entered::First(_stopped) = Queue::of(&fs, &target, "").unwrap().enter(ALONE) else { panic!("it is first") };
        let foreign = Lock::path_of(&target);
        std::fs::write(&foreign, "").unwrap();
        std::thread::scope(|scope| {
            let waiter = scope.spawn(|| Lock::acquire(&fs, &target, 0o666, LockTimeout::For(Duration::from_secs(60))));
            std::thread::sleep(Duration::from_millis(20));
            std::fs::remove_file(&foreign).unwrap();
            let begun = Instant::now();
            waiter.join().unwrap().unwrap().release().unwrap();
            assert!(begun.elapsed() < Duration::from_secs(20));
        });
    }

    #[test]
    fn a_writer_that_does_not_wait_takes_a_free_lock_though_others_are_expected() {
        let dir = tempfile::tempdir().unwrap();
        let (fs, target) = (Fs::real(), dir.path().join("x"));
        let Entered::First(_ahead) = Queue::of(&fs, &target, "").unwrap().enter(ALONE) else { panic!("it is first") };
        let crowd = Crowd { others: 3, pause: Duration::from_secs(1), relay: Relay::default() };
        let got = Lock::acquire_or_join(&fs, &target, 0o666, LockTimeout::None, "", false, Some(crowd));
        got.unwrap().into_lock().release().unwrap();
    }

    /// Claims to have freed each lock, and removes only that of the 1,001st request.
    #[derive(Default, Debug)]
    struct Vain(AtomicU32);

    impl RecoveryHandler for Vain {
        fn recover(&self, _: BatchId, lock: File) -> bool {
            if self.0.fetch_add(1, Ordering::Relaxed) == 1000 {
                std::fs::remove_file(lock.path()).unwrap();
            }
            true
        }
    }

    #[test]
    fn a_wait_ends_in_time_though_somebody_claims_again_and_again_to_have_freed_the_lock() {
        let dir = tempfile::tempdir().unwrap();
        let target = dir.path().join("x");
        let heir = Arc::new(Vain::default());
        let weak: Weak<Vain> = Arc::downgrade(&heir);
        let fs = Fs::real().with_recovery(weak);
        std::fs::write(Lock::path_of(&target), Signature::own().unwrap().encode_batch(BatchId::random())).unwrap();
        let waited = Lock::acquire(&fs, &target, 0o666, LockTimeout::For(Duration::from_millis(20)));
        assert!(matches!(waited, Err(LockError::Held { .. })), "{waited:?}");
        assert!((2..100).contains(&heir.0.load(Ordering::Relaxed)), "{heir:?}");
    }

    #[test]
    fn the_deadline_starts_anew_with_each_holder() {
        let dir = tempfile::tempdir().unwrap();
        let target = dir.path().join("x");
        let fs = Fs::real();
        let path = Lock::path_of(&target);
        Lock::acquire(&fs, &target, 0o666, LockTimeout::None).unwrap().leave();
        let limit = Duration::from_millis(1);
        let mut holders = 0;
        let taken = || Error::new("create", &path, io::Error::from(io::ErrorKind::AlreadyExists));
        // Each attempt takes longer than the timeout for one holder, and meets another holder.
        let attempt = || {
            std::thread::sleep(limit * 2);
            let next = dir.path().join(format!("next{holders}"));
            std::fs::write(&next, "").unwrap();
            fs.rename(&next, &path).unwrap();
            holders += 1;
            if holders == 20 { Ok(()) } else { Err(taken()) }
        };
        wait_for(&fs, &path, LockTimeout::For(limit), attempt).unwrap();
        let waited = wait_for(&fs, &path, LockTimeout::For(limit), || fs.create_new(&path, 0o666).map(drop));
        assert!(matches!(waited, Err(LockError::Held { .. })), "the last holder stays");
    }
}
