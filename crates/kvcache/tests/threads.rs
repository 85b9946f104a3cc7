//! Many threads at once: what a get returns is the value that was there at some moment of the call.
//!
//! Each key is written by one thread, with rising versions, so that for each get the versions it may see are known:
//! from the last one whose write had ended before the get began to the last one whose write had begun before it ended.

use refdb_kvcache::{Cache, Options, Put, PutOptions, Stats};
use refdb_testkit::Rng;
use std::{
    sync::atomic::{AtomicBool, AtomicU64, Ordering},
    thread,
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

/// A cache and its values.
struct Stress {
    limit_bytes: u64,
    /// Values are up to 700 times as long.
    scale: u64,
    may_miss: bool,
    /// Whether what the test is about has happened.
    is_met: fn(&Stats) -> bool,
}

/// How long a stress takes at least, and how long it waits at most until it is met: a busy machine writes little.
const TIME: Duration = Duration::from_secs(3);
const TIME_MAX: Duration = Duration::from_secs(100);

impl Stress {
    fn value_of(&self, version: u64) -> Vec<u8> {
        let mut value = version.to_le_bytes().to_vec();
        value.resize(8 + (version.wrapping_mul(269) % 700 * self.scale) as usize, version as u8);
        value
    }
}

fn stress(stress: &Stress) {
    let dir = tempfile::tempdir().expect("a temporary folder can be made");
    let cache = Cache::open(dir.path(), Options::new(stress.limit_bytes)).expect("it opens");
    let slots: Vec<Slot> = (0..KEYS).map(|_| Slot::default()).collect();
    let (stop, start) = (AtomicBool::new(false), Instant::now());
    thread::scope(|scope| {
        for writer in 0..WRITERS {
            let (cache, slots, stop) = (&cache, &slots, &stop);
            scope.spawn(move || {
                let mut rng = Rng::new(writer as u64);
                while !stop.load(Ordering::Relaxed) {
                    // Some keys seldom, so that old segments keep some entries.
                    let most = rng.below(KEYS / WRITERS) + 1;
                    let key = rng.below(most) * WRITERS + writer;
                    let slot = &slots[key];
                    let next = slot.ended.load(Ordering::Relaxed) + 1;
                    slot.begun.store(next, Ordering::SeqCst);
                    let key = (key as u64).to_le_bytes();
                    if next % 2 == 1 {
                        let value = stress.value_of(next);
                        // Where room is short for a moment a put is refused: it is not over before it is stored.
                        while cache.put(&key, &value).expect("it is put") != Put::Stored && !stress.may_miss {
                            thread::yield_now();
                            if stop.load(Ordering::Relaxed) {
                                return;
                            }
                        }
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
                        // A miss is right if a removal, or the time before the first put, lies in the span.
                        None => assert!((least..=most).any(|version| version % 2 == 0), "missed in {least}..={most}"),
                    }
                }
            });
        }
        scope.spawn(|| {
            while start.elapsed() < TIME || !(stress.is_met)(&cache.stats()) && start.elapsed() < TIME_MAX {
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
    stress(&Stress { limit_bytes: 2 << 20, scale: 4, may_miss: false, is_met });
}

#[test]
fn gets_are_linearizable_while_segments_are_evicted() {
    stress(&Stress { limit_bytes: 1 << 20, scale: 150, may_miss: true, is_met: |stats| stats.evicted > 0 });
}

#[test]
fn a_loaded_value_never_overtakes_an_invalidation() {
    let dir = tempfile::tempdir().expect("a temporary folder can be made");
    let cache = Cache::open(dir.path(), Options::new(4 << 20)).expect("it opens");
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
                    let put = PutOptions { ticket, ..Default::default() };
                    let outcome = cache.put_with(&bytes, &value.to_le_bytes(), put).expect("it is put");
                    stored.fetch_add(u64::from(outcome == Put::Stored), Ordering::Relaxed);
                }
            });
        }
        scope.spawn(move || {
            let mut rng = Rng::new(50);
            let start = Instant::now();
            while start.elapsed() < Duration::from_secs(3) {
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
    assert!(stored.into_inner() > 1000, "loads are put at all: {:?}", cache.stats());
}
