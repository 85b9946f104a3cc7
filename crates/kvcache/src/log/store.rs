//! The log together with its readers' view and its files: how bytes get to the disk, and in which order.

use crate::{
    age::Ages,
    error::{Error, Result},
    format::footer::encode_footer,
    log::{
        append::{Full, Log, LogPosition, Next},
        files::{Files, Turn},
        image::Image,
        saved,
        segment::Segment,
        space::Space,
        tickets::Tickets,
        view::View,
    },
    sync::{Held, Lock, Rank},
};
use std::sync::Arc;

/// A log and its files.
pub(crate) struct Store {
    pub(crate) space: Space,
    pub(crate) ages: Ages,
    pub(crate) view: View,
    pub(crate) tickets: Tickets,
    pub(crate) files: Files,
    log: Lock<Log>,
}

impl Store {
    pub(crate) fn new(ages: Ages, view: View, files: Files, log: Log) -> Self {
        let space = log.space();
        debug_assert!(log.oldest_seq() <= log.end().seq, "numbers are in the order of the log");
        view.counters.limit_bytes.set(space.limit_bytes);
        view.counters.disk_bytes.set(log.disk_bytes());
        Store { space, ages, view, tickets: Tickets::new(), files, log: Lock::new(Rank::Log, log) }
    }

    /// The log's lock. No disk access happens under it.
    pub(crate) fn log(&self) -> Held<'_, Log> {
        self.log.lock()
    }

    /// Writes one segment, or the part of it that exists, to its file; false if the files have everything. Fails if the
    /// cache was closed to its end while the caller waited for its turn.
    pub(crate) fn write_step(&self, turn: &mut Turn) -> Result<bool> {
        turn.check_open()?;
        let Some(next) = self.log().next_to_write() else { return Ok(false) };
        let done = self.files.check_ours().and_then(|()| match next {
            Next::Tail(segment, image, end) => self.flush(&segment, &image, end),
            Next::Full(full) => self.write_full(full),
        });
        self.files.health.wrote(done.is_ok());
        done.map(|()| true).map_err(|error| self.disk_failed(error))
    }

    fn write_full(&self, full: Full) -> refdb_vfs::Result<()> {
        let Full { segment, image, records_end, entries, newest_ms } = full;
        self.flush(&segment, &image, records_end)?;
        if self.files.has_promised() {
            // A footer without its records would let later writes survive a loss of power without earlier ones.
            self.sync_segment(&segment)?;
        }
        let footer = encode_footer(segment.seq, records_end as u64, newest_ms, &entries);
        segment.seal(&self.files.fs, &footer)?;
        debug_assert!(segment.flushed() > records_end as u64, "the footer follows the records");
        let mut log = self.log();
        log.written(segment.seq);
        log.buffer().give_back(image);
        Ok(())
    }

    /// Appends the bytes of the image up to `end` to the segment's file, which is created if necessary.
    fn flush(&self, segment: &Segment, image: &Image, end: usize) -> refdb_vfs::Result<()> {
        let Files { fs, maps, .. } = &self.files;
        if segment.flushed() == 0 {
            segment.create(fs)?;
            // Noted before the file has bytes, because whoever syncs these must sync the name, too.
            self.files.note_names();
        }
        segment.flush(fs, image, end, *maps)
    }

    fn disk_failed(&self, error: refdb_vfs::Error) -> Error {
        self.view.counters.disk_errors.add(1);
        self.files.health.failed(&error);
        Error::File(error)
    }

    /// Saves the index for the next start if the log is at rest and the limit has room for the file. A saved index is
    /// of no use once the files change.
    pub(crate) fn save_index(&self) -> Result<()> {
        let (sealed, store, room) = {
            let log = self.log();
            let Some(sealed) = log.at_rest() else { return Ok(()) };
            (sealed, log.identity(), self.space.room_bytes.saturating_sub(log.disk_bytes()))
        };
        self.files.check_ours()?;
        saved::save(&self.files.fs, &self.files.dir, &self.view.index, &sealed, store, room)
    }

    /// Writes everything that the log has now.
    pub(crate) fn write_all(&self) -> Result<()> {
        let end = self.log().end();
        self.write_through(end)
    }

    /// Writes, or waits for another thread that writes, until the files have everything before `end`.
    pub(crate) fn write_through(&self, end: LogPosition) -> Result<()> {
        let mut turn = self.files.turn();
        while !self.log().is_written(end) {
            if !self.write_step(&mut turn)? {
                break;
            }
        }
        Ok(())
    }

    /// Syncs everything before `end`, older segments first, so that a loss of power takes the end of the log and never
    /// a part in its middle. Syncs the folder too, so that new segments have their names and deleted ones stay deleted.
    ///
    /// Segments that were void at the beginning are not synced, because one of them may be lost. What made them void
    /// is synced instead, even if it is later than `end`.
    pub(crate) fn sync_through(&self, end: LogPosition) -> Result<()> {
        let floor = self.log().floor();
        let end = end.max(floor);
        let written = self.write_through(end);
        let done = written.and_then(|()| self.sync_written(floor.seq, end)).and_then(|()| self.check_ours());
        self.files.health.synced(done.is_ok());
        done
    }

    /// Fails if the folder is missing or belongs to another process, because bytes in a file that has no name any more
    /// are not durable.
    fn check_ours(&self) -> Result<()> {
        self.files.check_ours().map_err(|error| self.disk_failed(error))
    }

    fn sync_written(&self, first_seq: u64, end: LogPosition) -> Result<()> {
        let mut segments: Vec<_> = self.view.slots.iter().filter_map(|slot| slot.load_full()).collect();
        segments.retain(|segment| (first_seq..=end.seq).contains(&segment.seq) && segment.flushed() > 0);
        segments.sort_by_key(|segment| segment.seq);
        for segment in segments {
            match self.sync_segment(&segment) {
                Ok(()) => {}
                // The segment was deleted meanwhile, so nothing of it is needed, but it must not come back.
                Err(error) if error.is_not_found() => self.files.note_names(),
                Err(error) => return Err(self.disk_failed(error)),
            }
        }
        self.sync_names()?;
        if self.files.has_promised() {
            // Headers of later segments say up to which segment the log was synced. As long as no write was ever
            // synced, they say nothing, because segments may be deleted before the copies of their records are durable.
            self.log().synced(end.seq.saturating_sub(1));
        }
        Ok(())
    }

    fn sync_segment(&self, segment: &Segment) -> refdb_vfs::Result<()> {
        segment.sync(&self.files.fs).inspect_err(|_| {
            if segment.is_lost() {
                // Locked, because a wipe makes the segment void under this lock.
                let log = self.log();
                if segment.seq >= log.floor().seq {
                    self.files.health.lose();
                }
            }
        })
    }

    /// Syncs the folder if segments were created or deleted.
    pub(crate) fn sync_names(&self) -> Result<()> {
        self.files.sync_names().map_err(|error| self.disk_failed(error))
    }

    /// Prepares the sync of a write and returns the position up to which the log must be synced for that write.
    ///
    /// Before an old segment is deleted, its live records are copied to the end of the log. As long as no write was
    /// synced, these copies need not be durable when the segment is deleted, because losing them is no worse than an
    /// eviction. The first call creates a file in the folder, which says that copies must be durable from now on; the
    /// position that it returns includes the copies that were made before.
    pub(crate) fn promise(&self, end: LogPosition) -> Result<LogPosition> {
        if self.files.has_promised() {
            return Ok(end);
        }
        let turn = self.files.turn();
        turn.check_open()?;
        self.files.promise(&turn).map_err(|error| self.disk_failed(error))?;
        let now = self.log().end();
        debug_assert!(now >= end, "the log only grows: {end:?}, {now:?}");
        Ok(now)
    }

    /// Deletes a segment's file and frees its room.
    pub(crate) fn delete(&self, segment: &Arc<Segment>) -> Result<()> {
        self.delete_in(&self.files.turn(), segment)
    }

    /// Deletes a segment whose live records were copied to other files, where the copies may not be durable. Does
    /// nothing and returns false if copies must be durable; see [`Store::promise`].
    pub(crate) fn delete_unless_promised(&self, segment: &Arc<Segment>) -> Result<bool> {
        let turn = self.files.turn();
        if self.files.has_promised() {
            return Ok(false);
        }
        self.delete_in(&turn, segment).map(|()| true)
    }

    fn delete_in(&self, _turn: &Turn, segment: &Arc<Segment>) -> Result<()> {
        if self.view.segment(segment.slot, segment.seq).is_none() {
            return Ok(());
        }
        self.files.check_ours()?;
        if self.files.has_promised() {
            // Deletions reach stable storage in the order of the log too: if a loss of power brought back only the
            // older of two segments, the values that the younger one removed would be back.
            self.sync_names()?;
        }
        debug_assert!(segment.seq < self.log().end().seq, "the active segment stays");
        segment.delete(&self.files.fs)?;
        // If the file was not found, it counts as deleted only if the folder is still there.
        self.files.check_ours()?;
        self.files.note_names();
        self.log().release(&self.view, segment.slot);
        Ok(())
    }
}
