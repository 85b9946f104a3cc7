use refdb_vfs::{Crowd, Relay};
use std::time::{Duration, Instant};

/// A backoff that gives other processes a chance to take the list's lock.
///
/// No waiter is woken when a lock file is removed, so a waiter gets the lock only if it tries at the right moment,
/// while a writer that has just unlocked the stack and wants it again at once would nearly always win. Git tries seven
/// times within 100 ms and then gives up, so it would hardly ever get the lock. Therefore a writer that finds that
/// others have written since its last turn pauses before the next one. One that has met only the writers of its own
/// queue for a while does without that pause, because the queue is fair by itself.
///
/// Without the backoff 22 of 24 git processes gave up when four ran beside four refdb writers, and with it 11 of 24.
/// When eight git processes ran without refdb, 33 of 48 gave up (docs/decisions/0031).
#[derive(Debug, Default)]
pub(super) struct Backoff {
    last_turn: Option<LastTurn>,
    /// How long it took to replace the list the last time.
    list_took: Option<Duration>,
    /// Until when writers outside the queue are expected.
    strangers_until: Option<Instant>,
}

/// How long after a writer outside the queue, such as git, has written, it is expected to write again.
pub(super) const EXPECT_STRANGERS: Duration = Duration::from_millis(300);

#[derive(Debug)]
struct LastTurn {
    ended: Instant,
    pause: Duration,
    next_update_index: u64,
    /// The group of this turn, if it was in one.
    group: Option<Past>,
}

/// A group that has committed.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(super) struct Past {
    /// The number of writers, the leader included.
    pub(super) writers: u32,
    /// How long the leader held the lock.
    pub(super) took_micros: u32,
    /// What the next head of the queue has to know. It contains the next update index, or 0 if that is not known.
    pub(super) relay: Relay,
}

/// A writer that was in a group waits for the other writers of the group, before it takes the lock again, for the time
/// that the leader held the lock divided by this, but at most for [`PAUSE_MAX`]. Git and JGit can get the lock
/// meanwhile.
const PAUSE_PART: u32 = 4;

/// Where the list is replaced in less time than this, as in a memory file system, a writer is faster by itself than in
/// a group, which costs each member two switches between processes.
const CHEAP_LIST: Duration = Duration::from_micros(25);

/// The longest time for which a writer waits for the others of its group.
const PAUSE_MAX: Duration = Duration::from_millis(1);

/// After this time the members of the last group are not expected any more.
const FORGET_AFTER: Duration = Duration::from_millis(100);

impl Backoff {
    /// What the group of the last turn tells about others that want the lock: its writers, and until when the lock is
    /// left to writers outside the queue. `None` if it tells of neither, or if the last turn was not just now.
    pub(super) fn crowd(&self, now: Instant) -> Option<Crowd> {
        let last = self.last_turn.as_ref()?;
        let Past { writers, took_micros, relay } = last.group?;
        let took = Duration::from_micros(u64::from(took_micros));
        let is_recent = now.saturating_duration_since(last.ended) < FORGET_AFTER;
        let pause = (took / PAUSE_PART).min(PAUSE_MAX);
        let has_others = writers > 1 || relay.free_until > 0;
        (is_recent && has_others).then_some(Crowd { others: writers.saturating_sub(1) as usize, pause, relay })
    }

    /// Returns whether writers should share a new list.
    pub(super) fn is_worth_joining(&self) -> bool {
        self.list_took.is_none_or(|took| took >= CHEAP_LIST)
    }

    /// Records how long it took to replace the list.
    pub(super) fn end_list(&mut self, took: Duration) {
        self.list_took = Some(took);
    }

    /// Records that the last turn was in this group.
    pub(super) fn end_group(&mut self, group: Past) {
        if let Some(last) = &mut self.last_turn {
            last.group = Some(group);
        }
    }

    /// The next update index at the end of the last turn.
    pub(super) fn left(&self) -> Option<u64> {
        self.last_turn.as_ref().map(|last| last.next_update_index)
    }

    /// Records that a writer outside the queue has written since the last turn, or may have.
    pub(super) fn expect_strangers(&mut self, now: Instant) {
        self.strangers_until = Some(now + EXPECT_STRANGERS);
    }

    /// The part of the pause after the last turn that has not passed yet.
    pub(super) fn pause(&self, now: Instant) -> Duration {
        if self.strangers_until.is_none_or(|until| now >= until) {
            return Duration::ZERO;
        }
        let left = |last: &LastTurn| last.pause.saturating_sub(now.saturating_duration_since(last.ended));
        self.last_turn.as_ref().map_or(Duration::ZERO, left)
    }

    /// Records a turn: when the stack was locked and unlocked, and the next update index at each of the two moments.
    pub(super) fn end_turn(&mut self, locked: Instant, ended: Instant, found: u64, left: u64) {
        debug_assert!(
            locked <= ended && found <= left,
            "a turn ends behind its start, and gives no index back: {left}"
        );
        let others = self.last_turn.as_ref().map_or(0, |last| found.saturating_sub(last.next_update_index));
        let pause = pause_after(ended.saturating_duration_since(locked), others);
        self.last_turn = Some(LastTurn { ended, pause, next_update_index: left, group: None });
    }
}

/// The pause after a turn of this length if `others` transactions of other writers came before it: time for as many
/// again, and half of that to spare, but at most a millisecond.
fn pause_after(turn: Duration, others: u64) -> Duration {
    const LONGEST: Duration = Duration::from_millis(1);
    let others = u32::try_from(others).unwrap_or(u32::MAX);
    turn.saturating_mul(others).min(LONGEST).mul_f64(1.5).min(LONGEST)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        RefRecord, RefValue, WriteOptions,
        stack::{Stack, StackOptions},
    };
    use refdb_testkit::nfs_client::Network;
    use refdb_vfs::{Fs, LockTimeout};
    use std::{cell::Cell, sync::Arc};

    #[test]
    fn a_writer_that_is_alone_does_not_pause() {
        let (mut backoff, start) = (Backoff::default(), Instant::now());
        let second = Duration::from_secs(1);
        assert_eq!(backoff.pause(start), Duration::ZERO);
        backoff.end_turn(start, start, 5, 6);
        assert_eq!(backoff.pause(start), Duration::ZERO, "what came before the first turn does not count");
        backoff.end_turn(start, start + second, 6, 7);
        assert_eq!(backoff.pause(start + second), Duration::ZERO);
    }

    #[test]
    fn the_pause_grows_with_the_others_and_is_bounded() {
        let turn = Duration::from_micros(80);
        assert_eq!(pause_after(turn, 1), Duration::from_micros(120));
        assert_eq!(pause_after(turn, 7), Duration::from_micros(840));
        assert_eq!(pause_after(turn, u64::MAX), Duration::from_millis(1));
        assert_eq!(pause_after(Duration::from_secs(1), 1), Duration::from_millis(1));
        let start = Instant::now();
        let end = start + Duration::from_secs(1);
        let mut backoff = Backoff { strangers_until: Some(end + Duration::from_secs(1)), ..Backoff::default() };
        backoff.end_turn(start, start, 1, 2);
        backoff.end_turn(start, end, 4, 5);
        let after = |micros| backoff.pause(end + Duration::from_micros(micros));
        assert_eq!([after(0), after(400), after(1001)].map(|pause| pause.as_micros()), [1000, 600, 0]);
    }

    #[test]
    fn only_writers_outside_the_queue_make_a_writer_pause() {
        let dir = tempfile::tempdir().unwrap();
        let open = |options: StackOptions| Stack::open(Fs::real(), dir.path(), options).unwrap();
        let number = Cell::new(0);
        // Writes slowly enough for a pause, since a pause depends on how long the lock was held.
        let write = |stack: &Stack| {
            let name = format!("refs/heads/{}", number.replace(number.get() + 1));
            let mut addition = stack.lock(LockTimeout::For(Duration::from_secs(60))).unwrap();
            let (index, value) = (addition.next_update_index(), RefValue::Symbolic("refs/heads/main".into()));
            let record = RefRecord { name: name.as_str().into(), update_index: index, value };
            addition.add_table(index..=index, 0, |writer| writer.add_ref(&record)).unwrap();
            std::thread::sleep(Duration::from_millis(1));
            drop(addition.commit().unwrap());
        };
        let own = StackOptions::new(WriteOptions::default()).auto_compact(false);
        let [one, other] = [(); 2].map(|()| open(own.clone()));
        let stranger = open(own.file_mode(Some(0o600)));
        // The pause as it was when the last turn ended: by now it may be over, because other tests take the processor.
        let pause = |stack: &Stack| {
            let backoff = stack.backoff();
            backoff.pause(backoff.last_turn.as_ref().unwrap().ended)
        };
        for _ in 0..3 {
            write(&one);
            write(&other);
        }
        assert_eq!(pause(&other), Duration::ZERO, "the queue is fair by itself");
        write(&stranger);
        write(&one);
        write(&other);
        assert_eq!([&one, &other].map(pause), [Duration::from_millis(1); 2]);
        let fs = Fs::with_hook(Arc::new(Network)).at(dir.path()).unwrap();
        let server = Stack::open(fs, dir.path(), one.options().clone()).unwrap();
        write(&server);
        write(&one);
        write(&server);
        assert_eq!(pause(&server), Duration::from_millis(1), "there is no queue on a network file system");
    }
}
