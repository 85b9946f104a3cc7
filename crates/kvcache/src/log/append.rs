//! The state that the log's lock guards: where the next record goes, and every change of the index but the counting of
//! uses.
//!
//! A record is appended and the index updated in one step under this lock, so the order of records in the log is the
//! order in which the cache changed; only a tombstone that finds no room is appended later, but before the next put.
//! Nothing under the lock touches a disk.

mod life;

use crate::{
    format::{
        footer::{Entries, Entry},
        place::Place,
        rate::Rate,
        record::{
            Kind, RECORD_HEADER_BYTES, RecordHeader, SEGMENT_HEADER_BYTES, SegmentHeader, body_crc, finish_record,
        },
    },
    log::{
        buffer::Buffer,
        handles::Handles,
        image::{Filling, Image},
        index::Fill,
        segment::Segment,
        space::{BLOCK_BYTES, Priority, SEGMENT_EXTRA_BYTES, Space, blocks, file_len, file_len_of_one, record_cost},
        unmarked::Unmarked,
        view::{Slots, View},
    },
};
use std::{
    collections::{BTreeSet, VecDeque},
    path::PathBuf,
    sync::Arc,
};

/// Why there is no room for a record at the moment.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum NoRoom {
    /// For this kind of write the limit leaves no room, or no further segment may be started.
    Space,
    /// The write buffer is full.
    Buffer,
}

/// A position in the log, up to which bytes may be written or synced.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) struct LogPosition {
    pub(crate) seq: u64,
    pub(crate) offset: usize,
}

/// Accounting of one segment.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Meta {
    pub(crate) seq: u64,
    /// Bytes of the file that live records, to which the index leads, take with their footer entries.
    pub(crate) live_bytes: u64,
    /// Bytes of the file that marks (see [`Kind`]) take with their footer entries.
    pub(crate) mark_bytes: u64,
    /// Length of the file, footer included, in bytes.
    pub(crate) file_bytes: u64,
    /// Length of the file in whole blocks, in bytes.
    pub(crate) disk_bytes: u64,
    pub(crate) newest_ms: u64,
    /// Whether the file is complete. It has a footer, unless it was found without one when the cache was opened and
    /// none could be written.
    pub(crate) sealed: bool,
    /// Whether the segment has no live record any more and waits for its deletion.
    pub(crate) emptied: bool,
    /// Whether the segment's marks cannot be read, so that it may be deleted only when it is the oldest.
    pub(crate) stays: bool,
}

impl Meta {
    /// Bytes that a compaction copies at most. The marks of the oldest segment are not needed any more.
    pub(crate) fn kept_bytes(&self, oldest_seq: u64) -> u64 {
        self.live_bytes + if self.seq == oldest_seq { 0 } else { self.mark_bytes }
    }

    /// Bytes to which the index does not lead, marks included.
    pub(crate) fn dead_bytes(&self) -> u64 {
        self.file_bytes.saturating_sub(self.live_bytes + SEGMENT_EXTRA_BYTES)
    }
}

/// The segment that is being filled.
struct Active {
    segment: Arc<Segment>,
    filling: Filling,
    tail: usize,
    entries: Entries,
    newest_ms: u64,
    /// Maximum length of the segment's file, in bytes.
    most_bytes: u64,
}

/// A full segment on its way to the disk.
#[derive(Clone)]
pub(crate) struct Full {
    pub(crate) segment: Arc<Segment>,
    pub(crate) image: Arc<Image>,
    pub(crate) records_end: usize,
    pub(crate) entries: Arc<Entries>,
    pub(crate) newest_ms: u64,
}

/// The next write to a file.
pub(crate) enum Next {
    Full(Full),
    /// The segment that is being filled, up to this offset.
    Tail(Arc<Segment>, Arc<Image>, usize),
}

pub(crate) struct Log {
    dir: PathBuf,
    handles: Arc<Handles>,
    store: u64,
    space: Space,
    fill: Fill,
    active: Active,
    queue: VecDeque<Full>,
    meta: Vec<Option<Meta>>,
    /// Numbers of all segments, sorted, so that finding the oldest needs no scan of all slots while writers wait.
    seqs: BTreeSet<u64>,
    emptied_bytes: u64,
    free_slots: Vec<u16>,
    floor: u64,
    /// Bytes of all segments' files, in whole blocks.
    disk_bytes: u64,
    /// Bytes of the largest segment, in whole blocks.
    largest_bytes: u64,
    /// Bytes of a segment with the largest record that is known to wait for room; 0 if none is.
    awaited_bytes: u64,
    /// Hashes of removed keys whose tombstones found no room yet; these are appended before any put or copy.
    pending_removals: VecDeque<u64>,
    /// Position up to which the log must be durable so that all removals since the cache was opened, as far as they are
    /// in the log, are durable; `None` if there are none.
    removals_end: Option<LogPosition>,
    /// Segments up to this number are on stable storage.
    synced_seq: u64,
    buffer: Buffer,
    unmarked: Unmarked,
}

/// A segment that existed when the cache was opened.
pub(crate) struct Old {
    pub(crate) segment: Arc<Segment>,
    pub(crate) meta: Meta,
}

/// Initial state of a log.
pub(crate) struct Start {
    pub(crate) dir: PathBuf,
    pub(crate) handles: Arc<Handles>,
    pub(crate) store: u64,
    pub(crate) space: Space,
    pub(crate) fill: Fill,
    /// Existing segments, in the order of their slots, from 0.
    pub(crate) old: Vec<Old>,
    pub(crate) floor: u64,
    pub(crate) next_seq: u64,
    /// Where the records of the preceding segment end, in bytes; 0 if there is none or nothing will be written.
    pub(crate) before_end: u64,
    /// Segments up to this number are on stable storage.
    pub(crate) synced_seq: u64,
}

/// A record that is complete except for its place in the log.
pub(crate) struct UnplacedRecord<'a> {
    pub(crate) header: &'a RecordHeader,
    /// Header and payload, with padding.
    pub(crate) record: &'a mut [u8],
    /// Checksum of the record without its place.
    pub(crate) crc: u32,
    /// The kind of write, which decides how much of the room it may use.
    pub(crate) priority: Priority,
    /// Average number of reads of the key in a round of the log; see [`Rate`].
    pub(crate) rate: Rate,
}

impl Log {
    pub(crate) fn new(start: Start, slots: &Slots) -> Self {
        let Start { dir, handles, store, space, fill, old, floor, next_seq, before_end, synced_seq } = start;
        let mut meta: Vec<Option<Meta>> = vec![None; slots.len()];
        for Old { segment, meta: known } in old {
            meta[usize::from(segment.slot)] = Some(known);
            slots[usize::from(segment.slot)].store(Some(segment));
        }
        let mut free_slots: Vec<u16> =
            (0..slots.len() as u16).rev().filter(|slot| meta[usize::from(*slot)].is_none()).collect();
        let slot = free_slots.pop().unwrap_or_default();
        let mut buffer = Buffer::new(space.segment_bytes, space.buffer_bytes);
        let filling = buffer.take_anyway(0);
        let header = SegmentHeader { seq: next_seq, floor, before_end, synced: synced_seq, store };
        let segment = Segment::filling(&dir, next_seq, slot, filling.image.clone(), &handles);
        let active = Active::new(segment, filling, &header, space.segment_bytes as u64);
        slots[usize::from(slot)].store(Some(active.segment.clone()));
        meta[usize::from(slot)] = Some(Meta::filling(next_seq));
        let seqs = meta.iter().flatten().map(|meta| meta.seq).collect();
        let disk_bytes = meta.iter().flatten().map(|meta| meta.disk_bytes).sum();
        let largest_bytes = meta.iter().flatten().map(|meta| meta.disk_bytes).max().unwrap_or(0);
        Log {
            dir,
            handles,
            store,
            space,
            fill,
            active,
            queue: VecDeque::new(),
            meta,
            seqs,
            emptied_bytes: 0,
            free_slots,
            floor,
            disk_bytes,
            largest_bytes,
            awaited_bytes: 0,
            pending_removals: VecDeque::new(),
            removals_end: None,
            synced_seq,
            buffer,
            unmarked: Unmarked::default(),
        }
    }

    pub(crate) fn space(&self) -> Space {
        self.space
    }

    /// The random number that identifies the cache.
    pub(crate) fn identity(&self) -> u64 {
        self.store
    }

    pub(crate) fn disk_bytes(&self) -> u64 {
        self.disk_bytes
    }

    pub(crate) fn end(&self) -> LogPosition {
        LogPosition { seq: self.active.segment.seq, offset: self.active.tail }
    }

    /// Appends a put and updates the index.
    pub(crate) fn append(&mut self, view: &View, unplaced: &mut UnplacedRecord<'_>) -> Result<(), NoRoom> {
        self.write_removals(view)?;
        let place = self.write(view, unplaced)?;
        debug_assert_eq!(unplaced.header.kind, Kind::Put, "marks are appended without their effect on the index");
        // The new value inherits the use count of the one that it replaces.
        let hash = unplaced.header.hash;
        let uses = view.index.get(hash).map_or(0, Place::uses);
        self.publish(view, hash, place.with_uses(uses));
        Ok(())
    }

    /// Appends a copy of the record at `old` with the use count of `old`. Returns false if the index does not lead to
    /// `old` any more.
    pub(crate) fn copy(&mut self, view: &View, old: Place, unplaced: &mut UnplacedRecord<'_>) -> Result<bool, NoRoom> {
        debug_assert_eq!(unplaced.priority, Priority::Upkeep, "copies free room, so they may use the last of it");
        self.write_removals(view)?;
        let hash = unplaced.header.hash;
        if !view.index.get(hash).is_some_and(|place| place.is_same(old)) {
            return Ok(false);
        }
        let place = self.write(view, unplaced)?;
        self.publish(view, hash, place.with_uses(old.uses()));
        Ok(true)
    }

    /// Removes a key from the index at once, and from the log as soon as there is room for a tombstone. Returns whether
    /// the index had the key.
    pub(crate) fn remove(&mut self, view: &View, hash: u64, now_ms: u64) -> bool {
        let was_there = self.forget(view, hash);
        // A record that was dropped without a tombstone is not in the index, but its file may still be there after a
        // crash. One that was written before the cache was opened may not be in the index yet.
        if self.unmarked.take(hash) || was_there || self.fill.may_come(hash) {
            self.pending_removals.push_back(hash);
            let _ = self.write_removals_at(view, now_ms);
        }
        was_there
    }

    /// Removes an entry from the index if it is still at `place`. With `mark`, a tombstone follows as soon as there is
    /// room, so that no older value comes back. Without `mark`, the segment must be the oldest, so that there is no
    /// older value.
    pub(crate) fn drop_entry(&mut self, view: &View, hash: u64, place: Place, mark: bool) -> bool {
        let dropped = view.index.get(hash).is_some_and(|now| now.is_same(place)) && self.forget(view, hash);
        if dropped && mark {
            self.pending_removals.push_back(hash);
            let _ = self.write_removals(view);
        } else if dropped {
            let seq = self.meta[usize::from(place.slot())].expect("an entry's segment is there").seq;
            assert_eq!(
                seq,
                self.oldest_seq(),
                "entries dropped with another segment could come back from an older one"
            );
            self.unmarked.add(seq, hash);
        }
        dropped
    }

    /// Returns whether tombstones wait for room.
    pub(crate) fn has_pending_removals(&self) -> bool {
        !self.pending_removals.is_empty()
    }

    /// Returns whether tombstones wait for a slot or for room within the limit, rather than for the write buffer, which
    /// has room again once the worker has written.
    pub(crate) fn removals_lack_space(&self) -> bool {
        self.has_pending_removals()
            && (self.free_slots.is_empty() || !self.has_space(RECORD_HEADER_BYTES, Priority::Upkeep))
    }

    /// Position up to which the log must be durable so that all removals since the cache was opened are durable, but
    /// not those that still wait for room; `None` if there are none.
    pub(crate) fn removals_end(&self) -> Option<LogPosition> {
        self.removals_end
    }

    /// Position after the header that makes all earlier segments void.
    pub(crate) fn floor(&self) -> LogPosition {
        LogPosition { seq: self.floor, offset: SEGMENT_HEADER_BYTES }
    }

    /// Appends the tombstones that wait for room.
    fn write_removals(&mut self, view: &View) -> Result<(), NoRoom> {
        if self.pending_removals.is_empty() { Ok(()) } else { self.write_removals_at(view, self.active.newest_ms) }
    }

    pub(crate) fn write_removals_at(&mut self, view: &View, now_ms: u64) -> Result<(), NoRoom> {
        while let Some(&hash) = self.pending_removals.front() {
            self.append_mark(view, Kind::Remove, hash, now_ms)?;
            self.pending_removals.pop_front();
            debug_assert!(self.removals_end < Some(self.end()), "the log only grows");
            self.removals_end = Some(self.end());
        }
        Ok(())
    }

    /// Appends a mark, without changing the index.
    pub(crate) fn append_mark(&mut self, view: &View, kind: Kind, hash: u64, now_ms: u64) -> Result<(), NoRoom> {
        debug_assert_ne!(kind, Kind::Put, "a put has a key");
        let header = RecordHeader { kind, encrypted: false, hash, created_ms: now_ms, key_len: 0, value_len: 0 };
        let mut record = header.encode();
        let crc = body_crc(&record);
        let (priority, rate) = (Priority::Upkeep, Rate::default());
        self.write(view, &mut UnplacedRecord { header: &header, record: &mut record, crc, priority, rate }).map(drop)
    }

    fn write(&mut self, view: &View, unplaced: &mut UnplacedRecord<'_>) -> Result<Place, NoRoom> {
        let UnplacedRecord { header, record, crc, priority, rate } = unplaced;
        let (crc, priority, rate) = (*crc, *priority, *rate);
        if !self.has_space(record.len(), priority) {
            if priority != Priority::Upkeep {
                self.awaited_bytes = self.awaited_bytes.max(blocks(file_len_of_one(record.len())));
            }
            return Err(NoRoom::Space);
        }
        if !self.active.takes(record.len()) {
            self.roll(view, record.len(), priority)?;
        }
        let (seq, slot, offset) = (self.active.segment.seq, self.active.segment.slot, self.active.tail);
        finish_record(record, crc, seq, offset as u64);
        debug_assert_eq!(self.active.filling.image.len(), offset, "records are contiguous");
        self.active.filling.append(record);
        self.active.tail += record.len();
        self.active.entries.push(&Entry { hash: header.hash, kind: header.kind, offset, len: record.len(), rate });
        self.active.newest_ms = self.active.newest_ms.max(header.created_ms);
        let meta = self.meta[usize::from(slot)].as_mut().expect("the active segment has an entry");
        debug_assert!(meta.seq == seq && !meta.sealed, "records go to the active segment: {meta:?}");
        let before = meta.disk_bytes;
        meta.file_bytes = self.active.len_with(None);
        meta.disk_bytes = blocks(meta.file_bytes);
        meta.newest_ms = self.active.newest_ms;
        if header.kind != Kind::Put {
            meta.mark_bytes += record_cost(record.len());
        }
        self.disk_bytes += meta.disk_bytes - before;
        self.largest_bytes = self.largest_bytes.max(meta.disk_bytes);
        debug_assert!(self.disk_bytes <= self.space.room_bytes, "room was checked before");
        view.counters.disk_bytes.set(self.disk_bytes);
        Ok(Place::new(slot, offset, record.len()))
    }

    /// Returns whether the limit leaves room for a record.
    fn has_space(&self, record_len: usize, priority: Priority) -> bool {
        let more = match self.active.takes(record_len) {
            true => blocks(self.active.len_with(Some(record_len))) - blocks(self.active.len_with(None)),
            false => blocks(file_len_of_one(record_len)),
        };
        self.space.admits(self.disk_bytes, more, priority)
    }

    /// Notes that a put that waited for room has found it or has given up. Other waiting puts register themselves again
    /// the next time that they try.
    pub(crate) fn stop_waiting(&mut self) {
        self.awaited_bytes = 0;
    }

    /// Starts the next segment, with room for a record of this length at least.
    fn roll(&mut self, view: &View, record_len: usize, priority: Priority) -> Result<(), NoRoom> {
        if self.free_slots.len() <= self.space.reserve_slots(priority) {
            return Err(NoRoom::Space);
        }
        let kept_back = if priority == Priority::Put { 1 } else { 0 };
        let needed = SEGMENT_HEADER_BYTES + record_len;
        let filling = match self.buffer.take(needed, kept_back) {
            Some(filling) => filling,
            // Whatever the budget is, one segment may be filled while only its predecessor waits for the disk.
            None if self.queue.is_empty() => self.buffer.take_anyway(needed),
            None => return Err(NoRoom::Buffer),
        };
        self.start_segment(view, filling, record_len);
        Ok(())
    }

    fn start_segment(&mut self, view: &View, filling: Filling, record_len: usize) {
        let slot = self.free_slots.pop().expect("the caller looked");
        let seq = self.active.segment.seq + 1;
        assert!(self.meta[usize::from(slot)].is_none(), "a slot that is free has no segment");
        debug_assert!(self.seqs.last().is_none_or(|last| *last < seq), "numbers only grow: {seq}");
        let (before_end, synced) = (self.active.tail as u64, self.synced_seq);
        let header = SegmentHeader { seq, floor: self.floor, before_end, synced, store: self.store };
        let segment = Segment::filling(&self.dir, seq, slot, filling.image.clone(), &self.handles);
        let most_bytes = (self.space.segment_bytes as u64).max(file_len_of_one(record_len));
        let next = Active::new(segment, filling, &header, most_bytes);
        view.slots[usize::from(slot)].store(Some(next.segment.clone()));
        let meta = Meta::filling(seq);
        self.disk_bytes += meta.disk_bytes;
        self.meta[usize::from(slot)] = Some(meta);
        self.seqs.insert(seq);
        let full = std::mem::replace(&mut self.active, next);
        self.queue.push_back(full.into_full());
    }

    /// Seals the active segment, unless it has no records.
    pub(crate) fn seal_active(&mut self, view: &View) -> Result<(), NoRoom> {
        if self.active.entries.is_empty() {
            return Ok(());
        }
        // The header of the next segment takes a block.
        match self.space.admits(self.disk_bytes, BLOCK_BYTES, Priority::Upkeep) {
            true => self.roll(view, 0, Priority::Upkeep),
            false => Err(NoRoom::Space),
        }
    }

    fn publish(&mut self, view: &View, hash: u64, place: Place) {
        let old = view.index.set(&mut self.fill, hash, place);
        self.count(view, place, true);
        if let Some(old) = old {
            self.count(view, old, false);
        }
    }

    fn forget(&mut self, view: &View, hash: u64) -> bool {
        let old = view.index.remove(&mut self.fill, hash);
        if let Some(old) = old {
            self.count(view, old, false);
        }
        old.is_some()
    }

    fn count(&mut self, view: &View, place: Place, comes: bool) {
        let bytes = place.len() as u64;
        let cost = record_cost(place.len());
        let meta = self.meta[usize::from(place.slot())].as_mut();
        if comes {
            view.counters.entries.add(1);
            view.counters.live_bytes.add(bytes);
            meta.into_iter().for_each(|meta| {
                meta.live_bytes += cost;
                debug_assert!(meta.live_bytes <= meta.file_bytes, "live records are in the file: {meta:?}");
            });
        } else {
            view.counters.entries.sub(1);
            view.counters.live_bytes.sub(bytes);
            meta.into_iter().for_each(|meta| {
                debug_assert!(meta.live_bytes >= cost, "only counted bytes are taken off: {meta:?}");
                meta.live_bytes -= cost;
            });
        }
    }
}

impl Active {
    fn new(segment: Segment, mut filling: Filling, header: &SegmentHeader, most_bytes: u64) -> Self {
        debug_assert!(filling.image.len() == 0 && segment.seq == header.seq, "a segment starts with its header");
        filling.append(&header.encode());
        Active {
            segment: Arc::new(segment),
            filling,
            tail: SEGMENT_HEADER_BYTES,
            entries: Entries::default(),
            newest_ms: 0,
            most_bytes,
        }
    }

    /// Length of the file, after one more record of this length if one is given.
    fn len_with(&self, record_len: Option<usize>) -> u64 {
        file_len(self.tail + record_len.unwrap_or(0), self.entries.len() + usize::from(record_len.is_some()))
    }

    /// Returns whether the segment takes a record of this length.
    fn takes(&self, record_len: usize) -> bool {
        self.len_with(Some(record_len)) <= self.most_bytes && self.tail + record_len <= self.filling.image.capacity()
    }

    fn into_full(self) -> Full {
        let Active { segment, filling, tail, entries, newest_ms, .. } = self;
        debug_assert_eq!(filling.image.len(), tail, "image and log agree");
        Full { segment, image: filling.image, records_end: tail, entries: Arc::new(entries), newest_ms }
    }
}

impl Meta {
    fn filling(seq: u64) -> Self {
        let file_bytes = SEGMENT_EXTRA_BYTES;
        Meta {
            seq,
            live_bytes: 0,
            mark_bytes: 0,
            file_bytes,
            disk_bytes: blocks(file_bytes),
            newest_ms: 0,
            sealed: false,
            emptied: false,
            stays: false,
        }
    }
}
