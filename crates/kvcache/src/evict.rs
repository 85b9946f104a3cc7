//! What to free next and what to keep of it: decisions without effects.

use crate::{log::Meta, place::MAX_USES};

/// Compaction starts when the files are larger than the entries by this factor, in 64ths: 1.2.
const LARGE: u64 = 77;
/// Compaction is behind when they are larger by this: 1.22.
const TOO_LARGE: u64 = 78;

/// A segment that is to go.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Victim {
    /// The oldest: entries in use are copied, the others are dropped.
    Evict(u16),
    /// The oldest: every entry is copied that there is room for. Its space is free at once, which that of others is not.
    Vacate(u16),
    /// One with much dead space: every entry is copied.
    Compact(u16),
}

/// What is known of the files as a whole.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Size {
    /// Bytes of all files.
    pub(crate) disk_bytes: u64,
    /// Bytes of those that are condemned.
    pub(crate) condemned_bytes: u64,
    /// What the records that the index leads to take of the files, their footer entries included.
    pub(crate) live_bytes: u64,
    /// What is in flight and no waste: the segment that is being filled and the next.
    pub(crate) slack_bytes: u64,
    /// Whether even the oldest segment may go only when the copies are on stable storage.
    pub(crate) must_sync: bool,
}

impl Size {
    /// Whether the files are much larger than what lives in them, by a factor in 64ths.
    fn is_over(&self, bytes: u64, factor: u64) -> bool {
        bytes > self.live_bytes.saturating_mul(factor) / 64 + self.slack_bytes
    }

    /// Whether there is something to compact.
    pub(crate) fn is_untidy(&self) -> bool {
        self.is_over(self.disk_bytes - self.condemned_bytes, LARGE)
    }

    /// Whether there is something to compact, or to be had of what waits for stable storage.
    pub(crate) fn is_wasteful(&self) -> bool {
        self.is_untidy() || (self.is_overgrown() && self.is_sync_late())
    }

    /// Whether compaction is behind what is put.
    pub(crate) fn is_overgrown(&self) -> bool {
        self.is_over(self.disk_bytes, TOO_LARGE)
    }

    /// Whether stable storage is behind, and room is to be had without it.
    fn is_sync_late(&self) -> bool {
        !self.must_sync && self.condemned_bytes > self.live_bytes / 32 + self.slack_bytes
    }
}

/// Frees room: the segment with the most dead space if at least a third of it is dead, else the oldest. Only the oldest
/// gives room at once, so it is that if `at_once` is set. Entries are dropped only where there is little dead space;
/// None if room comes as soon as stable storage is ready.
pub(crate) fn make_room(sealed: &[(u16, Meta)], at_once: bool, must_sync: bool) -> Option<Victim> {
    let oldest = sealed.iter().min_by_key(|(_, meta)| meta.seq)?;
    let deadest = deadest(sealed)?;
    let is_mostly_live = |meta: &Meta| meta.live_bytes * 3 > meta.disk_bytes * 2;
    if is_mostly_live(&deadest.1) {
        return Some(Victim::Evict(oldest.0));
    }
    if !at_once {
        let is_oldest = oldest.0 == deadest.0;
        return Some(if is_oldest { Victim::Vacate(oldest.0) } else { Victim::Compact(deadest.0) });
    }
    let (live_bytes, disk_bytes) = sum(sealed);
    match must_sync {
        _ if live_bytes * 4 > disk_bytes * 3 => Some(Victim::Evict(oldest.0)),
        true => None,
        false => Some(Victim::Vacate(oldest.0)),
    }
}

/// Frees room where there is none for copies.
pub(crate) fn make_room_on_a_full_disk(sealed: &[(u16, Meta)]) -> Option<Victim> {
    sealed.iter().min_by_key(|(_, meta)| meta.seq).map(|(slot, _)| Victim::Evict(*slot))
}

fn sum(sealed: &[(u16, Meta)]) -> (u64, u64) {
    sealed.iter().fold((0, 0), |(live, disk), (_, meta)| (live + meta.live_bytes, disk + meta.disk_bytes))
}

/// The segment to compact if the files are much larger than what lives in them: the one with the most dead space, or the
/// oldest if the others would only wait for stable storage.
pub(crate) fn tidy(sealed: &[(u16, Meta)], size: &Size) -> Option<Victim> {
    if !size.is_wasteful() {
        return None;
    }
    let (slot, meta) = deadest(sealed)?;
    if meta.live_bytes * 8 >= meta.disk_bytes * 7 {
        return None;
    }
    let oldest = sealed.iter().min_by_key(|(_, meta)| meta.seq)?.0;
    let is_free_at_once = oldest == slot && !size.must_sync;
    Some(if is_free_at_once || size.is_sync_late() { Victim::Vacate(oldest) } else { Victim::Compact(slot) })
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
        let make_room = |of_4, of_5, at_once| make_room(&[(4, meta(2, of_4)), (5, meta(1, of_5))], at_once, false);
        assert_eq!(make_room(900, 950, false), Some(Victim::Evict(5)));
        assert_eq!(make_room(500, 950, false), Some(Victim::Compact(4)));
        assert_eq!(make_room(950, 500, false), Some(Victim::Vacate(5)));
        assert_eq!(make_room(500, 950, true), Some(Victim::Vacate(5)), "nothing is lost");
        assert_eq!(make_room(650, 950, true), Some(Victim::Evict(5)), "there is little dead space");
        assert_eq!(make_room(900, 950, true), Some(Victim::Evict(5)));
        let promised = super::make_room(&[(4, meta(2, 500)), (5, meta(1, 950))], true, true);
        assert_eq!(promised, None, "stable storage is waited for");
        assert_eq!(super::make_room(&[], false, false), None);
    }

    #[test]
    fn files_are_tidied_only_when_they_are_much_larger_than_their_entries() {
        let sealed = [(1, meta(1, 400)), (2, meta(2, 900))];
        let size = |live_bytes, slack_bytes| Size {
            disk_bytes: 2000,
            condemned_bytes: 0,
            live_bytes,
            slack_bytes,
            must_sync: false,
        };
        assert_eq!(tidy(&sealed, &size(1300, 0)), Some(Victim::Vacate(1)), "the oldest is free at once");
        assert_eq!(tidy(&[(1, meta(1, 900)), (2, meta(2, 400))], &size(1300, 0)), Some(Victim::Compact(2)));
        assert_eq!(tidy(&sealed, &size(1700, 0)), None);
        assert_eq!(tidy(&sealed, &size(1300, 1000)), None, "two segments in flight are no waste");
        assert_eq!(tidy(&[(1, meta(1, 990))], &size(990, 0)), None, "the waste is not in a sealed segment");
    }

    #[test]
    fn where_stable_storage_is_behind_the_oldest_goes_which_need_not_wait_for_it() {
        let sealed = [(1, meta(1, 900)), (2, meta(2, 100)), (3, meta(3, 900))];
        let size = |condemned_bytes| Size {
            disk_bytes: 3000 + condemned_bytes,
            condemned_bytes,
            live_bytes: 1900,
            slack_bytes: 100,
            must_sync: false,
        };
        assert_eq!(tidy(&sealed, &size(0)), Some(Victim::Compact(2)));
        assert_eq!(tidy(&sealed, &size(1000)), Some(Victim::Vacate(1)));
        let promised = Size { must_sync: true, ..size(1000) };
        assert_eq!(tidy(&sealed, &promised), Some(Victim::Compact(2)));
        assert!(!Size { disk_bytes: 2400, ..size(0) }.is_overgrown() && size(0).is_overgrown());
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
