use std::time::{Duration, Instant};

/// A backoff that gives other processes a chance to take the list's lock.
///
/// No waiter is woken when a lock file is removed, so a waiter gets the lock only if it tries at the right moment,
/// while a writer that has just unlocked the stack and wants it again at once would nearly always win. Git tries seven
/// times within 100 ms and then gives up, so it would hardly ever get the lock. Therefore a writer that finds that
/// others have written since its last turn pauses before the next one; a writer that is alone never pauses.
///
/// Without the backoff 22 of 24 git processes gave up when four ran beside four refdb writers, and with it 11 of 24.
/// When eight git processes ran without refdb, 33 of 48 gave up (docs/decisions/0031).
#[derive(Debug, Default)]
pub(super) struct Backoff {
    last_turn: Option<LastTurn>,
}

#[derive(Debug)]
struct LastTurn {
    ended: Instant,
    pause: Duration,
    next_update_index: u64,
}

impl Backoff {
    /// The part of the pause after the last turn that has not passed yet.
    pub(super) fn pause(&self, now: Instant) -> Duration {
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
        self.last_turn = Some(LastTurn { ended, pause, next_update_index: left });
    }
}

/// The pause after a turn of this length if `others` transactions of other processes came before it: time for as many
/// again, and half of that to spare, but at most a millisecond.
fn pause_after(turn: Duration, others: u64) -> Duration {
    const LONGEST: Duration = Duration::from_millis(1);
    let others = u32::try_from(others).unwrap_or(u32::MAX);
    turn.saturating_mul(others).min(LONGEST).mul_f64(1.5).min(LONGEST)
}

#[cfg(test)]
mod tests {
    use super::*;

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
        let (mut backoff, start) = (Backoff::default(), Instant::now());
        let end = start + Duration::from_secs(1);
        backoff.end_turn(start, start, 1, 2);
        backoff.end_turn(start, end, 4, 5);
        let after = |micros| backoff.pause(end + Duration::from_micros(micros));
        assert_eq!([after(0), after(400), after(1001)].map(|pause| pause.as_micros()), [1000, 600, 0]);
    }
}
