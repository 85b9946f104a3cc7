use crate::{
    error::{Error, Result},
    format::{Kind, RECORD_HEADER_BYTES, RecordHeader, body_crc, check_record},
    layout::record_cost,
    log::{End, NoRoom, Who},
    options::Durability,
    place::Place,
    report,
    segment::Segment,
    shared::{Handle, age_ms},
    stats::Stats,
    sync::{Mutex, Ordering, lock, sleep, thread_local, yield_now},
};
use refdb_vfs::{File, Fs};
use std::{
    cell::RefCell,
    path::Path,
    thread::JoinHandle,
    time::{Duration, Instant},
};

/// A get that meets a record that is being moved looks again at most this often.
const ATTEMPTS: usize = 8;
/// A put that finds the write buffer full yields this often before it naps, so as not to take the writer's processor.
const YIELDS: u32 = 8;
const NAP: Duration = Duration::from_micros(200);
/// A write that may not be refused gives up when the disk takes nothing for so long.
const FIRM_PATIENCE: Duration = Duration::from_secs(30);

/// What a thread keeps from call to call, so that none has to allocate.
#[derive(Default)]
struct Scratch {
    /// A record as it is in the file.
    record: Vec<u8>,
    /// The same, decrypted.
    opened: Vec<u8>,
}

/// A buffer that grew beyond this for one large record is given back.
const KEPT_SCRATCH_BYTES: usize = 256 << 10;

thread_local! {
    static SCRATCH: RefCell<Scratch> = RefCell::default();
}

fn with_scratch<T>(body: impl FnOnce(&mut Scratch) -> T) -> T {
    SCRATCH.with(|scratch| {
        let scratch = &mut *scratch.borrow_mut();
        let result = body(scratch);
        if scratch.record.capacity() > KEPT_SCRATCH_BYTES {
            *scratch = Scratch::default();
        }
        result
    })
}

/// An open cache. All methods may be called from any number of threads. Dropping it closes it.
pub struct Cache {
    pub(crate) shared: Handle,
    pub(crate) workers: Mutex<Vec<JoinHandle<()>>>,
    /// Held as long as the cache is open for writing.
    pub(crate) lock_file: Mutex<Option<File>>,
    pub(crate) read_only: bool,
    pub(crate) notices: Vec<Error>,
}

/// A value that was found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Found {
    /// The value.
    pub value: Vec<u8>,
    /// When it was created, in milliseconds since 1970.
    pub created_ms: u64,
}

/// What came of a get that has room for so much.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Get<T> {
    /// What was made of the value.
    Found(T),
    /// The value is of this length, in bytes, which is more.
    Larger(usize),
    /// The key has no value.
    None,
}

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
}

impl Cache {
    /// The value of a key.
    pub fn get(&self, key: &[u8]) -> Option<Found> {
        let mut value = Vec::new();
        let created_ms = self.get_into(key, &mut value)?;
        Some(Found { value, created_ms })
    }

    /// The value of a key, put into `value`, which is cleared first; returns when it was created, in milliseconds since
    /// 1970. Never waits for a writer, nor for the disk beyond reading the record's pages.
    pub fn get_into(&self, key: &[u8], value: &mut Vec<u8>) -> Option<u64> {
        value.clear();
        self.get_with(key, |found, created_ms| {
            value.extend_from_slice(found);
            created_ms
        })
    }

    /// Shows the value of a key where it lies, and when it was created, in milliseconds since 1970; returns what `take`
    /// returns, which must not use this cache. Waits for nothing that [`Cache::get_into`] does not wait for.
    pub fn get_with<T>(&self, key: &[u8], take: impl FnOnce(&[u8], u64) -> T) -> Option<T> {
        match self.get_up_to(key, usize::MAX, take) {
            Get::Found(taken) => Some(taken),
            Get::None | Get::Larger(_) => None,
        }
    }

    /// The same for values of up to `most_bytes`. Of a larger one only the length is given, which is neither checked nor
    /// counted as a get: it is for whoever must provide room for the value, and asks again.
    pub fn get_up_to<T>(&self, key: &[u8], most_bytes: usize, take: impl FnOnce(&[u8], u64) -> T) -> Get<T> {
        let shared = &self.shared;
        let hash = shared.sealer.hash(key);
        let (got, counter) = match with_scratch(|scratch| self.look_up(hash, key, most_bytes, scratch, take)) {
            Lookup::Larger(len) => return Get::Larger(len),
            Lookup::Found(taken) => (Get::Found(taken), &shared.counters.hits),
            Lookup::Expired => {
                shared.counters.expired.add(1);
                (Get::None, &shared.counters.misses)
            }
            Lookup::None => (Get::None, &shared.counters.misses),
        };
        counter.add(1);
        if shared.ghosts.wants(hash) {
            shared.ghosts.on_get(hash, &shared.counters);
        }
        got
    }

    fn look_up<T>(
        &self,
        hash: u64,
        key: &[u8],
        most_bytes: usize,
        scratch: &mut Scratch,
        take: impl FnOnce(&[u8], u64) -> T,
    ) -> Lookup<T> {
        let shared = &self.shared;
        let mut failed = None;
        for _ in 0..ATTEMPTS {
            let Some(hit) = shared.index.find(hash) else { return Lookup::None };
            let place = hit.place;
            if failed.is_some_and(|failed: Place| failed.is_same(place)) {
                self.discard(hash, place);
                return Lookup::None;
            }
            let slot = shared.slots[usize::from(place.slot())].load();
            if place.len() > most_bytes
                && let Some(len) = slot.as_ref().and_then(|segment| value_len(segment, place, scratch))
                && len > most_bytes
            {
                return Lookup::Larger(len);
            }
            match slot.as_ref().map_or(Read::Gone, |segment| self.read(segment, place, key, scratch)) {
                Read::Value(_, created_ms) if shared.is_expired(created_ms) => return Lookup::Expired,
                Read::Value(value, created_ms) => {
                    hit.touch();
                    return Lookup::Found(take(value, created_ms));
                }
                Read::OtherKey => return Lookup::None,
                // Its segment may be gone since the index was asked.
                Read::Harmed => failed = Some(place),
                Read::Gone => yield_now(),
            }
        }
        Lookup::None
    }

    fn read<'a>(&self, segment: &'a Segment, place: Place, key: &[u8], scratch: &'a mut Scratch) -> Read<'a> {
        let sealer = &self.shared.sealer;
        let Some(bytes) = segment.record(place, &mut scratch.record) else { return Read::Gone };
        let Some(header) = check_record(bytes, segment.seq, place.offset() as u64) else { return Read::Harmed };
        let (key_len, value_len) = (header.key_len as usize, header.value_len as usize);
        if key_len != key.len() {
            return Read::OtherKey;
        }
        let (bytes, key_at, value_at) = if sealer.is_encrypted() {
            scratch.opened.clear();
            scratch.opened.extend_from_slice(bytes);
            let Some((key_at, value_at)) = sealer.open(&header, &mut scratch.opened) else { return Read::Harmed };
            (scratch.opened.as_slice(), key_at, value_at)
        } else if header.encrypted {
            return Read::Harmed;
        } else {
            (bytes, RECORD_HEADER_BYTES, RECORD_HEADER_BYTES + key_len)
        };
        if bytes[key_at..value_at] != *key {
            return Read::OtherKey;
        }
        Read::Value(&bytes[value_at..value_at + value_len], header.created_ms)
    }

    /// Forgets a record that failed its checks twice.
    fn discard(&self, hash: u64, place: Place) {
        self.shared.counters.corrupt.add(1);
        if !self.read_only {
            lock(&self.shared.log).drop_entry(&self.shared.view(), hash, place);
        }
    }

    /// Whether a get would find a value, without reading it; a record that is harmed counts as there.
    pub fn contains(&self, key: &[u8]) -> bool {
        self.shared.index.get(self.shared.sealer.hash(key)).is_some()
    }

    /// When the value of a key was created, in milliseconds since 1970. Not counted as a get.
    pub(crate) fn created_ms(&self, key: &[u8]) -> Option<u64> {
        let hash = self.shared.sealer.hash(key);
        match with_scratch(|scratch| self.look_up(hash, key, usize::MAX, scratch, |_, created_ms| created_ms)) {
            Lookup::Found(created_ms) => Some(created_ms),
            Lookup::Larger(_) | Lookup::Expired | Lookup::None => None,
        }
    }

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
        self.put_settled(key, value, options, options.durability)
    }

    /// A put that is never refused but does not wait until it is in the file: whoever puts many waits once, at the end.
    pub(crate) fn put_in_bulk(&self, key: &[u8], value: &[u8], options: PutOptions) -> Result<Put> {
        self.put_settled(key, value, options, Durability::Buffered)
    }

    fn put_settled(&self, key: &[u8], value: &[u8], options: PutOptions, settle: Durability) -> Result<Put> {
        self.check_writable()?;
        let shared = &self.shared;
        let (len, max) = (key.len().saturating_add(value.len()), shared.layout.largest_entry());
        if len > max {
            return Err(Error::TooLarge { len, max });
        }
        let header = RecordHeader {
            kind: Kind::Put,
            encrypted: shared.sealer.is_encrypted(),
            hash: shared.sealer.hash(key),
            created_ms: options.created_ms.unwrap_or_else(|| shared.clock.now_ms()),
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
        let who = if is_firm { Who::Firm } else { Who::Put };
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
                    let end = log.end();
                    let is_behind = shared.frees.load(Ordering::Relaxed) && shared.is_outgrowing(&log);
                    drop(log);
                    shared.counters.puts.add(1);
                    if shared.ghosts.wants(header.hash) {
                        shared.ghosts.on_put(header.hash, record_cost(record.len()));
                    }
                    shared.settle(end, settle)?;
                    if is_behind && !is_firm {
                        // To compaction, if it waits for a processor; else this returns at once.
                        yield_now();
                    }
                    return Ok(Put::Stored);
                }
                Err(NoRoom) => {
                    let waited = since.get_or_insert_with(Instant::now).elapsed();
                    if waited >= if is_firm { FIRM_PATIENCE } else { shared.patience } {
                        log.remove(&shared.view(), header.hash, header.created_ms);
                        shared.invalidate_tickets(header.hash);
                        shared.counters.refused.add(1);
                        drop(log);
                        shared.wake();
                        return if is_firm { Err(shared.disk_error()) } else { Ok(Put::Refused) };
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
        let (was_there, end) = {
            let mut log = lock(&shared.log);
            shared.invalidate_tickets(hash);
            let was_there = log.remove(&shared.view(), hash, shared.clock.now_ms());
            (was_there, log.end())
        };
        if was_there {
            shared.counters.removed.add(1);
        }
        if shared.ghosts.wants(hash) {
            shared.ghosts.on_remove(hash);
        }
        self.settle_removals(end, durability)?;
        Ok(was_there)
    }

    /// Waits until no removal is owed to the log, and then as asked.
    fn settle_removals(&self, end: End, durability: Durability) -> Result<()> {
        let shared = &self.shared;
        if durability == Durability::Buffered {
            shared.nudge();
            return Ok(());
        }
        let start = Instant::now();
        let mut end = end;
        loop {
            {
                let mut log = lock(&shared.log);
                if !log.owes() || log.pay_at(&shared.view(), shared.clock.now_ms()).is_ok() {
                    end = if log.owes() { end } else { log.end() };
                    break;
                }
            }
            if start.elapsed() >= FIRM_PATIENCE {
                return Err(shared.disk_error());
            }
            self.give_way(true);
        }
        shared.settle(end, durability)
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
        shared.settle(end, durability)
    }

    /// Returns when everything before this call is as durable as asked.
    pub fn flush(&self, durability: Durability) -> Result<()> {
        self.check_writable()?;
        let end = lock(&self.shared.log).end();
        self.settle_removals(end, durability)
    }

    /// Does what the threads would do by now. For tests that need to know what happens when.
    #[doc(hidden)]
    pub fn work(&self) -> Result<()> {
        while crate::worker::round(&self.shared)? | self.shared.delete_condemned()? {}
        Ok(())
    }

    /// Lets go of everything as a killed process does. For tests.
    #[doc(hidden)]
    pub fn abandon(self) {
        self.shared.closed.store(true, Ordering::Release);
    }

    /// What it has and did. Costs the same however many entries there are.
    pub fn stats(&self) -> Stats {
        self.shared.counters.read()
    }

    /// What the process that writes to the cache in a folder said last, at most some seconds ago; None if it never did.
    pub fn reported_stats(dir: &Path) -> Result<Option<Stats>> {
        report::read(&Fs::real(), dir)
    }

    /// Changes the age at which entries become misses.
    pub fn set_max_age(&self, max_age: Option<Duration>) {
        self.shared.max_age_ms.store(age_ms(max_age), Ordering::Relaxed);
    }

    /// What was wrong with the files when it was opened: each is worth one line in a log.
    pub fn notices(&self) -> &[Error] {
        &self.notices
    }

    /// What the disk said when it last failed.
    pub fn last_disk_error(&self) -> Option<String> {
        lock(&self.shared.disk_error).clone()
    }

    /// The largest key and value together, in bytes.
    pub fn largest_entry_bytes(&self) -> usize {
        self.shared.layout.largest_entry()
    }

    /// Bytes that an entry takes on disk.
    pub fn cost_bytes(&self, key_len: usize, value_len: usize) -> u64 {
        record_cost(crate::format::record_len(key_len.saturating_add(value_len)))
    }

    pub(crate) fn check_writable(&self) -> Result<()> {
        match () {
            () if self.read_only => Err(Error::ReadOnly),
            () if self.shared.closed.load(Ordering::Acquire) => Err(Error::Closed),
            () => Ok(()),
        }
    }

    /// Stops the threads, writes what is in memory and lets go of the lock. Reads still work. Closing again does nothing.
    pub fn close(&self) -> Result<()> {
        if self.read_only || self.shared.closed.swap(true, Ordering::AcqRel) {
            return Ok(());
        }
        self.shared.wake();
        self.shared.wake_syncer();
        for worker in lock(&self.workers).drain(..) {
            let _ = worker.join();
        }
        let end = {
            let mut log = lock(&self.shared.log);
            let _ = log.pay_at(&self.shared.view(), self.shared.clock.now_ms());
            // So that the next start reads a footer and not the records.
            let _ = log.seal_active(&self.shared.view());
            log.end()
        };
        let written = self.shared.write_through(end);
        let _ = self.shared.report();
        *lock(&self.lock_file) = None;
        written
    }
}

impl Drop for Cache {
    fn drop(&mut self) {
        // Whoever wants to know calls close.
        let _ = self.close();
    }
}

impl std::fmt::Debug for Cache {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Cache({})", self.shared.dir.display())
    }
}

/// What the header of a record says of its value's length, unchecked.
fn value_len(segment: &Segment, place: Place, scratch: &mut Scratch) -> Option<usize> {
    let head = segment.record(place.with_len(RECORD_HEADER_BYTES), &mut scratch.record)?;
    RecordHeader::decode(head).map(|header| header.value_len as usize)
}

enum Lookup<T> {
    Found(T),
    Larger(usize),
    Expired,
    None,
}

enum Read<'a> {
    /// The value, and when it was created.
    Value(&'a [u8], u64),
    OtherKey,
    Harmed,
    Gone,
}
