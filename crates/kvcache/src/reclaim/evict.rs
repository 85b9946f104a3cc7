//! Frees segments: the effects of what `space` and `keep` decide. Only the worker runs it, but on a full disk.

use crate::{
    error::{Error, Result},
    format::{
        footer::{ENTRY_BYTES, Entries, Entry},
        place::{MAX_USES, Place},
        record::{Kind, body_crc, check_record},
    },
    log::{
        append::{Log, NoRoom},
        recover::{entries_without_footer, read_footer},
        segment::Segment,
        space::copy_room,
    },
    reclaim::{
        keep::Keep,
        plan::{State, Step, expired, plan, tidiable},
    },
    shared::Shared,
    sync::{Mutex, MutexGuard, Ordering, lock},
};
use std::{io::ErrorKind, sync::Arc};

/// How many segments that hold little are merged when a cache is closed.
const MERGED_AT_ONCE: u32 = 16;

/// What happens to the live entries of a victim.
enum Fate {
    /// Those in use are kept, as far as this allows; the others are dropped.
    Chosen(Keep),
    /// All are kept that there is room for; the others are dropped.
    AllThatFit,
    /// All are kept.
    All,
    /// All are dropped.
    None,
}

impl Shared {
    /// Frees one segment if that is due; false if nothing is.
    pub(crate) fn reclaim_step(&self) -> Result<bool> {
        let mut scratch = lock(&self.reclaiming);
        if self.delete_void()? || self.delete_oldest_condemned()? {
            return Ok(true);
        }
        let (step, is_short) = self.next_step();
        self.frees.store(step.is_some(), Ordering::Relaxed);
        match step {
            Some(Step::Compact(_) | Step::Vacate(_)) if is_short => drop(self.in_a_row.fetch_add(1, Ordering::Relaxed)),
            _ => self.in_a_row.store(0, Ordering::Relaxed),
        }
        step.map_or(Ok(false), |step| self.perform(step, &mut scratch))
    }

    /// What is due, and whether room is short.
    fn next_step(&self) -> (Option<Step>, bool) {
        let state = self.state(&lock(&self.log));
        let space = &self.space;
        let max_age = self.ages.max_ms();
        // Only where something may be due: this looks at every segment while writers wait.
        if !state.may_need_work(space) && max_age.is_none() {
            return (None, false);
        }
        let sealed = lock(&self.log).sealed();
        let old = max_age.filter(|_| !state.is_short(space) && !state.is_stuck);
        let old = old.and_then(|max| expired(&sealed, self.ages.now_ms(), max));
        (old.or_else(|| plan(space, &state, &sealed)), state.is_short(space))
    }

    /// How large the files are, and how much lives in them.
    pub(crate) fn state(&self, log: &Log) -> State {
        let condemned_bytes = log.condemned_bytes();
        State {
            used_bytes: log.disk_bytes(),
            condemned_bytes,
            live_bytes: self.counters.live_bytes.get() + self.counters.entries.get() * ENTRY_BYTES as u64,
            largest_bytes: log.largest_bytes(),
            segments: log.segments(),
            free_slots: log.free_slots(),
            must_sync: self.has_promised(),
            is_stuck: log.owes_for_space() || (condemned_bytes > 0 && self.sync_fails()),
            in_a_row: u32::try_from(self.in_a_row.load(Ordering::Relaxed)).unwrap_or(u32::MAX),
        }
    }

    /// Whether dead space grows faster than compaction frees it, and little room is left for that.
    pub(crate) fn is_outgrowing(&self, log: &Log) -> bool {
        log.disk_bytes() > self.space.limit_bytes / 4 * 3 && self.state(log).is_overgrown(&self.space)
    }

    /// Makes fewer segments of many that hold little, so that each restart may leave one.
    pub(crate) fn merge_if_crowded(&self) -> Result<()> {
        let is_crowded = || self.state(&lock(&self.log)).is_crowded(&self.space);
        for _ in 0..MERGED_AT_ONCE {
            if !is_crowded() || !self.reclaim_step()? {
                break;
            }
        }
        self.delete_condemned().map(drop)
    }

    /// Compacts every segment that has dead space worth a copy.
    pub(crate) fn compact_all(&self) -> Result<()> {
        let mut scratch = lock(&self.reclaiming);
        let _ = lock(&self.log).seal_active(&self.view());
        self.flush_all()?;
        let oldest = lock(&self.log).oldest_seq();
        let mut wasteful = lock(&self.log).sealed();
        wasteful.retain(|(_, meta)| tidiable(meta, oldest, 10) || meta.live_bytes == 0);
        for (slot, meta) in wasteful {
            // The slot of one that is gone may have been given to a new segment.
            let segment = self.slots[usize::from(slot)].load_full().filter(|segment| segment.seq == meta.seq);
            let Some(segment) = segment else { continue };
            let kept = meta.kept_bytes(lock(&self.log).oldest_seq());
            if lock(&self.log).disk_bytes() + copy_room(kept) > self.space.room_bytes {
                self.delete_condemned()?;
            }
            let entries = self.entries_of(&segment)?;
            self.compact(&segment, &entries, &mut scratch)?;
        }
        self.delete_condemned().map(drop)
    }

    fn perform(&self, step: Step, scratch: &mut Vec<u8>) -> Result<bool> {
        let (Step::Evict(slot) | Step::Vacate(slot) | Step::Compact(slot)) = step else {
            return self.drop_oldest(scratch);
        };
        let Some(segment) = self.slots[usize::from(slot)].load_full() else { return Ok(false) };
        let entries = self.entries_of(&segment)?;
        match step {
            Step::Evict(_) => {
                let keep = self.choose(&segment, &entries);
                self.evict(&segment, &entries, Fate::Chosen(keep), scratch)
            }
            Step::Vacate(_) => self.evict(&segment, &entries, Fate::AllThatFit, scratch),
            Step::Compact(_) | Step::Drop => {
                if !self.compact(&segment, &entries, scratch)? {
                    // Marks took the room that there was: with the oldest it comes back.
                    self.drop_oldest(scratch)?;
                }
                Ok(true)
            }
        }
    }

    /// Deletes the oldest segment of all as it is and drops its entries; false if no file is whole. This is what can always
    /// be done: nothing older could come back, so there is nothing to write first, and nothing to wait for.
    fn drop_oldest(&self, scratch: &mut Vec<u8>) -> Result<bool> {
        let oldest = lock(&self.log).oldest_finished();
        let Some((slot, meta)) = oldest else { return Ok(false) };
        let Some(segment) = self.slots[usize::from(slot)].load_full() else { return Ok(false) };
        lock(&self.log).starts_to_drop(slot);
        if meta.live_bytes > 0 {
            let entries = self.entries_of(&segment)?;
            self.settle_entries(&segment, &entries, Fate::None, scratch)?;
        }
        self.delete(&segment)?;
        for list in [&self.condemned, &self.void] {
            lock(list).retain(|(_, seq)| *seq != meta.seq);
        }
        assert!(lock(&self.log).oldest_seq() > meta.seq, "the oldest segment is gone, and its room free");
        Ok(true)
    }

    /// Makes room on a disk that is full, whatever the limit says: deletes the oldest segment. False if there is none.
    pub(crate) fn free_one(&self) -> Result<bool> {
        self.drop_oldest(&mut lock(&self.reclaiming))
    }

    /// Forgets everything and deletes every file, without writing first: what is removed then stays so on a disk that takes
    /// nothing.
    pub(crate) fn wipe(&self) -> Result<()> {
        let _reclaiming = lock(&self.reclaiming);
        // A clear of before may have taken the last block.
        let before = lock(&self.void).clone();
        self.delete_all(before, &self.void)?;
        let cleared = lock(&self.log).clear(&self.view());
        let Some((void, memory)) = cleared else { return Err(self.disk_error()) };
        drop(memory);
        self.invalidate_all_tickets();
        self.ghosts.clear();
        lock(&self.void).extend(void);
        // Oldest first: what is left in between is a log whose oldest segments were evicted.
        let all = lock(&self.void).clone();
        self.delete_all(all, &self.void)?;
        self.sync_names(false)
    }

    /// What the footer of a sealed segment says. A footer that cannot be read any more leads to no entry, so each entry
    /// the index has there is looked for.
    fn entries_of(&self, segment: &Segment) -> Result<Entries> {
        let read = || -> Result<Option<Entries>> {
            let file = self.fs.open(segment.path())?;
            let file_bytes = file.stat()?.len_bytes;
            if let Some((_, entries)) = read_footer(&file, file_bytes, segment.seq)? {
                return Ok(Some(entries));
            }
            // One that was found without a footer, on a disk that had no room for one.
            let entries = entries_without_footer(&file.read_to_end()?, segment.seq);
            Ok((!entries.is_empty()).then_some(entries))
        };
        if let Ok(Some(entries)) = read() {
            return Ok(entries);
        }
        self.counters.corrupt.add(1);
        let mut entries = Entries::default();
        self.index.for_each(|hash, place| {
            if place.slot() == segment.slot {
                entries.push(&Entry { hash, kind: Kind::Put, offset: place.offset(), len: place.len() });
            }
        });
        Ok(entries)
    }

    fn live_place(&self, segment: &Segment, entry: &Entry) -> Option<Place> {
        let place = Place::new(segment.slot, entry.offset, entry.len);
        self.index.get(entry.hash).filter(|now| entry.kind == Kind::Put && now.is_same(place))
    }

    /// Copies or drops the entries of the oldest segment that is not condemned. False if that is not possible now.
    fn evict(&self, segment: &Arc<Segment>, entries: &Entries, fate: Fate, scratch: &mut Vec<u8>) -> Result<bool> {
        let (vacates, promised) = (matches!(fate, Fate::AllThatFit), self.has_promised());
        if segment.seq != lock(&self.log).oldest_seq() {
            // Condemned ones are older, and what is dropped here must not come back from there.
            return self.delete_condemned();
        }
        lock(&self.log).starts_to_drop(segment.slot);
        let kept = self.settle_entries(segment, entries, fate, scratch)?.kept;
        // No mark is written: there is nothing older that could come back.
        if vacates && promised {
            self.condemn(segment);
            return Ok(true);
        }
        // The copies must be in the files before the originals are gone, or a killed process would lose what is in use.
        if kept && promised {
            let end = lock(&self.log).end();
            self.sync_through(end)?;
        } else if kept {
            self.flush_all()?;
        }
        if !vacates {
            self.delete(segment)?;
        } else if !self.delete_unless_promised(segment)? {
            self.condemn(segment);
        }
        Ok(true)
    }

    /// Which entries in use are kept: half of what is evicted on average, more of a segment where much is in use.
    fn choose(&self, segment: &Segment, entries: &Entries) -> Keep {
        let mut bytes_by_uses = [0; MAX_USES as usize + 1];
        let mut total = 0;
        for place in entries.iter().filter_map(|entry| self.live_place(segment, &entry)) {
            bytes_by_uses[usize::from(place.uses())] += place.len() as u64;
            total += place.len() as u64;
        }
        let credit = self.space.keep_credit(self.keep_credit.load(Ordering::Relaxed), total);
        let keep = Keep::most_used(&bytes_by_uses, credit);
        self.keep_credit.store(credit - keep.bytes(&bytes_by_uses), Ordering::Relaxed);
        keep
    }

    /// Copies everything that lives in a segment and condemns it; false if there is no room for that now.
    fn compact(&self, segment: &Segment, entries: &Entries, scratch: &mut Vec<u8>) -> Result<bool> {
        let settled = self.settle_entries(segment, entries, Fate::All, scratch)?;
        if settled.left_over || !self.copy_marks(segment, entries)? {
            return Ok(false);
        }
        self.condemn(segment);
        Ok(true)
    }

    /// Leaves a segment to the syncer.
    fn condemn(&self, segment: &Segment) {
        lock(&self.log).condemn(segment.slot);
        lock(&self.condemned).push((segment.slot, segment.seq));
        self.wake_syncer();
    }

    /// Deletes the segments that were compacted, once the copies are on stable storage: an older value of a copied key
    /// may still stand in an older segment, and a power loss must not take the copy and leave that one. False if there
    /// is none, or if they must stay for now.
    pub(crate) fn delete_condemned(&self) -> Result<bool> {
        let condemned = lock(&self.condemned).clone();
        if condemned.is_empty() {
            return Ok(false);
        }
        let end = {
            let mut log = lock(&self.log);
            // What was dropped there must not come back either.
            if log.owes() && log.pay_at(&self.view(), self.ages.now_ms()).is_err() {
                return Ok(false);
            }
            log.end()
        };
        self.sync_through(end)?;
        self.delete_all(condemned, &self.condemned)?;
        Ok(true)
    }

    /// Deletes condemned segments that are the oldest of all, as soon as the copies are in the files: nothing older could
    /// come back, so nothing needs to be on stable storage, unless a promise was given. False if there is none.
    fn delete_oldest_condemned(&self) -> Result<bool> {
        let mut any = false;
        while !self.has_promised() {
            let oldest = lock(&self.log).oldest_seq();
            let Some(found) = lock(&self.condemned).iter().copied().find(|(_, seq)| *seq == oldest) else { break };
            if !any {
                self.flush_all()?;
            }
            any = true;
            if let Some(segment) = self.slots[usize::from(found.0)].load_full().filter(|there| there.seq == oldest)
                && !self.delete_unless_promised(&segment)?
            {
                break;
            }
            lock(&self.condemned).retain(|other| *other != found);
        }
        Ok(any)
    }

    /// Deletes these segments and takes them off a list, oldest first: what a younger one says of an older one must not
    /// go before it.
    fn delete_all(&self, mut segments: Vec<(u16, u64)>, list: &Mutex<Vec<(u16, u64)>>) -> Result<()> {
        segments.sort_by_key(|(_, seq)| *seq);
        for (slot, seq) in segments {
            // The slot may have been given to another since.
            if let Some(segment) = self.slots[usize::from(slot)].load_full().filter(|segment| segment.seq == seq) {
                self.delete(&segment)?;
            }
            lock(list).retain(|(_, other)| *other != seq);
        }
        Ok(())
    }

    /// Copies or drops each live entry.
    fn settle_entries(
        &self,
        segment: &Segment,
        entries: &Entries,
        mut fate: Fate,
        scratch: &mut Vec<u8>,
    ) -> Result<Settled> {
        let mut settled = Settled::default();
        let marks = segment.seq != lock(&self.log).oldest_seq();
        for entry in entries.iter() {
            let Some(place) = self.live_place(segment, &entry) else { continue };
            let (keep, uses) = match &mut fate {
                Fate::Chosen(keep) => (keep.take(place.uses(), place.len() as u64), place.uses().saturating_sub(1)),
                Fate::AllThatFit | Fate::All => (true, place.uses()),
                Fate::None => (false, 0),
            };
            let copied = match keep {
                true => self.copy_entry(segment, &entry, place, uses, scratch)?,
                false => Copied::Useless,
            };
            match (copied, &fate) {
                (Copied::Yes, Fate::Chosen(_)) => self.counters.kept.add(1),
                (Copied::Yes, _) => self.counters.compacted.add(1),
                (Copied::NoRoom, Fate::All) => settled.left_over = true,
                (Copied::Useless | Copied::NoRoom, _) => {
                    let dropped = lock(&self.log).drop_entry(&self.view(), entry.hash, place, marks);
                    self.counters.evicted.add(u64::from(dropped));
                }
            }
            settled.kept |= matches!(copied, Copied::Yes);
        }
        Ok(settled)
    }

    /// Copies one record to the end of the log.
    fn copy_entry(
        &self,
        segment: &Segment,
        entry: &Entry,
        place: Place,
        uses: u8,
        scratch: &mut Vec<u8>,
    ) -> Result<Copied> {
        let Some(bytes) = segment.record(place, scratch) else { return Ok(Copied::Useless) };
        let Some(header) = check_record(bytes, segment.seq, entry.offset as u64) else {
            self.counters.corrupt.add(1);
            return Ok(Copied::Useless);
        };
        if self.ages.is_expired(header.created_ms) {
            return Ok(Copied::Useless);
        }
        let mut record = bytes.to_vec();
        let crc = body_crc(&record);
        loop {
            match lock(&self.log).copy(&self.view(), place, &header, &mut record, crc, uses) {
                Ok(true) => return Ok(Copied::Yes),
                // Replaced or removed meanwhile.
                Ok(false) => return Ok(Copied::Yes),
                Err(NoRoom::Space) => return Ok(Copied::NoRoom),
                // The write buffer is full, which this thread can change.
                Err(NoRoom::Buffer) => {}
            }
            if !self.flush_step(&mut lock(&self.files))? {
                return Ok(Copied::NoRoom);
            }
        }
    }

    /// Copies the marks of a segment that still matter; false if there is no room.
    fn copy_marks(&self, segment: &Segment, entries: &Entries) -> Result<bool> {
        let oldest = lock(&self.log).oldest_seq();
        for entry in entries.iter().filter(|entry| entry.kind != Kind::Put) {
            let matters = || match entry.kind {
                Kind::Put => false,
                // A removal matters as long as an older segment may hold the key, and nothing younger replaced it.
                Kind::Remove => segment.seq != oldest && self.index.get(entry.hash).is_none(),
                Kind::Dropped => entry.hash > oldest,
            };
            if !self.copy_mark(entry.kind, entry.hash, matters)? {
                return Ok(false);
            }
        }
        Ok(segment.seq == oldest || self.copy_mark(Kind::Dropped, segment.seq, || true)?)
    }

    /// Makes a mark if it still matters when its place in the log is known; false if there is no room.
    fn copy_mark(&self, kind: Kind, hash: u64, matters: impl Fn() -> bool) -> Result<bool> {
        loop {
            {
                let mut log = lock(&self.log);
                if !matters() {
                    return Ok(true);
                }
                match log.append_mark(&self.view(), kind, hash, self.ages.now_ms()) {
                    Ok(()) => return Ok(true),
                    Err(NoRoom::Space) => return Ok(false),
                    Err(NoRoom::Buffer) => {}
                }
            }
            if !self.flush_step(&mut lock(&self.files))? {
                return Ok(false);
            }
        }
    }

    fn delete(&self, segment: &Arc<Segment>) -> Result<()> {
        self.delete_holding(&lock(&self.files), segment)
    }

    /// Deletes a segment whose copies are in the files but may not be on stable storage; false if a promise was given,
    /// which says that they must. Whoever gives the first one syncs all that is there by then, these copies too.
    fn delete_unless_promised(&self, segment: &Arc<Segment>) -> Result<bool> {
        let files = lock(&self.files);
        if self.has_promised() {
            return Ok(false);
        }
        self.delete_holding(&files, segment).map(|()| true)
    }

    fn delete_holding(&self, _files: &MutexGuard<'_, Vec<u8>>, segment: &Arc<Segment>) -> Result<()> {
        let is_there = |now: &Option<Arc<Segment>>| now.as_ref().is_some_and(|now| now.seq == segment.seq);
        if !is_there(&self.slots[usize::from(segment.slot)].load()) {
            return Ok(());
        }
        if self.has_promised() {
            // In the order of the log, also as stable storage sees it: were only the older one of two to come back, so would
            // what a removal in the younger one had removed.
            self.sync_names(false)?;
        }
        segment.delete(&self.fs)?;
        self.note_unlinked();
        lock(&self.log).release(&self.view(), segment.slot);
        Ok(())
    }

    /// Deletes a segment that a clear made void, oldest first; false if there is none.
    fn delete_void(&self) -> Result<bool> {
        if lock(&self.void).is_empty() {
            return Ok(false);
        }
        // What says that they are void comes first.
        self.flush_all()?;
        let void = lock(&self.void).clone();
        self.delete_all(void, &self.void)?;
        Ok(true)
    }
}

/// Whether the disk has no room, which the cache can make.
pub(crate) fn is_full(error: &Error) -> bool {
    let kinds = [ErrorKind::StorageFull, ErrorKind::QuotaExceeded];
    matches!(error, Error::File(error) if kinds.contains(&error.source.kind()))
}

/// What became of the entries of a segment.
#[derive(Default)]
struct Settled {
    /// Some were copied.
    kept: bool,
    /// Some could neither be copied nor dropped.
    left_over: bool,
}

/// What came of copying a record.
#[derive(Clone, Copy)]
enum Copied {
    /// It is at the end of the log, or something newer is.
    Yes,
    /// It is harmed or too old.
    Useless,
    NoRoom,
}
