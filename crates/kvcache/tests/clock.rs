//! Expired entries do not come back and new ones are found, even if the clock was ahead or is set back.

mod common;

use common::eventually;
use refdb_kvcache::{Cache, Clock, Durability, Options, Put, PutOptions};
use std::{
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

const MIB: u64 = 1 << 20;
const MONTH_MS: u64 = 30 * 86_400_000;
const START_MS: u64 = 100_000_000;

fn put_one(cache: &Cache) {
    assert_eq!(cache.put(b"key", b"value").expect("it works"), Put::Stored);
}

/// Opens a cache whose entries live for a minute, and returns it with its clock.
fn aging(dir: &Path) -> (Cache, Arc<AtomicU64>) {
    aging_at(dir, START_MS)
}

/// Opens the cache with a clock that shows `now_ms`.
fn aging_at(dir: &Path, now_ms: u64) -> (Cache, Arc<AtomicU64>) {
    let now = Arc::new(AtomicU64::new(now_ms));
    let clock = now.clone();
    let mut options = Options::new(MIB);
    options.max_age = Some(Duration::from_secs(60));
    options.clock = Clock::new(move || clock.load(Ordering::Relaxed));
    (Cache::open(dir, options).expect("it works"), now)
}

#[test]
fn a_clock_that_is_set_back_brings_no_expired_entry_back() {
    let dir = tempfile::tempdir().unwrap();
    let (cache, now) = aging(dir.path());
    put_one(&cache);
    now.fetch_add(61_000, Ordering::Relaxed);
    assert_eq!(cache.get(b"key"), None);
    now.fetch_sub(30_000, Ordering::Relaxed);
    assert_eq!(cache.get(b"key"), None, "half a minute old, as the clock says now");
    put_one(&cache);
    assert!(cache.get(b"key").is_some(), "a new one is there");
}

#[test]
fn entries_of_a_clock_that_was_ahead_are_gone_once_it_is_right() {
    let dir = tempfile::tempdir().unwrap();
    let (cache, now) = aging(dir.path());
    now.fetch_add(MONTH_MS, Ordering::Relaxed);
    put_one(&cache);
    drop(cache);
    let (cache, now) = aging(dir.path());
    assert_eq!(cache.get(b"key"), None, "it would live for a month");
    put_one(&cache);
    now.fetch_add(59_000, Ordering::Relaxed);
    assert!(cache.get(b"key").is_some());
    now.fetch_add(2_000, Ordering::Relaxed);
    assert_eq!(cache.get(b"key"), None);
}

#[test]
fn an_expired_key_is_not_contained() {
    let dir = tempfile::tempdir().unwrap();
    let (cache, now) = aging(dir.path());
    put_one(&cache);
    assert!(cache.contains(b"key") && !cache.contains(b"another"));
    now.fetch_add(61_000, Ordering::Relaxed);
    assert!(!cache.contains(b"key"));
}

/// How a run ends.
#[derive(Clone, Copy, Debug)]
enum Ends {
    Closed,
    Killed,
}

/// Ends a run. Before a kill, waits until the present statistics are in the files.
fn end(cache: Cache, dir: &Path, how: Ends) {
    match how {
        Ends::Closed => cache.close().expect("it works"),
        Ends::Killed => {
            cache.flush(Durability::Written).expect("it works");
            let now = || cache.stats();
            let told = || Cache::reported_stats(dir).expect("it works").unwrap_or_default();
            eventually(|| told() == now(), || format!("{:?} is not {:?}", told(), now()));
            cache.abandon();
        }
    }
}

/// Previously, only the run itself knew the latest time, so an expired entry was there again after a restart.
#[test]
fn a_clock_that_is_set_back_before_a_restart_brings_no_expired_entry_back() {
    for (how, durability) in [(Ends::Closed, Durability::Written), (Ends::Killed, Durability::Synced)] {
        let dir = tempfile::tempdir().unwrap();
        let (cache, now) = aging(dir.path());
        let options = PutOptions::new().durability(durability);
        cache.put_with(b"key", b"value", options).unwrap();
        now.fetch_add(50_000, Ordering::Relaxed);
        cache.put_with(b"younger", b"value", options).unwrap();
        now.fetch_add(11_000, Ordering::Relaxed);
        assert_eq!(cache.get(b"key"), None);
        end(cache, dir.path(), how);
        for run_ms in [31_000, 32_000, 29_000] {
            let (cache, _) = aging_at(dir.path(), START_MS + run_ms);
            assert_eq!((cache.get(b"key"), cache.contains(b"key")), (None, false), "{how:?}, {run_ms}");
            assert!(cache.get(b"younger").is_some(), "{how:?}, {run_ms}");
            end(cache, dir.path(), how);
        }
    }
}

/// `refdb cache compact` knows no age limit. Previously, it passed only its own time on to the next run, so expired
/// entries were there again.
#[test]
fn a_run_without_an_age_limit_brings_no_expired_entry_back_for_the_next_one() {
    let dir = tempfile::tempdir().unwrap();
    let (cache, now) = aging(dir.path());
    put_one(&cache);
    now.fetch_add(61_000, Ordering::Relaxed);
    assert_eq!(cache.get(b"key"), None);
    end(cache, dir.path(), Ends::Closed);
    let tool = Options::new(MIB).clock(Clock::new(|| START_MS + 30_000));
    let cache = Cache::open(dir.path(), tool).unwrap();
    cache.compact().unwrap();
    cache.put(b"by the tool", b"value").unwrap();
    end(cache, dir.path(), Ends::Closed);
    let (cache, _) = aging_at(dir.path(), START_MS + 31_000);
    assert_eq!(cache.get(b"key"), None);
    assert!(cache.get(b"by the tool").is_some());
}

/// Entries put after the clock is right again live as long as they should, and none of those from before comes back.
#[test]
fn a_clock_that_was_a_month_ahead_costs_nothing_that_is_put_later() {
    for how in [Ends::Closed, Ends::Killed] {
        let dir = tempfile::tempdir().unwrap();
        let (cache, now) = aging(dir.path());
        cache.put(b"before", b"value").unwrap();
        now.fetch_add(MONTH_MS, Ordering::Relaxed);
        cache.put(b"ahead", b"value").unwrap();
        assert_eq!((cache.get(b"before"), cache.get(b"ahead").is_some()), (None, true));
        end(cache, dir.path(), how);
        let (cache, _) = aging_at(dir.path(), START_MS + 1_000);
        put_one(&cache);
        // The run is killed before it can record its time.
        cache.flush(Durability::Written).unwrap();
        cache.abandon();
        for run_ms in [2_000, 3_000, 1_500, 60_000] {
            let (cache, now) = aging_at(dir.path(), START_MS + run_ms);
            assert!(cache.get(b"key").is_some(), "{how:?}, {run_ms}");
            assert_eq!((cache.get(b"before"), cache.get(b"ahead")), (None, None), "{how:?}, {run_ms}");
            if run_ms == 60_000 {
                now.fetch_add(1_001, Ordering::Relaxed);
                assert_eq!(cache.get(b"key"), None, "it lives for a minute");
            }
            end(cache, dir.path(), how);
        }
        let (cache, _) = aging_at(dir.path(), START_MS + MONTH_MS + 1_000);
        assert_eq!(cache.get(b"ahead"), None, "it is a month old");
    }
}

/// Previously, such entries counted as expired until the cache was closed, so a clock that was ahead for a moment left
/// a server without sessions.
#[test]
fn what_is_put_with_the_right_time_after_a_clock_was_ahead_is_there() {
    for durability in [Durability::Buffered, Durability::Synced] {
        let dir = tempfile::tempdir().unwrap();
        let (cache, now) = aging(dir.path());
        let put = |key: &[u8], created_ms| {
            let created_ms = Some(created_ms);
            let put = cache.put_with(key, b"value", PutOptions::new().created_ms(created_ms).durability(durability));
            assert_eq!(put.unwrap(), Put::Stored);
        };
        put(b"before", START_MS);
        now.fetch_add(MONTH_MS, Ordering::Relaxed);
        put(b"ahead", START_MS + MONTH_MS);
        assert_eq!((cache.get(b"before"), cache.get(b"ahead").is_some()), (None, true));
        now.fetch_sub(MONTH_MS - 1_000, Ordering::Relaxed);
        let is_there = || {
            put(b"right", START_MS + 1_000);
            cache.get(b"right").is_some()
        };
        eventually(is_there, || format!("{:?}", cache.stats()));
        assert_eq!((cache.get(b"before"), cache.get(b"ahead")), (None, None));
        cache.close().unwrap();
        drop(cache);
        let (cache, now) = aging_at(dir.path(), START_MS + 2_000);
        assert_eq!((cache.get(b"right").is_some(), cache.get(b"before"), cache.get(b"ahead")), (true, None, None));
        now.fetch_add(MONTH_MS, Ordering::Relaxed);
        assert_eq!((cache.get(b"right"), cache.get(b"ahead")), (None, None));
    }
}

/// More entries have expired than there is room to mark.
#[test]
fn a_full_cache_whose_entries_had_expired_opens_without_them() {
    let dir = tempfile::tempdir().unwrap();
    let (cache, now) = aging(dir.path());
    for i in 0..40_000u32 {
        cache.put(&i.to_le_bytes(), b"v").unwrap();
    }
    now.fetch_add(61_000, Ordering::Relaxed);
    cache.close().unwrap();
    for _ in 0..2 {
        let (cache, _) = aging(dir.path());
        assert_eq!((0..40_000u32).filter(|i| cache.get(&i.to_le_bytes()).is_some()).count(), 0);
        put_one(&cache);
        assert!(cache.get(b"key").is_some() && cache.stats().disk_bytes <= MIB);
    }
}
