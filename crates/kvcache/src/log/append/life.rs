//! What becomes of segments: written, sealed, condemned, gone.

use super::{Active, End, Full, Log, Meta, Next};
use crate::log::{buffer::Buffer, view::View};

impl Log {
    /// What the disk does not have yet, oldest first; None if it has everything.
    pub(crate) fn next_to_write(&self) -> Option<Next> {
        if let Some(full) = self.queue.front() {
            return Some(Next::Full(full.clone()));
        }
        let Active { segment, filling, tail, entries, .. } = &self.active;
        let has_more = segment.flushed() < *tail as u64 && (!entries.is_empty() || self.floor == segment.seq);
        has_more.then(|| Next::Tail(segment.clone(), filling.image.clone(), *tail))
    }

    /// Whether a full segment waits for the disk.
    pub(crate) fn has_full(&self) -> bool {
        !self.queue.is_empty()
    }

    /// Whether everything before `end` is in the files.
    pub(crate) fn is_written(&self, end: End) -> bool {
        let first = self.queue.front().map_or(self.active.segment.seq, |full| full.segment.seq);
        first > end.seq
            || (first == end.seq
                && self.active.segment.seq == first
                && self.active.segment.flushed() >= end.offset as u64)
    }

    /// A full segment is on disk.
    pub(crate) fn written(&mut self, seq: u64) {
        if self.queue.front().is_some_and(|full| full.segment.seq == seq) {
            self.queue.pop_front();
        }
        for meta in self.meta.iter_mut().flatten().filter(|meta| meta.seq == seq) {
            debug_assert!(seq < self.active.segment.seq, "the segment that is being filled is not whole: {seq}");
            meta.sealed = true;
        }
    }

    /// The write buffer, to take an image back.
    pub(crate) fn buffer(&mut self) -> &mut Buffer {
        &mut self.buffer
    }

    /// The sealed segments, by slot, without those that are condemned or stay.
    pub(crate) fn sealed(&self) -> Vec<(u16, Meta)> {
        let oldest = self.oldest_seq();
        let numbered = self.meta.iter().enumerate().filter_map(|(slot, meta)| Some((slot as u16, (*meta)?)));
        let may_go = |meta: &Meta| meta.sealed && !meta.condemned && (!meta.stays || meta.seq == oldest);
        numbered.filter(|(_, meta)| may_go(meta)).collect()
    }

    /// Whether a segment must stay until it is the oldest, since it has marks beyond those that could be read.
    pub(crate) fn stays_for_marks(&mut self, slot: u16, read_bytes: u64) -> bool {
        let oldest = self.oldest_seq();
        let Some(meta) = &mut self.meta[usize::from(slot)] else { return false };
        meta.stays = meta.seq != oldest && read_bytes < meta.mark_bytes;
        meta.stays
    }

    /// Marks a segment that goes as soon as the copies of what lived in it are on stable storage. A clear may have done so
    /// before.
    pub(crate) fn condemn(&mut self, slot: u16) {
        if let Some(meta) = &mut self.meta[usize::from(slot)] {
            debug_assert!(meta.sealed && meta.live_bytes == 0, "it goes with nothing in it");
            if !meta.condemned {
                meta.condemned = true;
                self.condemned_bytes += meta.disk_bytes;
            }
        }
    }

    /// Bytes that are as good as free.
    pub(crate) fn condemned_bytes(&self) -> u64 {
        self.condemned_bytes
    }

    /// The smallest number of a segment that exists.
    pub(crate) fn oldest_seq(&self) -> u64 {
        self.seqs.first().copied().unwrap_or(0)
    }

    /// The oldest segment, by slot, if its file is whole or nothing lives there.
    pub(crate) fn oldest_finished(&self) -> Option<(u16, Meta)> {
        let oldest = self.oldest_seq();
        let slot = self.meta.iter().position(|meta| meta.is_some_and(|meta| meta.seq == oldest))?;
        let is_finished = |meta: &Meta| meta.sealed || meta.condemned;
        self.meta[slot].filter(is_finished).map(|meta| (slot as u16, meta))
    }

    /// What the largest takes that is there or waits for room.
    pub(crate) fn largest_bytes(&self) -> u64 {
        self.largest_bytes.max(self.awaited_bytes)
    }

    pub(crate) fn segments(&self) -> usize {
        self.seqs.len()
    }

    pub(crate) fn free_slots(&self) -> usize {
        self.free_slots.len()
    }

    /// All segments up to this number are on stable storage.
    pub(crate) fn synced(&mut self, seq: u64) {
        debug_assert!(seq < self.active.segment.seq, "the segment that is being filled is not whole: {seq}");
        self.synced_seq = self.synced_seq.max(seq);
    }

    /// Gives up the room of a segment whose file is gone.
    pub(crate) fn release(&mut self, view: &View, slot: u16) {
        let at = usize::from(slot);
        if let Some(meta) = self.meta[at].take() {
            debug_assert_eq!(meta.live_bytes, 0, "a segment goes only when no entry leads to it");
            assert!(slot != self.active.segment.slot, "the segment that is being filled stays");
            assert!(meta.disk_bytes <= self.disk_bytes, "what goes was counted: {meta:?} of {}", self.disk_bytes);
            view.slots[at].store(None);
            self.disk_bytes -= meta.disk_bytes;
            let was_there = self.seqs.remove(&meta.seq);
            debug_assert!(was_there, "each segment has its number in the list: {meta:?}");
            self.unmarked.forget(meta.seq);
            if meta.disk_bytes == self.largest_bytes {
                self.largest_bytes = self.meta.iter().flatten().map(|meta| meta.disk_bytes).max().unwrap_or(0);
            }
            if meta.condemned {
                debug_assert!(meta.disk_bytes <= self.condemned_bytes, "{meta:?} of {}", self.condemned_bytes);
                self.condemned_bytes -= meta.disk_bytes;
            }
            debug_assert!(self.condemned_bytes <= self.disk_bytes, "what waits for its deletion is a part of all");
            view.counters.disk_bytes.set(self.disk_bytes);
            self.free_slots.push(slot);
        }
    }

    /// Forgets everything: the next segment says that all before it are void. Returns the segments to be deleted, and
    /// memory to be given back when the lock is no longer held. None if no segment can be started. That may go beyond
    /// the room by its header once, before any void segment is deleted.
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
                meta.condemned = true;
                void.push((slot as u16, meta.seq));
            }
        }
        // The segment that is being filled included: no record goes there any more.
        self.condemned_bytes = self.disk_bytes;
        self.owed.clear();
        self.unmarked.clear();
        self.awaited_bytes = 0;
        self.floor = self.active.segment.seq + 1;
        let filling = self.buffer.take_anyway(0);
        self.start_segment(view, filling, 0);
        self.removals_end = Some(self.end());
        // What waits for the disk need not get there.
        debug_assert!(self.floor == self.active.segment.seq && self.active.entries.is_empty(), "it starts anew");
        let waiting: Vec<Full> = self.queue.drain(..).collect();
        Some((void, (tables, waiting)))
    }
}
