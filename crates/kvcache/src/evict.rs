//! What to free next and what to keep of it: decisions without effects.

use crate::{log::Meta, place::MAX_USES};

/// Compaction starts when the files are larger than the entries by this factor, in 64ths: 1.2.
const LARGE: u64 = 77;

/// A segment that is to go.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Victim {
    /// The oldest: entries in use are copied, the others are dropped.
    Evict(u16),
    /// One with much dead space: every entry is copied.
    Compact(u16),
}

/// Frees room: the segment with the most dead space if at least a third of it is dead, else the oldest. Only evicting
/// frees room at once, so it is the oldest if `at_once` is set.
pub(crate) fn make_room(sealed: &[(u16, Meta)], at_once: bool) -> Option<Victim> {
    let oldest = sealed.iter().min_by_key(|(_, meta)| meta.seq)?;
    let deadest = deadest(sealed)?;
    let is_mostly_live = |meta: &Meta| meta.live_bytes * 3 > meta.disk_bytes * 2;
    if at_once || oldest.0 == deadest.0 || is_mostly_live(&deadest.1) {
        return Some(Victim::Evict(oldest.0));
    }
    Some(Victim::Compact(deadest.0))
}

/// The segment to compact if the files are much larger than what lives in them.
pub(crate) fn tidy(sealed: &[(u16, Meta)], disk_bytes: u64, live_bytes: u64, slack_bytes: u64) -> Option<Victim> {
    if !is_wasteful(disk_bytes, live_bytes, slack_bytes) {
        return None;
    }
    let (slot, meta) = deadest(sealed)?;
    (meta.live_bytes * 8 < meta.disk_bytes * 7).then_some(Victim::Compact(slot))
}

/// Whether the files are much larger than what lives in them.
pub(crate) fn is_wasteful(disk_bytes: u64, live_bytes: u64, slack_bytes: u64) -> bool {
    disk_bytes > live_bytes.saturating_mul(LARGE) / 64 + slack_bytes
}

/// A segment whose youngest entry is too old.
pub(crate) fn expired(sealed: &[(u16, Meta)], now_ms: u64, max_age_ms: u64) -> Option<Victim> {
    let oldest = sealed.iter().map(|(_, meta)| meta.seq).min()?;
    let is_old = |meta: &Meta| now_ms.saturating_sub(meta.newest_ms) > max_age_ms;
    let (slot, meta) = sealed.iter().find(|(_, meta)| is_old(meta))?;
    Some(if meta.seq == oldest { Victim::Evict(*slot) } else { Victim::Compact(*slot) })
}

fn deadest(sealed: &[(u16, Meta)]) -> Option<(u16, Meta)> {
    let share_live = |meta: &Meta| meta.live_bytes.saturating_mul(1 << 20) / meta.disk_bytes.max(1);
    sealed.iter().copied().min_by_key(|(_, meta)| share_live(meta))
}

/// Which records of an evicted segment are copied, by how often they were read.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Keep {
    /// Records read more often than this are kept.
    above: u8,
    /// Bytes left for records read exactly this often.
    at_bytes: u64,
}

impl Keep {
    /// Keeps the most used records up to `budget` bytes. `bytes_by_uses` says how many bytes there are of each use count;
    /// what was never read is not kept.
    pub(crate) fn most_used(bytes_by_uses: &[u64; MAX_USES as usize + 1], budget: u64) -> Self {
        let mut left = budget;
        for uses in (1..=MAX_USES).rev() {
            let bytes = bytes_by_uses[usize::from(uses)];
            if bytes > left {
                return Keep { above: uses, at_bytes: left };
            }
            left -= bytes;
        }
        Keep { above: 0, at_bytes: 0 }
    }

    /// How many bytes it keeps at most.
    pub(crate) fn bytes(&self, bytes_by_uses: &[u64; MAX_USES as usize + 1]) -> u64 {
        self.at_bytes + bytes_by_uses[usize::from(self.above) + 1..].iter().sum::<u64>()
    }

    /// Decides over one record.
    pub(crate) fn take(&mut self, uses: u8, len: u64) -> bool {
        if uses > self.above {
            return true;
        }
        let fits = uses == self.above && uses > 0 && len <= self.at_bytes;
        if fits {
            self.at_bytes -= len;
        }
        fits
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn meta(seq: u64, live_bytes: u64) -> Meta {
        Meta { seq, live_bytes, disk_bytes: 1000, newest_ms: seq * 10, sealed: true, condemned: false }
    }

    #[test]
    fn room_comes_from_dead_space_before_it_comes_from_entries() {
        assert_eq!(make_room(&[], false), None);
        assert_eq!(make_room(&[(4, meta(2, 900)), (5, meta(1, 950))], false), Some(Victim::Evict(5)));
        assert_eq!(make_room(&[(4, meta(2, 500)), (5, meta(1, 950))], false), Some(Victim::Compact(4)));
        assert_eq!(make_room(&[(4, meta(2, 500)), (5, meta(1, 950))], true), Some(Victim::Evict(5)));
        assert_eq!(make_room(&[(4, meta(2, 950)), (5, meta(1, 500))], false), Some(Victim::Evict(5)));
    }

    #[test]
    fn files_are_tidied_only_when_they_are_much_larger_than_their_entries() {
        let sealed = [(1, meta(1, 400)), (2, meta(2, 900))];
        assert_eq!(tidy(&sealed, 2000, 1300, 0), Some(Victim::Compact(1)));
        assert_eq!(tidy(&sealed, 2000, 1700, 0), None);
        assert_eq!(tidy(&sealed, 2000, 1300, 1000), None, "two segments in flight are no waste");
        assert_eq!(tidy(&[(1, meta(1, 990))], 2000, 990, 0), None, "the waste is not in a sealed segment");
    }

    #[test]
    fn a_segment_goes_when_its_youngest_entry_is_too_old() {
        let sealed = [(1, meta(1, 400)), (2, meta(2, 900))];
        assert_eq!(expired(&sealed, 109, 100), None);
        assert_eq!(expired(&sealed, 111, 100), Some(Victim::Evict(1)));
    }

    #[test]
    fn the_most_used_records_are_kept_within_the_budget() {
        let mut keep = Keep::most_used(&[500, 100, 50, 25], 100);
        assert_eq!(keep.bytes(&[500, 100, 50, 25]), 100);
        assert!(keep.take(3, 25) && keep.take(2, 50));
        assert!(keep.take(1, 20) && !keep.take(1, 20) && keep.take(1, 5), "25 bytes are left for those read once");
        assert!(!keep.take(0, 1));
        let mut keep = Keep::most_used(&[500, 10, 10, 10], 100);
        assert!(keep.take(1, 10) && !keep.take(0, 1), "what was never read goes, whatever the budget");
    }
}
