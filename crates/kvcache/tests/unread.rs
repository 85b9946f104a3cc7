//! A cache whose index is filled while the cache is in use, after a clean start and after a kill.

#![allow(clippy::unwrap_used, reason = "whatever fails here fails the test")]

mod common;

use common::{eventually, open, patient};
use refdb_kvcache::{Cache, Durability, Options, Put};
use refdb_vfs::Fs;
use std::{path::Path, time::Duration};

const LIMIT_BYTES: u64 = 4 << 20;
const ENTRIES: u32 = 1_000;

/// A folder with the files of a cache that was closed, or of one whose process was killed after everything was written.
fn left(is_killed: bool) -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    let cache = Cache::open_idle(Fs::real(), dir.path(), Options::new(LIMIT_BYTES)).unwrap();
    for round in 0..2 {
        (0..ENTRIES).for_each(|i| drop(cache.put(&i.to_le_bytes(), &[round; 100])));
    }
    match is_killed {
        true => {
            cache.flush(Durability::Written).unwrap();
            cache.abandon();
        }
        false => cache.close().unwrap(),
    }
    dir
}

fn open_unread(dir: &Path) -> Cache {
    Cache::open_unread(Fs::real(), dir, Options::new(LIMIT_BYTES), 1).unwrap()
}

fn found(cache: &Cache) -> usize {
    (0..ENTRIES).filter(|i| cache.get(&i.to_le_bytes()).is_some_and(|found| found.value == [1; 100])).count()
}

#[test]
fn entries_are_found_more_and_more_and_never_an_older_value() {
    for is_killed in [false, true] {
        let dir = left(is_killed);
        let cache = open_unread(dir.path());
        assert_eq!((found(&cache), cache.stats().entries), (0, 0));
        let (mut seen, mut steps) = (0, 0);
        while cache.read_on() {
            let now = found(&cache);
            assert!(now >= seen && cache.stats().entries as usize == now, "{now} after {seen}");
            assert!((0..ENTRIES).filter_map(|i| cache.get(&i.to_le_bytes())).all(|found| found.value == [1; 100]));
            (seen, steps) = (now, steps + 1);
        }
        assert!(steps > 100 && found(&cache) == ENTRIES as usize, "{steps} steps");
    }
}

/// Without a tombstone, the value would be back after the next start.
#[test]
fn a_key_that_is_removed_before_it_is_found_stays_removed() {
    for is_killed in [false, true] {
        let dir = left(is_killed);
        let cache = open_unread(dir.path());
        assert!(!cache.remove(&5u32.to_le_bytes()).unwrap(), "it was not found yet");
        cache.flush(Durability::Written).unwrap();
        cache.abandon();
        let cache = open_unread(dir.path());
        cache.put(&6u32.to_le_bytes(), b"new").unwrap();
        while cache.read_on() {}
        assert_eq!(cache.get(&5u32.to_le_bytes()), None);
        assert_eq!(cache.get(&6u32.to_le_bytes()).unwrap().value, b"new");
        assert_eq!(cache.stats().entries, u64::from(ENTRIES) - 1);
    }
}

#[test]
fn a_clear_ends_the_filling() {
    for is_killed in [false, true] {
        let dir = left(is_killed);
        let cache = open_unread(dir.path());
        assert!(cache.read_on());
        cache.clear().unwrap();
        assert!(!cache.read_on());
        cache.put(b"key", b"value").unwrap();
        cache.work().unwrap();
        assert_eq!((found(&cache), cache.stats().entries), (0, 1));
        cache.close().unwrap();
        assert_eq!(open(dir.path(), LIMIT_BYTES).stats().entries, 1);
    }
}

/// Which records of a segment are live is not known before everything was read.
#[test]
fn no_segment_is_freed_before_the_index_is_filled() {
    let dir = left(true);
    let options = Options::new(1 << 20).put_timeout(Duration::ZERO);
    let cache = Cache::open_unread(Fs::real(), dir.path(), options, 1).unwrap();
    let put = |i: u32| {
        cache.work().unwrap();
        cache.put(&i.to_le_bytes(), &[7; 2_000]).unwrap()
    };
    let oldest = dir.path().join("0000000000000001.seg");
    let refused = (ENTRIES..2 * ENTRIES).find(|i| put(*i) == Put::Refused).unwrap();
    assert!(oldest.exists() && put(refused) == Put::Refused, "the limit holds");
    while cache.read_on() {}
    assert!(found(&cache) > 100, "nothing was evicted yet: {}", found(&cache));
    cache.work().unwrap();
    assert_eq!(put(refused), Put::Stored);
    assert!(cache.stats().disk_bytes <= 1 << 20);
}

#[test]
fn what_needs_all_entries_waits_for_them() {
    let calls: [fn(&Cache) -> u64; 5] = [
        |cache| cache.verify().good,
        |cache| cache.export(&mut std::io::sink()).unwrap().good,
        |cache| cache.compact().map(|_| cache.stats().entries).unwrap(),
        |cache| cache.close().map(|()| cache.stats().entries).unwrap(),
        |cache| {
            let (none, mut bytes) = (tempfile::tempdir().unwrap(), Vec::new());
            open(none.path(), LIMIT_BYTES).export(&mut bytes).unwrap();
            cache.import(&mut &bytes[..]).unwrap();
            cache.stats().entries
        },
    ];
    for is_killed in [false, true] {
        for (at, call) in calls.iter().enumerate() {
            let dir = left(is_killed);
            assert_eq!(call(&open_unread(dir.path())), u64::from(ENTRIES), "call {at}");
        }
    }
}

/// The usual way, with a thread that fills the index: more than a million records are left to it.
#[test]
fn a_thread_fills_a_large_index() {
    const MANY: u32 = 1_001_000;
    let dir = tempfile::tempdir().unwrap();
    let options = || patient(256 << 20);
    let cache = Cache::open(dir.path(), options()).unwrap();
    (0..MANY).for_each(|i| assert_eq!(cache.put(&i.to_le_bytes(), b"").unwrap(), Put::Stored));
    cache.close().unwrap();
    for _ in 0..2 {
        let cache = Cache::open(dir.path(), options()).unwrap();
        cache.remove(&1u32.to_le_bytes()).unwrap();
        cache.put(&1u32.to_le_bytes(), b"").unwrap();
        eventually(|| cache.stats().entries == u64::from(MANY), || format!("{:?}", cache.stats()));
        assert!((0..MANY).step_by(1_000).all(|i| cache.get(&i.to_le_bytes()).is_some()));
        cache.flush(Durability::Written).unwrap();
        // The next round starts as after a kill.
        cache.abandon();
    }
}
