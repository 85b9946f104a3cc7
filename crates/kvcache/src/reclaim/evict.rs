//! The ways to free a segment: eviction, compaction, and deletion without copies.

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
    /// Deletes the oldest segment and drops its entries; false if that segment is not complete. This needs no room,
    /// because no older value could come back. If the disk does not take the copies that were made before, perhaps of
    /// entries of this segment, a crash loses them as an eviction would.
    pub(super) fn drop_oldest(&self, turn: &mut Turn) -> Result<bool> {
        let oldest = self.store.log().oldest_finished();
        let Some((slot, meta)) = oldest else { return Ok(false) };
        let Some(segment) = self.store.view.segment(slot, meta.seq) else { return Ok(false) };
        if meta.live_bytes > 0 {
            let entries = self.entries_of(&segment);
            self.process_entries(&segment, &entries, Fate::None, turn)?;
        }
        // A disk that is full or fails must not keep the segment, which may be all that can be freed.
        let _ = self.secure_copies(turn);
        self.store.delete(&segment)?;
        self.pending_deletion.forget(meta.seq);
        assert!(self.store.log().oldest_seq() > meta.seq, "the oldest segment was deleted");
        Ok(true)
    }

    /// Evicts the oldest segment: copies the entries that are worth most and drops the others. False if nothing can be
    /// freed now.
    pub(super) fn evict(&self, segment: &Arc<Segment>, entries: &Entries, turn: &mut Turn) -> Result<bool> {
        let keep = self.choose(segment, entries, turn);
        if !self.empty_oldest(segment, entries, Fate::Chosen(keep), turn)? {
            return self.delete_emptied();
        }
        self.secure_copies(turn)?;
        self.store.delete(segment)?;
        Ok(true)
    }

    /// Writes all copies to the files, and syncs them if a write was ever synced, so that their originals may be
    /// deleted.
    fn secure_copies(&self, turn: &mut Turn) -> Result<()> {
        if turn.has_copied && self.store.files.has_promised() {
            let end = self.store.log().end();
            self.store.sync_through(end)?;
        } else if turn.has_copied {
            self.store.write_all()?;
        }
        turn.has_copied = false;
        Ok(())
    }

    /// Copies as many entries of the oldest segment as there is room for, and drops the others. The segment is deleted
    /// at once, or by the syncer if the copies must be durable first. False if nothing can be freed now.
    pub(super) fn vacate(&self, segment: &Arc<Segment>, entries: &Entries, turn: &mut Turn) -> Result<bool> {
        if !self.empty_oldest(segment, entries, Fate::AllThatFit, turn)? {
            return self.delete_emptied();
        }
        let store = &self.store;
        if turn.has_copied && !store.files.has_promised() {
            store.write_all()?;
            turn.has_copied = false;
        }
        if !store.delete_unless_promised(segment)? {
            self.mark_emptied(segment);
        }
        Ok(true)
    }

    /// Copies or drops the entries of the oldest segment. Dropped ones need no tombstones, because no older values
    /// exist. False if the segment is not the oldest, because older ones are emptied but not deleted yet.
    fn empty_oldest(&self, segment: &Segment, entries: &Entries, fate: Fate, turn: &mut Turn) -> Result<bool> {
        let is_oldest = segment.seq == self.store.log().oldest_seq();
        if is_oldest {
            self.process_entries(segment, entries, fate, turn)?;
        }
        Ok(is_oldest)
    }

    /// Chooses the entries to copy, which are those worth most: on average up to four fifths of the live bytes of a
    /// segment, or up to half if copies are expensive.
    fn choose(&self, segment: &Segment, entries: &Entries, turn: &mut Turn) -> Choice {
        let state = self.state(&self.store.log());
        // If each eviction waits for stable storage or puts wait for room, having fewer evictions is worth more than a
        // few hits.
        let is_dear = state.must_sync || state.is_pressed(&self.store.space);
        let popularity = turn.drift.next_segment();
        // Reads before a restart were not counted.
        let is_whole = segment.seq >= self.first_seq;
        let (mut weighed, mut total) = (Vec::new(), 0);
        for entry in entries.iter() {
            let Some(place) = self.live_place(segment, &entry) else { continue };
            if is_whole {
                turn.drift.tell(entry.rate, place.uses() > 0);
            }
            weighed.push((Weighed::new(entry.rate, place.uses(), is_whole, popularity), place.len() as u64));
            total += place.len() as u64;
        }
        self.ghost_list.fit(self.store.view.counters.entries.get());
        self.ghost_list.goes_on(turn.rounds.evicted(total, state.used_bytes), popularity);
        let share = keep_share(total, is_dear);
        let credit = self.store.space.keep_credit(turn.keep_credit, share);
        turn.threshold.follow(&weighed, share as f32 / total.max(1) as f32);
        let keep = Keep::best(weighed, turn.threshold, credit);
        assert!(keep.bytes() <= credit, "no more is kept than the credit allows");
        turn.keep_credit = credit - keep.bytes();
        Choice::new(keep, is_whole, popularity)
    }

    /// Copies the live records of a segment and those of its marks (tombstones and notes of dropped segments) that are
    /// still needed; then the segment waits for its deletion. Records that are damaged, cannot be read or have expired
    /// are dropped. False if there is no room now. A segment whose marks cannot be read is left as it is, with the
    /// result true, until it is the oldest, because without the marks removed values would come back from older
    /// segments.
    pub(super) fn compact(&self, segment: &Segment, entries: &Entries, turn: &mut Turn) -> Result<bool> {
        if self.store.log().stays_for_marks(segment.slot, entries.mark_bytes()) {
            return Ok(true);
        }
        let is_emptied = self.process_entries(segment, entries, Fate::All, turn)?;
        if !is_emptied || !self.copy_marks(segment, entries)? {
            return Ok(false);
        }
        self.mark_emptied(segment);
        Ok(true)
    }

    /// Adds a segment to those that wait for their deletion, and wakes the syncer.
    fn mark_emptied(&self, segment: &Segment) {
        self.store.log().mark_emptied(&self.store.view, segment.slot);
        let mut emptied = self.pending_deletion.emptied.lock();
        debug_assert!(!emptied.contains(&(segment.slot, segment.seq)), "a segment is emptied once");
        emptied.push((segment.slot, segment.seq));
        drop(emptied);
        self.calls.wake_syncer();
    }
}

/// Returns whether an error means that the disk is full, so that the cache can make room.
pub(crate) fn is_full(error: &Error) -> bool {
    let kinds = [ErrorKind::StorageFull, ErrorKind::QuotaExceeded];
    matches!(error, Error::File(error) if kinds.contains(&error.source.kind()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Cache, Durability, Options, PutOptions};
    use refdb_testkit::crash;
    use refdb_vfs::Fs;
    use std::path::Path;

    const ENTRIES: u32 = 20;

    fn open(fs: &Fs, dir: &Path) -> Result<Cache> {
        Cache::open_idle(fs.clone(), dir, Options::new(Options::SMALLEST_LIMIT_BYTES))
    }

    fn filled(durability: Durability) -> tempfile::TempDir {
        let dir = tempfile::tempdir().expect("there is room");
        let cache = open(&Fs::real(), dir.path()).expect("it is new");
        for i in 0..ENTRIES {
            let options = PutOptions::new().durability(durability);
            cache.put_with(&i.to_le_bytes(), &[1; 3_000], options).expect("there is room");
        }
        cache.close().expect("there is room");
        dir
    }

    /// Empties the oldest segment, and deletes it before the copies of its entries are secured.
    fn compact_and_free(fs: &Fs, dir: &Path) -> Result<()> {
        let cache = open(fs, dir)?;
        let (slot, meta) = cache.store.log().oldest_finished().expect("there are several segments");
        let segment = cache.store.view.segment(slot, meta.seq).expect("it is there");
        let entries = cache.reclaim.entries_of(&segment);
        assert!(cache.reclaim.compact(&segment, &entries, &mut cache.reclaim.turn())?);
        assert!(cache.reclaim.free_one()?);
        cache.abandon();
        Ok(())
    }

    fn assert_whole(dir: &Path, crash: &crash::Crash) {
        let cache = open(&Fs::real(), dir).expect("what a crash left can be opened");
        let lost: Vec<u32> = (0..ENTRIES).filter(|i| cache.get(&i.to_le_bytes()).is_none()).collect();
        assert!(lost.is_empty(), "{lost:?} after {crash:?}");
    }

    /// Previously, the copies were only in memory when the emptied segment was deleted.
    #[test]
    fn freeing_an_emptied_segment_costs_no_entry_in_a_kill() {
        let start = filled(Durability::Written);
        crash::kill_everywhere(start.path(), compact_and_free, assert_whole);
    }

    /// Previously, the copies were not synced when the emptied segment was deleted.
    #[test]
    fn freeing_an_emptied_segment_costs_no_synced_entry_in_a_power_loss() {
        let start = filled(Durability::Synced);
        crash::lose_power_everywhere(start.path(), crash::Disk::Unordered, compact_and_free, assert_whole);
    }
}
