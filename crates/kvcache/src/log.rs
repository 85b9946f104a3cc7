//! The log's lock and what it guards: where the next record goes, and every change of the index.
//!
//! Appending a record and telling the index of it is one step under this lock, so the order of records in the log is
//! the order in which the cache changed. Nothing under the lock touches a disk.

mod life;

use crate::{
    buffer::Buffer,
    footer::{Entries, Entry},
    format::{Kind, RecordHeader, SEGMENT_HEADER_BYTES, SegmentHeader, body_crc, finish_record},
    handles::Handles,
    image::Image,
    index::{Fill, Index},
    layout::{Layout, SEGMENT_EXTRA_BYTES, record_cost},
    place::Place,
    segment::Segment,
    stats::Counters,
    sync::SharedOption,
};
use std::{
    collections::{BTreeSet, VecDeque},
    path::PathBuf,
    sync::Arc,
};

/// The segments that readers may look into, by slot.
pub(crate) type Slots = Box<[SharedOption<Segment>]>;

/// For whom a record is appended: who may use the last bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Who {
    /// A put that may be refused.
    Put,
    /// A write that may not, and the copies of records that are in use.
    Firm,
}

/// There is no room for the record now.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct NoRoom;

/// Where the log ended after an append, for those who wait until it is on disk.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct End {
    pub(crate) seq: u64,
    pub(crate) offset: usize,
}

/// What is known of each segment.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Meta {
    pub(crate) seq: u64,
    /// What the records that the index leads to take of the file, their footer entries included.
    pub(crate) live_bytes: u64,
    /// Bytes of the file, its footer included.
    pub(crate) disk_bytes: u64,
    pub(crate) newest_ms: u64,
    /// Whether the file is whole.
    pub(crate) sealed: bool,
    /// Whether nothing lives in it any more: it goes when the copies, or what says that it is void, are in the files.
    pub(crate) condemned: bool,
}

/// The segment that is being filled.
struct Active {
    segment: Arc<Segment>,
    image: Arc<Image>,
    tail: usize,
    entries: Entries,
    newest_ms: u64,
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

/// What is to be written next.
pub(crate) enum Next {
    Full(Full),
    /// The segment that is being filled, as far as it is.
    Tail(Arc<Segment>, Arc<Image>, usize),
}

pub(crate) struct Log {
    dir: PathBuf,
    handles: Arc<Handles>,
    store: u64,
    layout: Layout,
    fill: Fill,
    active: Active,
    queue: VecDeque<Full>,
    meta: Vec<Option<Meta>>,
    /// Of all segments that exist. What is asked at each step must not look at every slot while writers wait.
    seqs: BTreeSet<u64>,
    condemned_bytes: u64,
    free_slots: Vec<u16>,
    floor: u64,
    disk_bytes: u64,
    /// Removals that found no room; they go to the log before anything else does.
    owed: VecDeque<u64>,
    buffer: Buffer,
    /// Whether a segment is being evicted: the index has forgotten its records, but its file is still there.
    pub(crate) evicting: bool,
}

/// Parts of the cache that the log changes and others read.
pub(crate) struct View<'a> {
    pub(crate) index: &'a Index,
    pub(crate) slots: &'a Slots,
    pub(crate) counters: &'a Counters,
}

/// A sealed segment that was there when the cache was opened.
pub(crate) struct Old {
    pub(crate) segment: Arc<Segment>,
    pub(crate) meta: Meta,
}

/// What a log starts from.
pub(crate) struct Start {
    pub(crate) dir: PathBuf,
    pub(crate) handles: Arc<Handles>,
    pub(crate) store: u64,
    pub(crate) layout: Layout,
    pub(crate) fill: Fill,
    /// In the order of their slots, from 0.
    pub(crate) old: Vec<Old>,
    pub(crate) floor: u64,
    pub(crate) next_seq: u64,
    /// Where the records of the segment before end; 0 if there is none.
    pub(crate) before_end: u64,
}

impl Log {
    pub(crate) fn new(start: Start, slots: &Slots) -> Self {
        let Start { dir, handles, store, layout, fill, old, floor, next_seq, before_end } = start;
        let mut meta: Vec<Option<Meta>> = vec![None; slots.len()];
        let mut disk_bytes = 0;
        for Old { segment, meta: known } in old {
            disk_bytes += known.disk_bytes;
            meta[usize::from(segment.slot)] = Some(known);
            slots[usize::from(segment.slot)].store(Some(segment));
        }
        let mut free_slots: Vec<u16> =
            (0..slots.len() as u16).rev().filter(|slot| meta[usize::from(*slot)].is_none()).collect();
        let slot = free_slots.pop().unwrap_or_default();
        let mut buffer = Buffer::new(layout.segment_bytes, layout.buffer_bytes);
        let image = Arc::new(buffer.take_anyway(0));
        let header = SegmentHeader { seq: next_seq, floor, before_end, store };
        let active = Active::new(Segment::filling(&dir, next_seq, slot, image.clone(), &handles), image, &header);
        slots[usize::from(slot)].store(Some(active.segment.clone()));
        meta[usize::from(slot)] = Some(Meta::filling(next_seq));
        disk_bytes += SEGMENT_EXTRA_BYTES;
        let seqs = meta.iter().flatten().map(|meta| meta.seq).collect();
        Log {
            dir,
            handles,
            store,
            layout,
            fill,
            active,
            queue: VecDeque::new(),
            meta,
            seqs,
            condemned_bytes: 0,
            free_slots,
            floor,
            disk_bytes,
            owed: VecDeque::new(),
            buffer,
            evicting: false,
        }
    }

    pub(crate) fn disk_bytes(&self) -> u64 {
        self.disk_bytes
    }

    pub(crate) fn end(&self) -> End {
        End { seq: self.active.segment.seq, offset: self.active.tail }
    }

    /// Appends a record whose header and payload are in `record`, padded, and tells the index.
    pub(crate) fn append(
        &mut self,
        view: &View<'_>,
        header: &RecordHeader,
        record: &mut [u8],
        crc: u32,
        who: Who,
    ) -> Result<(), NoRoom> {
        self.pay(view)?;
        let place = self.write(view, header, record, crc, who)?;
        match header.kind {
            Kind::Put => self.publish(view, header.hash, place),
            Kind::Remove => drop(self.forget(view, header.hash)),
            Kind::Dropped => {}
        }
        Ok(())
    }

    /// Copies a record that the index finds at `old` to the end of the log; false if the index finds another by now.
    pub(crate) fn copy(
        &mut self,
        view: &View<'_>,
        old: Place,
        header: &RecordHeader,
        record: &mut [u8],
        crc: u32,
        uses: u8,
    ) -> Result<bool, NoRoom> {
        self.pay(view)?;
        if !view.index.get(header.hash).is_some_and(|place| place.is_same(old)) {
            return Ok(false);
        }
        let place = self.write(view, header, record, crc, Who::Firm)?;
        self.publish(view, header.hash, place.with_uses(uses));
        Ok(true)
    }

    /// Removes a key: from the index at once, from the log as soon as there is room. Returns whether it was there.
    pub(crate) fn remove(&mut self, view: &View<'_>, hash: u64, now_ms: u64) -> bool {
        let was_there = self.forget(view, hash);
        // An evicted record has no entry in the index, but its file may outlive a crash.
        if was_there || self.evicting {
            self.owed.push_back(hash);
            let _ = self.pay_at(view, now_ms);
        }
        was_there
    }

    /// Takes an entry out of the index if it is still at `place`.
    pub(crate) fn drop_entry(&mut self, view: &View<'_>, hash: u64, place: Place) -> bool {
        view.index.get(hash).is_some_and(|now| now.is_same(place)) && self.forget(view, hash)
    }

    /// Writes a removal to the log as soon as there is room.
    pub(crate) fn owe(&mut self, view: &View<'_>, hash: u64) {
        self.owed.push_back(hash);
        let _ = self.pay(view);
    }

    /// Whether removals wait for room.
    pub(crate) fn owes(&self) -> bool {
        !self.owed.is_empty()
    }

    /// Writes the removals that are owed.
    fn pay(&mut self, view: &View<'_>) -> Result<(), NoRoom> {
        if self.owed.is_empty() { Ok(()) } else { self.pay_at(view, self.active.newest_ms) }
    }

    pub(crate) fn pay_at(&mut self, view: &View<'_>, now_ms: u64) -> Result<(), NoRoom> {
        while let Some(&hash) = self.owed.front() {
            self.append_mark(view, Kind::Remove, hash, now_ms)?;
            self.owed.pop_front();
        }
        Ok(())
    }

    /// Appends a record without key and value; the index is not told.
    pub(crate) fn append_mark(&mut self, view: &View<'_>, kind: Kind, hash: u64, now_ms: u64) -> Result<(), NoRoom> {
        let header = RecordHeader { kind, encrypted: false, hash, created_ms: now_ms, key_len: 0, value_len: 0 };
        let mut record = header.encode();
        let crc = body_crc(&record);
        self.write(view, &header, &mut record, crc, Who::Firm).map(drop)
    }

    fn write(
        &mut self,
        view: &View<'_>,
        header: &RecordHeader,
        record: &mut [u8],
        crc: u32,
        who: Who,
    ) -> Result<Place, NoRoom> {
        let reserve = if who == Who::Put { self.layout.reserve_bytes } else { 0 };
        let rolls = self.active.tail + record.len() > self.active.image.len();
        let cost = record_cost(record.len()) + if rolls { SEGMENT_EXTRA_BYTES } else { 0 };
        if self.disk_bytes + cost + reserve > self.layout.limit_bytes {
            return Err(NoRoom);
        }
        if rolls {
            self.roll(view, SEGMENT_HEADER_BYTES + record.len(), who)?;
        }
        let cost = record_cost(record.len());
        self.disk_bytes += cost;
        view.counters.disk_bytes.set(self.disk_bytes);
        let (seq, slot, offset) = (self.active.segment.seq, self.active.segment.slot, self.active.tail);
        finish_record(record, crc, seq, offset as u64);
        self.active.image.write(offset, record);
        self.active.tail += record.len();
        self.active.entries.push(&Entry { hash: header.hash, kind: header.kind, offset, len: record.len() });
        self.active.newest_ms = self.active.newest_ms.max(header.created_ms);
        if let Some(meta) = &mut self.meta[usize::from(slot)] {
            meta.disk_bytes += cost;
            meta.newest_ms = self.active.newest_ms;
        }
        Ok(Place::new(slot, offset, record.len()))
    }

    /// Starts the next segment, with room for `needed` bytes at least.
    fn roll(&mut self, view: &View<'_>, needed: usize, who: Who) -> Result<(), NoRoom> {
        if self.free_slots.is_empty() {
            return Err(NoRoom);
        }
        let kept_back = if who == Who::Put { 1 } else { 0 };
        let image = match self.buffer.take(needed, kept_back) {
            Some(image) => image,
            // Whatever the budget is, one segment may be filled while nothing but that before it waits for the disk.
            None if self.queue.is_empty() => self.buffer.take_anyway(needed),
            None => return Err(NoRoom),
        };
        self.start_segment(view, Arc::new(image));
        Ok(())
    }

    fn start_segment(&mut self, view: &View<'_>, image: Arc<Image>) {
        let slot = self.free_slots.pop().expect("the caller looked");
        let seq = self.active.segment.seq + 1;
        let header = SegmentHeader { seq, floor: self.floor, before_end: self.active.tail as u64, store: self.store };
        let next = Active::new(Segment::filling(&self.dir, seq, slot, image.clone(), &self.handles), image, &header);
        view.slots[usize::from(slot)].store(Some(next.segment.clone()));
        self.meta[usize::from(slot)] = Some(Meta::filling(seq));
        self.seqs.insert(seq);
        self.disk_bytes += SEGMENT_EXTRA_BYTES;
        let full = std::mem::replace(&mut self.active, next);
        self.queue.push_back(full.into_full());
    }

    /// Seals the segment that is being filled, unless it has no records.
    pub(crate) fn seal_active(&mut self, view: &View<'_>) -> Result<(), NoRoom> {
        if self.active.entries.is_empty() { Ok(()) } else { self.roll(view, 0, Who::Firm) }
    }

    fn publish(&mut self, view: &View<'_>, hash: u64, place: Place) {
        let old = view.index.set(&mut self.fill, hash, place);
        self.count(view, place, true);
        if let Some(old) = old {
            self.count(view, old, false);
        }
    }

    fn forget(&mut self, view: &View<'_>, hash: u64) -> bool {
        let old = view.index.remove(&mut self.fill, hash);
        if let Some(old) = old {
            self.count(view, old, false);
        }
        old.is_some()
    }

    fn count(&mut self, view: &View<'_>, place: Place, comes: bool) {
        let bytes = place.len() as u64;
        let cost = record_cost(place.len());
        let meta = self.meta[usize::from(place.slot())].as_mut();
        if comes {
            view.counters.entries.add(1);
            view.counters.live_bytes.add(bytes);
            meta.into_iter().for_each(|meta| meta.live_bytes += cost);
        } else {
            view.counters.entries.sub(1);
            view.counters.live_bytes.sub(bytes);
            meta.into_iter().for_each(|meta| meta.live_bytes -= cost);
        }
    }
}

impl Active {
    fn new(segment: Segment, image: Arc<Image>, header: &SegmentHeader) -> Self {
        image.write(0, &header.encode());
        Active {
            segment: Arc::new(segment),
            image,
            tail: SEGMENT_HEADER_BYTES,
            entries: Entries::default(),
            newest_ms: 0,
        }
    }

    fn into_full(self) -> Full {
        let Active { segment, image, tail, entries, newest_ms } = self;
        Full { segment, image, records_end: tail, entries: Arc::new(entries), newest_ms }
    }
}

impl Meta {
    fn filling(seq: u64) -> Self {
        Meta { seq, live_bytes: 0, disk_bytes: SEGMENT_EXTRA_BYTES, newest_ms: 0, sealed: false, condemned: false }
    }
}
