//! The life of a segment: written, sealed, emptied, deleted.

use super::{Active, Full, Log, LogPosition, Meta, Next};
use crate::log::{buffer::Buffer, replay::FoundShard, view::View};

impl Log {
    /// The next write to a file, oldest segment first; `None` if nothing has to be written.
    pub(crate) fn next_to_write(&self) -> Option<Next> {
        if let Some(full) = self.queue.front() {
            return Some(Next::Full(full.clone()));
        }
        let Active { segment, filling, tail, entries, .. } = &self.active;
        let has_more = segment.flushed() < *tail as u64 && (!entries.is_empty() || self.floor == segment.seq);
        has_more.then(|| Next::Tail(segment.clone(), filling.image.clone(), *tail))
    }

    /// Returns whether a full segment waits to be written.
    pub(crate) fn has_full(&self) -> bool {
        !self.queue.is_empty()
    }

    /// Returns whether everything before `end` is certainly in the files; not if it is in a full segment of the queue.
    pub(crate) fn is_written(&self, end: LogPosition) -> bool {
        let first = self.queue.front().map_or(self.active.segment.seq, |full| full.segment.seq);
        first > end.seq
            || (first == end.seq
                && self.active.segment.seq == first
                && self.active.segment.flushed() >= end.offset as u64)
    }

    /// Notes that a full segment is in its file.
    pub(crate) fn written(&mut self, seq: u64) {
        if self.queue.front().is_some_and(|full| full.segment.seq == seq) {
            self.queue.pop_front();
        }
        for meta in self.meta.iter_mut().flatten().filter(|meta| meta.seq == seq) {
            debug_assert!(seq < self.active.segment.seq, "the active segment is not complete: {seq}");
            meta.sealed = true;
        }
    }

    /// The write buffer, to which the memory of a segment can be given back, and which can be trimmed.
    pub(crate) fn buffer(&mut self) -> &mut Buffer {
        &mut self.buffer
    }

    /// The sealed segments that may be freed, by slot: neither emptied already nor kept for their marks, which are
    /// tombstones and notes that a segment was dropped.
    pub(crate) fn sealed(&self) -> Vec<(u16, Meta)> {
        let oldest = self.oldest_seq();
        let numbered = self.meta.iter().enumerate().filter_map(|(slot, meta)| Some((slot as u16, (*meta)?)));
        let may_go = |meta: &Meta| meta.sealed && !meta.emptied && (!meta.stays || meta.seq == oldest);
        numbered.filter(|(_, meta)| may_go(meta)).collect()
    }

    /// Records and returns whether a segment must stay until it is the oldest, because only `read_bytes` of its marks
    /// could be read.
    pub(crate) fn stays_for_marks(&mut self, slot: u16, read_bytes: u64) -> bool {
        let oldest = self.oldest_seq();
        let Some(meta) = &mut self.meta[usize::from(slot)] else { return false };
        meta.stays = meta.seq != oldest && read_bytes < meta.mark_bytes;
        meta.stays
    }

    /// The segments with their slots, in the order of the log, if the files have everything and replaying them would
    /// give the index as it is: the index is complete, and no removal and no deletion is outstanding.
    pub(crate) fn at_rest(&self) -> Option<Vec<(u16, Meta)>> {
        let Active { segment, entries, .. } = &self.active;
        let is_at_rest = self.is_loaded()
            && self.queue.is_empty()
            && entries.is_empty()
            && self.pending_removals.is_empty()
            && self.emptied_bytes == 0
            && self.unmarked.is_empty();
        let all = self.meta.iter().enumerate().filter_map(|(slot, meta)| Some((slot as u16, (*meta)?)));
        let mut sealed: Vec<_> = all.filter(|(slot, _)| *slot != segment.slot).collect();
        sealed.sort_by_key(|(_, meta)| meta.seq);
        (is_at_rest && sealed.iter().all(|(_, meta)| meta.sealed)).then_some(sealed)
    }

    /// Returns whether the index has the entries of all segments. As long as it does not, only a clear can free a
    /// segment, because nobody knows which of its records are live.
    pub(crate) fn is_loaded(&self) -> bool {
        self.fill.is_complete()
    }

    /// Adds the entries of a shard that were found in the files, except for keys that were put or removed since.
    /// Returns false if everything was cleared since.
    pub(crate) fn complete(&mut self, view: &View, number: usize, found: FoundShard) -> bool {
        let FoundShard { shard, mut live } = found;
        if !view.index.complete(&mut self.fill, number, shard, |place| live.sub(place)) {
            return false;
        }
        view.counters.entries.add(live.entries);
        view.counters.live_bytes.add(live.bytes);
        for (meta, bytes) in self.meta.iter_mut().zip(live.bytes_of) {
            meta.iter_mut().for_each(|meta| meta.live_bytes += bytes);
        }
        true
    }

    /// Sets the bytes that each segment's marks take of its file. `marks` is about the segments that were found when
    /// the cache was opened, which have the first slots. Does nothing if everything was cleared since.
    pub(crate) fn set_marks(&mut self, marks: Vec<u64>) {
        if self.is_loaded() {
            return;
        }
        for (meta, bytes) in self.meta.iter_mut().zip(marks) {
            meta.iter_mut().for_each(|meta| meta.mark_bytes = bytes);
        }
    }

    /// Notes that a segment is to be deleted as soon as the copies of its records are on stable storage. If the segment
    /// is the oldest and no write was ever synced, it is enough that the copies are in the files. Does nothing if a
    /// clear has noted already that the segment is to be deleted.
    pub(crate) fn mark_emptied(&mut self, view: &View, slot: u16) {
        self.drop_strays(view, slot);
        if let Some(meta) = &mut self.meta[usize::from(slot)] {
            debug_assert!(meta.sealed && meta.live_bytes == 0, "an emptied segment has no live record");
            if !meta.emptied {
                meta.emptied = true;
                self.emptied_bytes += meta.disk_bytes;
            }
        }
    }

    /// Drops entries that the index has for a segment although its footer does not list them. Only a forged saved index
    /// can bring such entries, because a saved index is believed without comparing it with the footers' entries.
    fn drop_strays(&mut self, view: &View, slot: u16) {
        if self.meta[usize::from(slot)].is_some_and(|meta| meta.live_bytes > 0) {
            let mut strays = Vec::new();
            view.index.for_each(|hash, place| strays.extend((place.slot() == slot).then_some(hash)));
            for hash in strays {
                self.forget(view, hash);
            }
        }
    }

    /// Bytes of emptied segments, which will soon be free.
    pub(crate) fn emptied_bytes(&self) -> u64 {
        self.emptied_bytes
    }

    /// Number of the oldest segment; 0 if there is none.
    pub(crate) fn oldest_seq(&self) -> u64 {
        self.seqs.first().copied().unwrap_or(0)
    }

    /// The oldest segment with its slot, if it is sealed or emptied.
    pub(crate) fn oldest_finished(&self) -> Option<(u16, Meta)> {
        let oldest = self.oldest_seq();
        let slot = self.meta.iter().position(|meta| meta.is_some_and(|meta| meta.seq == oldest))?;
        let is_finished = |meta: &Meta| meta.sealed || meta.emptied;
        self.meta[slot].filter(is_finished).map(|meta| (slot as u16, meta))
    }

    /// Bytes of the largest segment that exists or waits for room.
    pub(crate) fn largest_bytes(&self) -> u64 {
        self.largest_bytes.max(self.awaited_bytes)
    }

    pub(crate) fn segments(&self) -> usize {
        self.seqs.len()
    }

    pub(crate) fn free_slots(&self) -> usize {
        self.free_slots.len()
    }

    /// Notes that all segments up to this number are on stable storage.
    pub(crate) fn synced(&mut self, seq: u64) {
        debug_assert!(seq < self.active.segment.seq, "the active segment is not complete: {seq}");
        self.synced_seq = self.synced_seq.max(seq);
    }

    /// Frees the room of a segment whose file was deleted.
    pub(crate) fn release(&mut self, view: &View, slot: u16) {
        let at = usize::from(slot);
        self.drop_strays(view, slot);
        if let Some(meta) = self.meta[at].take() {
            debug_assert_eq!(meta.live_bytes, 0, "only a segment without live records is deleted");
            assert!(slot != self.active.segment.slot, "the active segment stays");
            assert!(
                meta.disk_bytes <= self.disk_bytes,
                "only counted bytes are taken off: {meta:?} of {}",
                self.disk_bytes
            );
            view.slots[at].store(None);
            self.disk_bytes -= meta.disk_bytes;
            let was_there = self.seqs.remove(&meta.seq);
            debug_assert!(was_there, "each segment is in the list of numbers: {meta:?}");
            self.unmarked.forget(meta.seq);
            if meta.disk_bytes == self.largest_bytes {
                self.largest_bytes = self.meta.iter().flatten().map(|meta| meta.disk_bytes).max().unwrap_or(0);
            }
            if meta.emptied {
                debug_assert!(meta.disk_bytes <= self.emptied_bytes, "{meta:?} of {}", self.emptied_bytes);
                self.emptied_bytes -= meta.disk_bytes;
            }
            debug_assert!(self.emptied_bytes <= self.disk_bytes, "emptied segments are a part of all");
            view.counters.disk_bytes.set(self.disk_bytes);
            self.free_slots.push(slot);
        }
    }

    /// Removes all entries: the header of the next segment says that all earlier segments are void. Returns the
    /// segments to be deleted, and memory to be freed after the lock is released. `None` if no segment can be started.
    /// Until a void segment is deleted, the header of the new segment may exceed the room for segments, by one block
    /// that the limit keeps free for this.
    pub(crate) fn clear(&mut self, view: &View) -> Option<(Vec<(u16, u64)>, impl Send + use<> + 'static)> {
        if self.free_slots.is_empty() || self.disk_bytes > self.space.room_bytes {
            return None;
        }
        let tables = view.index.clear(&mut self.fill);
        view.counters.entries.set(0);
        view.counters.live_bytes.set(0);
        let mut void = Vec::new();
        for (slot, meta) in self.meta.iter_mut().enumerate() {
            if let Some(meta) = meta {
                meta.live_bytes = 0;
                meta.emptied = true;
                void.push((slot as u16, meta.seq));
            }
        }
        // This includes the active segment, to which no record is appended any more.
        self.emptied_bytes = self.disk_bytes;
        self.pending_removals.clear();
        self.unmarked.clear();
        self.awaited_bytes = 0;
        self.floor = self.active.segment.seq + 1;
        let filling = self.buffer.take_anyway(0);
        self.start_segment(view, filling, 0);
        self.removals_end = Some(self.end());
        // Segments that wait for the disk need not be written.
        debug_assert!(self.floor == self.active.segment.seq && self.active.entries.is_empty(), "the log starts over");
        let waiting: Vec<Full> = self.queue.drain(..).collect();
        Some((void, (tables, waiting)))
    }
}
