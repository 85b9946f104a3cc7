//! Frees segments: the effects of what `evict` decides. Only the worker runs it.

use crate::{
    error::Result,
    evict::{Keep, Size, Victim, expired, make_room, make_room_on_a_full_disk, tidy},
    footer::{ENTRY_BYTES, Entries, Entry},
    format::{Kind, body_crc, check_record},
    log::{Log, Meta, NoRoom},
    place::{MAX_USES, Place},
    recover::{read_footer, scan},
    segment::Segment,
    shared::Shared,
    sync::{Mutex, MutexGuard, Ordering, lock},
};
use std::sync::Arc;

/// What happens to the live entries of a victim.
enum Fate {
    /// Those in use are kept, as far as this allows; the others are dropped.
    Chosen(Keep),
    /// All are kept that there is room for; the others are dropped.
    AllThatFit,
    /// All are kept.
    All,
}

impl Shared {
    /// Frees one segment if that is due; false if nothing is.
    pub(crate) fn reclaim_step(&self) -> Result<bool> {
        let mut scratch = lock(&self.reclaiming);
        if self.delete_void()? || self.delete_oldest_condemned()? {
            return Ok(true);
        }
        match self.next_victim() {
            None => {
                self.frees.store(false, Ordering::Relaxed);
                Ok(false)
            }
            Some(victim) => {
                self.frees.store(true, Ordering::Relaxed);
                self.reclaim(victim, &mut scratch)
            }
        }
    }

    fn next_victim(&self) -> Option<Victim> {
        let size = self.size(&lock(&self.log));
        // Only where something may be due: this looks at every segment while writers wait.
        let sealed = || lock(&self.log).sealed();
        let Size { disk_bytes, condemned_bytes, .. } = size;
        let most = self.layout.evict_above_bytes();
        // What is condemned is soon free, unless the disk is too slow for what is put.
        let is_late = condemned_bytes > self.layout.limit_bytes / 16;
        let remaining = disk_bytes - condemned_bytes;
        if remaining > most || (disk_bytes > most && is_late) {
            return make_room(&sealed(), is_late, size.must_sync);
        }
        let old = self.ages.max_ms().and_then(|max| expired(&sealed(), self.ages.now_ms(), max));
        old.or_else(|| size.is_wasteful().then(|| tidy(&sealed(), &size)).flatten())
    }

    /// How large the files are, and how much lives in them.
    pub(crate) fn size(&self, log: &Log) -> Size {
        Size {
            disk_bytes: log.disk_bytes(),
            condemned_bytes: log.condemned_bytes(),
            live_bytes: self.counters.live_bytes.get() + self.counters.entries.get() * ENTRY_BYTES as u64,
            slack_bytes: 2 * self.layout.segment_bytes as u64,
            must_sync: self.has_promised(),
        }
    }

    /// Whether dead space grows faster than compaction frees it, and little room is left for that.
    pub(crate) fn is_outgrowing(&self, log: &Log) -> bool {
        log.disk_bytes() > self.layout.limit_bytes / 4 * 3 && self.size(log).is_overgrown()
    }

    /// Evicts the oldest segment, which frees room on a full disk; false if there is none.
    pub(crate) fn free_one(&self) -> Result<bool> {
        let mut scratch = lock(&self.reclaiming);
        let sealed = lock(&self.log).sealed();
        match make_room_on_a_full_disk(&sealed) {
            None => Ok(false),
            Some(victim) => self.reclaim(victim, &mut scratch),
        }
    }

    /// Compacts every segment that has dead space worth a copy.
    pub(crate) fn compact_all(&self) -> Result<()> {
        let mut scratch = lock(&self.reclaiming);
        let _ = lock(&self.log).seal_active(&self.view());
        self.flush_all()?;
        let is_wasteful = |(_, meta): &(u16, Meta)| meta.live_bytes * 100 < meta.disk_bytes * 90;
        let wasteful: Vec<_> = lock(&self.log).sealed().into_iter().filter(is_wasteful).collect();
        for (slot, meta) in wasteful {
            // The slot of one that is gone may have been given to a new segment.
            if self.slots[usize::from(slot)].load().as_ref().is_some_and(|segment| segment.seq == meta.seq) {
                self.reclaim(Victim::Compact(slot), &mut scratch)?;
            }
        }
        self.delete_condemned().map(drop)
    }

    fn reclaim(&self, victim: Victim, scratch: &mut Vec<u8>) -> Result<bool> {
        let (Victim::Evict(slot) | Victim::Vacate(slot) | Victim::Compact(slot)) = victim;
        let Some(segment) = self.slots[usize::from(slot)].load_full() else { return Ok(false) };
        let entries = self.entries_of(&segment)?;
        match victim {
            Victim::Evict(_) => {
                let keep = self.choose(&segment, &entries);
                self.evict(&segment, &entries, Fate::Chosen(keep), scratch)
            }
            Victim::Vacate(_) => self.evict(&segment, &entries, Fate::AllThatFit, scratch),
            Victim::Compact(_) => self.compact(&segment, &entries, scratch),
        }
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
            let (entries, ..) = scan(&file.read_to_end()?, segment.seq);
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

    /// Copies or drops the entries of the oldest segment. False if there is no room for what must be written.
    fn evict(&self, segment: &Arc<Segment>, entries: &Entries, fate: Fate, scratch: &mut Vec<u8>) -> Result<bool> {
        let vacates = matches!(fate, Fate::AllThatFit);
        lock(&self.log).evicting = true;
        self.settle_entries(segment, entries, fate, scratch)?;
        let is_oldest = segment.seq == lock(&self.log).oldest_seq();
        if !is_oldest || (vacates && self.has_promised()) {
            // Condemned ones are older, and what is dropped here must not come back from there.
            return Ok(self.copy_marks(segment, entries)? && self.condemn(segment));
        }
        // The copies must be in the files before the originals are gone, or a killed process would lose what is in use.
        // No mark is written and nothing synced: there is nothing older that could come back.
        self.flush_all()?;
        if vacates {
            if !self.delete_unless_promised(segment)? {
                return Ok(self.copy_marks(segment, entries)? && self.condemn(segment));
            }
        } else {
            self.delete(segment)?;
        }
        lock(&self.log).evicting = false;
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
        let credit = self.layout.keep_credit(self.keep_credit.load(Ordering::Relaxed), total);
        let keep = Keep::most_used(&bytes_by_uses, credit);
        self.keep_credit.store(credit - keep.bytes(&bytes_by_uses), Ordering::Relaxed);
        keep
    }

    /// Copies everything that lives in a segment and condemns it; false if there is no room for that now.
    fn compact(&self, segment: &Segment, entries: &Entries, scratch: &mut Vec<u8>) -> Result<bool> {
        if self.settle_entries(segment, entries, Fate::All, scratch)? || !self.copy_marks(segment, entries)? {
            return Ok(false);
        }
        Ok(self.condemn(segment))
    }

    /// Leaves a segment to the syncer; true.
    fn condemn(&self, segment: &Segment) -> bool {
        {
            let mut log = lock(&self.log);
            log.condemn(segment.slot);
            log.evicting = false;
        }
        lock(&self.condemned).push((segment.slot, segment.seq));
        self.wake_syncer();
        true
    }

    /// Deletes the segments that were compacted, once the copies are on stable storage: an older value of a copied key
    /// may still stand in an older segment, and a power loss must not take the copy and leave that one. False if there
    /// is none.
    pub(crate) fn delete_condemned(&self) -> Result<bool> {
        let condemned = lock(&self.condemned).clone();
        if condemned.is_empty() {
            return Ok(false);
        }
        let end = lock(&self.log).end();
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

    /// Copies or drops each live entry; true if some could neither be copied nor dropped.
    fn settle_entries(
        &self,
        segment: &Segment,
        entries: &Entries,
        mut fate: Fate,
        scratch: &mut Vec<u8>,
    ) -> Result<bool> {
        let mut left_over = false;
        let is_oldest = segment.seq == lock(&self.log).oldest_seq();
        for entry in entries.iter() {
            let Some(place) = self.live_place(segment, &entry) else { continue };
            let (keep, uses) = match &mut fate {
                Fate::Chosen(keep) => (keep.take(place.uses(), place.len() as u64), place.uses().saturating_sub(1)),
                Fate::AllThatFit | Fate::All => (true, place.uses()),
            };
            let kept = match keep {
                true => self.copy_entry(segment, &entry, place, uses, scratch)?,
                false => Copied::Useless,
            };
            match (kept, &fate) {
                (Copied::Yes, Fate::Chosen(_)) => self.counters.kept.add(1),
                (Copied::Yes, Fate::AllThatFit | Fate::All) => self.counters.compacted.add(1),
                (Copied::Useless, _) | (Copied::NoRoom, Fate::Chosen(_) | Fate::AllThatFit) => {
                    self.drop_entry(&entry, place, is_oldest);
                }
                (Copied::NoRoom, Fate::All) => left_over = true,
            }
        }
        Ok(left_over)
    }

    fn drop_entry(&self, entry: &Entry, place: Place, is_oldest: bool) {
        let mut log = lock(&self.log);
        if log.drop_entry(&self.view(), entry.hash, place) {
            self.counters.evicted.add(1);
            if !is_oldest {
                // Something older may come back in its place.
                log.owe(&self.view(), entry.hash);
            }
        }
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
                Err(NoRoom) => {}
            }
            // Either the write buffer is full, which this thread can change, or the limit is reached.
            if !self.flush_step(&mut lock(&self.files))? {
                return Ok(Copied::NoRoom);
            }
        }
    }

    /// Copies the marks of a segment that still matter; false if there is no room.
    fn copy_marks(&self, segment: &Segment, entries: &Entries) -> Result<bool> {
        let mut log = lock(&self.log);
        let oldest = log.oldest_seq();
        let now_ms = self.ages.now_ms();
        for entry in entries.iter() {
            let matters = match entry.kind {
                Kind::Put => false,
                // A removal matters as long as an older segment may hold the key, and nothing younger replaced it.
                Kind::Remove => segment.seq != oldest && self.index.get(entry.hash).is_none(),
                Kind::Dropped => entry.hash > oldest,
            };
            if matters && log.append_mark(&self.view(), entry.kind, entry.hash, now_ms).is_err() {
                return Ok(false);
            }
        }
        let is_oldest = segment.seq == oldest;
        Ok(is_oldest || log.append_mark(&self.view(), Kind::Dropped, segment.seq, now_ms).is_ok())
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
        segment.delete(&self.fs)?;
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

/// What came of copying a record.
enum Copied {
    /// It is at the end of the log, or something newer is.
    Yes,
    /// It is harmed or too old.
    Useless,
    NoRoom,
}
