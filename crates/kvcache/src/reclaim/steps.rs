//! The steps that free space, one at a time. The worker performs them; so do opening, closing and compacting a cache,
//! and writes on a full disk.

use super::{
    calls::Calls,
    drift::DriftDetector,
    ghost_list::{GhostList, Rounds},
    keep::Threshold,
    pending_deletion::PendingDeletion,
    plan::{State, Step, expired, plan, tidiable},
    report,
    simulation::Simulations,
};
use crate::{
    error::{Error, Result},
    format::footer::ENTRY_BYTES,
    log::scratch::{RecordBuffer, trim},
    log::{append::Log, loading::Loading, space::copy_room, store::Store},
    sync::{AtomicBool, Held, Lock, Ordering, Rank},
};
use std::sync::Arc;

/// Maximum number of steps that merge small segments when a cache is opened or closed.
const MERGED_AT_ONCE: u32 = 16;

/// Everything that frees space in a store.
pub(crate) struct Reclaim {
    pub(crate) store: Arc<Store>,
    pub(crate) pending_deletion: PendingDeletion,
    pub(crate) calls: Calls,
    pub(crate) simulations: Simulations,
    pub(crate) ghost_list: GhostList,
    /// Number of the first segment of which every read was counted.
    pub(super) first_seq: u64,
    turn: Lock<Turn>,
    /// The shards of the index that are still to be filled; `None` if there are none.
    pub(super) loading: Lock<Option<Loading>>,
    /// Whether a step was due when this was last decided. If so, puts may give way to the worker.
    frees: AtomicBool,
}

/// The right to free segments, which one thread has at a time, and the state that is kept from step to step.
pub(super) struct Turn {
    /// Bytes of entries that evictions may copy beyond their share.
    pub(super) keep_credit: u64,
    /// Evictions copy only entries that are worth at least this much.
    pub(super) threshold: Threshold,
    pub(super) drift: DriftDetector,
    pub(super) rounds: Rounds,
    /// Number of steps in a row that compacted or vacated a segment because space was short. Any other planned step, or
    /// none, resets it; the deletion of emptied segments does not.
    in_a_row: u32,
    /// Whether records were copied since an eviction or the vacating of a segment last made its copies safe. The copies
    /// must be in the files before the originals are deleted, or a killed process would lose entries in use. Kept from
    /// step to step, because a step that fails after it has copied records is repeated, and then finds nothing more to
    /// copy.
    pub(super) has_copied: bool,
    /// Buffers for a record that is copied, and for its copy.
    pub(super) scratch: RecordBuffer,
    pub(super) copy: Vec<u8>,
    /// Whether the cache was closed to its end, after which its files may belong to another handle.
    has_ended: bool,
}

impl Turn {
    /// Frees memory that a large record took.
    pub(super) fn trim(&mut self) {
        self.scratch.give_back();
        trim(&mut self.copy);
    }
}

impl Reclaim {
    pub(crate) fn new(store: Arc<Store>) -> Self {
        let simulations = Simulations::new(store.space.limit_bytes);
        let turn = Turn {
            keep_credit: u64::MAX / 2,
            threshold: Threshold::new(),
            drift: DriftDetector::new(),
            rounds: Rounds::default(),
            in_a_row: 0,
            has_copied: false,
            scratch: RecordBuffer::default(),
            copy: Vec::new(),
            has_ended: false,
        };
        let first_seq = store.log().end().seq;
        Reclaim {
            store,
            pending_deletion: PendingDeletion::new(),
            calls: Calls::new(),
            simulations,
            ghost_list: GhostList::new(),
            first_seq,
            turn: Lock::new(Rank::Reclaim, turn),
            loading: Lock::new(Rank::Loading, None),
            frees: AtomicBool::new(false),
        }
    }

    pub(super) fn turn(&self) -> Held<'_, Turn> {
        self.turn.lock()
    }

    /// Performs the next step. Returns false if none is due or if the step that is due can do nothing now. As long as
    /// the index is incomplete, only segments that are emptied or void are deleted.
    pub(super) fn step(&self) -> Result<bool> {
        let mut turn = self.turn();
        if self.delete_void()? || self.delete_oldest_emptied()? {
            return Ok(true);
        }
        if !self.store.log().is_loaded() {
            return Ok(false);
        }
        let (step, is_short) = self.next_step(turn.in_a_row);
        self.frees.store(step.is_some(), Ordering::Relaxed);
        turn.in_a_row = match step {
            Some(Step::Compact(_) | Step::Vacate(_)) if is_short => turn.in_a_row.saturating_add(1),
            _ => 0,
        };
        step.map_or(Ok(false), |step| self.perform(step, &mut turn))
    }

    /// The next step, and whether space is short.
    fn next_step(&self, in_a_row: u32) -> (Option<Step>, bool) {
        let store = &self.store;
        let state = State { in_a_row, ..self.state(&store.log()) };
        let space = &store.space;
        let max_age = store.ages.max_ms();
        // The search for a step examines every segment while writers wait, so it is skipped unless it may find one.
        if !state.may_need_work(space) && max_age.is_none() {
            return (None, false);
        }
        let sealed = store.log().sealed();
        let old = max_age.filter(|_| !state.is_short(space) && !state.is_stuck);
        let old = old.and_then(|max| expired(&sealed, store.ages.now_ms(), max));
        (old.or_else(|| plan(space, &state, &sealed)), state.is_short(space))
    }

    /// The present state of the files, which decides the next step.
    pub(super) fn state(&self, log: &Log) -> State {
        let counters = &self.store.view.counters;
        let emptied_bytes = log.emptied_bytes();
        let state = State {
            used_bytes: log.disk_bytes(),
            emptied_bytes,
            live_bytes: counters.live_bytes.get() + counters.entries.get() * ENTRY_BYTES as u64,
            largest_bytes: log.largest_bytes(),
            segments: log.segments(),
            free_slots: log.free_slots(),
            must_sync: self.store.files.has_promised(),
            is_stuck: log.removals_lack_space() || (emptied_bytes > 0 && self.store.files.health.sync_fails()),
            in_a_row: 0,
        };
        debug_assert!(state.emptied_bytes <= state.used_bytes, "emptied segments are a part of all: {state:?}");
        debug_assert!(state.live_bytes <= state.used_bytes, "live records are in the files: {state:?}");
        state
    }

    /// Returns whether puts should yield the processor to compaction, because dead space grows faster than it is freed
    /// and little space is left.
    pub(crate) fn is_outgrown(&self, log: &Log) -> bool {
        let space = &self.store.space;
        self.frees.load(Ordering::Relaxed)
            && log.disk_bytes() > space.limit_bytes / 4 * 3
            && self.state(log).is_overgrown(space)
    }

    /// Merges segments with little content if there are many, because each restart may leave one.
    pub(crate) fn merge_if_crowded(&self) -> Result<()> {
        let is_crowded = || self.state(&self.store.log()).is_crowded(&self.store.space);
        for _ in 0..MERGED_AT_ONCE {
            if !is_crowded() || !self.step()? {
                break;
            }
        }
        self.delete_emptied().map(drop)
    }

    /// Compacts the segments that are [`tidiable`] by a tenth or have no live entry, except for those whose copies find
    /// no room or whose tombstones and other marks cannot be read. Stops early if the cache is closed meanwhile.
    pub(crate) fn compact_all(&self) -> Result<()> {
        self.finish_loading();
        let (mut turn, store) = (self.turn(), &self.store);
        if self.calls.is_closed() {
            return Err(Error::Closed);
        }
        let _ = store.log().seal_active(&store.view);
        store.write_all()?;
        let oldest = store.log().oldest_seq();
        let mut wasteful = store.log().sealed();
        wasteful.retain(|(_, meta)| tidiable(meta, oldest, 10) || meta.live_bytes == 0);
        for (slot, meta) in wasteful {
            if self.calls.is_closed() {
                break;
            }
            let Some(segment) = store.view.segment(slot, meta.seq) else { continue };
            let kept = meta.kept_bytes(store.log().oldest_seq());
            if store.log().disk_bytes() + copy_room(kept) > store.space.room_bytes {
                self.delete_emptied()?;
            }
            let entries = self.entries_of(&segment);
            self.compact(&segment, &entries, &mut turn)?;
        }
        self.delete_emptied().map(drop)
    }

    /// Waits until no other thread frees segments. The cache is being closed, so a compaction that begins later fails
    /// at once. A durable write that met a full disk before may delete segments until [`end`](Self::end).
    pub(crate) fn finish_compaction(&self) {
        assert!(self.calls.is_closed(), "otherwise the next thread would begin");
        drop(self.turn());
    }

    /// Lets no thread that still waits for its turn delete segments or write any more.
    pub(crate) fn end(&self) {
        self.turn().has_ended = true;
        self.store.files.turn().has_ended = true;
    }

    /// As [`turn`](Self::turn), but fails if the cache was closed to its end meanwhile.
    fn turn_before_end(&self) -> Result<Held<'_, Turn>> {
        let turn = self.turn();
        if turn.has_ended { Err(Error::Closed) } else { Ok(turn) }
    }

    fn perform(&self, step: Step, turn: &mut Turn) -> Result<bool> {
        let slot = match step {
            Step::Drop => return self.drop_oldest(turn),
            Step::Evict(slot) | Step::Vacate(slot) | Step::Compact(slot) => slot,
        };
        let Some(segment) = self.store.view.at(slot) else { return Ok(false) };
        let entries = self.entries_of(&segment);
        match step {
            Step::Evict(_) => self.evict(&segment, &entries, turn),
            Step::Vacate(_) => self.vacate(&segment, &entries, turn),
            Step::Compact(_) | Step::Drop => {
                if !self.compact(&segment, &entries, turn)? {
                    // Tombstones and other marks used up the space that was left. Deleting the oldest segment frees
                    // some.
                    self.drop_oldest(turn)?;
                }
                Ok(true)
            }
        }
    }

    /// Deletes the oldest segment to free space on a full disk, whatever the limit says. False if the oldest segment is
    /// not complete.
    pub(crate) fn free_one(&self) -> Result<bool> {
        self.finish_loading();
        self.drop_oldest(&mut *self.turn_before_end()?)
    }

    /// Removes all entries and deletes all segments that exist, without relying on a write, so that removed entries
    /// stay removed on a disk that takes nothing.
    pub(crate) fn wipe(&self) -> Result<()> {
        let (_turn, store) = (self.turn_before_end()?, &self.store);
        // An earlier clear may have used the last free block, so what it made void is deleted first. If that fails, so
        // does the deletion of everything.
        let _ = self.delete_all_void();
        let has_lost = store.files.health.has_lost();
        let memory = {
            let mut log = store.log();
            let Some((void, memory)) = log.clear(&store.view) else { return Err(store.files.health.error()) };
            store.files.health.begin_anew();
            store.tickets.invalidate_all();
            self.pending_deletion.add_void(void);
            memory
        };
        drop(memory);
        self.simulations.clear();
        self.ghost_list.clear();
        if has_lost {
            // The next process would trust a lost segment that is still there when this one is killed, so a header that
            // makes all earlier segments void comes first. Without it, the deletions are all that can be done.
            let _ = store.write_all();
        }
        // Oldest first, so that a crash in between leaves a log whose oldest segments were evicted.
        self.delete_all_void()?;
        store.sync_names()
    }

    /// Removes all entries if the sync of a segment has failed, because removals in it and after it may not be durable.
    /// Returns false otherwise.
    pub(crate) fn begin_anew_if_lost(&self) -> Result<bool> {
        if self.store.files.health.has_lost() { self.wipe().map(|()| true) } else { Ok(false) }
    }

    /// Publishes the statistics and the latest time that the cache has seen.
    pub(crate) fn report(&self) -> Result<()> {
        let files = &self.store.files;
        files.check_ours()?;
        report::write(&files.fs, &files.dir, &self.store.view.counters.read(), self.store.ages.seen_ms())
    }
}
