//! Changes, and tickets, by which the older of two changes does not win.

use crate::{
    api::{cache::Cache, options::Durability},
    error::{Error, Result},
    format::record::{Kind, RecordHeader, body_crc},
    log::{
        append::{End, Made, NoRoom},
        scratch::with_scratch,
        space::{Who, record_cost},
        store::Store,
    },
    reclaim::evict::is_full,
    sync::{holds_log, sleep, yield_now},
};
use std::time::{Duration, Instant};

/// A put that finds the write buffer full yields this often before it naps. So it does not take the writer's processor.
const YIELDS: u32 = 8;
const NAP: Duration = Duration::from_micros(200);
/// It does so sooner where each write has failed for so long. Room that the worker makes on a full disk comes earlier.
const DEAD_AFTER: Duration = Duration::from_secs(2);
/// A write that failed on a full disk is tried again this often, where others made room meanwhile.
const MOST_AGAIN: u32 = 8;
/// A write that may not be refused gives up when the disk takes nothing for so long.
const FIRM_PATIENCE: Duration = Duration::from_secs(30);

/// Taken before a value is computed, given back with it: the value is dropped if its key was invalidated meanwhile.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ticket(u64);

impl Ticket {
    /// For bridges to other languages.
    pub fn to_bits(self) -> u64 {
        self.0
    }

    /// What [`Ticket::to_bits`] gave.
    pub fn from_bits(bits: u64) -> Self {
        Ticket(bits)
    }
}

/// What became of a put.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Put {
    /// It is in the cache.
    Stored,
    /// The write buffer was full for too long. The key has no value now: an older one is never served in its place.
    Refused,
    /// The key was invalidated after the ticket was taken; nothing changed.
    Stale,
}

/// How a value is put. The default is now, without a ticket, buffered.
#[derive(Clone, Copy, Debug, Default)]
pub struct PutOptions {
    /// When the value was created, in milliseconds since 1970; None is now.
    pub created_ms: Option<u64>,
    /// From before the value was computed.
    pub ticket: Option<Ticket>,
    /// When the put counts as done.
    pub durability: Durability,
    /// Takes its place among the changes at once, or is refused at once. It never waits for room, nor for the disk.
    /// What it asks of durability [`Cache::flush`] waits for. For callers that hold a lock. A durable one is an error where
    /// the disk takes nothing, so that to try again is of no use.
    pub at_once: bool,
}
impl Cache {
    /// To be taken before the value of a key is computed, and given to [`Cache::put_with`].
    pub fn ticket(&self, key: &[u8]) -> Ticket {
        Ticket(self.store.tickets.of(self.sealer.hash(key)))
    }

    /// Puts a value, created now. See [`Cache::put_with`].
    pub fn put(&self, key: &[u8], value: &[u8]) -> Result<Put> {
        self.put_with(key, value, PutOptions::default())
    }

    /// Puts a value. A buffered put never waits for the disk, nor for a lock that is held across a disk access. If the
    /// whole write buffer is full it gives way to the writer for [`Options::patience`](crate::Options::patience) and is
    /// refused then. A written or synced put is never refused.
    pub fn put_with(&self, key: &[u8], value: &[u8], options: PutOptions) -> Result<Put> {
        let settle = if options.at_once { Durability::Buffered } else { options.durability };
        self.put_settled(key, value, options, settle)
    }

    /// A put that is never refused but does not wait until it is in the file. A caller of many puts waits once, at the
    /// end.
    pub(crate) fn put_in_bulk(&self, key: &[u8], value: &[u8], options: PutOptions) -> Result<Put> {
        self.put_settled(key, value, options, Durability::Buffered)
    }

    fn put_settled(&self, key: &[u8], value: &[u8], options: PutOptions, settle: Durability) -> Result<Put> {
        self.check_writable()?;
        let (sealer, ages) = (&self.sealer, &self.store.ages);
        let (len, max) = (key.len().saturating_add(value.len()), self.store.space.largest_entry());
        if len > max {
            return Err(Error::TooLarge { len, max });
        }
        let header = RecordHeader {
            kind: Kind::Put,
            encrypted: sealer.is_encrypted(),
            hash: sealer.hash(key),
            created_ms: options.created_ms.unwrap_or_else(|| ages.now_ms()),
            key_len: key.len() as u32,
            value_len: value.len() as u32,
        };
        with_scratch(|scratch| {
            let record = &mut scratch.record.bytes;
            record.clear();
            record.extend_from_slice(&header.encode());
            sealer.seal(record, key, value).map_err(|error| Error::Disk(error.to_string()))?;
            debug_assert!(record.len() <= header.record_len(), "the header says what the record takes");
            record.resize(header.record_len(), 0);
            self.append(&header, record, options, settle)
        })
    }

    fn append(&self, header: &RecordHeader, record: &mut [u8], options: PutOptions, settle: Durability) -> Result<Put> {
        let Store { view, tickets, files, .. } = &*self.store;
        let crc = body_crc(record);
        let rate = self.reclaim.past.rate(header.hash);
        let is_firm = options.durability != Durability::Buffered;
        let who = if is_firm { Who::Durable } else { Who::Put };
        let patience = match is_firm {
            _ if options.at_once => Duration::ZERO,
            true => FIRM_PATIENCE,
            false => self.patience,
        };
        let record_len = record.len();
        let mut made = Made { header, record, crc, who, rate };
        let (mut since, mut turns) = (None, 0);
        loop {
            let mut log = self.store.log();
            // Under the lock: a close writes what was appended before, and nothing comes behind it.
            self.check_writable()?;
            if options.ticket.is_some_and(|ticket| ticket.0 != tickets.of(header.hash)) {
                view.counters.stale.add(1);
                return Ok(Put::Stale);
            }
            match log.append(view, &mut made) {
                Ok(()) => {
                    if options.ticket.is_none() {
                        // A value given outright beats one that is being computed.
                        tickets.invalidate(header.hash);
                    }
                    if since.is_some() {
                        log.stop_waiting();
                    }
                    let end = log.end();
                    let is_behind = self.reclaim.is_outgrown(&log);
                    drop(log);
                    view.counters.puts.add(1);
                    if self.reclaim.ghosts.wants(header.hash) {
                        self.reclaim.ghosts.on_put(header.hash, record_cost(record_len));
                    }
                    self.settle_on_full_disk(end, settle)?;
                    if is_behind && !is_firm {
                        // To compaction, if it waits for a processor; else this returns at once.
                        yield_now();
                    }
                    return Ok(Put::Stored);
                }
                Err(reason) => {
                    let waited = since.get_or_insert_with(Instant::now).elapsed();
                    // The write buffer has no room again before the disk takes something.
                    let longest = if is_firm { DEAD_AFTER } else { patience };
                    let is_hopeless = reason == NoRoom::Buffer && files.health.writes_fail_for(longest);
                    if waited >= patience || is_hopeless {
                        log.remove(view, header.hash, header.created_ms);
                        log.stop_waiting();
                        tickets.invalidate(header.hash);
                        view.counters.refused.add(1);
                        drop(log);
                        self.reclaim.calls.wake();
                        let is_told = is_firm && (is_hopeless || !options.at_once);
                        return if is_told { Err(files.health.error()) } else { Ok(Put::Refused) };
                    }
                }
            }
            drop(log);
            turns += 1;
            self.give_way(is_firm || turns > YIELDS);
        }
    }

    /// Lets the writer work, or does its work where that is writing one segment to the page cache.
    fn give_way(&self, sleeps: bool) {
        debug_assert!(!holds_log(), "the worker needs the log's lock to make room");
        self.reclaim.calls.wake();
        if let Some(mut turn) = self.store.files.try_turn()
            && self.store.write_step(&mut turn).is_ok_and(|worked| worked)
        {
            return;
        }
        if sleeps { sleep(NAP) } else { yield_now() }
    }

    /// Removes a key; every ticket for it is void. Returns whether it was there. Never refused, never waits; see
    /// [`Cache::remove_with`] for removals that must survive a crash.
    pub fn remove(&self, key: &[u8]) -> Result<bool> {
        self.remove_with(key, Durability::Buffered)
    }

    /// Removes a key and returns when that is as durable as asked.
    pub fn remove_with(&self, key: &[u8], durability: Durability) -> Result<bool> {
        let (store, ghosts) = (&self.store, &self.reclaim.ghosts);
        let hash = self.sealer.hash(key);
        let was_there = {
            let mut log = store.log();
            self.check_writable()?;
            store.tickets.invalidate(hash);
            log.remove(&store.view, hash, store.ages.now_ms())
        };
        if was_there {
            store.view.counters.removed.add(1);
        }
        if ghosts.wants(hash) {
            ghosts.on_remove(hash);
        }
        self.settle_removals(durability)?;
        Ok(was_there)
    }

    /// Waits until no removal is owed to the log, and all that is there is as durable as asked.
    fn settle_removals(&self, durability: Durability) -> Result<()> {
        let store = &self.store;
        if durability == Durability::Buffered {
            self.reclaim.calls.nudge();
            return Ok(());
        }
        let start = Instant::now();
        let end = loop {
            {
                let mut log = store.log();
                if !log.owes() || log.pay_at(&store.view, store.ages.now_ms()).is_ok() {
                    break log.end();
                }
            }
            if store.files.health.writes_fail_for(Duration::ZERO) && !self.reclaim.free_one()? {
                // The write buffer will have no room either.
                return self.reclaim.wipe();
            }
            if start.elapsed() >= FIRM_PATIENCE {
                return Err(self.store.files.health.error());
            }
            self.give_way(true);
        };
        self.settle_on_full_disk(end, durability)
    }

    /// Forgets everything and makes every ticket void. Takes no longer the more there is.
    pub fn clear(&self) -> Result<()> {
        self.clear_with(Durability::Buffered)
    }

    /// Forgets everything and returns when that is as durable as asked.
    pub fn clear_with(&self, durability: Durability) -> Result<()> {
        let (store, reclaim) = (&self.store, &self.reclaim);
        let start = Instant::now();
        let (end, memory) = loop {
            {
                let mut log = store.log();
                self.check_writable()?;
                if let Some((void, memory)) = log.clear(&store.view) {
                    store.tickets.invalidate_all();
                    reclaim.ghosts.clear();
                    reclaim.past.clear();
                    reclaim.doomed.add_void(void);
                    break (log.end(), memory);
                }
            }
            if start.elapsed() >= FIRM_PATIENCE {
                return Err(self.store.files.health.error());
            }
            self.give_way(true);
        };
        reclaim.calls.wake();
        reclaim.doomed.add_garbage(memory);
        self.settle_on_full_disk(end, durability)
    }

    /// Returns when everything before this call is as durable as asked.
    pub fn flush(&self, durability: Durability) -> Result<()> {
        self.check_writable()?;
        match self.settle_removals(durability) {
            Err(error) if is_full(&error) => {
                // A removed value must not come back since a put finds no room.
                let removals_end = self.store.log().removals_end();
                removals_end.map_or(Ok(()), |end| self.settle_on_full_disk(end, durability))?;
                Err(error)
            }
            settled => settled,
        }
    }

    /// Writes the write buffer where no thread does it any more, or none does it yet. Where there is no room, older entries
    /// make it, or all of them do. Records that stayed in memory would leave older values of their keys in the files.
    pub(crate) fn write_last(&self) -> Result<()> {
        let store = &self.store;
        let pays = || store.log().pay_at(&store.view, store.ages.now_ms()).is_ok();
        while !pays() {
            self.write_or_wipe()?;
            if !pays() && !self.reclaim.free_one()? {
                return self.reclaim.wipe();
            }
        }
        // So that the next start reads a footer and not the records.
        let _ = store.log().seal_active(&store.view);
        self.write_or_wipe()
    }

    /// Where the disk takes nothing, everything goes. A disk that fails is asked twice, and told of.
    fn write_or_wipe(&self) -> Result<()> {
        let end = self.store.log().end();
        debug_assert!(self.lock_file.lock().is_some(), "the files are ours as long as the lock is");
        let write = || self.settle_on_full_disk(end, Durability::Written);
        match write() {
            Err(error) if is_full(&error) => self.reclaim.wipe(),
            Err(_) => write().or_else(|error| self.reclaim.wipe().and(Err(error))),
            written => written,
        }
    }

    /// Waits until everything before `end` is as durable as asked. On a full disk older entries make room for it. Where
    /// that is not enough and a removal waits, all of them do, since removed values must not come back.
    fn settle_on_full_disk(&self, end: End, durability: Durability) -> Result<()> {
        let mut again = 0;
        loop {
            match self.settle(end, durability) {
                // What comes next is durable again.
                Err(error) if self.reclaim.begin_anew_if_lost()? => return Err(error),
                Err(error) if is_full(&error) => {
                    if self.reclaim.free_one()? {
                        continue;
                    }
                    let log = self.store.log();
                    // Where the last removal is a later one, there may be another before `end`.
                    let waits = log.removals_end().is_some_and(|last| !log.is_written(last.min(end)));
                    // Another thread may have made room since, or have emptied the cache.
                    let is_written = log.is_written(end);
                    drop(log);
                    match () {
                        () if waits => return self.reclaim.wipe(),
                        () if is_written && again < MOST_AGAIN => again += 1,
                        () => return Err(error),
                    }
                }
                settled => return settled,
            }
        }
    }

    fn settle(&self, end: End, durability: Durability) -> Result<()> {
        debug_assert!(!holds_log(), "writers do not wait for the disk");
        match durability {
            Durability::Buffered => {
                self.reclaim.calls.nudge();
                Ok(())
            }
            Durability::Written => self.store.write_through(end),
            Durability::Synced => self.store.sync_through(self.store.promise(end)?),
        }
    }
}
