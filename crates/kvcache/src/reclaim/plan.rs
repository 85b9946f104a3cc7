//! What to free next: a decision without effects.

use crate::log::{
    append::Meta,
    space::{Space, Who, copy_room},
};

/// Files that take no more than this part of the limit are left alone. Dead space costs nothing where there is room.
/// The longer a segment waits, the less of it is left to copy.
const ROOMY: u64 = 2;
/// Beyond that, compaction starts when the files are larger than the entries by this factor, in 64ths: 1.2.
const LARGE: u64 = 77;
/// Compaction is behind when they are larger by this: 1.22.
const TOO_LARGE: u64 = 78;
/// Of this many steps in a row that are to make room, one is an eviction, whatever compaction promised.
const COMPACTIONS_IN_A_ROW: u32 = 16;
/// Less dead space than this is not worth the mark that a compaction leaves.
const LEAST_DEAD_BYTES: u64 = 512;

/// How a segment is to go.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Step {
    /// The oldest: entries in use are copied, as far as there is room, the others are dropped.
    Evict(u16),
    /// The oldest: every entry is copied that there is room for. Its space is free at once, which that of others is not.
    Vacate(u16),
    /// One with much dead space: every entry is copied.
    Compact(u16),
    /// The oldest of all goes as it is. This needs no room, writes nothing and waits for nothing.
    Drop,
}

/// The state of the files as a whole.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct State {
    /// What all files take.
    pub(crate) used_bytes: u64,
    /// What those take that go as soon as stable storage is ready.
    pub(crate) condemned_bytes: u64,
    /// What the records that the index leads to take of the files, their footer entries included.
    pub(crate) live_bytes: u64,
    /// What the largest takes that is there or waits.
    pub(crate) largest_bytes: u64,
    /// How many segments there are, and how many more there may be.
    pub(crate) segments: usize,
    pub(crate) free_slots: usize,
    /// Whether even the oldest segment may go only when the copies are on stable storage.
    pub(crate) must_sync: bool,
    /// Whether condemned segments will not go: stable storage fails, or a removal must come before and finds no room.
    pub(crate) is_stuck: bool,
    /// How many segments were compacted to make room since there was enough.
    pub(crate) in_a_row: u32,
}

impl State {
    /// Whether the files are much larger than their live entries (a factor in 64ths) and take much of the limit. Two
    /// segments in flight are no waste: that which is being filled and the next.
    fn is_over(&self, space: &Space, bytes: u64, factor: u64) -> bool {
        bytes > space.limit_bytes / ROOMY && bytes > self.live_bytes.saturating_mul(factor) / 64 + slack(space)
    }

    /// Whether there is something to compact.
    pub(crate) fn is_untidy(&self, space: &Space) -> bool {
        self.is_over(space, self.used_bytes - self.condemned_bytes, LARGE)
    }

    /// Whether compaction is behind the puts.
    pub(crate) fn is_overgrown(&self, space: &Space) -> bool {
        self.is_over(space, self.used_bytes, TOO_LARGE)
    }

    /// Whether stable storage is behind, and room is to be had without it.
    fn is_sync_late(&self, space: &Space) -> bool {
        !self.must_sync && self.condemned_bytes > self.live_bytes / 32 + slack(space)
    }

    fn free_bytes(&self, space: &Space) -> u64 {
        space.room_bytes.saturating_sub(self.used_bytes)
    }

    /// Whether the next put may find no room.
    pub(crate) fn is_short(&self, space: &Space) -> bool {
        self.free_bytes(space) < space.kept_free_bytes(self.largest_bytes)
    }

    /// Whether room is shorter than it becomes while the worker keeps up with the puts, or a large entry waits.
    pub(crate) fn is_pressed(&self, space: &Space) -> bool {
        self.free_bytes(space) + (space.segment_bytes as u64) < space.kept_free_bytes(self.largest_bytes)
    }

    /// Whether a look at the segments may find something to do.
    pub(crate) fn may_need_work(&self, space: &Space) -> bool {
        self.is_short(space)
            || self.is_crowded(space)
            || self.is_untidy(space)
            || (self.is_overgrown(space) && self.is_sync_late(space))
    }

    /// Whether segments are many for what they hold, as after many restarts.
    pub(crate) fn is_crowded(&self, space: &Space) -> bool {
        self.segments > space.slots / 4 * 3
    }
}

fn slack(space: &Space) -> u64 {
    2 * space.segment_bytes as u64
}

/// What to do next; None if nothing is to be done but to wait for stable storage, if for anything. `sealed` are the
/// segments that are whole and not condemned.
pub(crate) fn plan(space: &Space, state: &State, sealed: &[(u16, Meta)]) -> Option<Step> {
    debug_assert!(sealed.iter().all(|(_, meta)| meta.sealed && !meta.condemned), "a condemned segment goes by itself");
    let step = choose(space, state, sealed);
    let is_oldest = |slot| oldest(sealed).is_some_and(|(oldest, _)| oldest == slot);
    debug_assert!(
        !matches!(step, Some(Step::Evict(slot) | Step::Vacate(slot)) if !is_oldest(slot)),
        "entries are dropped of the oldest segment only: {step:?}"
    );
    step
}

fn choose(space: &Space, state: &State, sealed: &[(u16, Meta)]) -> Option<Step> {
    if state.is_short(space) || state.free_slots <= space.reserve_slots(Who::Put) {
        return make_room(space, state, sealed);
    }
    crowded(space, state, sealed).or_else(|| tidy(space, state, sealed))
}

/// Frees room. It takes the segment with the most dead space if at least a third is dead, else the oldest. Only the
/// oldest gives room at once, so it is that if condemned ones wait for long. Entries are dropped only where there is
/// little dead space, or no room to copy.
fn make_room(space: &Space, state: &State, sealed: &[(u16, Meta)]) -> Option<Step> {
    if state.is_stuck {
        return Some(Step::Drop);
    }
    // A condemned segment is soon free, unless the disk is too slow for the puts.
    let waits = state.condemned_bytes > 0;
    let is_late = state.condemned_bytes > space.limit_bytes / 16;
    let soon = State { used_bytes: state.used_bytes - state.condemned_bytes, ..*state };
    if waits && !is_late && !soon.is_short(space) {
        return None;
    }
    let (oldest, deadest) = (oldest(sealed)?, deadest(sealed)?);
    let evict = Some(Step::Evict(oldest.0));
    if !tidiable(&deadest.1, oldest.1.seq, 3) || state.in_a_row >= COMPACTIONS_IN_A_ROW {
        return evict;
    }
    let free = state.free_bytes(space);
    if is_late {
        let (live, disk) =
            sealed.iter().fold((0, 0), |(live, disk), (_, meta)| (live + meta.live_bytes, disk + meta.disk_bytes));
        return match state.must_sync {
            _ if live * 4 > disk * 3 => evict,
            true => None,
            false => Some(Step::Vacate(oldest.0)),
        };
    }
    let victim = if oldest.0 == deadest.0 { Step::Vacate(oldest.0) } else { Step::Compact(deadest.0) };
    match copy_room(deadest.1.kept_bytes(oldest.1.seq)) <= free {
        true => Some(victim),
        // Room for the copies comes with those that are condemned, or with nothing but an eviction.
        false if waits => None,
        false => evict,
    }
}

/// The segment that holds least, where there are many that hold little.
fn crowded(space: &Space, state: &State, sealed: &[(u16, Meta)]) -> Option<Step> {
    if !state.is_crowded(space) || state.is_stuck {
        return None;
    }
    let oldest = oldest(sealed)?.1.seq;
    let (slot, meta) = *sealed.iter().min_by_key(|(_, meta)| meta.kept_bytes(oldest))?;
    let is_little = meta.kept_bytes(oldest) * 2 < space.segment_bytes as u64;
    (is_little && copy_room(meta.kept_bytes(oldest)) <= state.free_bytes(space)).then_some(match meta.seq == oldest {
        true => Step::Vacate(slot),
        false => Step::Compact(slot),
    })
}

/// The segment to compact if the files are much larger than their live entries. It has the most dead space, or is the
/// oldest if the others would only wait for stable storage.
fn tidy(space: &Space, state: &State, sealed: &[(u16, Meta)]) -> Option<Step> {
    let is_late = state.is_sync_late(space);
    if state.is_stuck || !(state.is_untidy(space) || (state.is_overgrown(space) && is_late)) {
        return None;
    }
    let (oldest, deadest) = (oldest(sealed)?, deadest(sealed)?);
    if !tidiable(&deadest.1, oldest.1.seq, 8) {
        return None;
    }
    let is_free_at_once = oldest.0 == deadest.0 && !state.must_sync;
    let (step, victim) = match is_free_at_once || is_late {
        true => (Step::Vacate(oldest.0), oldest.1),
        false => (Step::Compact(deadest.0), deadest.1),
    };
    (copy_room(victim.kept_bytes(oldest.1.seq)) <= state.free_bytes(space)).then_some(step)
}

/// Whether one `part`-th of a segment at least is dead, so that each compaction leaves less dead space than before. Blocks
/// that are not full are no dead space: the copies would have them, too.
pub(crate) fn tidiable(meta: &Meta, oldest_seq: u64, part: u64) -> bool {
    let marks = if meta.seq == oldest_seq { 0 } else { meta.mark_bytes };
    let dead = meta.dead_bytes().saturating_sub(marks);
    dead >= LEAST_DEAD_BYTES && dead * part >= meta.file_bytes
}

/// A segment whose youngest entry is too old.
pub(crate) fn expired(sealed: &[(u16, Meta)], now_ms: u64, max_age_ms: u64) -> Option<Step> {
    let oldest = oldest(sealed)?.1.seq;
    let is_old = |meta: &Meta| meta.live_bytes > 0 && now_ms.saturating_sub(meta.newest_ms) > max_age_ms;
    let (slot, meta) = sealed.iter().find(|(_, meta)| is_old(meta))?;
    Some(if meta.seq == oldest { Step::Evict(*slot) } else { Step::Compact(*slot) })
}

fn oldest(sealed: &[(u16, Meta)]) -> Option<(u16, Meta)> {
    sealed.iter().copied().min_by_key(|(_, meta)| meta.seq)
}

/// The one of which most is dead; of several the oldest, whose marks need not be kept.
fn deadest(sealed: &[(u16, Meta)]) -> Option<(u16, Meta)> {
    let oldest = oldest(sealed)?.1.seq;
    let share_kept = |meta: &Meta| meta.kept_bytes(oldest).saturating_mul(1 << 20) / meta.file_bytes.max(1);
    sealed.iter().copied().min_by_key(|(_, meta)| (share_kept(meta), meta.seq))
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMIT: u64 = 64 << 20;

    fn state(used_bytes: u64, live_bytes: u64) -> State {
        State {
            used_bytes,
            condemned_bytes: 0,
            live_bytes,
            largest_bytes: 0,
            segments: 10,
            free_slots: 100,
            must_sync: false,
            is_stuck: false,
            in_a_row: 0,
        }
    }

    #[test]
    fn dead_space_is_left_alone_up_to_half_of_the_limit() {
        let space = Space::new(LIMIT);
        let needs_work = |used, live| state(used, live).may_need_work(&space);
        assert!(!needs_work(LIMIT / 2, 0), "all of it is dead, and there is room");
        assert!(needs_work(LIMIT / 2 + 1, 0));
        assert!(needs_work(LIMIT / 2 + 1, LIMIT / 3), "1.5 times what lives");
        // A full cache compacts as much as one without room ever did.
        assert!(!needs_work(LIMIT / 10 * 8, LIMIT / 10 * 7) && needs_work(LIMIT / 10 * 9, LIMIT / 10 * 7));
    }
}
