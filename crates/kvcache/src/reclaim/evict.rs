//! How a segment goes: evicted, compacted, or dropped as it is.

use super::{
    choice::Choice,
    copy::Fate,
    keep::{Keep, Weighed},
    steps::{Reclaim, Turn},
};
use crate::{
    error::{Error, Result},
    format::footer::Entries,
    log::{segment::Segment, space::keep_share},
};
use std::{io::ErrorKind, sync::Arc};

impl Reclaim {
    /// Deletes the oldest segment of all as it is and drops its entries; false if no file is whole. This can always be
    /// done. Nothing older could come back, so there is nothing to write first, and nothing to wait for.
    pub(super) fn drop_oldest(&self, turn: &mut Turn) -> Result<bool> {
        let oldest = self.store.log().oldest_finished();
        let Some((slot, meta)) = oldest else { return Ok(false) };
        let Some(segment) = self.store.view.segment(slot, meta.seq) else { return Ok(false) };
        if meta.live_bytes > 0 {
            let entries = self.entries_of(&segment);
            self.settle_entries(&segment, &entries, Fate::None, turn)?;
        }
        self.store.delete(&segment)?;
        self.doomed.forget(meta.seq);
        assert!(self.store.log().oldest_seq() > meta.seq, "the oldest segment is gone, and its room free");
        Ok(true)
    }

    /// Evicts the oldest segment: copies the entries that are chosen and drops the others. False if that is not possible now.
    pub(super) fn evict(&self, segment: &Arc<Segment>, entries: &Entries, turn: &mut Turn) -> Result<bool> {
        let keep = self.choose(segment, entries, turn);
        let Some(kept) = self.empty_oldest(segment, entries, Fate::Chosen(keep), turn)? else {
            return self.delete_condemned();
        };
        // The copies must be in the files before the originals go. Otherwise a killed process would lose entries in
        // use.
        if kept && self.store.files.has_promised() {
            let end = self.store.log().end();
            self.store.sync_through(end)?;
        } else if kept {
            self.store.write_all()?;
        }
        self.store.delete(segment)?;
        Ok(true)
    }

    /// Copies every entry of the oldest segment that there is room for. False if that is not possible now.
    pub(super) fn vacate(&self, segment: &Arc<Segment>, entries: &Entries, turn: &mut Turn) -> Result<bool> {
        let Some(kept) = self.empty_oldest(segment, entries, Fate::AllThatFit, turn)? else {
            return self.delete_condemned();
        };
        let store = &self.store;
        if kept && !store.files.has_promised() {
            store.write_all()?;
        }
        if !store.delete_unless_promised(segment)? {
            self.condemn(segment);
        }
        Ok(true)
    }

    /// Copies or drops the entries of the oldest segment, and tells whether some were copied. No mark is written: there is
    /// nothing older that could come back. None where there is, because older ones are condemned but not deleted yet.
    fn empty_oldest(&self, segment: &Segment, entries: &Entries, fate: Fate, turn: &mut Turn) -> Result<Option<bool>> {
        if segment.seq != self.store.log().oldest_seq() {
            return Ok(None);
        }
        Ok(Some(self.settle_entries(segment, entries, fate, turn)?.kept))
    }

    /// Which entries are kept: those worth most, four fifths of the evicted bytes on average, or half.
    fn choose(&self, segment: &Segment, entries: &Entries, turn: &mut Turn) -> Choice {
        let state = self.state(&self.store.log());
        // Where each eviction waits for stable storage, fewer of them are worth more than a few hits.
        let is_dear = state.must_sync || state.is_pressed(&self.store.space);
        let pace = turn.forecast.next_segment();
        // What was read before a restart was not counted.
        let is_whole = segment.seq >= self.first_seq;
        let (mut weighed, mut total) = (Vec::new(), 0);
        for entry in entries.iter() {
            let Some(place) = self.live_place(segment, &entry) else { continue };
            if is_whole {
                turn.forecast.tell(entry.rate, place.uses() > 0);
            }
            weighed.push((Weighed::new(entry.rate, place.uses(), is_whole, pace), place.len() as u64));
            total += place.len() as u64;
        }
        self.past.fit(self.store.view.counters.entries.get());
        self.past.goes_on(turn.rounds.evicted(total, state.used_bytes), pace);
        let share = keep_share(total, is_dear);
        let credit = self.store.space.keep_credit(turn.keep_credit, share);
        turn.bar.follow(&weighed, share as f32 / total.max(1) as f32);
        let keep = Keep::best(weighed, turn.bar, credit);
        assert!(keep.bytes() <= credit, "each eviction frees a part of what it evicts");
        turn.keep_credit = credit - keep.bytes();
        Choice::new(keep, is_whole, pace)
    }

    /// Copies everything that lives in a segment and condemns it; false if there is no room for that now. One whose marks
    /// cannot be read stays until it is the oldest. Without them, what they removed would come back from older segments.
    pub(super) fn compact(&self, segment: &Segment, entries: &Entries, turn: &mut Turn) -> Result<bool> {
        if self.store.log().stays_for_marks(segment.slot, entries.mark_bytes()) {
            return Ok(true);
        }
        let settled = self.settle_entries(segment, entries, Fate::All, turn)?;
        if settled.left_over || !self.copy_marks(segment, entries)? {
            return Ok(false);
        }
        self.condemn(segment);
        Ok(true)
    }

    /// Leaves a segment to the syncer.
    fn condemn(&self, segment: &Segment) {
        self.store.log().condemn(segment.slot);
        let mut condemned = self.doomed.condemned.lock();
        debug_assert!(!condemned.contains(&(segment.slot, segment.seq)), "a segment is condemned once");
        condemned.push((segment.slot, segment.seq));
        drop(condemned);
        self.calls.wake_syncer();
    }
}

/// Whether the disk has no room, which the cache can make.
pub(crate) fn is_full(error: &Error) -> bool {
    let kinds = [ErrorKind::StorageFull, ErrorKind::QuotaExceeded];
    matches!(error, Error::File(error) if kinds.contains(&error.source.kind()))
}
