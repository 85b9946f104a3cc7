//! Puts, removals and clears, and the tickets that keep an older value from replacing a newer change.

use crate::{
    api::{cache::Cache, options::Durability},
    error::{Error, Result},
    format::record::{Kind, RecordHeader, body_crc},
    log::{
        append::{LogPosition, NoRoom, UnplacedRecord},
        scratch::with_scratch,
        space::{Priority, record_cost},
        store::Store,
    },
    reclaim::evict::is_full,
    sync::{holds_log, sleep, yield_now},
};
use std::time::{Duration, Instant};

/// Number of attempts after which a buffered put that finds no room sleeps where it yielded the processor before.
const YIELDS: u32 = 8;
const NAP: Duration = Duration::from_micros(200);
/// How long every write must have failed before a durable put gives up early. The worker makes room on a full disk
/// sooner than that, so a disk that fails for this long takes nothing at all.
const DEAD_AFTER: Duration = Duration::from_secs(2);
/// How often a write that failed on a full disk is tried again because another thread may have made room meanwhile.
const MOST_AGAIN: u32 = 8;
/// How long durable writes and clears wait for room before they fail.
const FIRM_TIMEOUT: Duration = Duration::from_secs(30);

/// Proof that a value was computed after a certain moment: [`Cache::ticket`] is called before the computation, and a
/// put with the ticket stores nothing if the key was since put without a ticket, removed or cleared, or if a put of it
/// found no room or was too large. The keys share 4096 counters, so that a change of another key can have the same
/// effect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ticket(u64);

/// Outcome of a put.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Put {
    /// The value is in the cache.
    Stored,
    /// There was no room in the write buffer or within the limit for
    /// [`Options::put_timeout`](crate::Options::put_timeout), or at the moment if [`PutOptions::at_once`] is set. A
    /// full write buffer is not waited for either if all writes to the disk have already failed for that long. The key
    /// has no value now, because an older one must not be served in its place.
    Refused,
    /// After the ticket was taken, the key, or another that shares its counter, was changed in a way that makes a
    /// [`Ticket`] void, so this put changed nothing.
    Stale,
}

/// How a value is put. By default it was created now, has no ticket and is buffered.
#[derive(Clone, Copy, Debug, Default)]
#[non_exhaustive]
pub struct PutOptions {
    /// When the value was created, in milliseconds since 1970; `None` means now.
    pub created_ms: Option<u64>,
    /// A ticket that was taken before the value was computed.
    pub ticket: Option<Ticket>,
    /// When the put counts as done.
    pub durability: Durability,
    /// Whether the put waits neither for room nor for the disk: without room it is refused at once, and the call
    /// returns before the value is durable. Callers that hold a lock of their own set this, and call [`Cache::flush`]
    /// later to wait for the durability. If `durability` is not `Buffered`, and the write buffer is full and all writes
    /// to the disk have failed for 2 s, the put fails instead of being refused, because trying again would not help.
    pub at_once: bool,
}

impl PutOptions {
    /// The defaults.
    pub const fn new() -> Self {
        PutOptions { created_ms: None, ticket: None, durability: Durability::Buffered, at_once: false }
    }

    /// Sets [`PutOptions::created_ms`].
    pub fn created_ms(mut self, created_ms: impl Into<Option<u64>>) -> Self {
        self.created_ms = created_ms.into();
        self
    }

    /// Sets [`PutOptions::ticket`].
    pub fn ticket(mut self, ticket: impl Into<Option<Ticket>>) -> Self {
        self.ticket = ticket.into();
        self
    }

    /// Sets [`PutOptions::durability`].
    pub const fn durability(mut self, durability: Durability) -> Self {
        self.durability = durability;
        self
    }

    /// Sets [`PutOptions::at_once`].
    pub const fn at_once(mut self, at_once: bool) -> Self {
        self.at_once = at_once;
        self
    }
}

impl Cache {
    /// A ticket for a value of `key` that is about to be computed; see [`PutOptions::ticket`].
    pub fn ticket(&self, key: &[u8]) -> Ticket {
        Ticket(self.store.tickets.of(self.sealer.hash(key)))
    }

    /// Puts a value that was created now, buffered. See [`Cache::put_with`].
    ///
    /// # Errors
    ///
    /// Those of [`Cache::put_with`] that concern no durable put.
    pub fn put(&self, key: &[u8], value: &[u8]) -> Result<Put> {
        self.put_with(key, value, PutOptions::default())
    }

    /// Puts a value, which every thread that uses this handle sees when the call returns [`Put::Stored`], unless the
    /// value has expired already.
    ///
    /// A buffered put waits for no sync, nor for a lock that is held during a disk access. While the write buffer is
    /// full or the limit is reached, it writes a segment to the page cache or waits, and is refused after
    /// [`Options::put_timeout`](crate::Options::put_timeout), or at once if the buffer is full and all writes to the
    /// disk have already failed for that long. A written or synced put waits until the value is as durable as asked and
    /// is not refused, unless [`PutOptions::at_once`] is set.
    ///
    /// # Errors
    ///
    /// [`Error::TooLarge`] if key and value are longer than [`Cache::largest_entry_bytes`] and no void ticket makes the
    /// put [stale](Put::Stale): the key has no value then, as after [`Put::Refused`], and its removal is as durable as
    /// the put was to be; [`Error::ReadOnly`] and [`Error::Closed`]; [`Error::Encryption`] if there is no source of
    /// randomness, after which the key still has its older value; [`Error::File`] if a write or sync for a durable put
    /// fails; [`Error::WriteFailed`] if a durable put finds no room for 30 s, or none in the write buffer while all
    /// writes to the disk fail for 2 s. After an error of the disk the value may be visible, but need not be durable;
    /// without room the key has no value.
    pub fn put_with(&self, key: &[u8], value: &[u8], options: PutOptions) -> Result<Put> {
        let until = if options.at_once { Durability::Buffered } else { options.durability };
        self.put_until(key, value, options, until)
    }

    /// Puts a value without waiting until it is durable, so that a caller of many puts can wait once, at the end. With
    /// a durability other than `Buffered` the put is refused only if [`PutOptions::at_once`] is set.
    pub(crate) fn put_in_bulk(&self, key: &[u8], value: &[u8], options: PutOptions) -> Result<Put> {
        self.put_until(key, value, options, Durability::Buffered)
    }

    fn put_until(&self, key: &[u8], value: &[u8], options: PutOptions, until: Durability) -> Result<Put> {
        self.check_writable()?;
        let (sealer, ages) = (&self.sealer, &self.store.ages);
        let (len, max) = (key.len().saturating_add(value.len()), self.store.space.largest_entry());
        if len > max {
            // An older value must not be served in place of the one that is refused.
            return match self.remove_if_valid(key, options.ticket, until)? {
                Some(_) => Err(Error::TooLarge { len, max }),
                None => {
                    self.store.view.counters.stale.add(1);
                    Ok(Put::Stale)
                }
            };
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
            sealer.seal(record, key, value).map_err(Error::Encryption)?;
            debug_assert!(record.len() <= header.record_len(), "the header says what the record takes");
            record.resize(header.record_len(), 0);
            self.append(&header, record, options, until)
        })
    }

    fn append(&self, header: &RecordHeader, record: &mut [u8], options: PutOptions, until: Durability) -> Result<Put> {
        let Store { view, tickets, files, .. } = &*self.store;
        let crc = body_crc(record);
        let rate = self.reclaim.ghost_list.rate(header.hash);
        let is_firm = options.durability != Durability::Buffered;
        let priority = if is_firm { Priority::Durable } else { Priority::Put };
        let timeout = match is_firm {
            _ if options.at_once => Duration::ZERO,
            true => FIRM_TIMEOUT,
            false => self.put_timeout,
        };
        let record_len = record.len();
        let mut unplaced = UnplacedRecord { header, record, crc, priority, rate };
        let (mut since, mut turns) = (None, 0);
        loop {
            let mut log = self.store.log();
            // Checked under the log's lock: closing writes what was appended before, and nothing may be appended after
            // that.
            self.check_writable()?;
            if options.ticket.is_some_and(|ticket| ticket.0 != tickets.of(header.hash)) {
                view.counters.stale.add(1);
                return Ok(Put::Stale);
            }
            match log.append(view, &mut unplaced) {
                Ok(()) => {
                    if options.ticket.is_none() {
                        // A value that is put without a ticket wins over one that is being computed.
                        tickets.invalidate(header.hash);
                    }
                    if since.is_some() {
                        log.stop_waiting();
                    }
                    let end = log.end();
                    let is_behind = self.reclaim.is_outgrown(&log);
                    drop(log);
                    view.counters.puts.add(1);
                    if self.reclaim.simulations.samples(header.hash) {
                        self.reclaim.simulations.on_put(header.hash, record_cost(record_len));
                    }
                    self.make_durable_or_evict(end, until)?;
                    if is_behind && !is_firm {
                        // Yields the processor to compaction if compaction waits for it; otherwise this returns at
                        // once.
                        yield_now();
                    }
                    return Ok(Put::Stored);
                }
                Err(reason) => {
                    let waited = since.get_or_insert_with(Instant::now).elapsed();
                    // The write buffer gets room only when the disk takes something.
                    let longest = if is_firm { DEAD_AFTER } else { timeout };
                    let is_hopeless = reason == NoRoom::Buffer && files.health.writes_fail_for(longest);
                    if waited >= timeout || is_hopeless {
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

    /// Wakes the worker. Then writes one segment to the page cache if no other thread is writing, there is one to
    /// write, and it need not be synced; otherwise, or if that write fails, sleeps or yields the processor.
    fn give_way(&self, sleeps: bool) {
        debug_assert!(!holds_log(), "the worker needs the log's lock to make room");
        self.reclaim.calls.wake();
        if let Some(mut turn) = self.store.files.try_turn()
            && !self.store.files.has_promised()
            && self.store.write_step(&mut turn).is_ok_and(|worked| worked)
        {
            return;
        }
        if sleeps { sleep(NAP) } else { yield_now() }
    }

    /// Removes a key, buffered, and makes every ticket for it void. Returns whether a value was found, even an expired
    /// one; see [`Cache::open`] about an index that is still being filled. The removal is never refused and waits
    /// neither for room nor for the disk; see [`Cache::remove_with`] for removals that must survive a crash.
    ///
    /// # Errors
    ///
    /// [`Error::ReadOnly`] and [`Error::Closed`].
    pub fn remove(&self, key: &[u8]) -> Result<bool> {
        self.remove_with(key, Durability::Buffered)
    }

    /// Removes a key and returns when the removal is as durable as asked.
    ///
    /// On a full disk, or without room for its tombstone while writes fail, a durable removal deletes older entries,
    /// all of them if need be, because a removed value must not come back.
    ///
    /// # Errors
    ///
    /// [`Error::ReadOnly`] and [`Error::Closed`]; [`Error::File`] and [`Error::WriteFailed`] if the disk fails or there
    /// is no room for a tombstone for 30 s. The value is removed from memory even then, but after a crash it may be
    /// back.
    pub fn remove_with(&self, key: &[u8], durability: Durability) -> Result<bool> {
        self.remove_if_valid(key, None, durability).map(|removed| removed.is_some_and(|was_there| was_there))
    }

    /// Removes a key unless the ticket is void. Returns whether the key had a value; `None` if the ticket is void.
    pub(crate) fn remove_if_valid(
        &self,
        key: &[u8],
        ticket: Option<Ticket>,
        durability: Durability,
    ) -> Result<Option<bool>> {
        let (store, simulations) = (&self.store, &self.reclaim.simulations);
        let hash = self.sealer.hash(key);
        let was_there = {
            let mut log = store.log();
            self.check_writable()?;
            // Checked under the log's lock, because another thread may put a newer value at any other time.
            if ticket.is_some_and(|ticket| ticket.0 != store.tickets.of(hash)) {
                return Ok(None);
            }
            store.tickets.invalidate(hash);
            log.remove(&store.view, hash, store.ages.now_ms())
        };
        if was_there {
            store.view.counters.removed.add(1);
        }
        if simulations.samples(hash) {
            simulations.on_remove(hash);
        }
        self.make_removals_durable(durability)?;
        Ok(Some(was_there))
    }

    /// Waits until the tombstones of all removals are in the log and everything in the log is as durable as asked. With
    /// `Buffered`, only wakes the worker. While writes fail, deletes the oldest segments, and all entries if no segment
    /// can be deleted, so that removed values do not come back.
    fn make_removals_durable(&self, durability: Durability) -> Result<()> {
        let store = &self.store;
        if durability == Durability::Buffered {
            self.reclaim.calls.nudge();
            return Ok(());
        }
        let start = Instant::now();
        let end = loop {
            {
                let mut log = store.log();
                if !log.has_pending_removals() || log.write_removals_at(&store.view, store.ages.now_ms()).is_ok() {
                    break log.end();
                }
            }
            if store.files.health.writes_fail_for(Duration::ZERO) && !self.reclaim.free_one()? {
                // The write buffer will have no room for the tombstones either.
                return self.reclaim.wipe();
            }
            if start.elapsed() >= FIRM_TIMEOUT {
                return Err(self.store.files.health.error());
            }
            self.give_way(true);
        };
        self.make_durable_or_evict(end, durability)
    }

    /// Removes all entries, buffered, and makes every ticket void, in constant time unless it must wait for room.
    ///
    /// # Errors
    ///
    /// Those of [`Cache::clear_with`].
    pub fn clear(&self) -> Result<()> {
        self.clear_with(Durability::Buffered)
    }

    /// Removes all entries and returns when the removal is as durable as asked. Before that, waits for at most 30 s
    /// while no segment can be started, for example because an earlier clear has used the last room and what it made
    /// void is not deleted yet.
    ///
    /// # Errors
    ///
    /// [`Error::ReadOnly`] and [`Error::Closed`], and [`Error::WriteFailed`] if the call waits for room in vain:
    /// nothing is removed then. [`Error::File`] and [`Error::WriteFailed`] if the disk fails after the entries were
    /// removed from memory; after a crash they may be back.
    pub fn clear_with(&self, durability: Durability) -> Result<()> {
        let (store, reclaim) = (&self.store, &self.reclaim);
        let start = Instant::now();
        let (end, memory) = loop {
            {
                let mut log = store.log();
                self.check_writable()?;
                if let Some((void, memory)) = log.clear(&store.view) {
                    store.tickets.invalidate_all();
                    reclaim.simulations.clear();
                    reclaim.ghost_list.clear();
                    reclaim.pending_deletion.add_void(void);
                    break (log.end(), memory);
                }
            }
            if start.elapsed() >= FIRM_TIMEOUT {
                return Err(self.store.files.health.error());
            }
            self.give_way(true);
        };
        reclaim.calls.wake();
        reclaim.pending_deletion.add_garbage(memory);
        self.make_durable_or_evict(end, durability)
    }

    /// Waits until every change that was made before this call is as durable as asked. On a full disk, deletes older
    /// entries to make room.
    ///
    /// # Errors
    ///
    /// [`Error::ReadOnly`] and [`Error::Closed`]; [`Error::File`] and [`Error::WriteFailed`] if the disk fails or there
    /// is no room for a tombstone for 30 s.
    pub fn flush(&self, durability: Durability) -> Result<()> {
        self.check_writable()?;
        match self.make_removals_durable(durability) {
            Err(error) if is_full(&error) => {
                // Removed values must not come back, even though a put still finds no room.
                let removals_end = self.store.log().removals_end();
                removals_end.map_or(Ok(()), |end| self.make_durable_or_evict(end, durability))?;
                Err(error)
            }
            done => done,
        }
    }

    /// Writes the whole write buffer. It is called at open and close, when no background thread runs. If there is no
    /// room, older entries are deleted, all of them if need be, because records that stayed in memory would leave older
    /// values of their keys in the files.
    pub(crate) fn write_last(&self) -> Result<()> {
        let store = &self.store;
        let pays = || store.log().write_removals_at(&store.view, store.ages.now_ms()).is_ok();
        while !pays() {
            self.write_or_wipe()?;
            if !pays() && !self.reclaim.free_one()? {
                return self.reclaim.wipe();
            }
        }
        // Sealed, so that the file has a footer and the next start need not read the records.
        let _ = store.log().seal_active(&store.view);
        self.write_or_wipe()
    }

    /// Writes the buffer, or deletes all entries if the disk is full. After any other error the write is tried once
    /// more, unless the error has emptied the cache; if that fails too, all entries are deleted. Returns the error of
    /// the last write.
    fn write_or_wipe(&self) -> Result<()> {
        let end = self.store.log().end();
        debug_assert!(self.lock_file.lock().is_some(), "the files are ours as long as we hold the lock");
        let write = || self.make_durable_or_evict(end, Durability::Written);
        match write() {
            Err(error) if is_full(&error) => self.reclaim.wipe(),
            // The sync of a segment failed, so all entries are gone and a second write would have nothing to do.
            Err(error) if self.store.log().is_written(end) => Err(error),
            Err(_) => write().or_else(|error| self.reclaim.wipe().and(Err(error))),
            written => written,
        }
    }

    /// Waits until everything before `end` is as durable as asked. On a full disk older entries are deleted to make
    /// room; if that is not enough and a removal waits, all entries are deleted, because removed values must not come
    /// back. If the sync of a segment fails, all entries are deleted too, and the error is returned.
    fn make_durable_or_evict(&self, end: LogPosition, durability: Durability) -> Result<()> {
        let mut again = 0;
        loop {
            match self.make_durable(end, durability) {
                // The cache starts over, so the next change can be durable again.
                Err(error) if self.reclaim.begin_anew_if_lost()? => return Err(error),
                Err(error) if is_full(&error) => {
                    let has_freed = self.reclaim.free_one()?;
                    if self.reclaim.begin_anew_if_lost()? {
                        return Err(self.store.files.health.error());
                    }
                    if has_freed {
                        continue;
                    }
                    let log = self.store.log();
                    // If the last removal lies after `end`, another removal may lie before `end`.
                    let waits = log.removals_end().is_some_and(|last| !log.is_written(last.min(end)));
                    // Another thread may have made room since, or have emptied the cache.
                    let is_written = log.is_written(end);
                    drop(log);
                    if waits {
                        return self.reclaim.wipe();
                    }
                    if !is_written || again == MOST_AGAIN {
                        return Err(error);
                    }
                    again += 1;
                }
                done => return done,
            }
        }
    }

    fn make_durable(&self, end: LogPosition, durability: Durability) -> Result<()> {
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
