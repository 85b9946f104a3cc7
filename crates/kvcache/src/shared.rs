//! What the cache's handles and its worker share, and how bytes get to the disk.

use crate::{
    age::Ages,
    api::{ghost::Ghosts, options::Durability},
    error::{Error, Result},
    format::{footer::encode_footer, seal::Sealer},
    log::{
        append::{End, Full, Log, Next, Slots, View},
        index::Index,
        space::{Space, record_cost},
    },
    reclaim::evict::is_full,
    stats::Counters,
    sync::{AtomicBool, AtomicU64, Mutex, Ordering, lock},
};
use refdb_vfs::Fs;
use std::{
    path::{Path, PathBuf},
    sync::{Arc, OnceLock},
    thread::Thread,
    time::{Duration, Instant},
};

/// What is written at once: a large page of the processor.
const SCRATCH_BYTES: usize = 2 << 20;
/// Keys are spread over this many counters of invalidations.
const STRIPES: usize = 4096;

pub(crate) struct Shared {
    pub(crate) fs: Fs,
    pub(crate) dir: PathBuf,
    pub(crate) space: Space,
    pub(crate) sealer: Sealer,
    pub(crate) ages: Ages,
    pub(crate) patience: Duration,
    /// Whether sealed files are mapped.
    pub(crate) maps: bool,
    pub(crate) index: Index,
    pub(crate) slots: Slots,
    pub(crate) counters: Counters,
    pub(crate) ghosts: Ghosts,
    pub(crate) log: Mutex<Log>,
    /// Held by whoever writes to segment files; with it goes a buffer.
    pub(crate) files: Mutex<Vec<u8>>,
    /// Held by whoever frees segments; with it goes a buffer. Taken before `files`, and `files` before `log`.
    pub(crate) reclaiming: Mutex<Vec<u8>>,
    /// How many bytes of entries in use the next eviction may copy.
    pub(crate) keep_credit: AtomicU64,
    /// Compacted segments, by slot and number, to be deleted by the syncer.
    pub(crate) condemned: Mutex<Vec<(u16, u64)>>,
    /// Memory that a clear left, to be given back by the worker.
    pub(crate) garbage: Mutex<Vec<Box<dyn std::any::Any + Send>>>,
    /// Whether a write was ever promised to survive a power loss, in this process or before: see [`Shared::promise`].
    promised: AtomicBool,
    /// Whether there is something to free, so that puts may give way to that.
    pub(crate) frees: AtomicBool,
    /// Segments that a clear made void, by slot and number, to be deleted.
    pub(crate) void: Mutex<Vec<(u16, u64)>>,
    pub(crate) disk_error: Mutex<Option<String>>,
    /// Since when every write to a segment fails.
    failing_since: Mutex<Option<Instant>>,
    /// Whether the last attempt to bring something to stable storage failed.
    sync_fails: AtomicBool,
    /// Whether a segment was deleted and the folder not brought to stable storage since.
    unlinked: AtomicBool,
    /// How many segments were compacted to make room since there was enough.
    pub(crate) in_a_row: AtomicU64,
    generations: Box<[AtomicU64]>,
    clears: AtomicU64,
    /// The worker needs no wake-up call.
    pub(crate) awake: AtomicBool,
    pub(crate) worker: OnceLock<Thread>,
    pub(crate) syncer: OnceLock<Thread>,
    pub(crate) closed: AtomicBool,
}

/// The parts that opening a cache provides.
pub(crate) struct Parts {
    pub(crate) fs: Fs,
    pub(crate) dir: PathBuf,
    pub(crate) space: Space,
    pub(crate) sealer: Sealer,
    pub(crate) ages: Ages,
    pub(crate) patience: Duration,
    pub(crate) maps: bool,
    pub(crate) promised: bool,
    pub(crate) index: Index,
    pub(crate) slots: Slots,
    pub(crate) counters: Counters,
    pub(crate) log: Log,
}

/// The file that says that a write was promised to survive a power loss.
pub(crate) fn promise_path(dir: &Path) -> PathBuf {
    dir.join(PROMISE)
}

pub(crate) const PROMISE: &str = "promised";

impl Shared {
    pub(crate) fn new(parts: Parts) -> Self {
        let Parts { fs, dir, space, sealer, ages, patience, maps, promised, index, slots, counters, log } = parts;
        counters.limit_bytes.set(space.limit_bytes);
        counters.disk_bytes.set(log.disk_bytes());
        Shared {
            fs,
            dir,
            space,
            sealer,
            ages,
            patience,
            maps,
            index,
            slots,
            counters,
            ghosts: Ghosts::new(space.limit_bytes),
            log: Mutex::new(log),
            files: Mutex::new(Vec::new()),
            reclaiming: Mutex::new(Vec::new()),
            keep_credit: AtomicU64::new(u64::MAX / 2),
            condemned: Mutex::new(Vec::new()),
            promised: AtomicBool::new(promised),
            frees: AtomicBool::new(false),
            garbage: Mutex::new(Vec::new()),
            void: Mutex::new(Vec::new()),
            disk_error: Mutex::new(None),
            failing_since: Mutex::new(None),
            sync_fails: AtomicBool::new(false),
            unlinked: AtomicBool::new(false),
            in_a_row: AtomicU64::new(0),
            generations: (0..STRIPES).map(|_| AtomicU64::new(0)).collect(),
            clears: AtomicU64::new(0),
            awake: AtomicBool::new(true),
            worker: OnceLock::new(),
            syncer: OnceLock::new(),
            closed: AtomicBool::new(false),
        }
    }

    pub(crate) fn view(&self) -> View<'_> {
        View { index: &self.index, slots: &self.slots, counters: &self.counters }
    }

    fn generation(&self, hash: u64) -> &AtomicU64 {
        &self.generations[hash as usize % STRIPES]
    }

    /// Changes with every invalidation of the key, and of few others.
    pub(crate) fn ticket(&self, hash: u64) -> u64 {
        let clears = self.clears.load(Ordering::Acquire);
        self.generation(hash).load(Ordering::Acquire).wrapping_add(clears)
    }

    /// Makes all tickets of the key void; the holder of the log's lock does it.
    pub(crate) fn invalidate_tickets(&self, hash: u64) {
        self.generation(hash).fetch_add(1, Ordering::AcqRel);
    }

    pub(crate) fn invalidate_all_tickets(&self) {
        self.clears.fetch_add(1, Ordering::AcqRel);
    }

    /// Tells the worker that there is something to do, unless it is at work.
    pub(crate) fn nudge(&self) {
        if !self.awake.load(Ordering::Relaxed) {
            self.wake();
        }
    }

    /// Calls the worker even if it is only resting for a moment.
    pub(crate) fn wake(&self) {
        self.awake.store(true, Ordering::Relaxed);
        if let Some(worker) = self.worker.get() {
            worker.unpark();
        }
    }

    /// Tells the syncer that a segment is condemned.
    pub(crate) fn wake_syncer(&self) {
        if let Some(syncer) = self.syncer.get() {
            syncer.unpark();
        }
    }

    /// Writes one segment, or what there is of it, to the disk; false if the disk has everything.
    pub(crate) fn flush_step(&self, scratch: &mut Vec<u8>) -> Result<bool> {
        scratch.resize(SCRATCH_BYTES.min(self.space.segment_bytes), 0);
        let Some(next) = lock(&self.log).next_to_write() else { return Ok(false) };
        let done = match next {
            Next::Tail(segment, image, end) => segment.flush(&self.fs, &image, end, self.maps, scratch),
            Next::Full(full) => self.write_full(full, scratch),
        };
        let mut failing_since = lock(&self.failing_since);
        *failing_since = done.is_err().then(|| failing_since.unwrap_or_else(Instant::now));
        drop(failing_since);
        done.map(|()| true).map_err(|error| self.disk_failed(error))
    }

    /// Whether the disk has taken nothing for so long, and was asked.
    pub(crate) fn writes_fail_for(&self, time: Duration) -> bool {
        lock(&self.failing_since).is_some_and(|since| since.elapsed() >= time)
    }

    /// Whether nothing reached stable storage when that was last tried.
    pub(crate) fn sync_fails(&self) -> bool {
        self.sync_fails.load(Ordering::Relaxed)
    }

    fn write_full(&self, full: Full, scratch: &mut [u8]) -> refdb_vfs::Result<()> {
        let Full { segment, image, records_end, entries, newest_ms } = full;
        segment.flush(&self.fs, &image, records_end, self.maps, scratch)?;
        let footer = encode_footer(segment.seq, records_end as u64, newest_ms, &entries);
        segment.seal(&self.fs, &footer)?;
        let mut log = lock(&self.log);
        log.written(segment.seq);
        log.buffer().give_back(image);
        Ok(())
    }

    fn disk_failed(&self, error: refdb_vfs::Error) -> Error {
        self.counters.disk_errors.add(1);
        *lock(&self.disk_error) = Some(error.to_string());
        Error::File(error)
    }

    /// Writes everything that is there now.
    pub(crate) fn flush_all(&self) -> Result<()> {
        let end = lock(&self.log).end();
        self.write_through(end)
    }

    /// Waits until the files have everything before `end`.
    pub(crate) fn write_through(&self, end: End) -> Result<()> {
        let mut scratch = lock(&self.files);
        while !lock(&self.log).is_written(end) {
            if !self.flush_step(&mut scratch)? {
                break;
            }
        }
        Ok(())
    }

    /// Brings everything before `end` to stable storage, older segments first: what a power loss takes is the end of the
    /// log, never a part in its middle. Segments that were deleted stay so.
    pub(crate) fn sync_through(&self, end: End) -> Result<()> {
        let done = self.write_through(end).and_then(|()| self.sync_written(end));
        self.sync_fails.store(done.is_err(), Ordering::Relaxed);
        done
    }

    fn sync_written(&self, end: End) -> Result<()> {
        let mut segments: Vec<_> = self.slots.iter().filter_map(|slot| slot.load_full()).collect();
        segments.retain(|segment| segment.seq <= end.seq && segment.flushed() > 0);
        segments.sort_by_key(|segment| segment.seq);
        let mut any = false;
        for segment in segments {
            match segment.sync(&self.fs) {
                Ok(synced) => any |= synced,
                // Deleted meanwhile: nothing of it is needed.
                Err(error) if error.is_not_found() => {}
                Err(error) => return Err(self.disk_failed(error)),
            }
        }
        self.sync_names(any)?;
        if self.has_promised() {
            // Where no promise was given, files may go without that what takes their place is on stable storage.
            lock(&self.log).synced(end.seq.saturating_sub(1));
        }
        Ok(())
    }

    /// Brings the folder to stable storage, if there is something new in it or a segment was deleted.
    pub(crate) fn sync_names(&self, is_new: bool) -> Result<()> {
        if !self.unlinked.swap(false, Ordering::AcqRel) && !is_new {
            return Ok(());
        }
        self.fs.sync_dir(&self.dir).map_err(|error| {
            self.unlinked.store(true, Ordering::Release);
            self.disk_failed(error)
        })
    }

    /// To be told of each deleted segment.
    pub(crate) fn note_unlinked(&self) {
        self.unlinked.store(true, Ordering::Release);
    }

    /// Whether what is synced must stay so when it is moved.
    pub(crate) fn has_promised(&self) -> bool {
        self.promised.load(Ordering::Acquire)
    }

    /// To be called before a write counts as safe from a power loss. Returns up to where the log must be synced for
    /// that. A file in the folder remembers it: where no such promise was given, copies need not be synced before the
    /// oldest segment is deleted, for a loss of them is no more than an eviction.
    fn promise(&self, end: End) -> Result<End> {
        if self.has_promised() {
            return Ok(end);
        }
        // Whoever deletes without a sync holds this, too.
        let _files = lock(&self.files);
        if !self.has_promised() {
            match self.fs.create_new(&promise_path(&self.dir), 0o600) {
                Err(error) if !error.is_exists() => return Err(self.disk_failed(error)),
                _ => self.fs.sync_dir(&self.dir).map_err(|error| self.disk_failed(error))?,
            }
            self.promised.store(true, Ordering::Release);
        }
        Ok(lock(&self.log).end())
    }

    /// Tells those who look from outside what the cache has and did.
    pub(crate) fn report(&self) -> Result<()> {
        crate::api::report::write(&self.fs, &self.dir, &self.counters.read())
    }

    /// Lets the simulations of other limits start from what is there.
    pub(crate) fn warm_ghosts(&self) {
        let mut sampled = Vec::new();
        self.index.for_each(|hash, place| {
            if self.ghosts.wants(hash) {
                sampled.push((place.slot(), place.offset(), hash, place.len()));
            }
        });
        // At the start slots are in the order of the log.
        sampled.sort_unstable();
        for (_, _, hash, len) in sampled {
            if self.ghosts.wants(hash) {
                self.ghosts.on_put(hash, record_cost(len));
            }
        }
    }

    /// Waits until everything before `end` is as durable as asked. On a full disk older entries make room for it; where that
    /// is not enough and a removal waits, all of them do: what was removed must not come back.
    pub(crate) fn settle_on_full_disk(&self, end: End, durability: Durability) -> Result<()> {
        loop {
            match self.settle(end, durability) {
                Err(error) if is_full(&error) => {
                    if self.free_one()? {
                        continue;
                    }
                    let removals_end = lock(&self.log).removals_end().filter(|removals_end| *removals_end <= end);
                    let waits = removals_end.is_some_and(|end| !lock(&self.log).is_written(end));
                    return if waits { self.wipe() } else { Err(error) };
                }
                settled => return settled,
            }
        }
    }

    fn settle(&self, end: End, durability: Durability) -> Result<()> {
        match durability {
            Durability::Buffered => {
                self.nudge();
                Ok(())
            }
            Durability::Written => self.write_through(end),
            Durability::Synced => self.sync_through(self.promise(end)?),
        }
    }

    /// The error for a writer that waited and the disk does not take what it wrote.
    pub(crate) fn disk_error(&self) -> Error {
        Error::Disk(lock(&self.disk_error).clone().unwrap_or_else(|| "it is too slow".into()))
    }
}

/// The shared part, for the worker.
pub(crate) type Handle = Arc<Shared>;
