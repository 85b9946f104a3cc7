//! Many threads at once: a get returns a value that was there at some moment of the call.
//!
//! One thread writes each key, with rising versions, so that the versions that a get may return are known: they begin
//! with the last write that ended before the get began, and end with the last that began before the get ended.

mod common;

use common::{STANDSTILL, open, patient};
use refdb_kvcache::{Cache, Durability, Key, Put, PutOptions, Stats};
use refdb_testkit::Rng;
use refdb_vfs::{Fs, IoHook, Op, Verdict};
use std::{
    sync::{
        Arc, Barrier, Mutex, OnceLock, Weak,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    thread::{self, JoinHandle},
    time::{Duration, Instant},
};

const KEYS: usize = 64;
const WRITERS: usize = 2;
const READERS: usize = 3;

#[derive(Default)]
struct Slot {
    /// The last version whose write began; odd ones are values, even ones are removals.
    begun: AtomicU64,
    ended: AtomicU64,
}

/// How a cache is put under stress.
struct Stress {
    limit_bytes: u64,
    /// Writers wait while the files take more than this.
    most_bytes: u64,
    /// Values have 8 bytes, and up to 699 times this number of bytes after them.
    scale: u64,
    may_miss: bool,
    /// Whether what the test is about has happened.
    is_met: fn(&Stats) -> bool,
}

/// Least time that a stress takes. After that it goes on until what it is about has happened, for at most
/// [`STANDSTILL`], because a busy machine writes little.
const TIME: Duration = Duration::from_secs(3);
/// Fewer loads than these prove nothing.
const LOADS: u64 = 1000;

impl Stress {
    fn value_of(&self, version: u64) -> Vec<u8> {
        let mut value = version.to_le_bytes().to_vec();
        value.resize(8 + (version.wrapping_mul(269) % 700 * self.scale) as usize, version as u8);
        value
    }
}

fn stress(stress: &Stress) {
    let dir = tempfile::tempdir().expect("a temporary folder can be made");
    let cache = open(dir.path(), stress.limit_bytes);
    let slots: Vec<Slot> = (0..KEYS).map(|_| Slot::default()).collect();
    let (stop, start) = (AtomicBool::new(false), Instant::now());
    thread::scope(|scope| {
        for writer in 0..WRITERS {
            let (cache, slots, stop) = (&cache, &slots, &stop);
            scope.spawn(move || {
                let mut rng = Rng::new(writer as u64);
                while !stop.load(Ordering::Relaxed) {
                    if cache.stats().disk_bytes > stress.most_bytes {
                        thread::yield_now();
                        continue;
                    }
                    // Some keys are written seldom, so that old segments keep some entries.
                    let most = rng.below(KEYS / WRITERS) + 1;
                    let key = rng.below(most) * WRITERS + writer;
                    let slot = &slots[key];
                    let next = slot.ended.load(Ordering::Relaxed) + 1;
                    slot.begun.store(next, Ordering::SeqCst);
                    let key = (key as u64).to_le_bytes();
                    if next % 2 == 1 {
                        let stored = cache.put(&key, &stress.value_of(next)).expect("it is put");
                        assert!(stored == Put::Stored || stress.may_miss, "{stored:?}");
                    } else {
                        cache.remove(&key).expect("it is removed");
                    }
                    slot.ended.store(next, Ordering::SeqCst);
                }
            });
        }
        for reader in 0..READERS {
            let (cache, slots, stop) = (&cache, &slots, &stop);
            scope.spawn(move || {
                let mut rng = Rng::new(100 + reader as u64);
                while !stop.load(Ordering::Relaxed) {
                    let key = rng.below(KEYS);
                    let least = slots[key].ended.load(Ordering::SeqCst);
                    let found = cache.get(&(key as u64).to_le_bytes());
                    let most = slots[key].begun.load(Ordering::SeqCst);
                    match found {
                        Some(found) => {
                            let version = found.value[..8].try_into().map(u64::from_le_bytes).expect("8 bytes");
                            assert_eq!(found.value, stress.value_of(version));
                            assert!((least..=most).contains(&version), "{version} is not in {least}..={most}");
                        }
                        None if stress.may_miss => {}
                        // A miss is right if a removal, or the time before the first put, is among these versions.
                        None => assert!((least..=most).any(|version| version % 2 == 0), "missed in {least}..={most}"),
                    }
                }
            });
        }
        scope.spawn(|| {
            while start.elapsed() < TIME || !(stress.is_met)(&cache.stats()) && start.elapsed() < STANDSTILL {
                thread::sleep(Duration::from_millis(10));
            }
            stop.store(true, Ordering::Relaxed);
        });
    });
    let stats = cache.stats();
    assert!(stats.corrupt == 0 && (stress.is_met)(&stats), "{stats:?}");
}

#[test]
fn gets_are_linearizable_while_segments_are_compacted() {
    let is_met = |stats: &Stats| stats.compacted > 0 && stats.evicted == 0;
    // The worker compacts above half of the limit. If the rest were used up, it would evict, because writers may be
    // faster.
    stress(&Stress { limit_bytes: 2 << 20, most_bytes: 3 << 19, scale: 4, may_miss: false, is_met });
}

#[test]
fn gets_are_linearizable_while_segments_are_evicted() {
    let is_met = |stats: &Stats| stats.evicted > 0;
    stress(&Stress { limit_bytes: 1 << 20, most_bytes: u64::MAX, scale: 150, may_miss: true, is_met });
}

#[test]
fn a_loaded_value_never_overtakes_an_invalidation() {
    let dir = tempfile::tempdir().expect("a temporary folder can be made");
    let cache = open(dir.path(), 4 << 20);
    // The truth of each key; a loader reads it, takes its time, and puts what it read.
    let truth: Vec<AtomicU64> = (0..KEYS).map(|_| AtomicU64::new(0)).collect();
    let stop = AtomicBool::new(false);
    let stored = AtomicU64::new(0);
    thread::scope(|scope| {
        let (cache, truth, stop, stored) = (&cache, &truth, &stop, &stored);
        for loader in 0..3 {
            scope.spawn(move || {
                let mut rng = Rng::new(loader);
                while !stop.load(Ordering::Relaxed) {
                    let key = rng.below(KEYS);
                    let bytes = (key as u64).to_le_bytes();
                    let ticket = Some(cache.ticket(&bytes));
                    let value = truth[key].load(Ordering::SeqCst);
                    if rng.one_in(4) {
                        thread::yield_now();
                    }
                    let put = PutOptions::new().ticket(ticket);
                    let outcome = cache.put_with(&bytes, &value.to_le_bytes(), put).expect("it is put");
                    stored.fetch_add(u64::from(outcome == Put::Stored), Ordering::Relaxed);
                }
            });
        }
        scope.spawn(move || {
            let mut rng = Rng::new(50);
            let start = Instant::now();
            // On a busy machine the loaders may not have run by then.
            let is_done = |time| time >= STANDSTILL || stored.load(Ordering::Relaxed) > LOADS;
            while start.elapsed() < TIME || !is_done(start.elapsed()) {
                let key = rng.below(KEYS);
                let bytes = (key as u64).to_le_bytes();
                let now = truth[key].fetch_add(1, Ordering::SeqCst) + 1;
                cache.remove(&bytes).expect("it is removed");
                if let Some(found) = cache.get(&bytes) {
                    assert_eq!(found.value, now.to_le_bytes(), "an older value came back after its invalidation");
                }
            }
            stop.store(true, Ordering::Relaxed);
        });
    });
    assert!(stored.into_inner() > LOADS, "loads are put at all: {:?}", cache.stats());
}

/// Has a thread flush as soon as the first copies are written. The writes of that thread wait until no more copies are
/// made.
#[derive(Default)]
struct FlushesMeanwhile {
    cache: OnceLock<Weak<Cache>>,
    flusher: Mutex<Option<JoinHandle<()>>>,
}

const FLUSHER: &str = "flusher";

impl IoHook for FlushesMeanwhile {
    fn before(&self, op: Op<'_>) -> Verdict {
        if !matches!(op, Op::Write(..)) {
            return Verdict::Proceed;
        }
        let Some(cache) = self.cache.get().and_then(Weak::upgrade) else { return Verdict::Proceed };
        if thread::current().name() == Some(FLUSHER) {
            let mut before = u64::MAX;
            while before != cache.stats().compacted {
                before = cache.stats().compacted;
                thread::sleep(Duration::from_millis(100));
            }
        } else if cache.stats().compacted > 0 {
            let flush = move || cache.flush(Durability::Written).expect("the disk works");
            let start = || thread::Builder::new().name(FLUSHER.into()).spawn(flush).expect("it starts");
            self.flusher.lock().expect("nobody panics with it").get_or_insert_with(start);
        }
        Verdict::Proceed
    }
}

/// Previously, a write buffer full of copies could be taken for a lack of room: while the copying thread waited for its
/// turn to write, another one wrote all copies, so that none was left. What was to be copied stayed where it was, or
/// was lost.
#[test]
fn a_flush_that_writes_the_copies_of_a_compaction_is_no_want_of_room() {
    let dir = tempfile::tempdir().expect("a temporary folder can be made");
    let flushes = Arc::new(FlushesMeanwhile::default());
    let fs = Fs::with_hook(flushes.clone());
    let cache = Arc::new(Cache::open_idle(fs, dir.path(), patient(1 << 20)).expect("it opens"));
    flushes.cache.set(Arc::downgrade(&cache)).expect("it is set once");
    const ENTRIES: u32 = 600;
    for i in 0..ENTRIES {
        assert_eq!(cache.put(&i.to_le_bytes(), &[1; 900]).expect("the disk works"), Put::Stored);
    }
    for i in (0..ENTRIES).step_by(2) {
        cache.remove(&i.to_le_bytes()).expect("the disk works");
    }
    cache.flush(Durability::Written).expect("the disk works");
    cache.compact().expect("the disk works");
    let flusher = flushes.flusher.lock().expect("nobody panics with it").take();
    flusher.expect("it flushed").join().expect("it flushed");
    let stats = cache.stats();
    assert_eq!((stats.entries, stats.compacted, stats.evicted), (300, 300, 0), "{stats:?}");
    assert!(stats.disk_bytes < 400 << 10, "{stats:?}");
}

/// Previously, a put that had begun was written after the close, when the files belonged to another handle: the put was
/// lost, or that handle could create no more segments.
#[test]
fn what_is_acknowledged_beside_a_close_is_there_for_the_next_handle() {
    const WRITERS: u64 = 4;
    let dir = tempfile::tempdir().unwrap();
    let written = PutOptions::new().durability(Durability::Written);
    for round in 0..60u64 {
        let cache = &open(dir.path(), 8 << 20);
        let value = move |i: u64| (round << 32 | i).to_le_bytes();
        thread::scope(|scope| {
            let writers: Vec<_> = (0..WRITERS)
                .map(|writer| {
                    let put =
                        move |i: &u64| cache.put_with(&[writer, i % 50].map(|part| part as u8), &value(*i), written);
                    scope.spawn(move || (0..).take_while(|i| matches!(put(i), Ok(Put::Stored))).last())
                })
                .collect();
            thread::sleep(Duration::from_micros(round * 70));
            cache.close().unwrap();
            let next = open(dir.path(), 8 << 20);
            assert_eq!(next.put_with(b"next", b"", written).unwrap(), Put::Stored, "round {round}");
            for (writer, last) in writers.into_iter().enumerate() {
                let Some(i) = last.join().unwrap() else { continue };
                let found = next.get(&[writer as u8, (i % 50) as u8]).map(|found| found.value);
                assert_eq!(found.as_deref(), Some(&value(i)[..]), "round {round}: {i} of writer {writer}");
            }
        });
    }
}

/// A large put is under way for long, because it is encrypted before it takes its place. Previously, if it took that
/// place after the last write of the close, its segment had the number of one of the next handle's.
#[test]
fn a_put_that_is_being_encrypted_while_its_cache_closes_is_in_the_files_or_told() {
    let dir = tempfile::tempdir().unwrap();
    let open = || {
        let mut options = patient(8 << 20);
        options.key = Some(Key::new([7; 32]));
        Cache::open(dir.path(), options).unwrap()
    };
    let written = PutOptions::new().durability(Durability::Written);
    let value = vec![1; 900 << 10];
    let mut told = 0;
    for round in 0..40u8 {
        let cache = &open();
        cache.put(b"small", &[round]).unwrap();
        let begins = &Barrier::new(2);
        let put = || {
            begins.wait();
            cache.put_with(&[round], &value, written)
        };
        thread::scope(|scope| {
            let large = scope.spawn(put);
            begins.wait();
            thread::sleep(Duration::from_micros(u64::from(round) * 20));
            cache.close().unwrap();
            let next = open();
            let large = large.join().unwrap();
            told += u32::from(large.is_err());
            assert_eq!(next.put_with(b"next", b"", written).unwrap(), Put::Stored, "round {round}");
            assert_eq!(next.get(&[round]).is_some(), large.is_ok(), "round {round}: {large:?}");
            assert_eq!(next.get(b"small").unwrap().value, [round]);
        });
    }
    assert!(told > 0, "no put was under way when its cache closed");
}

/// A disk on which the sync of a folder takes long while the flag is set.
#[derive(Default)]
struct SlowFolder {
    is_slow: AtomicBool,
    waits: AtomicBool,
}

impl IoHook for SlowFolder {
    fn before(&self, op: Op<'_>) -> Verdict {
        while matches!(op, Op::SyncDir(_)) && self.is_slow.load(Ordering::SeqCst) {
            self.waits.store(true, Ordering::SeqCst);
            thread::sleep(Duration::from_millis(1));
        }
        Verdict::Proceed
    }
}

/// Previously, the second thread relied on the first one's sync of the folder before that sync had ended.
#[test]
fn nothing_counts_as_synced_before_the_name_of_its_file_is() {
    let dir = tempfile::tempdir().expect("a temporary folder can be made");
    let disk = Arc::new(SlowFolder::default());
    let open = || Cache::open_idle(Fs::with_hook(disk.clone()), dir.path(), patient(1 << 20)).expect("it opens");
    let synced = PutOptions::new().durability(Durability::Synced);
    let put = |cache: &Cache, key: &[u8]| cache.put_with(key, b"value", synced).expect("it works");
    put(&open(), b"first");
    // The next put begins a file.
    let cache = open();
    disk.is_slow.store(true, Ordering::SeqCst);
    let is_done = AtomicBool::new(false);
    let was_done = thread::scope(|scope| {
        scope.spawn(|| put(&cache, b"second"));
        let start = Instant::now();
        while !disk.waits.load(Ordering::SeqCst) && start.elapsed() < STANDSTILL {
            thread::yield_now();
        }
        scope.spawn(|| {
            cache.flush(Durability::Synced).expect("it works");
            is_done.store(true, Ordering::SeqCst);
        });
        thread::sleep(Duration::from_millis(200));
        let was_done = is_done.load(Ordering::SeqCst);
        disk.is_slow.store(false, Ordering::SeqCst);
        was_done
    });
    assert!(!was_done && is_done.load(Ordering::SeqCst), "the second put had no durable name");
}
