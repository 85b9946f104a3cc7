//! One step of freeing room after the other. Only the worker runs it, but on a full disk.

use super::{
    calls::Calls,
    doomed::Doomed,
    ghost::Ghosts,
    keep::Bar,
    pace::Forecast,
    past::{Past, Rounds},
    plan::{State, Step, expired, plan, tidiable},
    report,
};
use crate::{
    error::{Error, Result},
    format::footer::ENTRY_BYTES,
    log::scratch::{Lent, trim},
    log::{append::Log, space::copy_room, store::Store},
    sync::{AtomicBool, Held, Lock, Ordering, Rank},
};
use std::sync::Arc;

/// How many segments that hold little are merged when a cache is closed.
const MERGED_AT_ONCE: u32 = 16;

/// What frees room in a store, and what it knows from step to step.
pub(crate) struct Reclaim {
    pub(crate) store: Arc<Store>,
    pub(crate) doomed: Doomed,
    pub(crate) calls: Calls,
    pub(crate) ghosts: Ghosts,
    pub(crate) past: Past,
    /// The first segment of which every read is counted.
    pub(super) first_seq: u64,
    turn: Lock<Turn>,
    /// Whether there is something to free, so that puts may give way to that.
    frees: AtomicBool,
}

/// The right to free segments, which one thread at a time has, and what the next step goes by.
pub(super) struct Turn {
    /// How many bytes of entries in use the next eviction may copy.
    pub(super) keep_credit: u64,
    /// From which worth on it copies them.
    pub(super) bar: Bar,
    pub(super) forecast: Forecast,
    pub(super) rounds: Rounds,
    /// How many segments were compacted to make room since there was enough.
    in_a_row: u32,
    /// Where a record is read that is to be copied, and where its copy is made.
    pub(super) scratch: Lent,
    pub(super) copy: Vec<u8>,
}

impl Turn {
    /// Gives back memory that one large record took.
    pub(super) fn trim(&mut self) {
        self.scratch.give_back();
        trim(&mut self.copy);
    }
}

impl Reclaim {
    pub(crate) fn new(store: Arc<Store>) -> Self {
        let ghosts = Ghosts::new(store.space.limit_bytes);
        let turn = Turn {
            keep_credit: u64::MAX / 2,
            bar: Bar::new(),
            forecast: Forecast::new(),
            rounds: Rounds::default(),
            in_a_row: 0,
            scratch: Lent::default(),
            copy: Vec::new(),
        };
        let first_seq = store.log().end().seq;
        Reclaim {
            store,
            doomed: Doomed::new(),
            calls: Calls::new(),
            ghosts,
            past: Past::new(),
            first_seq,
            turn: Lock::new(Rank::Reclaim, turn),
            frees: AtomicBool::new(false),
        }
    }

    pub(super) fn turn(&self) -> Held<'_, Turn> {
        self.turn.lock()
    }

    /// Frees one segment if that is due; false if nothing is.
    pub(super) fn step(&self) -> Result<bool> {
        let mut turn = self.turn();
        if self.delete_void()? || self.delete_oldest_condemned()? {
            return Ok(true);
        }
        let (step, is_short) = self.next_step(turn.in_a_row);
        self.frees.store(step.is_some(), Ordering::Relaxed);
        turn.in_a_row = match step {
            Some(Step::Compact(_) | Step::Vacate(_)) if is_short => turn.in_a_row.saturating_add(1),
            _ => 0,
        };
        step.map_or(Ok(false), |step| self.perform(step, &mut turn))
    }

    /// The step that is due, and whether room is short.
    fn next_step(&self, in_a_row: u32) -> (Option<Step>, bool) {
        let store = &self.store;
        let state = State { in_a_row, ..self.state(&store.log()) };
        let space = &store.space;
        let max_age = store.ages.max_ms();
        // Only where something may be due: this looks at every segment while writers wait.
        if !state.may_need_work(space) && max_age.is_none() {
            return (None, false);
        }
        let sealed = store.log().sealed();
        let old = max_age.filter(|_| !state.is_short(space) && !state.is_stuck);
        let old = old.and_then(|max| expired(&sealed, store.ages.now_ms(), max));
        (old.or_else(|| plan(space, &state, &sealed)), state.is_short(space))
    }

    /// How large the files are, and how much lives in them.
    pub(super) fn state(&self, log: &Log) -> State {
        let counters = &self.store.view.counters;
        let condemned_bytes = log.condemned_bytes();
        let state = State {
            used_bytes: log.disk_bytes(),
            condemned_bytes,
            live_bytes: counters.live_bytes.get() + counters.entries.get() * ENTRY_BYTES as u64,
            largest_bytes: log.largest_bytes(),
            segments: log.segments(),
            free_slots: log.free_slots(),
            must_sync: self.store.files.has_promised(),
            is_stuck: log.owes_for_space() || (condemned_bytes > 0 && self.store.files.health.sync_fails()),
            in_a_row: 0,
        };
        debug_assert!(
            state.condemned_bytes <= state.used_bytes,
            "what waits for its deletion is a part of all: {state:?}"
        );
        debug_assert!(state.live_bytes <= state.used_bytes, "what lives stands in the files: {state:?}");
        state
    }

    /// Whether puts should let compaction have a processor: dead space grows faster than it goes, and little room is left.
    pub(crate) fn is_outgrown(&self, log: &Log) -> bool {
        let space = &self.store.space;
        self.frees.load(Ordering::Relaxed)
            && log.disk_bytes() > space.limit_bytes / 4 * 3
            && self.state(log).is_overgrown(space)
    }

    /// Makes fewer segments of many that hold little, so that each restart may leave one.
    pub(crate) fn merge_if_crowded(&self) -> Result<()> {
        let is_crowded = || self.state(&self.store.log()).is_crowded(&self.store.space);
        for _ in 0..MERGED_AT_ONCE {
            if !is_crowded() || !self.step()? {
                break;
            }
        }
        self.delete_condemned().map(drop)
    }

    /// Compacts every segment that has dead space worth a copy.
    pub(crate) fn compact_all(&self) -> Result<()> {
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
                self.delete_condemned()?;
            }
            let entries = self.entries_of(&segment);
            self.compact(&segment, &entries, &mut turn)?;
        }
        self.delete_condemned().map(drop)
    }

    /// Waits until no other thread frees segments. One that is told that the cache closes frees no more.
    pub(crate) fn finish_compaction(&self) {
        assert!(self.calls.is_closed(), "without that the next thread begins");
        drop(self.turn());
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
                    // Marks took the room that there was: with the oldest it comes back.
                    self.drop_oldest(turn)?;
                }
                Ok(true)
            }
        }
    }

    /// Makes room on a disk that is full, whatever the limit says: deletes the oldest segment. False if there is none.
    pub(crate) fn free_one(&self) -> Result<bool> {
        self.drop_oldest(&mut self.turn())
    }

    /// Forgets everything and deletes every file, without writing first. So a removed entry stays removed on a disk
    /// that takes nothing.
    pub(crate) fn wipe(&self) -> Result<()> {
        let (_turn, store) = (self.turn(), &self.store);
        // A clear of before may have taken the last block.
        self.delete_all_void()?;
        let memory = {
            let mut log = store.log();
            let Some((void, memory)) = log.clear(&store.view) else { return Err(store.files.health.error()) };
            store.files.health.begin_anew();
            store.tickets.invalidate_all();
            self.doomed.add_void(void);
            memory
        };
        drop(memory);
        self.ghosts.clear();
        self.past.clear();
        // Oldest first: the state in between is a log whose oldest segments were evicted.
        self.delete_all_void()?;
        store.sync_names(false)
    }

    /// Forgets everything where a segment is lost. Otherwise a removal in it could come undone, and so could those behind
    /// it. False if none is.
    pub(crate) fn begin_anew_if_lost(&self) -> Result<bool> {
        if self.store.files.health.has_lost() { self.wipe().map(|()| true) } else { Ok(false) }
    }

    /// Tells programs outside what the cache has and did.
    pub(crate) fn report(&self) -> Result<()> {
        let files = &self.store.files;
        files.check_ours()?;
        report::write(&files.fs, &files.dir, &self.store.view.counters.read(), self.store.ages.seen_ms())
    }
}
