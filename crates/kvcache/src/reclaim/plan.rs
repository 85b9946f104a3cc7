//! Decides, without effects, what to free next.

use crate::log::{
    append::Meta,
    space::{Priority, Space, copy_room},
};

/// As long as the files take at most one part in `ROOMY` of the limit, the worker does not compact to free dead space,
/// which costs nothing while there is room: the longer a segment waits, the less of it must be copied.
const ROOMY: u64 = 2;
/// Compaction starts when the files take more than one part in [`ROOMY`] of the limit, and are larger than the live
/// entries times this factor, in 64ths (1.2), plus two segments.
const LARGE: u64 = 77;
/// Compaction is behind the puts when the files take more than one part in [`ROOMY`] of the limit, and are larger than
/// the live entries times this factor, in 64ths (1.22), plus two segments.
const TOO_LARGE: u64 = 78;
/// Maximum number of compactions in a row that are made because space is short; then an eviction follows, however much
/// dead space there is.
const COMPACTIONS_IN_A_ROW: u32 = 16;
/// Least dead space in bytes that is worth the note of a dropped segment which a compaction leaves in the log.
const LEAST_DEAD_BYTES: u64 = 512;

/// The next step to free a segment.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Step {
    /// Evict the oldest segment: copy the entries that are worth most, as far as there is room, and drop the others.
    Evict(u16),
    /// Empty the oldest segment: copy as many entries as there is room for. Unless a write was ever synced, the space
    /// of the oldest segment is free at once; that of other segments is free only after a sync.
    Vacate(u16),
    /// Compact a segment: copy every entry that is intact and has not expired.
    Compact(u16),
    /// Delete the oldest segment without copies, which needs no room and writes nothing.
    Drop,
}

/// The state of the files as a whole.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct State {
    /// Bytes of all segments' files, in whole blocks.
    pub(crate) used_bytes: u64,
    /// Bytes of segments that are emptied or void, and only wait for their deletion.
    pub(crate) emptied_bytes: u64,
    /// Bytes that live records take of the files, with their footer entries.
    pub(crate) live_bytes: u64,
    /// Bytes of the largest segment that exists or waits for room.
    pub(crate) largest_bytes: u64,
    /// Number of segments.
    pub(crate) segments: usize,
    /// Number of further segments that are possible.
    pub(crate) free_slots: usize,
    /// Whether even the oldest segment may be deleted only when the copies are durable.
    pub(crate) must_sync: bool,
    /// Whether only dropping the oldest segment makes room: a tombstone finds none, or emptied segments cannot be
    /// deleted because syncs fail.
    pub(crate) is_stuck: bool,
    /// Number of steps in a row that compacted or vacated a segment because space was short.
    pub(crate) in_a_row: u32,
}

impl State {
    /// Returns whether `bytes` of files are more than one part in [`ROOMY`] of the limit and more than `factor` 64ths
    /// of the live entries plus two segments, the active one and the next.
    fn is_over(&self, space: &Space, bytes: u64, factor: u64) -> bool {
        bytes > space.limit_bytes / ROOMY && bytes > self.live_bytes.saturating_mul(factor) / 64 + slack(space)
    }

    /// Returns whether dead space should be compacted.
    pub(crate) fn is_untidy(&self, space: &Space) -> bool {
        self.is_over(space, self.used_bytes - self.emptied_bytes, LARGE)
    }

    /// Returns whether compaction is behind the puts.
    pub(crate) fn is_overgrown(&self, space: &Space) -> bool {
        self.is_over(space, self.used_bytes, TOO_LARGE)
    }

    /// Returns whether syncs are behind and room can be made without them.
    fn is_sync_late(&self, space: &Space) -> bool {
        !self.must_sync && self.emptied_bytes > self.live_bytes / 32 + slack(space)
    }

    fn free_bytes(&self, space: &Space) -> u64 {
        space.room_bytes.saturating_sub(self.used_bytes)
    }

    /// Returns whether the next put may find no room.
    pub(crate) fn is_short(&self, space: &Space) -> bool {
        self.free_bytes(space) < space.kept_free_bytes(self.largest_bytes)
    }

    /// Returns whether more than a segment is missing from the room that the worker keeps free, because it does not
    /// keep up with the puts or a large entry waits.
    pub(crate) fn is_pressed(&self, space: &Space) -> bool {
        self.free_bytes(space) + (space.segment_bytes as u64) < space.kept_free_bytes(self.largest_bytes)
    }

    /// Returns whether it is worthwhile to examine the segments.
    pub(crate) fn may_need_work(&self, space: &Space) -> bool {
        self.is_short(space)
            || self.is_crowded(space)
            || self.is_untidy(space)
            || (self.is_overgrown(space) && self.is_sync_late(space))
    }

    /// Returns whether there are more than three quarters of the possible number of segments, as after many restarts.
    pub(crate) fn is_crowded(&self, space: &Space) -> bool {
        self.segments > space.slots / 4 * 3
    }
}

fn slack(space: &Space) -> u64 {
    2 * space.segment_bytes as u64
}

/// The next step; `None` if there is nothing to do except perhaps to wait for a sync. `sealed` are the sealed segments
/// that are not emptied.
pub(crate) fn plan(space: &Space, state: &State, sealed: &[(u16, Meta)]) -> Option<Step> {
    debug_assert!(sealed.iter().all(|(_, meta)| meta.sealed && !meta.emptied), "emptied segments are not candidates");
    let step = choose(space, state, sealed);
    let is_oldest = |slot| oldest(sealed).is_some_and(|(oldest, _)| oldest == slot);
    debug_assert!(
        !matches!(step, Some(Step::Evict(slot) | Step::Vacate(slot)) if !is_oldest(slot)),
        "only the oldest segment's entries are dropped: {step:?}"
    );
    step
}

fn choose(space: &Space, state: &State, sealed: &[(u16, Meta)]) -> Option<Step> {
    if state.is_short(space) || state.free_slots <= space.reserve_slots(Priority::Put) {
        return make_room(space, state, sealed);
    }
    crowded(space, state, sealed).or_else(|| tidy(space, state, sealed))
}

/// The step that makes room; `None` if there is nothing to do but wait until emptied segments are deleted, or if no
/// segment is sealed. Usually this compacts the segment with the largest share of dead space, or evicts the oldest
/// segment if that share is less than a third, if the copies find no room, or after [`COMPACTIONS_IN_A_ROW`]. While
/// emptied segments take more than a sixteenth of the limit, only the oldest segment is a candidate, because its room
/// is free at once; if a write was ever synced, that is not so, and the only steps are to evict or to wait. In a state
/// that [is stuck](State::is_stuck), the oldest segment is dropped.
fn make_room(space: &Space, state: &State, sealed: &[(u16, Meta)]) -> Option<Step> {
    if state.is_stuck {
        return Some(Step::Drop);
    }
    // The room of an emptied segment is soon free, unless the disk is too slow for the puts.
    let waits = state.emptied_bytes > 0;
    let is_late = state.emptied_bytes > space.limit_bytes / 16;
    let soon = State { used_bytes: state.used_bytes - state.emptied_bytes, ..*state };
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
        // Room for the copies comes from emptied segments, or else only from an eviction.
        false if waits => None,
        false => evict,
    }
}

/// Compacts, or vacates if it is the oldest, the segment with the least content, if there are too many segments, if
/// that one is less than half full and if its copies find room.
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

/// Compacts a segment if the files are much larger than their live entries: the one with the largest share of dead
/// space, or the oldest if the others would only wait for a sync. Does nothing if less than an eighth of the former is
/// dead, or if the copies find no room.
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

/// Returns whether at least one part in `part` of a segment and [`LEAST_DEAD_BYTES`] are dead, not counting marks
/// (tombstones and notes of dropped segments) that a compaction may keep, so that each compaction leaves less dead
/// space than before. Partly filled blocks are not dead space, because the copies would have them too.
pub(crate) fn tidiable(meta: &Meta, oldest_seq: u64, part: u64) -> bool {
    let marks = if meta.seq == oldest_seq { 0 } else { meta.mark_bytes };
    let dead = meta.dead_bytes().saturating_sub(marks);
    dead >= LEAST_DEAD_BYTES && dead * part >= meta.file_bytes
}

/// The step that frees a segment with live entries whose records are all older than the maximum age; `None` if there is
/// no such segment.
pub(crate) fn expired(sealed: &[(u16, Meta)], now_ms: u64, max_age_ms: u64) -> Option<Step> {
    let oldest = oldest(sealed)?.1.seq;
    let is_old = |meta: &Meta| meta.live_bytes > 0 && now_ms.saturating_sub(meta.newest_ms) > max_age_ms;
    let (slot, meta) = sealed.iter().find(|(_, meta)| is_old(meta))?;
    Some(if meta.seq == oldest { Step::Evict(*slot) } else { Step::Compact(*slot) })
}

fn oldest(sealed: &[(u16, Meta)]) -> Option<(u16, Meta)> {
    sealed.iter().copied().min_by_key(|(_, meta)| meta.seq)
}

/// The segment with the largest share of dead space. If several have the same share, the oldest of them is returned,
/// because no tombstones need be kept if that is the oldest of all.
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
            emptied_bytes: 0,
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
        assert!(!needs_work(LIMIT / 2, 0), "everything is dead, and there is room");
        assert!(needs_work(LIMIT / 2 + 1, 0));
        assert!(needs_work(LIMIT / 2 + 1, LIMIT / 3), "1.5 times the live entries");
        // Above half of the limit, the size of the live entries decides.
        assert!(!needs_work(LIMIT / 10 * 8, LIMIT / 10 * 7) && needs_work(LIMIT / 10 * 9, LIMIT / 10 * 7));
    }
}
