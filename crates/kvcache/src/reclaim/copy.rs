//! Copying or dropping the entries and marks of a segment that is to be deleted. A mark is a tombstone, or a note that
//! a segment was dropped.

use super::{
    choice::Choice,
    steps::{Reclaim, Turn},
};
use crate::{
    error::{Error, Result},
    format::{
        footer::{Entries, Entry},
        place::Place,
        rate::Rate,
        record::{Kind, check_record_to_copy},
    },
    log::{
        append::{NoRoom, UnplacedRecord},
        recover::read_footer,
        scan::marks_without_footer,
        segment::Segment,
        space::Priority,
    },
};

/// What happens to the live entries of a segment that is to be deleted. An entry whose record is damaged, cannot be
/// read or has expired is dropped in any case.
pub(super) enum Fate {
    /// The entries that are worth most are kept as far as there is room, and the others are dropped.
    Chosen(Choice),
    /// As many entries are kept as there is room for, and the others are dropped.
    AllThatFit,
    /// All entries are kept. Those whose copies find no room stay in the segment.
    All,
    /// All entries are dropped.
    None,
}

/// Result of copying a record.
#[derive(Clone, Copy)]
enum Copied {
    /// A copy of the record is at the end of the log, or none is needed, because the key was put again or removed.
    Yes,
    /// The record is damaged, cannot be read, has expired, or is not to be kept.
    Obsolete,
    NoRoom,
}

impl Reclaim {
    /// The entries in the footer of a sealed segment. If the footer is damaged or cannot be read, they are collected
    /// from the index instead, and the marks from the records if all of these are found.
    pub(super) fn entries_of(&self, segment: &Segment) -> Entries {
        let file = self.store.files.fs.open(segment.path());
        if let Ok(file) = &file
            && let Ok(Some((_, entries))) =
                file.stat().map_err(Error::from).and_then(|stat| read_footer(file, stat.len_bytes, segment.seq))
        {
            return entries;
        }
        self.store.view.counters.corrupt.add(1);
        let bytes = file.and_then(|file| file.read_to_end()).unwrap_or_default();
        let mut entries = marks_without_footer(&bytes, segment.seq);
        self.store.view.index.for_each(|hash, place| {
            if place.slot() == segment.slot {
                let (offset, len, rate) = (place.offset(), place.len(), Rate::default());
                entries.push(&Entry { hash, kind: Kind::Put, offset, len, rate });
            }
        });
        entries
    }

    pub(super) fn live_place(&self, segment: &Segment, entry: &Entry) -> Option<Place> {
        let place = Place::new(segment.slot, entry.offset, entry.len);
        self.store.view.index.get(entry.hash).filter(|now| entry.kind == Kind::Put && now.is_same(place))
    }

    /// Copies or drops each live entry, as `fate` says. False if some could neither be copied nor dropped.
    pub(super) fn process_entries(
        &self,
        segment: &Segment,
        entries: &Entries,
        mut fate: Fate,
        turn: &mut Turn,
    ) -> Result<bool> {
        let mut is_emptied = true;
        let marks = segment.seq != self.store.log().oldest_seq();
        debug_assert!(!marks || matches!(fate, Fate::All), "only the oldest segment's entries are dropped");
        for entry in entries.iter() {
            let Some(place) = self.live_place(segment, &entry) else { continue };
            let (keep, place, rate) = match &mut fate {
                Fate::Chosen(choice) => {
                    let (keep, rate) = choice.take(entry.rate, place);
                    (keep, place.with_uses(0), rate)
                }
                Fate::AllThatFit | Fate::All => (true, place, entry.rate),
                Fate::None => (false, place, entry.rate),
            };
            let copied = match keep {
                true => self.copy_entry(segment, &entry, place, rate, turn)?,
                false => Copied::Obsolete,
            };
            match (copied, &fate) {
                (Copied::Yes, Fate::Chosen(_)) => self.store.view.counters.kept.add(1),
                (Copied::Yes, _) => self.store.view.counters.compacted.add(1),
                (Copied::NoRoom, Fate::All) => is_emptied = false,
                (Copied::Obsolete | Copied::NoRoom, _) => {
                    let dropped = self.store.log().drop_entry(&self.store.view, entry.hash, place, marks);
                    self.store.view.counters.evicted.add(u64::from(dropped));
                    if dropped {
                        self.ghost_list.remember(entry.hash, rate);
                    }
                }
            }
        }
        turn.trim();
        Ok(is_emptied)
    }

    /// Appends a copy of one record to the log, with the use count that `place` holds and `rate` as its rate of reads.
    fn copy_entry(
        &self,
        segment: &Segment,
        entry: &Entry,
        place: Place,
        rate: Rate,
        turn: &mut Turn,
    ) -> Result<Copied> {
        let Some(bytes) = segment.record(place, &mut turn.scratch) else { return Ok(Copied::Obsolete) };
        let checked = check_record_to_copy(bytes, segment.seq, entry.offset as u64);
        // If the footer gives the record another length, the footer is damaged.
        let Some((header, crc)) = checked.filter(|(header, _)| header.record_len() == bytes.len()) else {
            self.store.view.counters.corrupt.add(1);
            return Ok(Copied::Obsolete);
        };
        if self.store.ages.is_expired(header.created_ms) {
            return Ok(Copied::Obsolete);
        }
        let record = &mut turn.copy;
        record.clear();
        record.extend_from_slice(bytes);
        let mut unplaced = UnplacedRecord { header: &header, record, crc, priority: Priority::Upkeep, rate };
        loop {
            match self.store.log().copy(&self.store.view, place, &mut unplaced) {
                Ok(true) => {
                    turn.has_copied = true;
                    return Ok(Copied::Yes);
                }
                // The record was replaced or removed meanwhile, so it need not be copied.
                Ok(false) => return Ok(Copied::Yes),
                Err(NoRoom::Space) => return Ok(Copied::NoRoom),
                // The write buffer is full, and this thread can empty it.
                Err(NoRoom::Buffer) => {}
            }
            // The record may have been read from the image of an unfinished segment. The image would stay in the write
            // buffer as long as it is referenced here.
            turn.scratch.image = None;
            // If there was nothing to write, another thread wrote while this one waited.
            self.store.write_step(&mut self.store.files.turn())?;
        }
    }

    /// Copies the marks of a segment that are still needed, and notes in the log that the segment is dropped, unless it
    /// is the oldest. False if there is no room.
    pub(super) fn copy_marks(&self, segment: &Segment, entries: &Entries) -> Result<bool> {
        let oldest = self.store.log().oldest_seq();
        for entry in entries.iter().filter(|entry| entry.kind != Kind::Put) {
            let matters = || match entry.kind {
                Kind::Put => false,
                // A tombstone is needed as long as an older segment may hold the key and no newer value replaced it.
                Kind::Remove => segment.seq != oldest && self.store.view.index.get(entry.hash).is_none(),
                Kind::Dropped => entry.hash > oldest,
            };
            if !self.copy_mark(entry.kind, entry.hash, matters)? {
                return Ok(false);
            }
        }
        debug_assert!(oldest <= segment.seq, "the segment itself exists");
        Ok(segment.seq == oldest || self.copy_mark(Kind::Dropped, segment.seq, || true)?)
    }

    /// Appends a mark if `matters` under the log's lock; false if there is no room.
    fn copy_mark(&self, kind: Kind, hash: u64, matters: impl Fn() -> bool) -> Result<bool> {
        loop {
            {
                let mut log = self.store.log();
                if !matters() {
                    return Ok(true);
                }
                match log.append_mark(&self.store.view, kind, hash, self.store.ages.now_ms()) {
                    Ok(()) => return Ok(true),
                    Err(NoRoom::Space) => return Ok(false),
                    Err(NoRoom::Buffer) => {}
                }
            }
            self.store.write_step(&mut self.store.files.turn())?;
        }
    }
}
