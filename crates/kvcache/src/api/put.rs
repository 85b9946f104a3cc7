//! Changes, and tickets, by which the older of two changes does not win.

use crate::{
    api::{cache::Cache, options::Durability},
    error::{Error, Result},
    format::record::{Kind, RecordHeader, body_crc},
    log::{
        append::NoRoom,
        space::{Who, record_cost},
    },
    scratch::{Scratch, with_scratch},
    sync::{Ordering, lock, sleep, yield_now},
};
use std::time::{Duration, Instant};

/// A put that finds the write buffer full yields this often before it naps, so as not to take the writer's processor.
const YIELDS: u32 = 8;
const NAP: Duration = Duration::from_micros(200);
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
    /// Takes its place among the changes at once, or is refused at once; never waits for room, nor for the disk. What it asks
    /// of durability [`Cache::flush`] waits for. For callers that hold a lock.
    pub at_once: bool,
}
impl Cache {
    /// To be taken before the value of a key is computed, and given to [`Cache::put_with`].
    pub fn ticket(&self, key: &[u8]) -> Ticket {
        Ticket(self.shared.ticket(self.shared.sealer.hash(key)))
    }

    /// Puts a value, created now. See [`Cache::put_with`].
    pub fn put(&self, key: &[u8], value: &[u8]) -> Result<Put> {
        self.put_with(key, value, PutOptions::default())
    }

    /// Puts a value. A buffered put never waits for a lock that is held across a disk access, nor for the disk; if the
    /// whole write buffer is full it gives way to the writer for [`Options::patience`](crate::Options::patience) and is
    /// refused then. A written or synced put is never refused.
    pub fn put_with(&self, key: &[u8], value: &[u8], options: PutOptions) -> Result<Put> {
        let settle = if options.at_once { Durability::Buffered } else { options.durability };
        self.put_settled(key, value, options, settle)
    }

    /// A put that is never refused but does not wait until it is in the file: whoever puts many waits once, at the end.
    pub(crate) fn put_in_bulk(&self, key: &[u8], value: &[u8], options: PutOptions) -> Result<Put> {
        self.put_settled(key, value, options, Durability::Buffered)
    }

    fn put_settled(&self, key: &[u8], value: &[u8], options: PutOptions, settle: Durability) -> Result<Put> {
        self.check_writable()?;
        let shared = &self.shared;
        let (len, max) = (key.len().saturating_add(value.len()), shared.space.largest_entry());
        if len > max {
            return Err(Error::TooLarge { len, max });
        }
        let header = RecordHeader {
            kind: Kind::Put,
            encrypted: shared.sealer.is_encrypted(),
            hash: shared.sealer.hash(key),
            created_ms: options.created_ms.unwrap_or_else(|| shared.ages.now_ms()),
            key_len: key.len() as u32,
            value_len: value.len() as u32,
        };
        with_scratch(|Scratch { record, .. }| {
            record.clear();
            record.extend_from_slice(&header.encode());
            shared.sealer.seal(record, key, value).map_err(|error| Error::Disk(error.to_string()))?;
            record.resize(header.record_len(), 0);
            self.append(&header, record, options, settle)
        })
    }

    fn append(&self, header: &RecordHeader, record: &mut [u8], options: PutOptions, settle: Durability) -> Result<Put> {
        let shared = &self.shared;
        let crc = body_crc(record);
        let is_firm = options.durability != Durability::Buffered;
        let who = if is_firm { Who::Durable } else { Who::Put };
        let patience = match is_firm {
            _ if options.at_once => Duration::ZERO,
            true => FIRM_PATIENCE,
            false => shared.patience,
        };
        let (mut since, mut turns) = (None, 0);
        loop {
            let mut log = lock(&shared.log);
            if options.ticket.is_some_and(|ticket| ticket.0 != shared.ticket(header.hash)) {
                shared.counters.stale.add(1);
                return Ok(Put::Stale);
            }
            match log.append(&shared.view(), header, record, crc, who) {
                Ok(()) => {
                    if options.ticket.is_none() {
                        // A value given outright beats one that is being computed.
                        shared.invalidate_tickets(header.hash);
                    }
                    if since.is_some() {
                        log.stop_waiting();
                    }
                    let end = log.end();
                    let is_behind = shared.frees.load(Ordering::Relaxed) && shared.is_outgrowing(&log);
                    drop(log);
                    shared.counters.puts.add(1);
                    if shared.ghosts.wants(header.hash) {
                        shared.ghosts.on_put(header.hash, record_cost(record.len()));
                    }
                    shared.settle_on_full_disk(end, settle)?;
                    if is_behind && !is_firm {
                        // To compaction, if it waits for a processor; else this returns at once.
                        yield_now();
                    }
                    return Ok(Put::Stored);
                }
                Err(reason) => {
                    let waited = since.get_or_insert_with(Instant::now).elapsed();
                    // The write buffer has no room again before the disk takes something.
                    let is_hopeless = !is_firm && reason == NoRoom::Buffer && shared.writes_fail_for(patience);
                    if waited >= patience || is_hopeless {
                        log.remove(&shared.view(), header.hash, header.created_ms);
                        log.stop_waiting();
                        shared.invalidate_tickets(header.hash);
                        shared.counters.refused.add(1);
                        drop(log);
                        shared.wake();
                        return if is_firm && !options.at_once { Err(shared.disk_error()) } else { Ok(Put::Refused) };
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
        let shared = &self.shared;
        shared.wake();
        if let Ok(mut scratch) = shared.files.try_lock()
            && shared.flush_step(&mut scratch).is_ok_and(|worked| worked)
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
        self.check_writable()?;
        let shared = &self.shared;
        let hash = shared.sealer.hash(key);
        let was_there = {
            let mut log = lock(&shared.log);
            shared.invalidate_tickets(hash);
            log.remove(&shared.view(), hash, shared.ages.now_ms())
        };
        if was_there {
            shared.counters.removed.add(1);
        }
        if shared.ghosts.wants(hash) {
            shared.ghosts.on_remove(hash);
        }
        self.settle_removals(durability)?;
        Ok(was_there)
    }

    /// Waits until no removal is owed to the log, and all that is there is as durable as asked.
    fn settle_removals(&self, durability: Durability) -> Result<()> {
        let shared = &self.shared;
        if durability == Durability::Buffered {
            shared.nudge();
            return Ok(());
        }
        let start = Instant::now();
        let end = loop {
            {
                let mut log = lock(&shared.log);
                if !log.owes() || log.pay_at(&shared.view(), shared.ages.now_ms()).is_ok() {
                    break log.end();
                }
            }
            if shared.writes_fail_for(Duration::ZERO) && !shared.free_one()? {
                // The write buffer will have no room either.
                return shared.wipe();
            }
            if start.elapsed() >= FIRM_PATIENCE {
                return Err(shared.disk_error());
            }
            self.give_way(true);
        };
        shared.settle_on_full_disk(end, durability)
    }

    /// Forgets everything and makes every ticket void. Takes no longer the more there is.
    pub fn clear(&self) -> Result<()> {
        self.clear_with(Durability::Buffered)
    }

    /// Forgets everything and returns when that is as durable as asked.
    pub fn clear_with(&self, durability: Durability) -> Result<()> {
        self.check_writable()?;
        let shared = &self.shared;
        let start = Instant::now();
        let (end, memory) = loop {
            {
                let mut log = lock(&shared.log);
                if let Some((void, memory)) = log.clear(&shared.view()) {
                    shared.invalidate_all_tickets();
                    shared.ghosts.clear();
                    lock(&shared.void).extend(void);
                    break (log.end(), memory);
                }
            }
            if start.elapsed() >= FIRM_PATIENCE {
                return Err(shared.disk_error());
            }
            self.give_way(true);
        };
        shared.wake();
        lock(&shared.garbage).push(Box::new(memory));
        shared.settle_on_full_disk(end, durability)
    }

    /// Returns when everything before this call is as durable as asked.
    pub fn flush(&self, durability: Durability) -> Result<()> {
        self.check_writable()?;
        self.settle_removals(durability)
    }
}
